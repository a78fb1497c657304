"""The screen of `leakscope watch`: tables to sort and scroll, a process or a holder to look into. Runs beside the job.

It draws what a ``Viewer`` sees and decides nothing. Textual puts the terminal back as it was, whatever ends the screen.
"""

from __future__ import annotations

import asyncio
import signal
import time
from collections.abc import Hashable, Iterable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

from rich.text import Text
from textual.app import App, ComposeResult
from textual.binding import Binding
from textual.containers import VerticalScroll
from textual.coordinate import Coordinate
from textual.screen import ModalScreen
from textual.widgets import DataTable, Static

from .. import signals
from ..units import FEWEST, format_bytes, format_count, format_duration
from .frame import ALARM, FAINT, HEAD, Line, end_of, events, fitted
from .frame import head as head_lines
from .history import sparkline
from .holders import Holder, Process
from .scene import Gpu, Member

if TYPE_CHECKING:
    from .viewer import Viewer

INTERRUPTED = 130
_ENDING = signals.here("SIGTERM", "SIGHUP")
_STYLES = {
    HEAD: "bold", ALARM: "bold red", FAINT: "dim",
    "tensors": "blue", "held by objects": "green", "other": "bright_black",
}  # fmt: skip
_MOST_CHART, _BELOW_CHART = 16, 2  # rows: of the chart, and of its times and names
_KEYS_ROWS, _LEAST_TABLE, _MOST_GPUS = 1, 3, 7
_SHOWN_ENDS = 4  # events
_LEAST_NAME = 24
_KEYS = "q quits  ? help  space pauses  s sorts  enter looks inside  tab next table"
_HELP = """[b]Keys[/b]

q             quit; the run goes on
space, p      pause and go on
tab           the next table
↑ ↓ PgUp PgDn Home End   move in it
s             sort by the next column; click a column's name for that one
r             the other way round
enter         look into the process or the holder under the cursor
esc           back
?             this help

[b]Columns[/b]

memory        PSS where it is known, moved on by RSS between two readings of it; else RSS
growth        since the process had started up
cpu           of one core
holds         what was first reached through the holder, or could be freed with it, at the last snapshot
growth        of a holder: since the first snapshot
members       of a container

[b]Steps[/b] come from the framework, or from leakscope.mark(step=...).
"""


class Row(NamedTuple):
    """One row of a table: ``values`` are what it is sorted by."""

    key: Hashable
    cells: Sequence[str]
    values: Sequence[Any]


class Columns(DataTable[Text]):
    """A table that is filled anew at each look, and keeps its order, its cursor and where it was scrolled to."""

    BINDINGS: ClassVar = [
        Binding("s", "sort_next"),
        Binding("r", "reverse"),
        Binding("home", "scroll_top"),
        Binding("end", "scroll_bottom"),
    ]

    def __init__(self, names: Sequence[str], sorted_by: int, **settings: Any) -> None:
        super().__init__(cursor_type="row", zebra_stripes=False, **settings)
        self._names = names
        self._sorted_by, self._is_falling = sorted_by, True
        self._new: list[Row] = []
        self._rows: list[Row] = []  # in the order in which they are shown

    def on_mount(self) -> None:
        for number, name in enumerate(self._names):
            self.add_column(self._label(number, name))

    def fill(self, rows: Iterable[Row]) -> None:
        self._new = list(rows)
        self._show()

    @property
    def chosen(self) -> Row | None:
        """The row under the cursor."""
        return self._rows[self.cursor_row] if 0 <= self.cursor_row < len(self._rows) else None

    def action_sort_next(self) -> None:
        self.sort_by((self._sorted_by + 1) % len(self._names))

    def action_reverse(self) -> None:
        self.sort_by(self._sorted_by)

    def sort_by(self, column: int) -> None:
        """By this column, figures from the largest on; once more: the other way round."""
        is_same = column == self._sorted_by
        self._is_falling = not self._is_falling if is_same else column > 0
        self._sorted_by = column
        for number, name in enumerate(self._names):
            self.ordered_columns[number].label = self._label(number, name)
        self._show()
        self.refresh()

    def on_data_table_header_selected(self, event: DataTable.HeaderSelected) -> None:
        self.sort_by(event.column_index)

    def _label(self, number: int, name: str) -> Text:
        arrow = (" ▼" if self._is_falling else " ▲") if number == self._sorted_by else "  "
        return Text(name + arrow, justify="right" if number else "left")

    def _room(self) -> int:
        """For the first column, so that the figures beside it are seen."""
        others = range(1, len(self._names))
        cells = [max([len(self._names[at]) + 2, *(len(row.cells[at]) for row in self._rows)]) for at in others]
        return max(_LEAST_NAME, self.size.width - sum(cells) - 2 * self.cell_padding * len(self._names) - 2)

    def _show(self) -> None:
        """Cell by cell, so that nothing scrolls; the cursor stays with what it was on."""
        chosen = self.chosen
        known = [row for row in self._new if row.values[self._sorted_by] is not None]
        unknown = [row for row in self._new if row.values[self._sorted_by] is None]
        self._rows = sorted(known, key=lambda row: row.values[self._sorted_by], reverse=self._is_falling) + unknown
        while self.row_count > len(self._rows):
            self.remove_row(self.coordinate_to_cell_key(Coordinate(self.row_count - 1, 0)).row_key)
        room = self._room()
        for number, row in enumerate(self._rows):
            cells = (end_of(row.cells[0], room), *row.cells[1:])
            texts = [Text(cell, justify="right" if at else "left") for at, cell in enumerate(cells)]
            if number >= self.row_count:
                self.add_row(*texts)
            elif texts != self.get_row_at(number):
                for at, text in enumerate(texts):
                    self.update_cell_at(Coordinate(number, at), text, update_width=True)
        if chosen is not None:
            found = next((number for number, row in enumerate(self._rows) if row.key == chosen.key), None)
            if found is not None and found != self.cursor_row:
                self.move_cursor(row=found, scroll=False)


class Overlay(ModalScreen[None]):
    """Something in front of the tables."""

    BINDINGS: ClassVar = [Binding("escape,q,question_mark", "dismiss")]

    def look(self) -> None:
        """Show the present state."""


class Help(Overlay):
    def compose(self) -> ComposeResult:
        with VerticalScroll():
            yield Static(_HELP, classes="said")


class ProcessDetail(Overlay):
    """One process: its memory over time, on which GPUs it is, what it holds."""

    def __init__(self, viewer: Viewer, process: Process) -> None:
        super().__init__()
        self._viewer, self._process = viewer, process

    def compose(self) -> ComposeResult:
        with VerticalScroll():
            yield Static(classes="said")
            yield Columns(_HOLDER_COLUMNS, 1)

    def on_mount(self) -> None:
        self.look()

    def look(self) -> None:
        scene = self._viewer.scene
        member = scene.members.get(self._process)
        said = self.query_one(Static)
        if member is None:
            said.update(Text(f"process {self._process[0]} has ended"))
            return
        said.update(_text(self._said(member), self.size.width))
        own = [holder for holder in scene.holders.largest() if holder.process == self._process]
        self.query_one(Columns).fill(_holder_rows(own))

    def _said(self, member: Member) -> list[Line]:
        scene = self._viewer.scene
        pss = "not known" if member.pss_bytes is None else format_bytes(member.pss_bytes)
        gpus = [f"{gpu.name} {format_bytes(gpu.used_bytes)}" for gpu in scene.present_gpus() if gpu.pid == member.pid]
        seen_s = scene.now_s - (member.first_s or 0.0)
        pace = scene.paces.get(self._process)
        state = "has ended" if member.died else f"seen for {format_duration(seen_s)}"
        figures = [
            f"memory {format_bytes(member.held_bytes)}",
            f"peak {format_bytes(member.peak_bytes)}",
            f"growth {format_bytes(member.growth_bytes, signed=True)}",
        ]
        cpu = f"{_cpu(member)} of a core" if _cpu(member) else "cpu not known"
        more = [f"RSS {format_bytes(member.rss_bytes)}", f"PSS {pss}", f"{member.thread_count} threads", cpu]
        lines = [
            Line(f"{member.name} [{member.pid}], {state}", HEAD),
            Line("   ".join(figures)),
            Line(sparkline(member.history.values, min(100, self.size.width - 8))),
            Line("   ".join(more)),
        ]
        if gpus:
            lines.append(Line("on " + ", ".join(gpus)))
        if pace is not None:
            lines.append(Line(f"{scene.step_unit} {format_count(pace.step)}"))
        own = any(holder.process == self._process for holder in scene.holders.largest())
        return [*lines, Line("what it holds, at its last snapshot:" if own else "no snapshot has named holders", FAINT)]

    def on_data_table_row_selected(self, event: DataTable.RowSelected) -> None:
        _look_into_holder(self, self._viewer)


class HolderDetail(Overlay):
    """One holder: its whole path, how much of its process it is, and what hangs below it."""

    def __init__(self, viewer: Viewer, holder: Holder) -> None:
        super().__init__()
        self._viewer, self._holder = viewer, holder
        line = holder.filled_at()
        told = "no line of the recorded sources adds to it" if line is None else f"{line.place}: {line.text.strip()}"
        self._line = [Line(told, FAINT)]

    def compose(self) -> ComposeResult:
        with VerticalScroll():
            yield Static(classes="said")
            yield Columns(("below it", "holds", "growth"), 1)

    def on_mount(self) -> None:
        self.look()

    def look(self) -> None:
        scene, old = self._viewer.scene, self._holder
        same = (each for each in scene.holders.largest() if (each.process, each.path) == (old.process, old.path))
        holder = self._holder = next(same, old)
        member = scene.members.get(holder.process)
        share = (
            ""
            if member is None or not member.held_bytes
            else f", {holder.bytes / member.held_bytes:.0%} of the process"
        )
        growth = (
            "" if holder.growth_bytes is None else f", {format_bytes(holder.growth_bytes, signed=True)} since the first"
        )
        length = "" if holder.length is None else f" with {format_count(holder.length)} members"
        whose = f"{member.name} [{holder.process[0]}]" if member else f"process {holder.process[0]}"
        lines = [
            Line(holder.path, HEAD),
            Line(f"{holder.type_name or 'object'}{length}, in {whose}"),
            Line(f"{format_bytes(holder.bytes)} at the last snapshot{growth}{share}"),
            *self._line,
        ]
        self.query_one(Static).update(Text("\n").join(Text(line.text, _STYLES.get(line.style, "")) for line in lines))
        self.query_one(Columns).fill(
            Row(
                path,
                (path.replace(holder.path, "", 1) or path, format_bytes(size), _signed(grown)),
                (path, size, grown),
            )
            for path, size, grown in holder.below
        )


_PROCESS_COLUMNS = ("process", "memory", "growth", "threads", "cpu")
_HOLDER_COLUMNS = ("holder", "holds", "growth", "members", "type", "process")


class WatchApp(App[int]):
    """Returns the exit status; None: what was watched is over."""

    TITLE = "leakscope watch"
    ENABLE_COMMAND_PALETTE = False
    CSS = """
    Screen { background: $background; }
    #head, #events, #keys { height: auto; padding: 0 1; }
    Columns { height: 1fr; min-height: 3; scrollbar-size-horizontal: 0; }
    #processes { height: auto; }
    #gpus { height: auto; }
    #keys { color: $text-muted; }
    Overlay { align: center middle; }
    Overlay > VerticalScroll { width: 96%; height: auto; max-height: 94%; border: round $primary; padding: 0 1; }
    Overlay Columns { height: auto; max-height: 14; }
    Overlay .said { height: auto; }
    DataTable > .datatable--header { text-style: none; color: $text-muted; background: $background; }
    """
    BINDINGS: ClassVar = [
        Binding("q", "quit_watching", priority=False),
        Binding("ctrl+c", "interrupt", priority=True),
        Binding("ctrl+z", "suspend_process", priority=True),
        Binding("space,p", "pause"),
        Binding("question_mark,h,f1", "help"),
    ]

    def __init__(self, viewer: Viewer, interval_s: float) -> None:
        super().__init__(ansi_color=False)
        self._viewer, self._interval_s = viewer, interval_s
        self._paused_s: float | None = None

    def compose(self) -> ComposeResult:
        yield Static(id="head")
        yield Columns(_PROCESS_COLUMNS, 1, id="processes")
        yield Columns(_HOLDER_COLUMNS, 1, id="holders")
        yield Columns(("gpu", "used", "of", "share", "process"), 1, id="gpus")
        yield Static(id="events")
        yield Static(_KEYS, id="keys")

    def on_mount(self) -> None:
        loop = asyncio.get_running_loop()
        if signal.getsignal(signal.SIGINT) is not signal.SIG_IGN:
            loop.add_signal_handler(signal.SIGINT, self.action_interrupt)
        for number in _ENDING:
            loop.add_signal_handler(number, self.exit, 128 + number)
        self.query_one("#processes").focus()
        self._look()

    def _look(self) -> None:
        """Take in what is new, show it, and come again."""
        began_s = time.monotonic()
        if not self.screen_stack:  # it is being closed
            return
        if self._paused_s is None:
            if self._viewer.is_over:
                self.exit(None)
                return
            self._viewer.look()
            self._show()
        wait_s = 0.01 if self._viewer.is_behind else began_s + self._interval_s - time.monotonic()
        self.set_timer(max(0.01, wait_s), self._look)

    def _show(self) -> None:
        viewer, width = self._viewer, max(20, self.size.width - 2)
        scene = viewer.scene
        state = viewer.state_text() if self._paused_s is None else "paused"
        told, gpus, holders = events(scene, width)[-_SHOWN_ENDS:], scene.present_gpus(), scene.holders.largest()
        drawn = partial(head_lines, scene, viewer.command, state, age_s=viewer.age_s(), width=width, colour=True)
        room = self.size.height - _KEYS_ROWS - len(told) - len(drawn(chart_height=0))
        tables = _LEAST_TABLE * (1 + bool(gpus) + bool(holders))
        lines = drawn(chart_height=max(0, min(_MOST_CHART, room // 2, room - tables - _BELOW_CHART)))
        self._static("head").update(_text(lines, width))
        members = [(key, member) for key, member in scene.members.items() if member in _present(viewer)]
        room = self.size.height - _KEYS_ROWS - len(told) - len(lines)
        most = min(len(members) + 1, room // 2, room - tables + _LEAST_TABLE)
        self._table("processes").styles.max_height = max(_LEAST_TABLE, most)
        self._table("processes").fill(_process_row(key, member) for key, member in members)
        self._table("holders").fill(_holder_rows(holders))
        self._table("holders").display = bool(holders)
        self._table("gpus").styles.max_height = _MOST_GPUS if room > FEWEST * _MOST_GPUS else _LEAST_TABLE
        self._table("gpus").fill(_gpu_rows(gpus, {member.pid: member for _, member in members}))
        self._table("gpus").display = bool(gpus)
        self._static("events").update(_text(told, width))
        self._static("events").display = bool(told)
        if isinstance(self.screen, Overlay) and self.screen.is_mounted:  # it may have been pushed a moment ago
            self.screen.look()

    def _static(self, name: str) -> Static:
        return self.screen_stack[0].query_one(f"#{name}", Static)

    def _table(self, name: str) -> Columns:
        return self.screen_stack[0].query_one(f"#{name}", Columns)

    def on_resize(self) -> None:
        if self._viewer.scene.now_s:
            self._show()

    def on_data_table_row_selected(self, event: DataTable.RowSelected) -> None:
        table = event.data_table
        if table.id == "holders":
            _look_into_holder(self.screen, self._viewer)
        elif table.id == "processes" and isinstance(table, Columns) and table.chosen is not None:
            self.push_screen(ProcessDetail(self._viewer, table.chosen.key))  # type: ignore[arg-type]

    def action_quit_watching(self) -> None:
        self.exit(0)

    def action_interrupt(self) -> None:
        self.exit(INTERRUPTED)

    def action_help(self) -> None:
        self.push_screen(Help())

    def action_pause(self) -> None:
        if self._paused_s is None:
            self._paused_s = time.monotonic()
        else:
            self._viewer.hold(time.monotonic() - self._paused_s)
            self._paused_s = None
        self._show()


def _look_into_holder(screen: Any, viewer: Viewer) -> None:
    table = screen.focused
    if isinstance(table, Columns) and table.chosen is not None:
        key = table.chosen.key
        holder = next((each for each in viewer.scene.holders.largest() if (each.process, each.path) == key), None)
        if holder is not None:
            screen.app.push_screen(HolderDetail(viewer, holder))


def _present(viewer: Viewer) -> list[Member]:
    return list(viewer.scene) or viewer.scene.last_alive()


def _process_row(key: Process, member: Member) -> Row:
    name = f"{member.name} [{member.pid}]"
    cells = (
        name,
        format_bytes(member.held_bytes),
        format_bytes(member.growth_bytes, signed=True),
        str(member.thread_count),
        _cpu(member),
    )
    return Row(key, cells, (name, member.held_bytes, member.growth_bytes, member.thread_count, member.cpu_fraction))


def _holder_rows(holders: Iterable[Holder]) -> list[Row]:
    return [
        Row(
            (holder.process, holder.path),
            (
                holder.path,
                format_bytes(holder.bytes),
                _signed(holder.growth_bytes),
                "" if holder.length is None else format_count(holder.length),
                holder.type_name.rsplit(".", 1)[-1],
                str(holder.process[0]),
            ),
            (holder.path, holder.bytes, holder.growth_bytes, holder.length, holder.type_name, holder.process[0]),
        )
        for holder in holders
    ]


def _gpu_rows(gpus: Sequence[Gpu], members: dict[int, Member]) -> list[Row]:
    rows = []
    for gpu in gpus:
        share = gpu.used_bytes / gpu.total_bytes if gpu.total_bytes else None
        member = members.get(gpu.pid) if gpu.pid is not None else None
        whose = "all" if gpu.pid is None else f"{member.name} [{gpu.pid}]" if member else str(gpu.pid)
        total = "" if gpu.total_bytes is None else format_bytes(gpu.total_bytes)
        cells = (gpu.name, format_bytes(gpu.used_bytes), total, "" if share is None else f"{share:.0%}", whose)
        rows.append(Row((gpu.name, gpu.pid), cells, (gpu.name, gpu.used_bytes, gpu.total_bytes, share, whose)))
    return rows


def _signed(size: int | None) -> str:
    return "" if size is None else format_bytes(size, signed=True)


def _cpu(member: Member) -> str:
    return "" if member.cpu_fraction is None else f"{member.cpu_fraction:.0%}"


def _text(lines: Sequence[Line], width: int) -> Text:
    shown = []
    for line in fitted(lines, max(20, width)):
        text = Text(line.text, _STYLES.get(line.style, ""), no_wrap=True)
        at = 0
        for part in line.parts:
            text.stylize(_STYLES.get(part.style, ""), at, at + len(part.text))
            at += len(part.text)
        shown.append(text)
    return Text("\n").join(shown)
