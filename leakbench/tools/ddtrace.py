"""Datadog's profiler, without its service: heap profiles as files; the lines whose live memory grew between two."""

from __future__ import annotations

import io
import re
import shutil
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from leakbench.answer import LINE, Answer

OFFERS = frozenset({LINE})  # its page compares two profiles; whether there is a leak, who looks decides
REQUIRES = ("ddtrace", "zstandard")
HOW = "`ddtrace-run` with `DD_PROFILING_OUTPUT_PPROF`; live heap by line before its end, less that of the middle"
_UPLOAD_S = 1  # how often it writes a profile


def command(program: Path, seconds: float, folder: Path) -> list[str]:
    settings = {
        "DD_PROFILING_ENABLED": "true",
        "DD_PROFILING_OUTPUT_PPROF": str(folder / "profile"),
        "DD_PROFILING_UPLOAD_INTERVAL": str(_UPLOAD_S),
        "DD_TRACE_ENABLED": "false",
        "DD_INSTRUMENTATION_TELEMETRY_ENABLED": "false",  # without its service some programs would never end
        "DD_REMOTE_CONFIGURATION_ENABLED": "false",
    }
    run = [str(Path(sys.executable).with_name("ddtrace-run")), sys.executable, str(program), f"{seconds:g}"]
    return [shutil.which("env") or "env", *(f"{name}={value}" for name, value in settings.items()), *run]


def answer(folder: Path, program: Path) -> Answer:
    files = sorted(folder.glob("profile.*.pprof"), key=lambda file: file.stat().st_mtime)
    if not files:
        return Answer()
    largest = Counter(file.name.split(".")[1] for file in files).most_common(1)[0][0]  # the process that ran longest
    files = [file for file in files if file.name.split(".")[1] == largest]
    before_its_end = files[-2:][0]
    first, last = (_live(file, program.parent.name) for file in (files[len(files) // 2], before_its_end))
    last.subtract(first)
    return Answer(lines=tuple(place for place, size in last.most_common(10) if size > 0))


def _live(file: Path, folder: str) -> Counter[tuple[str, int]]:
    """Bytes by the innermost line of the program's own, of one profile (profile.proto of github.com/google/pprof)."""
    import zstandard

    raw = zstandard.ZstdDecompressor().stream_reader(io.BytesIO(file.read_bytes())).read()
    strings = [text.decode(errors="replace") for text in _parts(raw, 6)]
    heap = [strings[_numbers(one).get(1, 0)] for one in _parts(raw, 1)].index("heap-space")
    files = {one[1]: strings[one.get(4, 0)] for one in map(_numbers, _parts(raw, 5))}
    places = {}
    for location in _parts(raw, 4):
        line = _numbers((_parts(location, 4) or [b""])[0])
        places[_numbers(location)[1]] = files.get(line.get(1, 0), ""), line.get(2, 0)
    own = re.compile(rf"\b{re.escape(folder)}/[^/]+\.py$")
    live: Counter[tuple[str, int]] = Counter()
    for sample in _parts(raw, 2):
        stack = [places[number] for number in _packed(sample, 1) if own.search(places[number][0])]
        if stack:
            live[stack[0]] += _packed(sample, 2)[heap]
    return live


def _fields(raw: bytes) -> Iterator[tuple[int, int | bytes]]:
    """The fields of a message of protobuf: numbers, and what has a length."""
    at = 0
    while at < len(raw):
        key, at = _number(raw, at)
        value, at = _number(raw, at)
        if key & 7 == 0:
            yield key >> 3, value
        else:
            yield key >> 3, raw[at : at + value]
            at += value


def _number(raw: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        value |= (raw[at] & 127) << shift
        shift, at = shift + 7, at + 1
        if raw[at - 1] < 128:
            return value, at


def _numbers(message: bytes) -> dict[int, int]:
    return {field: value for field, value in _fields(message) if isinstance(value, int)}


def _parts(message: bytes, wanted: int) -> list[bytes]:
    return [value for field, value in _fields(message) if field == wanted and isinstance(value, bytes)]


def _packed(message: bytes, wanted: int) -> list[int]:
    """All numbers of one field, written one by one or in a row."""
    found = []
    for field, value in _fields(message):
        if field == wanted and isinstance(value, int):
            found.append(value)
        elif field == wanted and isinstance(value, bytes):
            at = 0
            while at < len(value):
                number, at = _number(value, at)
                found.append(number)
    return found
