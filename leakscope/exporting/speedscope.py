"""Live allocations for speedscope.app: each process as a flame graph, of what is alive and of what was gained.

The figures are bytes, estimated from samples (docs/development/allocations.md).
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any

from ..facts.case import Case
from ..version import __version__
from ._stacks import Frame, Stack, stacks_by_process

SUFFIX = ".speedscope.json"
_VIEWS: tuple[tuple[str, Callable[[Stack], int]], ...] = (
    ("alive at the end", lambda stack: stack.live_bytes),
    ("gained in the judged window", lambda stack: stack.gained_bytes),
)


def chunks(case: Case) -> Iterator[bytes]:
    """**Errors** BadInput where no allocation was sampled."""
    numbers: dict[Frame, int] = {}
    profiles = [
        profile
        for process, stacks in stacks_by_process(case).items()
        for title, bytes_of in _VIEWS
        if (profile := _profile(f"{process}: {title}", stacks, bytes_of, numbers)) is not None
    ]
    file = {
        "$schema": "https://www.speedscope.app/file-format-schema.json",
        "name": case.recording.path.name,
        "exporter": f"leakscope {__version__}",
        "activeProfileIndex": 0,
        "shared": {"frames": [_frame(frame) for frame in numbers]},
        "profiles": profiles,
    }
    yield json.dumps(file).encode() + b"\n"


def _profile(
    name: str, stacks: list[Stack], bytes_of: Callable[[Stack], int], numbers: dict[Frame, int]
) -> dict[str, Any] | None:
    shown = [stack for stack in stacks if bytes_of(stack)]
    if not shown:
        return None
    weights = [bytes_of(stack) for stack in shown]
    samples = [[numbers.setdefault(frame, len(numbers)) for frame in stack.frames] for stack in shown]
    span = {"startValue": 0, "endValue": sum(weights)}
    return {"type": "sampled", "name": name, "unit": "bytes", **span, "samples": samples, "weights": weights}


def _frame(frame: Frame) -> dict[str, Any]:
    told: dict[str, Any] = {"name": frame.name}
    if frame.file:
        told["file"] = frame.file
    if frame.line:
        told["line"] = frame.line
    return told
