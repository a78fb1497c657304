"""Journal folder to ``run.parquet``: merged beside it, replaced by rename, and only then is the journal removed.

A reader can trust three things at every instant, whoever is killed: ``run.parquet`` is a whole parquet file; a journal
folder, if there is one, is whole; and one of the two holds every row. Hence the order of steps below, and hence the
journal leaves by one rename before its files are deleted.

A checkpoint rewrites everything read so far and keeps the journal: nobody has to work out which frames it already has.
"""

from __future__ import annotations

import glob
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, BinaryIO

from ..agent.journal import GPU_SNAPSHOT, WHOLE_HEAP, NotOurs, create, open_regular
from ..errors import BadInput, LeakscopeError, UnreadableRecording
from ..locks import lock
from .segments import segments

JOURNAL_SUFFIX = ".journal"


def journal_of(output: Path) -> Path:
    """The journal folder that belongs to a recording file."""
    return output.with_name(output.name + JOURNAL_SUFFIX)


def is_journal(folder: Path) -> bool:
    """Whether ``folder`` is a journal: a folder in which a recorder has begun to write."""
    try:
        names = os.listdir(folder)
    except (FileNotFoundError, NotADirectoryError):
        return False
    except PermissionError:
        raise UnreadableRecording(f"{folder} cannot be read: only who recorded it can, and root") from None
    return "meta.json" in names or any(name.endswith(".jnl") for name in names)


def is_live(journal: Path) -> bool:
    """Whether a recorder still holds the journal's lock."""
    with _lock_file(journal) as descriptor:
        return descriptor is None


def living_writers(journal: Path) -> list[int]:
    """Pids of processes of the job that still write here: a job goes on when its recorder is killed."""
    pids = []
    for segment in segments(journal):
        parts = segment.stem.split("-")
        if parts[0] == "agent" and len(parts) == 4 and _start_ticks(parts[1]) == parts[2]:
            pids.append(int(parts[1]))
    return sorted(set(pids))


def finalize(
    output: str | os.PathLike[str],
    keep_journal: bool = False,
    checkpoint: bool = False,
    *,
    salvages: bool = True,
    few_rows: bool = False,
) -> Path:
    """Make ``output`` hold everything its journal holds; without a journal it already does.

    ``output`` may also name the journal folder. ``checkpoint`` leaves the journal to the recorder that still writes it.
    ``salvages``: of a damaged journal what is sound, with a note of what is not. ``few_rows``: without pyarrow, for a
    recording that ended in order. **Errors** BadInput while a recorder or the job still writes; DoesNotFit if
    ``few_rows`` and there is more to it: then nothing was done; UnreadableRecording if there is nothing to finalise, it
    is of a newer format, or damaged; LeakscopeError if the file cannot be written: the journal stays as it was.
    """
    path = Path(output)
    if path.name.endswith(JOURNAL_SUFFIX):
        path = path.with_name(path.name[: -len(JOURNAL_SUFFIX)])
    journal = journal_of(path)
    if not checkpoint:
        _remove_leftovers(path)
    if not is_journal(journal):
        if path.is_file():
            return path
        raise UnreadableRecording(f"there is no recording at {path}: neither the file nor {journal.name} next to it")
    with _alone(journal) as is_there, _lock_file(journal) as lock:
        if not is_there:  # another process finalised it while we waited for our turn
            return path
        if lock is None and not checkpoint:
            raise BadInput(f"{path} is still being recorded: wait until it ends, or finalize with --checkpoint")
        _replace(path, journal, checkpoint, salvages, few_rows)
        if not checkpoint and any(journal.glob("*" + WHOLE_HEAP)):
            from .whole_heap import move_out

            move_out(journal, path)
        if not (checkpoint or keep_journal):
            _remove(journal)
    return path


def run_lightly() -> None:
    """For a process that does nothing but finalise: one thread, memory goes back to the system at once, no pandas.

    pyarrow imports pandas (50 MB, 0.4 s) to ask whether a list is a Series, and dateutil (10 ms) for intervals that no
    table of ours has. It asks once, and remembers the answer.
    """
    import pyarrow as pa

    pa.set_cpu_count(1)
    pa.set_memory_pool(pa.system_memory_pool())
    if "pandas" in sys.modules:
        return
    sys.meta_path.insert(0, _Without)
    try:
        pa.array([0])
    finally:
        sys.meta_path.remove(_Without)


class _Without:
    """An import finder to which neither is installed."""

    @staticmethod
    def find_spec(name: str, path: object = None, target: object = None) -> None:
        if name in ("pandas", "dateutil.relativedelta"):
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)


def _replace(path: Path, journal: Path, checkpoint: bool, salvages: bool, few_rows: bool) -> None:
    temporary = _hidden(path, "tmp")
    try:
        for stale in path.parent.glob(f".{glob.escape(path.name)}.tmp-*"):  # of one that was killed: we are alone
            with suppress(OSError):  # another user's
                stale.unlink()
        if not checkpoint and any(journal.glob("*" + GPU_SNAPSHOT)):
            from .gpu_history import fold_in  # 40 ms that few have to wait for, this and what reads whole heaps

            fold_in(journal)
        with os.fdopen(create(temporary, os.O_RDWR), "w+b") as stream:
            footer = _merged(journal, stream, checkpoint, salvages, few_rows)
            if not checkpoint and footer["ended"][0] == "lost" and (pids := living_writers(journal)):
                raise BadInput(
                    f"{path}: its recorder is gone, but process {pids[0]} of the job still writes: "
                    "wait until it ends, or finalize with --checkpoint"
                )
            stream.flush()
            os.fsync(stream.fileno())
        os.replace(temporary, path)
        _sync_folder(path.parent)
    except OSError as error:
        raise LeakscopeError(
            f"cannot write {path}: {error.strerror or error}; the journal {journal} is untouched: "
            f"make room or copy it elsewhere, then run `leakscope finalize {path}`"
        ) from error
    finally:
        with suppress(OSError):
            temporary.unlink()


def _merged(journal: Path, stream: BinaryIO, checkpoint: bool, salvages: bool, few_rows: bool) -> dict[str, Any]:
    if few_rows:
        from . import few_rows as few

        return few.write(journal, stream)
    from .merge import merge

    return merge(journal, stream, "checkpoint" if checkpoint else "final", salvages=salvages)


def _remove(journal: Path) -> None:
    """Take the journal out of sight in one step: a half-deleted one must never pass for the whole truth."""
    doomed = _hidden(journal, "done")
    try:
        os.rename(journal, doomed)
    except OSError as error:
        raise LeakscopeError(
            f"cannot remove {journal}: {error.strerror}; everything in it is in the recording"
        ) from error
    _delete(doomed)


def _remove_leftovers(path: Path) -> None:
    """Of one that was killed while it removed a journal; everything in it was in the recording by then."""
    for doomed in path.parent.glob(f".{glob.escape(journal_of(path).name)}.done-*"):
        _delete(doomed)


def _delete(folder: Path) -> None:
    """As far as possible: a journal is a folder of files."""
    try:
        for name in os.listdir(folder):
            os.unlink(folder / name)
        os.rmdir(folder)
    except OSError:  # there is more in it
        import shutil  # 2 ms, of the 80 of a recorder

        shutil.rmtree(folder, ignore_errors=True)


def _hidden(path: Path, suffix: str) -> Path:
    """A name beside it that nobody can have taken before."""
    return path.with_name(f".{path.name}.{suffix}-{os.urandom(8).hex()}")


def _sync_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        with suppress(OSError):  # some network file systems cannot, and need not
            os.fsync(descriptor)
    finally:
        os.close(descriptor)


@contextmanager
def _alone(journal: Path) -> Iterator[bool]:
    """One merger at a time, by a lock on the folder itself: a late checkpoint must not replace a final file.

    Yields whether the journal is still there when our turn has come.
    """
    if not hasattr(os, "O_DIRECTORY"):  # on Windows a folder cannot be opened, and nobody records
        yield journal.is_dir()
        return
    try:
        descriptor = os.open(journal, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    except FileNotFoundError:
        yield False
        return
    except OSError as error:
        raise UnreadableRecording(f"{journal} cannot be read: {error.strerror}") from error
    try:
        lock(descriptor, waits=True)
        yield _is_same(descriptor, journal)
    finally:
        os.close(descriptor)


def _is_same(descriptor: int, path: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(descriptor), os.stat(path))
    except OSError:
        return False


@contextmanager
def _lock_file(journal: Path) -> Iterator[int | None]:
    """Hold the recorder's lock; yields None if a recorder holds it, -1 if there is no lock file to hold."""
    try:
        descriptor = open_regular(journal / "lock")
    except NotOurs as error:
        raise UnreadableRecording(f"{error.filename} cannot be read: {error.strerror}") from None
    except OSError:
        yield -1
        return
    try:
        yield descriptor if lock(descriptor) else None
    finally:
        os.close(descriptor)


def _start_ticks(pid: str) -> str | None:
    """Field 22 of /proc/PID/stat, counted after the command name, which may hold spaces and parentheses.

    None for a zombie: an orphan stays one for good where process 1 of a container reaps nobody.
    """
    try:
        fields = Path(f"/proc/{pid}/stat").read_text(errors="replace").rpartition(")")[2].split()
        return None if fields[0] in "ZX" else fields[19]
    except (OSError, IndexError):
        return None
