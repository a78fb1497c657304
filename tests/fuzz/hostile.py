"""Strategies for what no sane writer writes: names, texts, numbers, rows of every table, frames of a journal."""

from __future__ import annotations

import json
import struct
import zlib
from typing import Any

from hypothesis import strategies as st

from leakscope import schema
from tests.builders import START_MONO_NS

_BITS = "|`<>&\"'\\/\n\r\t\x00\x1b\x7f\u202e\ufeff\ufffe\ud800\udc80%{}[]():;@#*_~"
NASTY = [
    "</script><script>alert(1)</script>", "]]>", "::error::x", "```", "{{ 7 * 7 }}", "%s%n", "\x1b]0;x\x07",
    "Killed process 100 (python)", "[red]x[/red]", "[/]", "../../etc/passwd", "\udcff\udc00", "=1+1",
]  # fmt: skip
texts = st.text(max_size=12) | st.text(alphabet=_BITS, max_size=12) | st.sampled_from(NASTY)
integers = st.sampled_from([0, 1, -1, 4096, 10**9, 10**12, 2**53 + 1, 2**63 - 1, -(2**63)]) | st.integers(
    -(2**63), 2**63 - 1
)
floats = st.floats() | st.sampled_from([0.0, -0.0, 1e308, -1e308, 5e-324])
# What a column may hold that should not: another type, or what no column can hold.
misfits = st.sampled_from([2**64, -(2**70), 10**400, True, "x", [], {}, [1, "x"], {"a": None}])
json_values: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | integers | floats | texts,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
    max_leaves=6,
)
# What files and arguments may be called: any bytes but NUL, for a file also no slash.
_BYTES = [bytes([b]) for b in range(1, 256)]
arguments = st.lists(st.sampled_from(_BYTES), max_size=12).map(b"".join)
file_names = st.lists(st.sampled_from([b for b in _BYTES if b != b"/"]), min_size=1, max_size=12).map(b"".join)

_BY_TYPE = {"int": integers, "float": floats, "str": texts, "bool": st.booleans()}
_CLOSE_NS = st.integers(0, 60 * 10**9).map(lambda ns: START_MONO_NS + ns)
# What says which process and which moment a row belongs to: without it, it is no row of ours.
_IDENTITY: dict[str, st.SearchStrategy[Any]] = {
    "pid": st.sampled_from([100, 101, 102]),
    "start_ticks": st.sampled_from([10_000, 10_100, 10_200]),
    "time_unix_ns": _CLOSE_NS,
    "time_mono_ns": _CLOSE_NS,
    "time_boot_ns": _CLOSE_NS,
    "take": st.integers(1, 5),
}
_EVENTS = st.sampled_from(["start", "end", "pressure", "oom-kill", "limit-raised", "signal", "alert", "output-lost"])


def _cell(column: schema.Column) -> st.SearchStrategy[Any]:
    if column.name in _IDENTITY:
        return _IDENTITY[column.name]
    usual = _EVENTS if column.name == "event" else _BY_TYPE[column.type]
    odd = st.none() | _BY_TYPE[column.type] | misfits
    return st.integers(0, 9).flatmap(lambda chance: odd if chance == 0 else usual)


def rows(table: schema.Table) -> st.SearchStrategy[list[dict[str, Any]]]:
    """A block's rows: all have the same columns, most of them in most rows."""
    columns = [column for column in (*schema.KEYS, *table.columns) if column.name != "table"]

    def of(left_out: set[str]) -> st.SearchStrategy[list[dict[str, Any]]]:
        cells = {column.name: _cell(column) for column in columns if column.name not in left_out}
        return st.lists(st.fixed_dictionaries(cells), min_size=1, max_size=8)

    others = [column.name for column in columns if column.name not in _IDENTITY]
    return st.sets(st.sampled_from(others), max_size=2).flatmap(of)


def frame(payload: bytes) -> bytes:
    """Framed and checked as the journal does it, whatever is inside."""
    return struct.pack("<II", len(payload), zlib.crc32(payload)) + payload


def block(table: object, rows: list[dict[str, Any]]) -> bytes:
    """A frame of rows that our own writer would refuse: with NaN, too large integers, lone surrogates."""
    columns = {name: [row[name] for row in rows] for name in rows[0]} if rows else {}
    return packed({"t": table, "n": len(rows), "c": columns, "d": []})


def packed(content: Any) -> bytes:
    return frame(zlib.compress(json.dumps(content).encode("utf-8", "surrogatepass"), 1))


_columns = st.dictionaries(texts | st.sampled_from(list(schema.columns())), st.lists(json_values, max_size=3))
blocks = st.fixed_dictionaries(
    {
        "t": json_values | st.sampled_from(list(schema.TABLES)),
        "n": st.integers(-2, 50) | json_values,
        "c": _columns | json_values,
        "d": st.lists(texts, max_size=2) | json_values,
    }
) | json_values  # fmt: skip
