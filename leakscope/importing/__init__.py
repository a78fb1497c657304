"""`leakscope import`: what other tools have written becomes one recording, on which everything else works.

A file of this folder that has ``sniff`` and ``read`` is a format; there is no list to extend.
"""

from __future__ import annotations

import importlib
import json
import pkgutil
import shutil
import time
from collections.abc import Iterator, Sequence
from datetime import datetime, timezone
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING

from .. import schema
from ..agent.journal import Journal
from ..errors import BadInput, UnreadableRecording
from ..storage.finalize import finalize, journal_of
from ..version import __version__

if TYPE_CHECKING:
    from ..torch_snapshots import Facts, Row

_HEAD_BYTES = 8192
_SAME_PROCESS = 0.3  # of the segments of the smaller snapshot: weights stay where they are for as long as a job runs
_FLUSH_ROWS = 20_000


def import_files(paths: Sequence[Path], output: Path, *, force: bool = False) -> Path:
    """Make one recording of the files, and of all snapshots in the folders that are named.

    **Errors** BadInput if ``output`` is there already; UnreadableRecording with one line for a file that is no format
    known here, or is damaged.
    """
    files = [file for path in paths for file in _files_of(path)]
    if output.exists() and not force:
        raise BadInput(f"{output} is there already: choose another name with -o, or --force")
    facts = [_format_of(file).read(file) for file in files]
    journal = journal_of(output)
    try:
        journal.mkdir()
    except FileExistsError:
        raise BadInput(f"{journal} is there: a recording goes on, or was cut off; choose another name") from None
    try:
        _write(journal, facts)
        output.unlink(missing_ok=True)
        return finalize(output)
    except BaseException:
        shutil.rmtree(journal, ignore_errors=True)
        raise


def _files_of(path: Path) -> Iterator[Path]:
    if not path.is_dir():
        yield path
        return
    found = [file for file in sorted(path.iterdir()) if file.is_file() and _format_or_none(file) is not None]
    if not found:
        raise UnreadableRecording(f"{path} has no file of a format that is known here")
    yield from found


def _formats() -> Iterator[ModuleType]:
    for module in pkgutil.iter_modules(__path__):
        found = importlib.import_module(f"{__name__}.{module.name}")
        if hasattr(found, "sniff"):
            yield found


def _format_or_none(path: Path) -> ModuleType | None:
    with open(path, "rb") as stream:
        head = stream.read(_HEAD_BYTES)
    return next((known for known in _formats() if known.sniff(head, path.name)), None)


def _format_of(path: Path) -> ModuleType:
    if not path.exists():
        raise UnreadableRecording(f"there is no file {path}")
    if not path.is_file():  # a fifo would keep us waiting
        raise UnreadableRecording(f"{path} is not a regular file")
    try:
        found = _format_or_none(path)
    except OSError as error:
        raise UnreadableRecording(f"{path} cannot be read: {error.strerror or error}") from None
    if found is None:
        raise UnreadableRecording(f"{path} is of no format that is known here: `leakscope import --help` lists them")
    return found


def _write(journal: Path, facts: Sequence[Facts]) -> None:
    timed = [one.began_ns for one in facts if one.began_ns is not None]
    start_ns = min(timed) if timed else time.time_ns()
    meta = {
        "format_version": schema.SCHEMA_VERSION,
        "start_mono_ns": start_ns,
        "start_unix_ns": start_ns,
        "started_at": datetime.fromtimestamp(start_ns / 1e9, timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ"),
        "command": [one.name for one in facts][:20],
        "leakscope_version": __version__,
        "imported": True,
        "notes": [note for one in facts for note in one.notes],
    }
    (journal / "meta.json").write_text(json.dumps(meta), encoding="utf-8")
    out = Journal(str(journal), "import")
    count = 0
    ended_ns = max([one.ended_ns or start_ns for one in facts], default=start_ns)
    pids = _pids(facts)
    for number, (pid, one) in enumerate(zip(pids, facts), 1):
        process = {"pid": pid, "start_ticks": 0}
        if pid not in pids[: number - 1]:
            out.add("processes", {**_clock(start_ns), **process, **_process_row(one, pid, start_ns)})
        for table, row in one.rows:
            at_ns = row.pop("time_unix_ns", None)
            if at_ns is None:  # as far apart as may be in their order
                at_ns = (one.ended_ns or start_ns) + 1000 * (row.get("event_index") or 0)
            out.add(table, {**_clock(at_ns), **process, "snapshot": number, **row})
            count += 1
            if count % _FLUSH_ROWS == 0:
                out.flush()
    out.add("events", {**_clock(ended_ns), "event": "end", "text": "imported"})
    out.close()


def _clock(at_ns: int) -> Row:
    return {"time_unix_ns": at_ns, "time_mono_ns": at_ns, "time_boot_ns": at_ns}


def _process_row(one: Facts, pid: int, start_ns: int) -> Row:
    name = f"rank {one.rank}" if one.rank is not None else one.name
    return {"comm": name, "role": "trainer", "rank": one.rank, "born_mono_ns": start_ns, "is_root": pid == 1}


def _pids(facts: Sequence[Facts]) -> list[int]:
    """A number for each process: snapshots of one rank are of one, and so are those that hold the same segments."""
    known: list[Facts] = []
    pids: list[int] = []
    for one in facts:
        same = next((i for i, other in enumerate(known) if _is_same(one, other)), None)
        if same is None:
            known.append(one)
            same = len(known) - 1
        pids.append(same + 1)
    return pids


def _is_same(one: Facts, other: Facts) -> bool:
    if one.rank is not None or other.rank is not None:
        return one.rank == other.rank
    shared = len(one.key & other.key)
    return shared > 0 and shared >= _SAME_PROCESS * min(len(one.key), len(other.key))
