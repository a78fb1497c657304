"""The JSON contract: every key, the right types, the same bytes each time."""

from __future__ import annotations

import dataclasses
import json

import jsonschema
import numpy as np
import pytest

from leakscope.findings import Evidence, Report, Subject
from leakscope.renderers import render

from .reports import EMPTY, FULL, RETAINED


def record(**properties):
    """A JSON object that has exactly these keys."""
    return {
        "type": "object",
        "properties": properties,
        "required": list(properties),
        "additionalProperties": False,
    }


def every(items):
    return {"type": "array", "items": items}


def nullable(*types):
    return {"type": [*types, "null"]}


TEXT, WHOLE, NUMBER, YES_NO = ({"type": name} for name in ("string", "integer", "number", "boolean"))
FIGURES = {"type": "object"}
BANDS = every(record(name=TEXT, value_bytes=every(WHOLE), estimated=YES_NO))
CONTRACT = record(
    schema={"const": "leakscope.report/1"},
    recording=record(
        path=TEXT, command=every(TEXT), started_at=TEXT, duration_s=NUMBER,
        ended={"enum": ["exit", "signal", "oom-killed", "lost"]}, exit_code=nullable("integer"),
        signal=nullable("integer"), process_count=WHOLE, agent_count=WHOLE, complete=YES_NO, notes=every(TEXT),
        overhead=FIGURES,
    ),
    verdict=record(
        leaking=nullable("boolean"), killed=YES_NO, headline=TEXT, growth_bytes=WHOLE,
        growth_bytes_per_hour=nullable("number"), growth_bytes_per_step=nullable("number"), wasted_bytes=WHOLE,
        limit=nullable("string"), seconds_to_limit=nullable("number"),
    ),
    ledger=every(record(account=TEXT, process=TEXT, start_bytes=WHOLE, end_bytes=WHOLE, growth_bytes=WHOLE,
                        estimated=YES_NO)),
    findings=every(record(
        kind=TEXT, title=TEXT, severity={"enum": ["critical", "warning", "note"]},
        confidence={"type": "number", "minimum": 0, "maximum": 1}, bytes=WHOLE, bytes_per_hour=nullable("number"),
        bytes_per_step=nullable("number"), wasted=YES_NO, evidence=every(record(text=TEXT, figures=FIGURES)),
        doubts=every(TEXT), remedy=every(TEXT),
        series=every(record(name=TEXT, x=every(NUMBER), y=every(NUMBER), x_unit=TEXT, y_unit=TEXT)),
        subject=record(pid=nullable("integer"), line=nullable("integer"), **{
            name: nullable("string") for name in (
                "process", "role", "device", "holder", "variable", "path", "type", "file", "function", "module",
                "library")}),
    )),
    ruled_out=every(record(kind=TEXT, reason=TEXT, figures=FIGURES)),
    skipped=every(record(kind=TEXT, reason=TEXT)),
    tensor_budget=every(record(process=TEXT, device=TEXT, moment={"enum": ["end", "peak"]}, account=TEXT, bytes=WHOLE)),
    processes=every(record(
        process=TEXT, role=TEXT, count=WHOLE, most_at_once=WHOLE, lifetime_s=NUMBER, busy_share=NUMBER, pss_bytes=WHOLE,
        private_bytes=WHOLE, rss_bytes=WHOLE, thread_count=WHOLE, fd_count=WHOLE, first_s=NUMBER, last_s=NUMBER)),
    timeline={"anyOf": [{"type": "null"}, record(
        time_s=every(NUMBER), total_bytes=every(WHOLE), accounts=BANDS, processes=BANDS,
        step=every(nullable("integer")), moments=every(record(kind=TEXT, time_s=NUMBER, text=TEXT)),
        left_out=FIGURES)]},
    heap=every(record(
        process=TEXT, left_out_count=WHOLE,
        takes=every(record(take=WHOLE, time_s=NUMBER, step=nullable("integer"), reason=TEXT, truncated=YES_NO)),
        holders=every(record(
            path=TEXT, parent=nullable("integer"), type=TEXT, bytes=every(WHOLE), count=every(WHOLE))))),
    excerpts=every(record(file=TEXT, line=WHOLE, first_line=WHOLE, lines=every(TEXT))),
)  # fmt: skip


def with_finding(**changes) -> Report:
    return dataclasses.replace(FULL, findings=[dataclasses.replace(RETAINED, **changes)])


@pytest.mark.parametrize("report", [FULL, EMPTY], ids=["full", "empty"])
def test_the_contract_holds(report):
    jsonschema.validate(json.loads(render(report, "json")), CONTRACT)


def test_the_findings_keep_their_order_and_figures():
    report = json.loads(render(FULL, "json"))
    assert [f["kind"] for f in report["findings"]] == ["retained-objects", "duplicate-model"]
    assert report["findings"][0]["subject"]["line"] == 88
    assert report["findings"][0]["evidence"] == [
        {"text": "the list grew from 120 to 5,000 members", "figures": {"length": 5000}}
    ]


def test_two_runs_give_the_same_bytes():
    assert render(FULL, "json") == render(FULL, "json")


def test_what_json_cannot_say_becomes_null_or_a_plain_number():
    figures = {"slope": float("nan"), "count": np.int64(7), "share": np.float64(0.5), "most": float("inf")}
    text = render(with_finding(evidence=[Evidence("odd", figures)]), "json")
    expected = {"slope": None, "count": 7, "share": 0.5, "most": None}
    assert json.loads(text)["findings"][0]["evidence"][0]["figures"] == expected


def test_names_that_are_no_text_survive():
    text = render(with_finding(subject=Subject(file="caf\udce9.py")), "json")
    assert json.loads(text.encode("utf-8"))["findings"][0]["subject"]["file"] == "caf?.py"
