"""The JSON contract: every key, the right types, the same bytes each time."""

from __future__ import annotations

import dataclasses
import json

import numpy as np

from leakscope.findings import Evidence, Report, Subject
from leakscope.renderers import render

from .reports import FULL, RETAINED


def with_finding(**changes) -> Report:
    return dataclasses.replace(FULL, findings=[dataclasses.replace(RETAINED, **changes)])


def test_the_findings_keep_their_order_and_figures():
    report = json.loads(render(FULL, "json"))
    assert [f["kind"] for f in report["findings"]] == ["retained-objects", "duplicate-model"]
    assert report["findings"][0]["subject"]["line"] == 88
    assert report["findings"][0]["evidence"] == [
        {"text": "the list grew from 120 to 5,000 members", "figures": {"length": 5000}}
    ]


def test_what_is_drawn_is_left_out_and_named_unless_asked_for():
    brief, whole = (json.loads(render(FULL, "json", with_timeline=asked)) for asked in (False, True))
    assert json.loads(render(FULL, "json")) == brief
    assert brief["left_out"] == ["timeline", "laps", "devices", "heap", "series"] and whole["left_out"] == []
    empty = {"timeline": None, "laps": None, "devices": [], "heap": []}
    assert {name: brief[name] for name in empty} == empty
    assert all(whole[name] for name in empty)
    assert [len(report["findings"][0]["series"]) for report in (brief, whole)] == [0, 1]
    rest = brief.keys() - empty.keys() - {"left_out", "findings"}
    assert {name: brief[name] for name in rest} == {name: whole[name] for name in rest}
    assert brief["findings"][0] == {**whole["findings"][0], "series": []}


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
