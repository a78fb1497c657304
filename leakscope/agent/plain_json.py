"""JSON by C code of the standard library alone: the ``json`` package costs each process of a job 10 ms at its start.

It imports ``re`` and with it ``enum``, ``functools`` and ``collections``, which a short program may never need.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

try:
    from _json import encode_basestring_ascii, make_encoder, make_scanner
except ImportError:  # another interpreter than CPython
    make_encoder = None  # type: ignore[assignment,misc]
    import json


class _Scanning:
    """What the scanner asks its maker for: as json.JSONDecoder has it by default."""

    strict = True
    object_hook = object_pairs_hook = array_hook = None  # the last since 3.15
    parse_float = float
    parse_int = int
    parse_constant = {"-Infinity": float("-inf"), "Infinity": float("inf"), "NaN": float("nan")}.__getitem__


def dumps(value: Any) -> str:
    """Text without blanks; what JSON does not know as a string of it. **Errors** ValueError for nan and infinities."""
    if make_encoder is None:
        return json.dumps(value, separators=(",", ":"), allow_nan=False, default=str)
    encode = make_encoder({}, str, encode_basestring_ascii, None, ":", ",", False, False, False)
    return "".join(encode(value, 0))


def loads(text: str) -> Any:
    """**Errors** ValueError."""
    text = text.strip()
    if make_encoder is None:
        return json.loads(text)
    try:
        value, end = make_scanner(_Scanning)(  # type: ignore[arg-type]
            text, 0
        )
    except StopIteration:
        raise ValueError("no JSON") from None
    if end != len(text):
        raise ValueError("more than JSON")
    return value
