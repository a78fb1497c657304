"""Which recordings there are, whether they are of one job, and which rank each of them is of."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ..errors import BadInput, UnreadableRecording
from ..facts.processes.ranks import ranks_in
from ..storage import Recording, open_recording

_SUFFIX, _JOURNAL = ".parquet", ".parquet.journal"
_WHOLE_HEAP = re.compile(r"\.heap-\d+-\d+\.parquet$")
_NAMED = re.compile(r"(?:rank|worker)[._-]?(\d+)", re.IGNORECASE)
_NUMBER = re.compile(r"\d+")
_TOLD = 200  # characters of a command
_HOW = "record each rank with -o 'job/run.rank{rank}.parquet', or report this one by itself"


@dataclass(frozen=True)
class Candidate:
    """One recording as its footer tells of it. **Units** nanoseconds of the clocks of its machine.

    ``machine`` tells clocks apart: it is the boot, where that is known.
    ``ranks``: those whose processes are in it; more than one where a launcher was recorded with all that it started.
    """

    path: Path
    command: Sequence[str]
    node: str
    boot: str
    machine: str
    start_mono_ns: int
    start_unix_ns: int
    length_ns: int
    ranks: Sequence[int]
    belongs: Mapping[str, Any]
    started_at: str

    @property
    def attempt(self) -> int:
        """How often the job was started before, where somebody counted."""
        counts = [self.belongs.get(key) for key in ("attempt", "restart_count")]
        return max((count for count in counts if isinstance(count, int)), default=0)

    @property
    def is_shared(self) -> bool:
        return len(self.ranks) > 1


@dataclass(frozen=True)
class Found:
    """The recordings of one job, one for each rank, and why others are left out."""

    candidates: Sequence[Candidate]
    rest: Mapping[str, str] = field(default_factory=dict)
    unreadable: Mapping[int, str] = field(default_factory=dict)  # by rank, as the names of their files have it


def recordings_in(paths: Iterable[Path]) -> list[Path]:
    """The recordings that are named, and those in the folders that are, in order; also such as are still running.

    **Errors** BadInput for a folder without a recording.
    """
    found: dict[Path, None] = {}
    for path in paths:
        if not path.is_dir() or path.name.endswith(_JOURNAL):
            found[path] = None
            continue
        inside = {file for file in path.rglob(f"*{_SUFFIX}") if file.is_file() and not _WHOLE_HEAP.search(file.name)}
        inside |= {one.with_name(one.name[: -len(".journal")]) for one in path.rglob(f"*{_JOURNAL}") if one.is_dir()}
        shown = sorted(one for one in inside if not any(part.startswith(".") for part in one.relative_to(path).parts))
        if not shown:
            raise BadInput(f"{path} has no recording in it: name a folder with files such as run.rank0.parquet")
        found.update(dict.fromkeys(shown))
    return list(found)


def of_one_job(paths: Sequence[Path]) -> Found:
    """**Errors** BadInput where they are of several jobs, or one does not say its rank; the first that cannot be read,
    where none can."""
    tried = {path: _candidate(path) for path in paths}
    candidates = [one for one in tried.values() if isinstance(one, Candidate)]
    failed = {path: one for path, one in tried.items() if not isinstance(one, Candidate)}
    if not candidates:
        raise next(iter(failed.values()))
    _check_one_job(candidates)
    chosen, rest = _newest(candidates)
    taken = {rank for one in chosen for rank in one.ranks}
    unreadable = {}
    for path, error in failed.items():
        why = str(error)
        rank = _named_rank(path)
        if rank is not None and rank not in taken:
            unreadable[rank] = why
        rest[str(path)] = why
    return Found(sorted(chosen, key=lambda one: min(one.ranks)), rest, unreadable)


def _candidate(path: Path) -> Candidate | UnreadableRecording:
    try:
        recording = open_recording(path)
    except UnreadableRecording as error:
        return error
    meta = recording.meta
    belongs = found if isinstance(found := meta.get("belongs"), dict) else {}
    host, boot = meta.get("host"), meta.get("boot_id")
    node = belongs.get("node") or host or path.parent.name
    start = meta["start_mono_ns"]
    last = meta.get("last_mono_ns")
    return Candidate(
        path=path,
        command=[str(word) for word in meta.get("command") or ()],
        node=str(node),
        boot=str(boot or ""),
        machine=str(boot) if boot else f"{node} {path}",
        start_mono_ns=start,
        start_unix_ns=int(meta.get("start_unix_ns") or 0),
        length_ns=max(0, last - start) if isinstance(last, int) else 0,
        ranks=_known(ranks_of(recording), path),
        belongs=belongs,
        started_at=str(meta.get("started_at") or ""),
    )


def ranks_of(recording: Recording) -> list[int]:
    """The ranks whose processes are in a recording; empty where nothing says, neither in it nor in its name.

    What the processes say counts where they are of several: who recorded a launcher has no rank, or another one.
    """
    of_processes = ranks_in(recording)
    if len(of_processes) > 1:
        return of_processes
    belongs = recording.meta.get("belongs")
    said = belongs.get("rank") if isinstance(belongs, dict) else None
    if isinstance(said, int):
        return [said]
    named = _named_rank(recording.path)
    return of_processes or ([named] if named is not None else [])


def _known(ranks: list[int], path: Path) -> list[int]:
    if not ranks:
        raise BadInput(
            f"{path} does not say which rank of a job it is. For two runs: leakscope compare BEFORE AFTER; for many: "
            f"leakscope fleet index FOLDER; of ranks: {_HOW}"
        )
    return ranks


def _named_rank(path: Path) -> int | None:
    """``run.rank17.parquet``, or a file in the folder ``rank17``."""
    named = _NAMED.search(path.name) or _NAMED.search(path.parent.name)
    return int(named.group(1)) if named else None


def _check_one_job(candidates: Sequence[Candidate]) -> None:
    """The same job, where all say which; else the same command, but for the numbers in it."""
    first = candidates[0]
    has_names = all(one.belongs.get("job") for one in candidates)
    for other in candidates[1:]:
        if has_names:
            if other.belongs["job"] != first.belongs["job"]:
                jobs = f"job {first.belongs['job']} and job {other.belongs['job']}"
                raise BadInput(f"{first.path} and {other.path} are of two jobs, {jobs}: {_INSTEAD}")
        elif _likeness(first) != _likeness(other):
            commands = f"`{_told(first.command)}` and `{_told(other.command)}`"
            raise BadInput(f"{first.path} and {other.path} are not of one job, they ran {commands}: {_INSTEAD}")


_INSTEAD = "report each by itself, or `leakscope compare` them"


def _likeness(one: Candidate) -> tuple[str, ...]:
    return tuple(_NUMBER.sub("N", word) for word in one.command)


def _told(command: Sequence[str]) -> str:
    text = shlex.join(command) or "a process that ran already"
    return text if len(text) <= _TOLD else text[: _TOLD - 1] + "…"


def _newest(candidates: Sequence[Candidate]) -> tuple[list[Candidate], dict[str, str]]:
    """Of each rank the recording of its last attempt; the others with the reason why they are not told of."""
    chosen: dict[int, Candidate] = {}
    rest: dict[str, str] = {}
    for one in sorted(candidates, key=lambda one: (one.attempt, one.start_unix_ns, str(one.path))):
        for rank in one.ranks:
            before = chosen.get(rank)
            if before is not None and before.attempt == one.attempt and _overlap(before, one):
                raise BadInput(
                    f"{before.path} and {one.path} are both of rank {rank} at the same time: "
                    "name the recordings of one job only"
                )
            if before is not None:
                rest[str(before.path)] = f"an earlier attempt of rank {rank}: the last one is used"
            chosen[rank] = one
    kept = {id(one): one for one in chosen.values()}
    return list(kept.values()), {path: why for path, why in rest.items() if path not in map(_path, kept.values())}


def _path(one: Candidate) -> str:
    return str(one.path)


def _overlap(one: Candidate, other: Candidate) -> bool:
    """Whether both were recorded at one time, as far as wall clocks tell: recordings of one machine, or of two."""
    if one.start_unix_ns == other.start_unix_ns:
        return True
    first, last = sorted((one, other), key=lambda c: c.start_unix_ns)
    return first.start_unix_ns + first.length_ns > last.start_unix_ns
