"""JSON as the standard library writes and reads it, without its package."""

from __future__ import annotations

import json
from typing import Any

import pytest

from leakscope.agent import plain_json

VALUES: list[Any] = [
    None,
    True,
    {},
    [],
    "",
    'tab\t quote" backslash\\ nul\0 ümlaut \u2028 \U0001f600 lone \udc80',
    [0, -1, 2**70, 1.5, -0.0, 1e300],
    {"t": "takes", "n": 2, "c": {"a": [1, None], "b": ["x", "y"]}, "d": ["a"]},
    {2: "a key of a number", None: 0, True: 1},
    (1, (2, [3])),
    {"text of anything else": b"bytes"},
]


@pytest.mark.parametrize("value", VALUES, ids=repr)
def test_it_writes_what_the_standard_library_writes(value: Any) -> None:
    text = plain_json.dumps(value)
    assert text == json.dumps(value, separators=(",", ":"), allow_nan=False, default=str)
    assert plain_json.loads(text) == json.loads(text)
    assert plain_json.loads(f" \n{json.dumps(value, indent=1, default=str)}\n") == json.loads(text)


@pytest.mark.parametrize("value", [float("nan"), [float("inf")], {"a": float("-inf")}])
def test_numbers_that_json_does_not_know_are_refused(value: Any) -> None:
    with pytest.raises(ValueError):
        plain_json.dumps(value)


@pytest.mark.parametrize("text", ["", " ", "{", "[1,", '{"a" 1}', "1 2", "nul", '"\x01"'])
def test_what_is_no_json_is_an_error_of_value(text: str) -> None:
    with pytest.raises(ValueError):
        plain_json.loads(text)
