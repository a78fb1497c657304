"""A run's memory, verdict and page in an experiment tracker, told from outside the job: one file a tracker.

The journal is read as `watch` reads it, so the recorder stays as small as it is. A tracker is found by its file. It has
``PACKAGE``, whose SDK it needs, and ``begin(place, about)``, which gives a ``Tracker``; where to is said by the SDK's
own environment variables, and by what follows the colon in ``wandb:PROJECT``.
"""

from __future__ import annotations

import importlib
import importlib.util
import pkgutil
import signal
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from ..errors import BadInput, LeakscopeError, to_install
from ..facts.case import Case
from ..ignoring import read_ignores, without_ignored
from ..renderers import render
from ..reporting import report_of
from ..storage import open_recording
from ..units import format_duration
from ..watching.feeds import JournalFeed, RecordingFeed, command_of, is_recording, journal_of
from ._points import Points
from ._tracker import About, Outcome, Point, Tracker, outcome_of

if TYPE_CHECKING:
    from ..findings import Report
    from ..storage import Recording

__all__ = ["About", "Outcome", "Point", "TookTooLong", "Tracker", "begin", "names", "push"]
POLL_S = 1.0
ANSWER_S = 300.0  # for one call: MLflow alone would try for 20 minutes, and waits without end for a lock of its own
_FINISHING_S = 120.0  # the recorder finishes its file after its last row
_PAGE = "leakscope.html"


class NotTaken(LeakscopeError):
    """What a tracker's SDK said as it refused, in one line (exit status 2)."""


class TookTooLong(NotTaken):
    """It did not answer. As the interpreter ends its SDK may go on waiting: leave by ``os._exit``."""


def names() -> list[str]:
    """The trackers, by their files."""
    return sorted(m.name for m in pkgutil.iter_modules(__path__) if not m.name.startswith("_"))


def begin(target: str, about: About) -> Tracker:
    """A run in the tracker that ``target`` (``wandb`` or ``wandb:PROJECT``) names. **Errors** BadInput, NotTaken."""
    name, _, place = target.partition(":")
    if name not in names():
        raise BadInput(f"{name!r} is no tracker that is known: there are {', '.join(names())}")
    module = importlib.import_module(f".{name}", __name__)
    if importlib.util.find_spec(module.PACKAGE) is None:
        raise BadInput(f"{module.PACKAGE} is not installed here: {to_install(name)}")
    with _telling(name):
        tracker: Tracker = module.begin(place or None, about)
    return tracker


def push(output: Path, target: str, sleep: Callable[[float], None] = time.sleep) -> str:
    """Log a recording to a tracker, one that goes on until it ends; returns where it is to be seen.

    **Errors** UnreadableRecording; BadInput and NotTaken of the tracker, TookTooLong if it does not answer.
    """
    live = is_recording(journal_of(output))
    recording = open_recording(output)
    tracker = begin(target, _about(recording))
    name = target.partition(":")[0]
    feed = JournalFeed(output) if live else RecordingFeed(recording)
    points = Points(feed.start_mono_ns, _start_unix_s(recording))
    try:
        while True:
            for point in points.of(feed.poll()):
                with _telling(name):
                    tracker.log(point)
            for alert in points.alerts():
                with _telling(name):
                    tracker.alert("leakscope", alert)
            if feed.is_over:
                break
            if not feed.is_behind:
                sleep(POLL_S)
    finally:
        feed.close()
    if live:
        recording = _finished(output, sleep)
    return _finish(tracker, name, recording)


def _finish(tracker: Tracker, name: str, recording: Recording) -> str:
    report = without_ignored(report_of(Case(recording)), read_ignores(Path.cwd()))
    with tempfile.TemporaryDirectory(prefix="leakscope-") as folder:
        page = Path(folder, _PAGE)
        page.write_text(render(report, "html"), encoding="utf-8")
        with _telling(name):
            return tracker.finish(_outcome(report, page))


def _outcome(report: Report, page: Path) -> Outcome:
    return outcome_of(report, render(report, "markdown"), page)


def _finished(output: Path, sleep: Callable[[float], None]) -> Recording:
    """The recording once its recorder is done with the file; as far as it came, if that takes too long."""
    for _ in range(round(_FINISHING_S / POLL_S)):
        if not is_recording(journal_of(output)) and not journal_of(output).exists():
            break
        sleep(POLL_S)
    return open_recording(output)


def _about(recording: Recording) -> About:
    meta = recording.meta
    labels = meta.get("labels")
    return About(
        name=recording.path.name.removesuffix(".parquet"),
        command=command_of(meta),
        host=str(meta.get("host") or ""),
        recording=str(recording.path),
        start_unix_s=_start_unix_s(recording),
        labels={str(k): str(v) for k, v in labels.items()} if isinstance(labels, dict) else {},
    )


def _start_unix_s(recording: Recording) -> float:
    start_ns = recording.meta.get("start_unix_ns")
    return start_ns / 1e9 if type(start_ns) is int else 0.0


@contextmanager
def _telling(name: str) -> Iterator[None]:
    """Whatever an SDK raises (no login, no network, no room) is one line, and what it did before stays."""
    try:
        with _within(ANSWER_S):
            yield
    except _Late:
        raise TookTooLong(f"{name}: no answer within {format_duration(ANSWER_S)}") from None
    except LeakscopeError:
        raise
    except Exception as error:
        text = " ".join(str(error).split())[:300]
        raise NotTaken(f"{name}: {type(error).__name__}: {text}") from error


class _Late(BaseException):
    """No Exception: SDKs catch those, and try again."""


@contextmanager
def _within(seconds: float) -> Iterator[None]:
    """Raise ``_Late`` in what takes longer. Signals reach the main thread alone: in another there is no limit."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def end(*_: object) -> None:
        raise _Late

    before = signal.signal(signal.SIGALRM, end)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
