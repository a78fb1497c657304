"""One device in one snapshot of torch's allocator: segments, blocks, allocations over time, and their stacks."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from ...storage import Recording, Row, Rows, is_null
from ..calls import Call, calls_of
from ..tables import cells, int_of, only, process_name, records, text_of

Ints = NDArray[np.int64]
ALLOCATED, AWAITING, FREE = "allocated", "awaiting-free", "free"
_BACKWARD_OF = re.compile(r"((?<!\w)\w+Backward\d*|AccumulateGrad)::")
_NATIVE = "C++ "
_MOST_UNDONE = 20_000  # changes of segments: more, and how free memory was divided at the peak is not worked out


@dataclass(frozen=True, eq=False)
class Stack:
    """The calls that led to an allocation, outermost first, and the user's innermost line, where there is one.

    ``native``: C++ functions that say what it was for.
    """

    frames: Sequence[Call] = ()
    native: Sequence[str] = ()
    file: str | None = None
    line: int | None = None
    function: str | None = None

    @property
    def place(self) -> str:
        """``model.py:31``; the innermost line of a library where no line is the user's."""
        if self.file:
            return f"{self.file}:{self.line}"
        if self.frames:
            return f"{self.frames[-1].file}:{self.frames[-1].line}"
        done = next((match[1] for name in reversed(self.native) if (match := _BACKWARD_OF.search(name))), None)
        if done is not None or any("autograd::" in name for name in self.native):
            return f"backward pass ({done})" if done else "backward pass"
        return "C++ code alone" if self.native else "an unknown line"

    @property
    def is_known(self) -> bool:
        return bool(self.frames or self.native)


NO_STACK = Stack()


@dataclass(frozen=True)
class Segment:
    """Memory that the allocator holds from the driver. **Units** bytes."""

    address: int
    size: int
    pool: str
    is_expandable: bool


@dataclass(frozen=True)
class Block:
    """A piece of a segment. **Units** bytes; ``requested``: what was asked for."""

    address: int
    size: int
    requested: int
    state: str
    stack: int
    segment: int


@dataclass(eq=False)
class Allocation:
    """One piece of memory from when it was allocated to when it was freed, by positions in the history of the device.

    ``born`` None: before the history that was kept. ``freed`` None: alive at the end. **Units** bytes.
    """

    __slots__ = ("address", "born", "freed", "size", "stack")
    address: int
    size: int
    stack: int
    born: int | None
    freed: int | None

    def is_alive(self, at: int) -> bool:
        """After the event at this position; -1: before the first."""
        return (self.born is None or self.born <= at) and (self.freed is None or self.freed > at)


@dataclass(frozen=True)
class Oom:
    """An allocation that failed. **Units** bytes."""

    position: int
    requested_bytes: int
    free_bytes: int
    stack: Stack


@dataclass(frozen=True, eq=False)
class DeviceSnapshot:
    """What one snapshot says of one device of one process."""

    pid: int
    name: str
    role: str | None
    number: int
    device: str
    format: str
    is_expandable: bool | None
    event_count: int
    has_stacks: bool
    segments: Sequence[Segment]
    blocks: Sequence[Block]
    stacks: Mapping[int, Stack]
    events: Rows
    marks: Rows
    is_alone: bool

    @property
    def label(self) -> str:
        """``cuda:0 of rank 3``; where there is but one process ``cuda:0``."""
        return self.device if self.is_alone else f"{self.device} of {self.name}"

    def stack(self, number: int) -> Stack:
        return self.stacks.get(number, NO_STACK)

    # At the end.

    @cached_property
    def reserved_bytes(self) -> int:
        return sum(segment.size for segment in self.segments)

    @cached_property
    def requested_bytes(self) -> int:
        """What tensors asked for that are alive."""
        return self._sum(ALLOCATED, "requested")

    @cached_property
    def allocated_bytes(self) -> int:
        """Bytes in use with rounding: torch's allocated_bytes."""
        return self._sum(ALLOCATED, "size")

    @cached_property
    def awaiting_bytes(self) -> int:
        """Freed, but another stream still uses it."""
        return self._sum(AWAITING, "size")

    def _sum(self, state: str, figure: str) -> int:
        return sum(getattr(block, figure) for block in self.blocks if block.state == state)

    @cached_property
    def free_by_segment(self) -> dict[int, int]:
        """Free bytes of each segment that has some, by its address."""
        found: dict[int, int] = {}
        for block in self.blocks:
            if block.state == FREE:
                found[block.segment] = found.get(block.segment, 0) + block.size
        return found

    @cached_property
    def cached_bytes(self) -> int:
        """Segments without any block in use: emptying the cache gives these back."""
        return sum(segment.size for segment in self.segments if self._is_empty(segment))

    def _is_empty(self, segment: Segment) -> bool:
        return self.free_by_segment.get(segment.address, 0) == segment.size

    @cached_property
    def fragmented_bytes(self) -> int:
        """Free parts of segments that are in use: torch's inactive_split_bytes."""
        return sum(self.free_by_segment.values()) - self.cached_bytes

    @cached_property
    def largest_free_bytes(self) -> int:
        """The largest block that could be handed out without asking the driver."""
        return max((block.size for block in self.blocks if block.state == FREE), default=0)

    @cached_property
    def kept_segments(self) -> list[tuple[Segment, int]]:
        """Segments that cannot be given back though most of them is free, with their free bytes, the largest first."""
        found = [(s, self.free_by_segment.get(s.address, 0)) for s in self.segments if not self._is_empty(s)]
        return sorted(((s, free) for s, free in found if free > s.size / 2), key=lambda pair: -pair[1])

    # Over time.

    @cached_property
    def actions(self) -> list[str]:
        return [str(action) for action in self.events["gpu_action"]]

    @cached_property
    def sizes(self) -> list[int]:
        return [int(size) for size in self.events["block_bytes"].fillna(0)]

    @cached_property
    def times_s(self) -> NDArray[np.float64]:
        return self.events["time_s"].to_numpy(dtype=np.float64)

    @property
    def has_times(self) -> bool:
        return "times" in self.format

    @cached_property
    def event_stacks(self) -> list[int]:
        return [int(number) for number in self.events["stack_number"].fillna(-1)]

    @cached_property
    def allocations(self) -> list[Allocation]:
        """All that was alive at any time, those before the history first."""
        frees = "free-completed" if "free-completed" in set(self.actions) else "free-requested"
        addresses = [int(address) for address in self.events["block_address"].fillna(-1)]
        alive: dict[int, Allocation] = {}
        before, found = [], []
        for at, (action, address) in enumerate(zip(self.actions, addresses)):
            if action == "alloc":
                if address in alive:  # that it was freed was not written down
                    alive[address].freed = at
                made = Allocation(address, self.sizes[at], self.event_stacks[at], at, None)
                alive[address] = made
                found.append(made)
            elif action == frees:
                gone = alive.pop(address, None)
                if gone is not None:
                    gone.freed = at
                else:
                    before.append(Allocation(address, self.sizes[at], -1, None, at))
        before += [
            Allocation(block.address, block.requested, block.stack, None, None)
            for block in self.blocks
            if block.state == ALLOCATED and block.address not in alive
        ]
        return [*before, *found]

    @cached_property
    def levels(self) -> Ints:
        """Bytes that were asked for and alive: before the first event, and after each. One more than there are events.

        The same as the curve that torch's own viewer draws.
        """
        change = np.zeros(len(self.events) + 1, dtype=np.int64)
        for one in self.allocations:
            change[0 if one.born is None else one.born + 1] += one.size
            if one.freed is not None:
                change[one.freed + 1] -= one.size
        return np.cumsum(change)

    @cached_property
    def reserved_levels(self) -> Ints:
        """Bytes that the allocator held from the driver, at the same moments."""
        signs = {"segment-alloc": 1, "segment-map": 1, "segment-free": -1, "segment-unmap": -1}
        change = np.array([signs.get(a, 0) * s for a, s in zip(self.actions, self.sizes)], dtype=np.int64)
        after = self.reserved_bytes - (change.sum() - np.cumsum(change)) if change.size else change
        first = self.reserved_bytes - int(change.sum())
        return np.concatenate([np.array([first], dtype=np.int64), after])

    @cached_property
    def peak_position(self) -> int:
        """The event after which most was alive; -1: before the first."""
        return int(np.argmax(self.levels)) - 1

    @property
    def peak_bytes(self) -> int:
        return int(self.levels[self.peak_position + 1])

    @cached_property
    def ooms(self) -> list[Oom]:
        """Each allocation that failed, in order."""
        free = self.events["device_free_bytes"].fillna(0)
        return [
            Oom(at, self.sizes[at], int(free.iloc[at]), self.stack(self.event_stacks[at]))
            for at, action in enumerate(self.actions)
            if action == "oom"
        ]

    def free_parts(self, at: int) -> tuple[int, int] | None:
        """(bytes of empty segments, other free bytes) after the event at this position.

        None: too much changed since then to say.
        """
        changes = [(i, a) for i, a in enumerate(self.actions) if i > at and a.startswith("segment-")]
        if len(changes) * max(len(self.segments), 1) > _MOST_UNDONE * 100:
            return None
        pieces = sorted((segment.address, segment.address + segment.size) for segment in self.segments)
        addresses = self.events["block_address"]
        for i, action in reversed(changes):
            start = int(addresses.iloc[i]) if addresses.notna().iloc[i] else 0
            piece = start, start + self.sizes[i]
            pieces = _without(pieces, piece) if action in ("segment-alloc", "segment-map") else sorted([*pieces, piece])
        starts = np.array([piece[0] for piece in pieces], dtype=np.int64)
        in_use = np.zeros(len(pieces), dtype=np.int64)
        for one in self.allocations:
            if one.is_alive(at) and len(pieces):
                in_use[max(0, int(np.searchsorted(starts, one.address, side="right")) - 1)] += one.size
        sizes = np.array([end - start for start, end in pieces], dtype=np.int64)
        empty = int(sizes[in_use == 0].sum())
        return empty, int(sizes.sum() - in_use.sum()) - empty


def _without(pieces: Sequence[tuple[int, int]], gone: tuple[int, int]) -> list[tuple[int, int]]:
    """Intervals less one."""
    left: list[tuple[int, int]] = []
    for start, end in pieces:
        if gone[1] <= start or end <= gone[0]:
            left.append((start, end))
            continue
        left += [(start, gone[0])] if start < gone[0] else []
        left += [(gone[1], end)] if gone[1] < end else []
    return left


def device_snapshots(recording: Recording) -> list[DeviceSnapshot]:
    """Every device of every snapshot on which something was held or happened, in the order of the recording."""
    rows = recording.rows["gpu_snapshots"]
    if not len(rows):
        return []
    tables = {name: recording.rows[name] for name in ("gpu_segments", "gpu_blocks", "gpu_events", "gpu_stacks")}
    processes = recording.rows["processes"]
    by_number = {name: dict(frame.groupby("snapshot")) for name, frame in tables.items()}
    found, is_alone = [], rows["pid"].nunique() == 1
    for row in records(rows.sort_values("snapshot")):
        number = int_of(row, "snapshot") or 0
        own = {name: groups.get(number, tables[name].iloc[:0]) for name, groups in by_number.items()}
        process = only(processes, processes["pid"] == row["pid"])
        found.append(_device(row, own, process.iloc[-1] if len(process) else None, is_alone))
    return [one for one in found if one.segments or len(one.events)]


def _device(row: Row, own: Mapping[str, Rows], process: Row | None, is_alone: bool) -> DeviceSnapshot:
    device = text_of(row, "device") or ""
    segments, blocks, events = (
        own[name][own[name]["device"] == device] for name in ("gpu_segments", "gpu_blocks", "gpu_events")
    )
    marks = only(events, events["event_index"].isna()).sort_values("time_s")
    history = only(events, events["event_index"].notna()).sort_values("event_index")
    expandable = row["expandable_setting"]
    return DeviceSnapshot(
        pid=int_of(row, "pid") or 0,
        name=process_name(process) if process is not None else "the process",
        role=text_of(process, "role"),
        number=int_of(row, "snapshot") or 0,
        device=device,
        format=text_of(row, "snapshot_format") or "",
        is_expandable=None if is_null(expandable) else bool(expandable),
        event_count=int_of(row, "event_count") or 0,
        has_stacks=not is_null(row["has_stacks"]) and bool(row["has_stacks"]),
        segments=list(_segments(segments)),
        blocks=list(_blocks(blocks)),
        stacks={_whole(number): _stack(*rest) for number, *rest in cells(own["gpu_stacks"], *_STACK_COLUMNS)},
        events=history,
        marks=marks,
        is_alone=is_alone,
    )


_STACK_COLUMNS = ("stack_number", "stack", "owner_file", "owner_line", "function")


def _segments(rows: Rows) -> Iterator[Segment]:
    for address, size, pool, expandable in cells(rows, "segment_address", "segment_bytes", "pool", "is_expandable"):
        yield Segment(_whole(address), _whole(size), str(pool), bool(expandable))


def _blocks(rows: Rows) -> Iterator[Block]:
    names = ("block_address", "block_bytes", "requested_bytes", "block_state", "stack_number", "segment_address")
    for address, size, requested, state, stack, segment in cells(rows, *names):
        number = -1 if stack is None else _whole(stack)
        yield Block(_whole(address), _whole(size), _whole(requested), str(state), number, _whole(segment))


def _whole(value: object) -> int:
    return value if isinstance(value, int) else 0


def _stack(text: object, file: object, line: object, function: object) -> Stack:
    lines = str(text or "").split("\n")
    frames = calls_of("\n".join(line_text for line_text in lines if not line_text.startswith(_NATIVE)))
    native = [line_text[len(_NATIVE) :] for line_text in lines if line_text.startswith(_NATIVE)]
    return Stack(
        frames,
        native,
        file if isinstance(file, str) else None,
        line if isinstance(line, int) else None,
        function if isinstance(function, str) else None,
    )
