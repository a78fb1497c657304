"""Memory snapshots of torch: what ``torch.cuda.memory._dump_snapshot`` has written since 2023, as pickle or as JSON.

A snapshot has the segments that the allocator holds, the blocks they are cut into, and as much of the history of
allocations as was recorded. Nothing in a file is executed: the pickle is read by ``plain_pickle``.
"""

from __future__ import annotations

import gzip
import io
import json
import re
import zlib
from array import array
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple, cast

from ..errors import UnreadableRecording
from .plain_pickle import MOST_HELD_BYTES, PlainList, PlainPickle, Refused

Row = dict[str, Any]

MOST_EVENTS = 250_000  # rows of a recording; older ones are left out, as torch itself leaves out what its buffer lacks
_MOST_JSON_BYTES = 64 << 20  # held twice while it is read, and if it has one emoji five times
_MOST_STACK_LINES = 80
_MOST_NATIVE_LINES = 12
_WORDS = (b"segments", b"device_traces", b"total_size", b"allocator_settings", b"external_annotations")
_NO_CONTEXT = "N/A"  # what torch writes where it was not asked for (compile_context=True)
_GZIP = b"\x1f\x8b"
_LEAST_TIME_US, _MOST_TIME_US = 946_684_800_000_000, 4_102_444_800_000_000  # the years 2000 to 2100
_RANK = re.compile(r"(?:^|[^a-z])r(?:ank)?[-_.]?(\d{1,6})(?!\d)", re.IGNORECASE)
_ACTIONS = (
    "alloc", "free_requested", "free_completed", "segment_alloc", "segment_free", "segment_map", "segment_unmap",
    "oom", "snapshot",
)  # fmt: skip
_STATES = {
    "active_allocated": "allocated",
    "active_pending_free": "awaiting-free",  # what torch writes
    "active_awaiting_free": "awaiting-free",  # what its documentation says
    "inactive": "free",
}
# C++ frames that say what an allocation was for; the others are the way from Python to the allocator.
_TELLING = re.compile(
    r"autograd::|AccumulateGrad|[Ww]orkspace|cublas|cudnn|miopen|hipblas|nccl|c10d|Reducer|at::native::|_to_copy"
)


class Facts(NamedTuple):
    """What a file says: rows of tables without the columns that name a process, and with ``time_unix_ns`` or None.

    ``key``: what snapshots of one process have in common, and those of others lack. ``began_ns`` and ``ended_ns``: wall
    clock of the first and last event; None where the file has no times.
    """

    rows: Iterator[tuple[str, Row]]
    name: str
    rank: int | None
    began_ns: int | None
    ended_ns: int | None
    key: frozenset[tuple[str, int, int]]
    notes: list[str]


def sniff(head: bytes, name: str) -> bool:
    """Whether a file that begins so (some KB of it) looks like a snapshot of torch's allocator."""
    if head[:2] == _GZIP:
        try:
            head = zlib.decompressobj(31).decompress(head, 8192)
        except zlib.error:
            return False
    is_pickle = head[:1] == b"\x80" and head[1:2] <= b"\x05"
    return (is_pickle or head.lstrip()[:1] in (b"{", b"[")) and any(word in head for word in _WORDS)


def read(path: Path) -> Facts:
    """The facts of one file. **Errors** UnreadableRecording with one line. **Cost** 15 s a million events."""
    try:
        with _opened(path) as stream:
            found = _Collected()
            head = cast(Any, stream).peek(1)[:1]
            whole = _pickled(stream, found) if head == b"\x80" else _from_json(stream, found)
        snapshot = _snapshot(whole, found)
    except Refused as error:
        raise UnreadableRecording(f"{path} is no readable snapshot of torch: {error}") from None
    except (EOFError, zlib.error, gzip.BadGzipFile):
        raise UnreadableRecording(f"{path} is damaged: it cannot be decompressed; copy it again") from None
    except MemoryError:
        raise UnreadableRecording(f"{path} needs more memory than this computer has") from None
    except OSError as error:
        raise UnreadableRecording(f"{path} cannot be read: {error.strerror or error}") from None
    return _facts(snapshot, path)


def _opened(path: Path) -> BinaryIO:
    stream = open(path, "rb")  # noqa: SIM115
    if stream.peek(2)[:2] == _GZIP:
        return cast(BinaryIO, io.BufferedReader(cast(Any, gzip.GzipFile(fileobj=stream, mode="rb"))))
    return cast(BinaryIO, stream)


def rank_of(name: str) -> int | None:
    """The rank that a file's name tells: ``snapshot_rank3.pickle``, ``mem-r3.pkl``."""
    found = _RANK.search(Path(name).name)
    return int(found[1]) if found else None


# What is kept of a file while it is read: each kind of dict is made small as soon as it is complete.


@dataclass
class _Collected:
    """``events`` by column; strings, frames and stacks once each, by number."""

    pickle: PlainPickle | None = None
    action: array[int] = field(default_factory=lambda: array("b"))
    address: array[int] = field(default_factory=lambda: array("q"))
    size: array[int] = field(default_factory=lambda: array("q"))
    stream: array[int] = field(default_factory=lambda: array("q"))
    time_us: array[int] = field(default_factory=lambda: array("q"))
    stack: array[int] = field(default_factory=lambda: array("i"))
    label: array[int] = field(default_factory=lambda: array("i"))
    context: array[int] = field(default_factory=lambda: array("i"))
    frames: dict[tuple[str, int, str], int] = field(default_factory=dict)
    stacks: dict[tuple[int, ...], int] = field(default_factory=dict)
    labels: dict[str, int] = field(default_factory=dict)
    unknown_actions: set[str] = field(default_factory=set)

    def smaller(self, value: Mapping[str, Any]) -> Any:
        """What stands for a dict of the file from now on."""
        if "action" in value:
            return self._event(value)
        if "filename" in value:
            frame = _text(value["filename"]), _int(value.get("line")), _text(value.get("name"))
            return self.frames.setdefault(frame, len(self.frames))
        if "state" in value:
            return self._block(value)
        if "real_size" in value:
            return _History(_int(value["real_size"]), self.stack_of(value.get("frames")))
        if "stage" in value:
            return _Annotation(
                _text(value["stage"]), _text(value.get("name")), _int(value.get("device")), _int(value.get("time_us"))
            )
        return value

    def stack_of(self, frames: Any) -> int:
        """The number of a stack; -1: none was recorded."""
        if type(frames) is int:  # the list was seen before
            return frames if -1 <= frames < len(self.stacks) else -1
        if not isinstance(frames, list) or not frames:
            return -1
        key = tuple(frame for frame in frames if type(frame) is int and 0 <= frame < len(self.frames))
        number = self.stacks.setdefault(key, len(self.stacks)) if key else -1
        if self.pickle is not None and type(frames) is PlainList:
            self.pickle.replace(frames, number)
        return number

    def _event(self, value: Mapping[str, Any]) -> int:
        name = _text(value["action"])
        if name not in _ACTIONS:
            self.unknown_actions.add(name[:40])
        at = value.get("device_free") if name == "oom" else value.get("addr")
        self.action.append(_ACTIONS.index(name) if name in _ACTIONS else -1)
        self.address.append(_int(at))
        self.size.append(_int(value.get("size")))
        self.stream.append(_int(value.get("stream")))
        self.time_us.append(_int(value.get("time_us"), -1))
        self.stack.append(self.stack_of(value.get("frames")))
        self.label.append(self._label(value.get("user_metadata")))
        context = value.get("compile_context")
        self.context.append(self._label(context) if context != _NO_CONTEXT else -1)
        return len(self.action) - 1

    def _label(self, text: Any) -> int:
        """The number of what the program said; -1: nothing."""
        return self.labels.setdefault(text, len(self.labels)) if type(text) is str and text else -1

    def _block(self, value: Mapping[str, Any]) -> _Block:
        size, history = _int(value.get("size")), value.get("history")
        last = history[0] if isinstance(history, list) and history and isinstance(history[0], _History) else None
        stack = self.stack_of(value.get("frames")) if "frames" in value else last.stack if last else -1
        requested = last.real_size if last and "frames" not in value else _int(value.get("requested_size", size))
        state = _STATES.get(_text(value["state"]))
        if state is None:
            raise Refused(f"a block in it is {_text(value['state'])[:40]!r}, which is no state of a block")
        return _Block(_int(value.get("address"), -1), size, requested, state, stack)


class _Block(NamedTuple):
    address: int
    size: int
    requested: int
    state: str
    stack: int


class _History(NamedTuple):
    real_size: int
    stack: int


class _Annotation(NamedTuple):
    stage: str
    name: str
    device: int
    time_us: int


def _int(value: Any, otherwise: int = 0) -> int:
    if type(value) is not int:
        return otherwise
    if not -(2**63) <= value < 2**63:  # unsigned addresses, and what a hostile file may say
        value = value & (2**63 - 1)
    return cast(int, value)


def _text(value: Any) -> str:
    return value if type(value) is str else ""


def _pickled(stream: BinaryIO, found: _Collected) -> Any:
    found.pickle = PlainPickle(stream, found.smaller)
    return found.pickle.load()


def _from_json(stream: BinaryIO, found: _Collected) -> Any:
    """**Errors** Refused; of a text that would take too much memory before any of it is read."""
    text = stream.read(_MOST_JSON_BYTES + 1)
    if len(text) > _MOST_JSON_BYTES:
        raise Refused(f"as JSON it may have {_MOST_JSON_BYTES >> 20} MiB; the pickle of the same may have more")
    # Dicts are made small at once. What can pile up are lists and the values in them.
    if 64 * (text.count(b"[") + text.count(b",")) > MOST_HELD_BYTES:
        raise Refused(f"what it holds takes more than {MOST_HELD_BYTES >> 20} MiB of memory")
    try:
        return json.loads(text, object_hook=found.smaller, parse_int=_number)
    except RecursionError:
        raise Refused("it has lists deep in each other") from None
    except Refused:
        raise
    except ValueError as error:
        raise Refused(f"it is neither a pickle nor JSON ({' '.join(str(error).split())[:80]})") from None


def _number(text: str) -> int:
    if len(text) > 20:
        raise Refused("it has numbers of more than 20 digits")
    return int(text)


# From the whole to devices.


@dataclass(frozen=True)
class _Segment:
    device: str
    address: int
    size: int
    stream: int
    kind: str
    pool: str
    is_expandable: bool
    blocks: Sequence[_Block]


@dataclass(frozen=True)
class _Snapshot:
    found: _Collected
    segments: Sequence[_Segment]
    traces: Mapping[str, Sequence[int]]  # device -> events, by their numbers, in order of time
    annotations: Sequence[_Annotation]
    settings: Mapping[str, Any]
    generation: str
    notes: Sequence[str]


def _snapshot(whole: Any, found: _Collected) -> _Snapshot:
    if isinstance(whole, list):  # torch.cuda.memory_snapshot(): segments only
        whole = {"segments": whole}
    if not isinstance(whole, dict) or not isinstance(whole.get("segments"), list):
        raise Refused("it has no list of segments")
    segments = [_segment(one, "cuda:{}") for one in whole["segments"]]
    segments += [_segment(one, "pinned") for one in _list(whole.get("host_segments"))]
    traces = _traces(whole.get("device_traces"), "cuda:{}", found)
    traces.update(_traces(whole.get("host_traces"), "pinned", found))
    annotations = [one for one in _list(whole.get("external_annotations")) if isinstance(one, _Annotation)]
    settings = whole.get("allocator_settings")
    notes = []
    torn = sum(bool(s.blocks) and sum(block.size for block in s.blocks) != s.size for s in segments)
    if torn:
        notes.append(f"blocks of {torn} segments do not add up to their sizes: figures of what is free are not right")
    if found.unknown_actions:
        notes.append(f"events of kinds not known here are left out: {', '.join(sorted(found.unknown_actions)[:5])}")
    return _Snapshot(
        found,
        segments,
        traces,
        sorted(annotations, key=lambda one: one.time_us),
        settings if isinstance(settings, dict) else {},
        _generation(whole, found),
        notes,
    )


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def _generation(whole: Mapping[str, Any], found: _Collected) -> str:
    """What of the format is there, since a file does not say its version."""
    has = ["segments"]
    has += ["events"] if len(found.action) else []
    has += ["times"] if any(t > 0 for t in found.time_us[:100]) else []
    has += ["settings"] if "allocator_settings" in whole else []
    has += ["annotations"] if "external_annotations" in whole else []
    has += ["labels"] if found.labels else []
    return "+".join(has)


def _segment(one: Any, name: str) -> _Segment:
    if not isinstance(one, dict) or type(one.get("total_size")) is not int:
        raise Refused("one of its segments has no size")
    start = at = _int(one.get("address"))
    blocks = []
    for block in _list(one.get("blocks")):
        if not isinstance(block, _Block):
            raise Refused("one of its blocks has no state")
        at = block.address if block.address >= 0 else at  # files of 2023 give none
        blocks.append(block._replace(address=at))
        at += block.size
    pool = one.get("segment_pool_id")
    return _Segment(
        name.format(_int(one.get("device"))),
        start,
        _int(one["total_size"]),
        _int(one.get("stream")),
        _text(one.get("segment_type")) or "large",
        ":".join(str(_int(part)) for part in pool) if isinstance(pool, (tuple, list)) else "0:0",
        one.get("is_expandable") is True,
        blocks,
    )


def _traces(value: Any, name: str, found: _Collected) -> dict[str, Sequence[int]]:
    """Events of each device that has any."""
    lists = _list(value)
    if lists and not isinstance(lists[0], list):
        lists = [lists]
    traces: dict[str, Sequence[int]] = {}
    for device, trace in enumerate(lists):
        numbers = [n for n in _list(trace) if type(n) is int and 0 <= n < len(found.action) and found.action[n] >= 0]
        if numbers:
            traces[name.format(device)] = numbers
    return traces


# Rows.


def _facts(snapshot: _Snapshot, path: Path) -> Facts:
    found = snapshot.found
    times = [t for t in found.time_us if _LEAST_TIME_US < t < _MOST_TIME_US]
    has_times = len(times) == len(found.time_us) > 0
    began, ended = (min(times) * 1000, max(times) * 1000) if has_times else (None, None)
    notes = [f"{path.name}: {note}" for note in (*snapshot.notes, *_cautions(snapshot, has_times))]
    key = frozenset((segment.device, segment.address, segment.size) for segment in snapshot.segments)
    return Facts(_rows(snapshot, path, has_times), path.name, rank_of(path.name), began, ended, key, notes)


def _cautions(snapshot: _Snapshot, has_times: bool) -> Iterator[str]:
    count = sum(map(len, snapshot.traces.values()))
    written = _ACTIONS.index("snapshot")  # the one event of a file whose history was not recorded
    is_recorded = any(snapshot.found.action[n] != written for trace in snapshot.traces.values() for n in trace)
    if not count and not snapshot.segments:
        yield "it is empty: the process had no memory on a GPU when it was written"
    elif not is_recorded:
        yield "it has no history of allocations: it shows one moment, and nothing of what led to it"
    elif not has_times:
        yield "its events have no times (torch before 2.2): they are laid out a microsecond apart, in their order"
    if count > MOST_EVENTS:
        yield f"it has {count:,} events: the newest {MOST_EVENTS:,} are kept"


def _rows(snapshot: _Snapshot, path: Path, has_times: bool) -> Iterator[tuple[str, Row]]:
    found = snapshot.found
    kept = _newest(snapshot.traces)
    used: set[int] = set()
    devices = sorted({segment.device for segment in snapshot.segments} | snapshot.traces.keys())
    last_ns = max(found.time_us) * 1000 if has_times else None
    for device in devices:
        yield "gpu_snapshots", _device_row(snapshot, device, path, last_ns)
    for segment in snapshot.segments:
        place = {"time_unix_ns": last_ns, "device": segment.device, "segment_address": segment.address}
        yield (
            "gpu_segments",
            {
                **place,
                "segment_bytes": segment.size,
                "gpu_stream": segment.stream,
                "segment_kind": segment.kind,
                "pool": segment.pool,
                "is_expandable": segment.is_expandable,
            },
        )
        for block in segment.blocks:
            used.add(block.stack)
            yield (
                "gpu_blocks",
                {
                    **place,
                    "block_address": block.address,
                    "block_bytes": block.size,
                    "requested_bytes": block.requested,
                    "block_state": block.state,
                    "stack_number": None if block.stack < 0 else block.stack,
                },
            )
    labels = list(found.labels)
    for device, numbers in kept.items():
        first = len(snapshot.traces[device]) - len(numbers)
        for index, number in enumerate(numbers, first):
            used.add(found.stack[number])
            yield "gpu_events", _event_row(found, number, device, index, labels, has_times)
    for one in snapshot.annotations:
        yield (
            "gpu_events",
            {
                "time_unix_ns": one.time_us * 1000 if _LEAST_TIME_US < one.time_us < _MOST_TIME_US else None,
                "device": f"cuda:{one.device}",
                "gpu_action": "mark-start" if one.stage == "START" else "mark-end",
                "gpu_label": one.name[:200],
            },
        )
    frames = list(found.frames)
    for stack, number in found.stacks.items():
        if number in used:
            yield "gpu_stacks", {"time_unix_ns": last_ns, **_stack_row(number, [frames[frame] for frame in stack])}


def _newest(traces: Mapping[str, Sequence[int]]) -> dict[str, Sequence[int]]:
    total = sum(map(len, traces.values()))
    if total <= MOST_EVENTS:
        return dict(traces)
    share = MOST_EVENTS / total
    return {device: numbers[-max(1, int(len(numbers) * share)) :] for device, numbers in traces.items()}


def _device_row(snapshot: _Snapshot, device: str, path: Path, last_ns: int | None) -> Row:
    settings, numbers = snapshot.settings, snapshot.traces.get(device, ())
    has_stack = any(snapshot.found.stack[n] >= 0 for n in numbers)
    has_stack = has_stack or any(b.stack >= 0 for s in snapshot.segments if s.device == device for b in s.blocks)
    text = _text(settings.get("PYTORCH_CUDA_ALLOC_CONF")) or _text(settings.get("PYTORCH_ALLOC_CONF"))
    limit = settings.get("max_split_size")
    return {
        "time_unix_ns": last_ns,
        "device": device,
        "snapshot_file": str(path),
        "snapshot_format": snapshot.generation,
        "event_count": len(numbers),
        "has_stacks": has_stack,
        "allocator_settings": text[:300] if settings else None,
        "expandable_setting": settings.get("expandable_segments") is True if settings else None,
        "max_split_bytes": limit if type(limit) is int and limit > 0 else None,
    }


def _event_row(found: _Collected, number: int, device: str, index: int, labels: Sequence[str], has_times: bool) -> Row:
    action, at = _ACTIONS[found.action[number]], found.address[number]
    row: Row = {
        "time_unix_ns": found.time_us[number] * 1000 if has_times else None,
        "device": device,
        "event_index": index,
        "gpu_action": action.replace("_", "-"),
        "block_address": at if action != "oom" else None,
        "block_bytes": found.size[number],
        "gpu_stream": found.stream[number],
        "stack_number": None if found.stack[number] < 0 else found.stack[number],
        "device_free_bytes": at if action == "oom" else None,
        "gpu_label": labels[found.label[number]][:200] if found.label[number] >= 0 else None,
        "compile_context": labels[found.context[number]][:200] if found.context[number] >= 0 else None,
    }
    return row


def _stack_row(number: int, frames: Sequence[tuple[str, int, str]]) -> Row:
    """Frames come innermost first. Of C++ those are kept that say what it was for."""
    python = [frame for frame in frames if is_python(frame[0])]
    native = [_plain_name(name) for file, _, name in frames if not is_python(file) and _TELLING.search(name)]
    user = next((frame for frame in python if not is_library(frame[0])), None)
    lines = [f"{file}:{line} {name}" for file, line, name in python[:_MOST_STACK_LINES]]
    lines = [*reversed(lines), *(f"C++ {name}" for name in reversed(native[:_MOST_NATIVE_LINES]))]
    return {
        "stack_number": number,
        "owner_file": user[0] if user else None,
        "owner_line": user[1] if user else None,
        "function": user[2] if user else None,
        "stack": "\n".join(lines),
    }


def _plain_name(name: str) -> str:
    """A C++ function without its arguments, its template's, and what it returns."""
    whole = name.replace("(anonymous namespace)::", "")
    return re.split(r"[(<]", whole, maxsplit=1)[0].rsplit(" ", 1)[-1][:120] or whole[:120]


def is_python(file: str) -> bool:
    """Whether a frame is of Python: others are of C++ and have a library, a source of C++ or ``??``."""
    return file.endswith(".py") or file.startswith("<")


_LIBRARY = re.compile(
    r"[/\\](?:site|dist)-packages[/\\]|[/\\]lib[/\\]python3|^<frozen"
    r"|[/\\]torch[/\\](?:nn|optim|_|autograd|utils|distributed)"
)


def is_library(file: str) -> bool:
    """Whether a Python file is torch's, of another package or of the standard library, by its path."""
    return _LIBRARY.search(file) is not None
