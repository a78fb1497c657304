"""Uploads of recordings: by a helper beside ``record -o s3://…``, and ``leakscope upload`` for what was left.

A recording is uploaded from its folder in the spool, which is taken away only when the file that arrived is as large as
the one here. An earlier recording of another run at that address gets its start time into its name, as it does on disk.
"""

from __future__ import annotations

import json
import os
import shutil
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from ..addresses import is_url, name_of, without_credentials
from ..agent.journal import open_regular
from ..errors import BadInput, LeakscopeError
from ..locks import lock
from ..recorder.answering import ROOM_BYTES, ROOM_OF_MACHINE_BYTES
from ..recorder.helpers import too_full
from ..recorder.uploads import ORDER, default_spool
from ..storage import keep_answer, open_recording
from ..storage.finalize import finalize, is_journal, is_live, journal_of, living_writers
from ..storage.remote import move, put, size_of
from ..storage.whole_heap import identity_of
from ..units import format_bytes
from ..version import __version__

_MOST_ORDER_BYTES = 65536
_SAME = ("started_at", "start_unix_ns", "recorder_pid", "host")  # of two states of one recording


@dataclass(frozen=True)
class Uploaded:
    """A recording that is where it was to go. ``is_over``: for good; else it is recorded still."""

    url: str
    bytes: int
    is_over: bool


def upload(path: Path, url: str, *, force: bool = False, is_over: bool = True) -> Uploaded:
    """Bring the file of a recording up to date and copy it to ``url``; what is here stays.

    ``is_over``: it is finished first, and its verdict goes into its footer. **Errors** LeakscopeError.
    """
    is_over = is_over and not goes_on(path)
    there = size_of(url)  # before the work, whether anybody answers at all
    finalize(path, checkpoint=not is_over)
    if there is not None and not force:
        _make_way(url, path)
    bytes = _put(path, url)
    # The rows are safe by now: who ends us here, as a grace period does, costs the verdict.
    if is_over and _is_judged_anew(path):
        bytes = _put(path, url)
    for heap in open_recording(path).whole_heaps() if is_over else ():
        put(str(heap.path), url[: url.rindex("/") + 1] + heap.path.name)
    return Uploaded(without_credentials(url), bytes, is_over)


def _put(path: Path, url: str) -> int:
    """Copy it there, and make sure that it arrived; its size."""
    put(str(path), url)
    bytes, arrived = path.stat().st_size, size_of(url)
    if arrived != bytes:
        raise LeakscopeError(f"{without_credentials(url)} has {arrived} bytes after the upload, {path} has {bytes}")
    return bytes


def _is_judged_anew(path: Path) -> bool:
    before = path.stat().st_ino
    try:
        judge_file(path)
    except Exception:  # a fault of ours there must not keep a recording from its bucket; a report will show it
        return False
    return path.stat().st_ino != before


def goes_on(path: Path) -> bool:
    """Whether it is being recorded: by its recorder, or by a job that outlived that."""
    journal = journal_of(path)
    return is_journal(journal) and (is_live(journal) or bool(living_writers(journal)))


def judge_file(path: Path) -> bool:
    """Write verdict and figures into the footer of a finished recording; False where it cannot be.

    A verdict of this version that is about the whole recording stays as it is.
    """
    from ..reporting import answer_of

    recording = open_recording(path)
    told = recording.meta.get("verdict")
    if isinstance(told, dict) and told.get("leakscope_version") == __version__ and "as_of_s" not in told:
        return True
    if too_full(ROOM_BYTES, ROOM_OF_MACHINE_BYTES) is not None:
        return False
    return keep_answer(recording, answer_of(recording).footer)


@dataclass(frozen=True)
class Waiting:
    """A recording in the spool. ``url`` is without credentials: it had some if ``has_credentials``."""

    folder: Path
    path: Path
    url: str
    has_credentials: bool


def waiting(spool: Path) -> list[Waiting]:
    """What is in the spool, the oldest first."""
    found = (_waiting(folder) for folder in sorted(spool.iterdir())) if spool.is_dir() else ()
    return [one for one in found if one is not None]


def upload_waiting(
    one: Waiting, url: str | None = None, *, force: bool = False, waits: bool = False
) -> Uploaded | None:
    """Upload it, and take it away if it is over. None: somebody else does so just now or, with ``waits``, did.

    **Errors** LeakscopeError.
    """
    if one.has_credentials and url is None:
        raise BadInput(f"{one.path} is to go to {one.url} with a login, which is written nowhere: name it by --to")
    with _alone(one.folder, waits=waits) as is_ours:
        if not is_ours:
            return None
        uploaded = upload(one.path, url or one.url, force=force)
        if uploaded.is_over:
            remove(one.folder)
        return uploaded


def remove(folder: Path) -> None:
    """Take away a recording that was uploaded, and the folder that was made for it."""
    shutil.rmtree(folder, ignore_errors=True)


def upload_all(
    runs: Sequence[Path],
    url: str | None,
    spool: Path | None,
    say: Callable[[str], None],
    *,
    dry_run: bool = False,
    force: bool = False,
) -> int:
    """``leakscope upload``: the recordings that are named, or all that wait. The exit status. **Errors** BadInput."""
    is_named = bool(runs)
    runs = [run for run in runs if identity_of(run) is None]  # a whole heap goes with its recording
    base = spool or default_spool()
    waits = waiting(Path(base)) if base is not None else []
    if runs or is_named:
        named = {os.path.realpath(run) for run in runs}
        waits = [one for one in waits if os.path.realpath(one.path) in named]
        others = [run for run in runs if os.path.realpath(run) not in {os.path.realpath(one.path) for one in waits}]
        if others and url is None:
            raise BadInput(f"{others[0]} was not recorded for a URL: name one by --to")
    else:
        others = []
        if not waits:
            say(f"nothing waits to be uploaded in {base}")
    if url is not None and len(waits) + len(others) > 1 and not url.endswith("/"):
        raise BadInput("--to names one file, and there are several recordings: end it with / to name a folder")
    status = 0
    for one in waits:
        to = _target(url, one.path) if url is not None else None
        if dry_run:
            say(f"{one.path} waits for {without_credentials(to or one.url)}")
            continue
        status = max(status, _told(one.path, partial(upload_waiting, one, to, force=force, waits=True), say))
    for run in others:
        to = _target(str(url), run)
        if dry_run:
            say(f"{run} is to go to {without_credentials(to)}")
            continue
        status = max(status, _told(run, partial(upload, run, to, force=force), say))
    return status


def _target(url: str, path: Path) -> str:
    if not is_url(url):
        raise BadInput(f"--to {url}: write it like s3://bucket/{path.name}")
    return url + path.name if url.endswith("/") else url


def _told(path: Path, work: Callable[[], Uploaded | None], say: Callable[[str], None]) -> int:
    """Upload one and say so; the others go on if it fails."""
    try:
        uploaded = work()
    except LeakscopeError as error:
        say(str(error))
        return error.exit_status
    if uploaded is None:
        say(f"{path} was uploaded by another process")
    else:
        rest = "" if uploaded.is_over else "; it is still being recorded: this is the state of its last flush"
        say(f"{path} is in {uploaded.url} ({format_bytes(uploaded.bytes)}){rest}")
    return 0


def of_order(order: dict[str, Any]) -> None:
    """What the recorder asks for: its own recording, and once what others left. **Errors** LeakscopeError."""
    own = Path(order["path"]) if order["path"] is not None else None
    if own is not None:
        with _alone(own.parent, waits=order["is_over"]) as is_ours:
            if is_ours:
                uploaded = upload(own, order["url"], force=order["force"], is_over=order["is_over"])
                if uploaded.is_over:
                    remove(own.parent)
    for one in waiting(Path(order["spool"])) if order["spool"] is not None else ():
        if (own is None or one.folder != own.parent) and not one.has_credentials and not goes_on(one.path):
            with suppress(LeakscopeError, OSError):  # its own recorder, or who asks for uploads, is told
                upload_waiting(one)


def main() -> int:
    """The helper of the recorder: an order as JSON on stdin, what went wrong in a line on stderr."""
    try:
        of_order(json.load(sys.stdin))
    except LeakscopeError as error:
        print(f"leakscope: {error}", file=sys.stderr, flush=True)
        return error.exit_status
    except OSError as error:
        print(f"leakscope: {error.filename or 'upload'}: {error.strerror or error}", file=sys.stderr, flush=True)
        return 2
    return 0


def _waiting(folder: Path) -> Waiting | None:
    try:
        with os.fdopen(open_regular(folder / ORDER), "rb") as stream:
            order = json.loads(stream.read(_MOST_ORDER_BYTES))
        path = folder / os.path.basename(order["file"])
        return Waiting(folder, path, str(order["url"]), bool(order["has_credentials"]))
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _make_way(url: str, path: Path) -> None:
    """An earlier recording of another run that is there keeps its rows under a name with its start."""
    try:
        earlier = open_recording(url).meta
    except LeakscopeError:
        earlier = {}
    own = open_recording(path).meta
    if all(earlier.get(name) == own.get(name) for name in _SAME) or earlier.get("state") == "empty":
        return
    stem, suffix = os.path.splitext(name_of(url))
    stamp = str(earlier.get("started_at") or "earlier").replace("-", "").replace(":", "").rstrip("Z")
    move(url, f"{stem}.{stamp}{suffix}")


@contextmanager
def _alone(folder: Path, *, waits: bool = False) -> Iterator[bool]:
    """One upload of a folder at a time, by a lock on its order. Yields whether it is our turn."""
    try:
        descriptor = open_regular(folder / ORDER)
    except OSError:
        yield False
        return
    try:
        if not lock(descriptor, waits=waits):
            yield False
            return
        yield folder.exists()
    finally:
        os.close(descriptor)
