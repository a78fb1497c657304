"""Heap dumps of a handful of objects, as PyHeap and Midden write them: something sound where many are read."""

from __future__ import annotations

import json
import struct

_TYPES = {"type": 1, "dict": 2, "list": 3, "set": 4, "tuple": 5, "str": 6, "module": 7, "int": 8}
# (address, type, own bytes, members, others, text); of a dict members are keys and values in turn.
_OBJECTS = (
    (100, "dict", 232, (101, 102, 103, 104), (), ""),  # sys.modules
    (101, "str", 52, (), (), "sys"),
    (102, "module", 72, (), (105,), ""),
    (103, "str", 57, (), (), "__main__"),
    (104, "module", 72, (), (106,), ""),
    (105, "dict", 64, (), (), ""),
    (106, "dict", 232, (107, 108, 109, 110), (), ""),
    (107, "str", 60, (), (), "__file__"),
    (108, "str", 60, (), (), "/home/me/train.py"),
    (109, "str", 55, (), (), "history"),
    (110, "list", 900_000, (111,), (), ""),
    (111, "int", 28, (), (), "7"),
)


def midden() -> bytes:
    lines = []
    for address, type_name, size, members, others, text in _OBJECTS:
        line = {"id": address, "type": f"builtins.{type_name}", "references": [*members, *others], "size": size}
        lines.append(json.dumps({**line, "value": text} if text else line))
    return "\n".join([*lines, ""]).encode()


def pyheap() -> bytes:
    magic = struct.pack("!Q", 123_000_321)
    known = b"".join(_text(name) + struct.pack("!Q", _TYPES[name]) for name in ("str", "dict", "list", "set", "tuple"))
    head = magic + struct.pack("!I", 1) + _text("2026-11-25T23:09:43+00:00") + struct.pack("!QI", 1, 5) + known
    frame = _text("/home/me/train.py") + struct.pack("!I", 7) + _text("main") + struct.pack("!I", 1)
    threads = struct.pack("!I", 1) + _text("MainThread") + b"\1\0" + struct.pack("!I", 1) + frame
    threads += _text("kept") + struct.pack("!Q", 110)
    objects = struct.pack("!III", 0, 0, len(_OBJECTS)) + b"".join(map(_object, _OBJECTS))
    types = b"".join(struct.pack("!Q", number) + _text(name) for name, number in _TYPES.items())
    return head + threads + objects + struct.pack("!I", len(_TYPES)) + types + magic


def _text(text: str) -> bytes:
    return struct.pack("!H", len(text.encode())) + text.encode()


def _object(one: tuple[int, str, int, tuple[int, ...], tuple[int, ...], str]) -> bytes:
    address, type_name, size, members, others, text = one
    parts = [struct.pack("!QQI", address, _TYPES[type_name], size)]
    is_container = type_name in ("dict", "list", "set", "tuple")
    if is_container:
        count = len(members) // 2 if type_name == "dict" else len(members)
        parts.append(struct.pack(f"!I{len(members)}Q", count, *members))
    parts.append(struct.pack(f"!I{len(others)}Q", len(others), *others))
    parts.append(struct.pack("!I", 0))  # attributes
    if not is_container:
        parts.append(_text(text))
    return b"".join(parts)
