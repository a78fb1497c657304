"""Live allocations as a profile for `go tool pprof`, Pyroscope, Parca and Polar Signals: profile.proto, packed.

Sample types are those of a heap profile: ``inuse_objects`` (samples that are alive), ``inuse_space``, ``gained_space``
(of that, what came in the judged window) and ``alloc_space`` (asked for in it, freed or not). **Source**
``proto/profile.proto`` of google/pprof.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator

from ..facts.case import Case
from ..storage.varints import varint
from ._curves import Clock
from ._stacks import Frame, Stack, stacks_by_process

SUFFIX = ".pb.gz"
_TYPES = (("inuse_objects", "count"), ("inuse_space", "bytes"), ("gained_space", "bytes"), ("alloc_space", "bytes"))
_DEFAULT = "inuse_space"
_SAMPLING_BYTES = 512 * 1024  # one byte of so many is drawn
# Numbers of the fields of Profile.
_SAMPLE_TYPE, _SAMPLE, _LOCATION, _FUNCTION, _STRING = 1, 2, 4, 5, 6
_TIME_NANOS, _DURATION_NANOS, _PERIOD_TYPE, _PERIOD, _COMMENT, _DEFAULT_TYPE = 9, 10, 11, 12, 13, 14


def chunks(case: Case) -> Iterator[bytes]:
    """**Errors** BadInput where no allocation was sampled."""
    strings = {"": 0}
    locations: dict[Frame, int] = {}

    def text(value: str) -> int:
        return strings.setdefault(value, len(strings))

    samples = stacks_by_process(case)
    for type_name, unit in _TYPES:
        yield _message(_SAMPLE_TYPE, _value_type(text(type_name), text(unit)))
    for process, stacks in samples.items():
        label = _number(1, text("process")) + _number(2, text(process))
        for stack in stacks:
            yield _message(_SAMPLE, _sample(stack, locations) + _message(3, label))
    for frame, number in locations.items():
        line = _number(1, number) + _number(2, frame.line)
        yield _message(_LOCATION, _number(1, number) + _message(4, line))
        # It takes what stands in <> alone for arguments of a template, and leaves it out.
        name = text(os.path.basename(frame.file) if frame.name == "<module>" else frame.name)
        function = _number(1, number) + _number(2, name) + _number(3, name) + _number(4, text(frame.file))
        yield _message(_FUNCTION, function)
    yield _message(_PERIOD_TYPE, _value_type(text("space"), text("bytes")))
    yield _number(_PERIOD, _SAMPLING_BYTES) + _number(_DEFAULT_TYPE, text(_DEFAULT))
    yield _number(_COMMENT, text(f"leakscope: {case.recording.path.name}"))
    yield _number(_TIME_NANOS, Clock(case.recording).at(case.growth.end_s))
    yield _number(_DURATION_NANOS, round((case.growth.end_s - case.growth.start_s) * 1e9))
    for value in strings:
        yield _message(_STRING, value.encode("utf-8", "replace"))


def _sample(stack: Stack, locations: dict[Frame, int]) -> bytes:
    numbers = [locations.setdefault(frame, len(locations) + 1) for frame in reversed(stack.frames)]  # the leaf first
    values = (stack.sample_count, stack.live_bytes, stack.gained_bytes, stack.asked_bytes)
    return _packed(1, numbers) + _packed(2, values)


def _value_type(name: int, unit: int) -> bytes:
    return _number(1, name) + _number(2, unit)


# ---- protocol buffers: of the wire format, what this takes


def _number(field: int, value: int) -> bytes:
    return varint(field << 3) + varint(value) if value else b""  # 0 is what a reader takes for what is not there


def _message(field: int, content: bytes) -> bytes:
    return varint(field << 3 | 2) + varint(len(content)) + content


def _packed(field: int, values: Iterable[int]) -> bytes:
    return _message(field, b"".join(map(varint, values)))
