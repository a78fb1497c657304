"""SARIF 2.1.0: the structure that code scanning asks for, results at lines, rules that explain themselves."""

from __future__ import annotations

import dataclasses
import json
from urllib.parse import unquote

import jsonschema
import numpy as np
import pytest

from leakscope.findings import RecordingFacts
from leakscope.renderers import render

from .hostile import STRINGS, full_of
from .reports import EMPTY, FULL, RETAINED

TEXT = {"type": "object", "required": ["text"], "properties": {"text": {"type": "string", "minLength": 1}}}
LEVEL = {"enum": ["none", "note", "warning", "error"]}
# What the standard requires of the parts that are used here, and what GitHub requires beside it.
REQUIRED = {
    "type": "object",
    "required": ["$schema", "version", "runs"],
    "properties": {
        "version": {"const": "2.1.0"},
        "runs": {
            "type": "array",
            "items": {
                "required": ["tool", "results"],
                "properties": {
                    "tool": {
                        "required": ["driver"],
                        "properties": {
                            "driver": {
                                "required": ["name", "version", "rules"],
                                "properties": {
                                    "rules": {
                                        "type": "array",
                                        "uniqueItems": True,
                                        "items": {
                                            "required": ["id"],
                                            "properties": {
                                                "shortDescription": TEXT, "fullDescription": TEXT, "help": TEXT
                                            },
                                        },
                                    }
                                },
                            }
                        },
                    },
                    "invocations": {
                        "items": {
                            "required": ["executionSuccessful"],
                            "properties": {
                                "toolExecutionNotifications": {
                                    "items": {
                                        "required": ["message"], "properties": {"message": TEXT, "level": LEVEL}
                                    }
                                }
                            },
                        }
                    },
                    "results": {
                        "type": "array",
                        "items": {
                            "required": ["ruleId", "ruleIndex", "level", "message", "locations", "partialFingerprints"],
                            "properties": {
                                "message": TEXT,
                                "level": LEVEL,
                                "rank": {"type": "number", "minimum": 0, "maximum": 100},
                                "partialFingerprints": {"additionalProperties": {"type": "string"}},
                                "locations": {
                                    "minItems": 1,
                                    "items": {
                                        "required": ["physicalLocation"],
                                        "properties": {
                                            "physicalLocation": {
                                                "required": ["artifactLocation", "region"],
                                                "properties": {
                                                    "artifactLocation": {
                                                        "required": ["uri"],
                                                        "properties": {
                                                            "uri": {"pattern": r"^(file:///)?[\w.~%/-]+$"},
                                                        },
                                                    },
                                                    "region": {
                                                        "required": ["startLine"],
                                                        "properties": {"startLine": {"type": "integer", "minimum": 1}},
                                                    },
                                                },
                                            }
                                        },
                                    },
                                },
                            },
                        },
                    },
                },
            },
        },
    },
}  # fmt: skip


@dataclasses.dataclass(frozen=True)
class StartedIn(RecordingFacts):
    cwd: str | None = None


def run(report):
    log = json.loads(render(report, "sarif").encode("utf-8"))
    jsonschema.validate(log, REQUIRED)
    return log["runs"][0]


def with_file(file, cwd=None, **changes):
    subject = dataclasses.replace(RETAINED.subject, file=file)
    facts = StartedIn(**{**vars(FULL.recording), "cwd": cwd})
    return dataclasses.replace(
        FULL, recording=facts, findings=[dataclasses.replace(RETAINED, subject=subject, **changes)]
    )


def location(report):
    return run(report)["results"][0]["locations"][0]["physicalLocation"]["artifactLocation"]


def fingerprint(report):
    return run(report)["results"][0]["partialFingerprints"]


def test_a_finding_with_a_line_is_a_result_and_the_others_are_told_beside():
    (result,) = run(FULL)["results"]
    assert (result["ruleId"], result["level"], result["rank"]) == ("retained-objects", "error", 97.0)
    assert result["message"]["text"].startswith("Trainer.history keeps every loss tensor\n600 MiB, ")
    assert result["locations"][0]["physicalLocation"]["region"] == {"startLine": 88}
    told = [one["message"]["text"].splitlines()[0] for one in run(FULL)["invocations"][0]["toolExecutionNotifications"]]
    assert told == [FULL.verdict.headline, "The model's weights live twice"]


def test_the_rule_explains_the_kind():
    (rule,) = run(FULL)["tool"]["driver"]["rules"]
    assert rule["id"] == "retained-objects"
    assert rule["shortDescription"]["text"].startswith("A variable, attribute, cache")
    assert rule["fullDescription"]["text"].startswith("Looks for paths from a root")
    assert [part.partition(":")[0] for part in rule["help"]["text"].split("\n\n")] == [
        "Decided by", "Mistaken when", "What to do",
    ]  # fmt: skip


def test_no_findings_are_no_results():
    assert run(EMPTY)["results"] == []


@pytest.mark.parametrize(
    ("file", "expected"),
    [
        ("/home/me/job/src/train.py", {"uri": "src/train.py", "uriBaseId": "SRCROOT"}),
        ("src/train.py", {"uri": "src/train.py", "uriBaseId": "SRCROOT"}),
        ("./train it.py", {"uri": "train%20it.py", "uriBaseId": "SRCROOT"}),
        ("/home/me/job2/train.py", {"uri": "file:///home/me/job2/train.py"}),
        ("../lib/x.py", {"uri": "file:///home/me/lib/x.py"}),
        ("caf\udce9.py", {"uri": "caf%3F.py", "uriBaseId": "SRCROOT"}),
    ],
)
def test_files_below_the_folder_of_the_job_are_relative_to_it(file, expected):
    report = with_file(file, cwd="/home/me/job")
    assert location(report) == expected
    assert run(report)["originalUriBaseIds"] == {"SRCROOT": {"uri": "file:///home/me/job/"}}


def test_without_the_folder_a_file_stays_as_it_was_recorded():
    assert location(with_file("/home/me/train.py")) == {"uri": "file:///home/me/train.py"}
    assert location(with_file("train.py")) == {"uri": "train.py", "uriBaseId": "SRCROOT"}


def test_the_fingerprint_survives_moved_lines_and_other_figures_but_not_another_holder():
    before = fingerprint(FULL)
    moved = dataclasses.replace(RETAINED.subject, line=99, pid=1)
    assert fingerprint(with_file("train.py", bytes=1)) == before
    assert fingerprint(dataclasses.replace(FULL, findings=[dataclasses.replace(RETAINED, subject=moved)])) == before
    assert fingerprint(with_file("other.py")) != before


def test_figures_of_numpy_are_numbers():
    odd = with_file("train.py", bytes=np.int64(5), confidence=np.float64(0.5))
    assert run(odd)["results"][0]["properties"] == {"bytes": 5}


def test_a_hostile_report_is_valid_and_links_nowhere():
    (result,) = run(full_of(STRINGS))["results"]
    assert "](" not in result["message"]["text"]
    assert "\x1b" not in result["message"]["text"]
    uri = result["locations"][0]["physicalLocation"]["artifactLocation"]["uri"]
    assert "<script>" in unquote(uri)
