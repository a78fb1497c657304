"""Annotations of a workflow: the right level and place, and no string of the job that is read as a command."""

from __future__ import annotations

import dataclasses
import re

from leakscope.renderers import render

from .hostile import STRINGS, full_of
from .reports import DUPLICATE, EMPTY, FULL, RETAINED

COMMAND = re.compile(r"::(error|warning|notice) ((?:\w+=[^,:]*,?)+)::(.*)")


def commands(report):
    """(level, properties, message) of each line, unescaped as GitHub's runner does."""
    for line in render(report, "github").split("\n")[:-1]:
        level, properties, message = COMMAND.fullmatch(line).groups()
        pairs = dict(pair.split("=", 1) for pair in properties.split(","))
        yield level, {name: _unescaped(value) for name, value in pairs.items()}, _unescaped(message)


def _unescaped(text):
    for escape, character in (("%2C", ","), ("%3A", ":"), ("%0A", "\n"), ("%0D", "\r"), ("%25", "%")):
        text = text.replace(escape, character)
    return text


def test_the_answer_the_line_and_what_has_none():
    answer, placed, other = commands(FULL)
    assert answer == ("notice", {"title": "leakscope: LEAKING"}, FULL.verdict.headline)
    assert placed[:2] == ("error", {"file": "train.py", "line": "88", "title": "leakscope: retained-objects"})
    assert placed[2].splitlines()[:2] == [
        "critical: Trainer.history keeps every loss tensor",
        "600 MiB, 2.0 GiB per minute, 128 KiB per step, 97% sure",
    ]
    assert "store loss.item(): frees about 600 MiB" in placed[2]
    assert other[:2] == ("notice", {"title": "leakscope: duplicate-model"})


def test_the_level_is_the_severity():
    found = [dataclasses.replace(RETAINED, severity=severity) for severity in ("critical", "warning", "note")]
    report = dataclasses.replace(FULL, findings=found)
    assert [level for level, _, _ in commands(report)][1:] == ["error", "warning", "notice"]


def test_what_has_no_line_is_a_notice_however_bad():
    report = dataclasses.replace(FULL, findings=[dataclasses.replace(DUPLICATE, severity="critical")])
    assert [level for level, _, _ in commands(report)] == ["notice", "notice"]


def test_code_that_was_typed_in_is_no_place():
    typed = dataclasses.replace(RETAINED, subject=dataclasses.replace(RETAINED.subject, file="<stdin>"))
    assert [level for level, _, _ in commands(dataclasses.replace(FULL, findings=[typed]))][1:] == ["notice"]


def test_no_answer_is_told_too():
    assert list(commands(EMPTY)) == [("notice", {"title": "leakscope: CANNOT TELL"}, EMPTY.verdict.headline)]


def test_a_hostile_report_has_one_command_a_line():
    report = full_of(STRINGS)
    found = list(commands(report))
    assert len(found) == 1 + len(report.findings)
    assert set(found[1][1]) == {"file", "line", "title"}
    text = render(report, "github")
    assert all(c.isprintable() or c == "\n" for c in text)
