"""Looks at a feed and shows what is seen: on a screen with keys, line by line, or once. Runs beside the job."""

from __future__ import annotations

import shlex
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from ..errors import BadInput, LeakscopeError
from ..recorder.console import status_text
from ..recorder.output import JOURNAL_SUFFIX
from ..words import plain, printable
from . import screen
from .feeds import Feed, JournalFeed, OutsideFeed, RecordingFeed, is_recording, journal_of
from .frame import frame
from .scene import Scene

REFRESH_S = 1.0
LEAST_INTERVAL_S = 0.1  # more often costs the job time and shows nothing new
_OLD_S = 2.0  # younger news need no date
_MOST_AGE_S = 3600.0  # a recorder writes more often, whatever --flush says
_INTERRUPTED = 130


def watch_recording(
    path: Path, *, interval_s: float | None = None, speed: float | None = None, plain: bool = False
) -> int:
    """Watch the recording at ``path``, or where it has ended show its end; ``speed`` plays it once more.

    ``plain``: lines as in a pipe, also in a terminal. Returns the exit status. **Errors** UnreadableRecording; BadInput
    for a replay of what still goes on.
    """
    output = path.with_name(path.name[: -len(JOURNAL_SUFFIX)]) if path.name.endswith(JOURNAL_SUFFIX) else path
    if is_recording(journal_of(output)):
        if speed is not None:
            raise BadInput(f"{output} is still being recorded: watch it without --replay and --speed")
        return Viewer(JournalFeed(output), "recording", output, interval_s, plain).run()
    from ..storage import open_recording

    recording = open_recording(output)
    if interval_s is None and (plain or not screen.has_keys()):
        speed = None  # a file does not see it go by
    feed = RecordingFeed(recording, speed)
    viewer = Viewer(feed, "ended" if speed is None else "replay", output, interval_s, plain)
    viewer.notes = recording.notes
    return viewer.run() if speed is not None else viewer.show_once()


def watch_processes(pids: Sequence[int], *, interval_s: float | None = None, plain: bool = False) -> int:
    """Watch running processes and their children from outside. Returns the exit status. **Errors** BadInput."""
    return Viewer(OutsideFeed(pids), "watching", None, interval_s, plain).run()


class Viewer:
    """Looks at one feed until it is over or the user has seen enough."""

    def __init__(self, feed: Feed, state: str, output: Path | None, interval_s: float | None, plain: bool) -> None:
        self.notes: list[str] = []
        self.command = feed.command
        self._feed, self._state, self._output, self._interval_s = feed, state, output, interval_s
        self._plain = plain
        self.scene = Scene(feed.start_mono_ns)
        self._news_s = time.monotonic()

    def run(self) -> int:
        try:
            if screen.has_keys() and not self._plain:
                status = self._on_screen()
            elif self._interval_s is not None:
                status = self._line_by_line(self._interval_s)
            else:
                return self.show_once()
        except KeyboardInterrupt:
            return _INTERRUPTED
        finally:
            self._feed.close()
        return status

    def show_once(self) -> int:
        """The present state, and how it ended if it did."""
        self._look_at_all()
        self._print_frame()
        if self._state == "ended" or self.scene.ending_text:
            self._print_ending()
        return 0

    def _on_screen(self) -> int:
        from .app import WatchApp  # only for who has a screen

        app = WatchApp(self, self._interval_s or REFRESH_S)
        status = app.run()
        if app.return_code:  # a fault of ours, which Textual has shown
            return int(app.return_code)
        if status is not None:
            return status
        self.look()  # what came while the end was read
        self._print_frame()
        self._print_ending()
        return 0

    @property
    def is_over(self) -> bool:
        return self._feed.is_over

    @property
    def is_behind(self) -> bool:
        """There is more to be had at once."""
        return self._feed.is_behind

    def hold(self, seconds: float) -> None:
        """Nobody looked for so long: a replay goes on from where it was."""
        if isinstance(self._feed, RecordingFeed):
            self._feed.hold(seconds)

    def _line_by_line(self, interval_s: float) -> int:
        next_s = time.monotonic()
        while not self._feed.is_over:
            self._look_at_all()
            scene = self.scene
            text = status_text(scene.now_s + self.age_s(), scene.figures, scene.limits.nearest)
            print(printable(f"leakscope {text}"), flush=True)
            next_s = max(next_s + interval_s, time.monotonic())
            if not self._feed.is_over:
                time.sleep(max(0.0, next_s - time.monotonic()))
        self._print_ending()
        return 0

    def look(self) -> None:
        if self.scene.take_in(self._feed.poll()):
            self._news_s = now_s = time.monotonic()
            row_s = (self.scene.start_mono_ns or 0) / 1e9 + self.scene.now_s
            if now_s - _MOST_AGE_S < row_s < now_s:  # else the clock of another machine, on a shared file system
                self._news_s = row_s

    def _look_at_all(self) -> None:
        self.look()
        while self._feed.is_behind:
            self.look()

    def age_s(self) -> float:
        """How long ago the newest row came; what has ended grows no older."""
        goes_on = self._state in ("recording", "watching") and not self._feed.is_over
        return time.monotonic() - self._news_s if goes_on else 0.0

    def state_text(self) -> str:
        """What the run does, and how old that is."""
        age_s = self.age_s()
        state = "ended" if self._feed.is_over else self._state
        if self._feed.is_behind:
            state = "reading what was recorded so far"
        elif age_s >= _OLD_S:
            state += f", seen {age_s:.0f} s ago"
        return state

    def _print_frame(self) -> None:
        colour, width = screen.has_colour(), screen.width() if screen.is_screen() else 80
        shown = frame(self.scene, self.command, self.state_text(), age_s=self.age_s(), width=width, colour=colour)
        for line in shown:
            print(plain(screen.styled(line, colour)))

    def _print_ending(self) -> None:
        if self._output is None:
            print("\nthe process has ended; how is not known from outside")
            return
        text = self.scene.ending_text
        if text is None and self._state == "recording":  # it went when we did not look
            text = _ending_of(self._output)
        print("\n" + plain(printable(text or "the recorder is gone: how the command ended was not recorded")))
        for note in self.notes:
            print(f"note: {printable(note)}")
        print(f"see what grew: leakscope report {shlex.quote(str(self._output))}")
        sys.stdout.flush()


def _ending_of(output: Path) -> str | None:
    """What a recording says of its end; None if nothing."""
    from ..storage import open_recording

    try:
        events = open_recording(output).tables["events"]
    except LeakscopeError:
        return None
    texts = events.loc[(events["event"] == "end").fillna(False), "text"]
    return None if texts.empty else str(texts.iloc[-1])
