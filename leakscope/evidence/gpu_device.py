"""Words and figures that all findings of torch's memory snapshots share."""

from __future__ import annotations

import numpy as np

from ..facts.gpu.budget import DeviceBudget
from ..facts.gpu.snapshots import DeviceSnapshot, Oom, Stack
from ..facts.subject import subject_of
from ..facts.tables import figures
from ..findings import Evidence, Series, Subject
from ..units import LISTED, format_bytes
from .sentences import POINTS, curve

_MOST_MARKS = 20


def subject_in(device: DeviceSnapshot, stack: Stack | None = None) -> Subject:
    """The device of that process, and the user's line of a stack."""
    return subject_of(device, stack, device=device.device)


def parts(accounts: dict[str, int]) -> str:
    """``activations 31.2 GiB, optimizer 12.0 GiB``: the largest, in order."""
    largest = sorted(accounts.items(), key=lambda pair: -pair[1])[:LISTED]
    return ", ".join(f"{name} {format_bytes(size)}" for name, size in largest)


def largest_lines(budget: DeviceBudget) -> Evidence:
    """The lines that held most at the peak."""
    lines = [line for line in budget.lines if line.peak_bytes and line.stack.is_known][:LISTED]
    told = ", ".join(f"{line.stack.place} {format_bytes(line.peak_bytes)} ({line.role})" for line in lines)
    return Evidence(f"at the peak the largest lines are {told}", {line.stack.place: line.peak_bytes for line in lines})


def between_marks(budget: DeviceBudget) -> list[Evidence]:
    """What memory did in the annotations of the history (torch's profiler's and the program's), all passages through
    one added up, and in which of them the peak lies. Nothing without annotations, or times to lay them by.
    """
    device, marks = budget.device, budget.device.marks
    began: dict[str, list[int]] = {}
    spans: dict[str, list[tuple[int, int]]] = {}
    at = np.searchsorted(device.times_s, figures(marks, "time_s")) if device.has_times else ()
    for name, action, position in zip(marks["gpu_label"].fillna(""), marks["gpu_action"], at):
        if action == "mark-start":
            began.setdefault(name, []).append(int(position))
        elif began.get(name):
            spans.setdefault(name, []).append((began[name].pop(), int(position)))
    levels, peak = device.levels, device.peak_position + 1  # of which one stands before the first event
    change = {name: sum(int(levels[end] - levels[start]) for start, end in own) for name, own in spans.items()}
    rise = {name: max(levels[at : end + 1].max() - levels[at] for at, end in own) for name, own in spans.items()}
    told = sorted(spans, key=lambda name: (-abs(change[name]), -rise[name], name))[:_MOST_MARKS]
    gained = (f"{name} {format_bytes(change[name], signed=True)} in {len(spans[name])}" for name in told[:LISTED])
    inside = next((name for name in told if any(start <= peak <= end for start, end in spans[name])), None)
    text = f"between marks: {', '.join(gained)}{f'; the peak lies in {inside}' if inside else ''}"
    return [Evidence(text, {name: change[name] for name in told})] if told else []


def as_program_says(budget: DeviceBudget, at: int) -> list[Evidence]:
    """What was in use after the event at this position, by the program's metadata and contexts of torch.compile."""
    found = []
    for column, what in (
        ("gpu_label", "by the program's metadata"),
        ("compile_context", "allocated in compiled code (frame/compilation of torch.compile)"),
    ):
        sums = budget.said_at(at, column)
        if sums:
            more = f" and {len(sums) - LISTED} more" if len(sums) > LISTED else ""
            found.append(Evidence(f"{what}: {parts(sums)}{more}", dict(list(sums.items())[:LISTED])))
    return found


def allocated_curve(device: DeviceSnapshot) -> list[Series]:
    """What was alive, event by event: each point the most of a stretch, so that no peak is lost."""
    levels = device.levels[1:]
    if levels.size < 2:
        return []
    width = max(1, -(-levels.size // POINTS))
    starts = range(0, levels.size, width)
    highest = [at + int(levels[at : at + width].argmax()) for at in starts]
    return [curve("allocated", device.times_s[highest], levels[highest].astype(float))]


def too_late(budget: DeviceBudget) -> list[str]:
    """The doubt that a history leaves which began when much was there already."""
    size = budget.at_end.get("before-recording", 0)
    if not size:
        return []
    return [
        f"{format_bytes(size)} were allocated before the recording of history began: what they are is not known "
        "(call torch.cuda.memory._record_memory_history before the model is made)"
    ]


def unused_at(device: DeviceSnapshot, oom: Oom) -> int:
    """What the allocator held and no tensor used when it failed. **Units** bytes."""
    at = oom.position + 1
    return max(0, int(device.reserved_levels[at] - device.levels[at]))


def ran_out(asked: int, place: str, unused: int, reserved: int, free: int, room: str) -> Evidence:
    """An allocation that failed; ``room``: in words, what was ``free``."""
    return Evidence(
        f"{format_bytes(asked)} could not be allocated{place}: {format_bytes(unused)} of the {format_bytes(reserved)} "
        f"that torch held were unused, {room}",
        {"requested_bytes": asked, "unused_bytes": unused, "reserved_bytes": reserved, "device_free_bytes": free},
    )


def largest_free(device: DeviceSnapshot) -> Evidence:
    size = device.largest_free_bytes
    return Evidence(f"the largest free block at the snapshot has {format_bytes(size)}", {"largest_free_bytes": size})
