"""Midden: heap dumps of `midden-inject`, a line of JSON for each object, also compressed by gzip."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from ._facts import UNIX, Fact, NotThisFormat
from ._heap_dump import MOST_REFERENCES, HeapDump
from ._source import MOST_DOCUMENT, Source

LACKS = (
    "has the objects of the heap at one moment (leakscope heap shows who holds them), not the process's memory, nor "
    "what variables of functions hold"
)

_MOST_BRACKETS = 1_000_000  # in a line, most of them in what a string says: each may become a list of 64 bytes


def sniff(head: bytes, name: str) -> bool:
    first = head.split(b"\n", 1)[0].lstrip()
    return first.startswith(b'{"id": ') and b'"type": ' in first and b'"references": [' in first


def read(source: Source) -> Iterator[Fact]:
    """One snapshot; the file says not when, so that it is of when it was written."""
    source.tool, source.clock = "Midden", UNIX
    source.notes.append("when it was made is taken from the time of the file")
    dump = HeapDump()
    for line in source.lines(MOST_DOCUMENT):
        _add(dump, _object(line, source))
    yield from dump.facts(source, source.path.stat().st_mtime)


def _object(line: str, source: Source) -> dict[str, Any]:
    if line.count("[") + line.count("{") > _MOST_BRACKETS or line.count(",") > MOST_REFERENCES:
        raise NotThisFormat("has an object with more in it than memory is for: it is damaged")
    try:
        found = json.loads(line)
    except (ValueError, RecursionError):
        found = None
    if not isinstance(found, dict) or not isinstance(found.get("references"), list):
        raise NotThisFormat("has a line that is no object of a heap: the dump was cut off, or is of another version")
    return found


def _add(dump: HeapDump, found: dict[str, Any]) -> None:
    if not all(isinstance(found.get(key), int) and 0 <= found[key] < 1 << 63 for key in ("id", "size")):
        raise NotThisFormat("has an object without an address or a size: it is of another version")
    type_name = str(found.get("type")).removeprefix("builtins.")
    dump.add(found["id"], type_name, found["size"])
    is_dict = type_name == "dict"
    for at, address in enumerate(found["references"]):
        if not isinstance(address, int) or not 0 <= address < 1 << 63:
            raise NotThisFormat("has a reference that is no address: it is damaged")
        dump.refers(address, is_value=is_dict and at % 2 == 1)
    if type_name == "str":
        dump.says(str(found.get("value")))
