"""The screen of ``leakscope watch``, pressed and looked at without a terminal."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from leakscope.storage import Recording
from leakscope.units import GiB, MiB
from leakscope.watching import Viewer
from leakscope.watching.app import Columns, HolderDetail, ProcessDetail, WatchApp
from leakscope.watching.feeds import RecordingFeed
from tests.builders import RecordingBuilder
from tests.comparing.runs import KEPT, TRAIN
from tests.watching.test_frame import holder


def a_job(folder: Path, workers: int = 40, **meta: Any) -> RecordingBuilder:
    """A trainer that grows, workers of different size, a GPU, holders in two snapshots, an alert."""
    seconds = 30
    builder = RecordingBuilder(folder, **meta).process(100)
    builder.samples(
        100, [(300 + 10 * i) * MiB for i in range(seconds)], cpu_s=[0.9 * i for i in range(seconds)], thread_count=7
    )
    for pid in range(101, 101 + workers):
        builder.process(pid, role="dataloader-worker")
        builder.samples(pid, [(pid - 50) * MiB] * seconds, cpu_s=[0.0] * seconds, thread_count=pid - 100)
    heap = [
        holder("main() trainer.history", 100 * MiB, length=100),
        holder("main() trainer.history['loss']", 60 * MiB, "main() trainer.history", edge_kind="item"),
        holder("CACHE", 90 * MiB, length=5, type_name="dict"),
    ]
    grown = [{**row, "deep_bytes": row["deep_bytes"] * 2} if "history" in row["path"] else row for row in heap]
    builder.take(100, 1, 2.0, holders=heap).take(100, 2, 20.0, holders=grown)
    for at_s in range(seconds):
        device = {"gpu_uuid": "GPU-1", "gpu_index": 0, "gpu_name": "H100"}
        builder.row("gpu_samples", at_s, gpu_total_bytes=80 * GiB, gpu_used_bytes=20 * GiB, **device)
        builder.row("gpu_samples", at_s, 100, gpu_total_bytes=80 * GiB, gpu_used_bytes=19 * GiB, **device)
    return builder.sentinels(100, step=[3 * i for i in range(seconds)]).event("alert", 4.0, text="rss>1GB: 2 GB")


GIVE_UP_S = 120.0


class Endless(RecordingFeed):
    """A recording that is shown to its end, and does not end."""

    is_over = property(lambda self: False)  # type: ignore[assignment]


@pytest.fixture(scope="module")
def job(tmp_path_factory) -> Recording:
    return a_job(tmp_path_factory.mktemp("job")).open()


def press(
    recording: Recording, act: Callable[[WatchApp, Any], Awaitable[None]], size: tuple[int, int] = (110, 34)
) -> WatchApp:
    """What a person does at a terminal."""
    viewer = Viewer(Endless(recording), "recording", recording.path, None, plain=False)
    app = WatchApp(viewer, 0.05)

    async def run() -> None:
        async with app.run_test(size=size) as pilot:
            await pilot.pause()
            await act(app, pilot)

    asyncio.run(asyncio.wait_for(run(), GIVE_UP_S))
    return app


async def until(pilot: Any, is_so: Callable[[], bool]) -> None:
    """Textual takes a process for idle that gets no processor: what was pressed may not have been drawn yet."""
    while not is_so():
        await pilot.pause(0.01)


def said(app: WatchApp) -> str:
    """What the screen that lies over the first says."""
    return str(app.screen.query_one(".said").render()) if app.screen.query(".said") else ""


def table(app: WatchApp, name: str) -> Columns:
    return app.screen.query_one(name, Columns)


def column(table: Columns, number: int) -> list[str]:
    return [str(table.get_row_at(at)[number]) for at in range(table.row_count)]


def heads(table: Columns) -> list[str]:
    return [str(each.label).strip() for each in table.ordered_columns]


def text(app: WatchApp, name: str = "#head") -> str:
    return str(app.screen.query_one(name).render())


def test_what_is_to_be_seen_at_first(job):
    async def act(app: WatchApp, pilot: Any) -> None:
        head = text(app)
        assert "python train.py" in head and "recording" in head and "step" in head and "87" in head
        processes = table(app, "#processes")
        assert processes.row_count == 41 and column(processes, 0)[0] == "train.py [100]"
        assert heads(processes)[1] == "memory ▼"
        assert column(table(app, "#holders"), 0) == ["main() trainer.history", "train.CACHE"]
        assert column(table(app, "#holders"), 2) == ["+100 MiB", "0 B"]
        assert column(table(app, "#gpus"), 4) == ["all", "train.py [100]"]
        assert column(table(app, "#gpus"), 3) == ["25%", ""]
        assert "rss>1GB" in text(app, "#events") and "q quits" in text(app, "#keys")

    press(job, act)


@pytest.mark.parametrize("size", [(80, 24), (140, 40)])
def test_all_of_it_fits_the_terminal(size, tmp_path):
    heap = [holder("main() model", 9 * MiB, type_name="torch.nn.modules.container.Sequential")]
    recording = a_job(tmp_path).take(100, 3, 25.0, holders=heap).open()

    async def act(app: WatchApp, pilot: Any) -> None:
        rows = ["".join(part.text for part in strip) for strip in app.screen._compositor.render_strips()]
        assert len(rows) == size[1] and "python train.py" in rows[0] and "q quits" in rows[-1]
        shown = "\n".join(rows)
        assert "train.py [100]" in shown and "0 s" in shown and "so far" in shown
        assert re.search(r"main\(\) model .* Sequential +100", shown)

    press(recording, act, size)


def test_a_table_is_sorted_by_keys_and_by_its_head(job):
    async def act(app: WatchApp, pilot: Any) -> None:
        processes = table(app, "#processes")
        await pilot.press("s", "s")
        assert heads(processes)[3] == "threads ▼" and column(processes, 3)[:2] == ["40", "39"]
        await pilot.press("r")
        assert heads(processes)[3] == "threads ▲" and column(processes, 3)[:2] == ["1", "2"]
        await pilot.pause(0.12)  # it is filled anew, and stays so
        assert column(processes, 3)[:2] == ["1", "2"]
        await pilot.click("#processes", offset=(2, 0))
        assert heads(processes)[0] == "process ▲" and "(dataloader-worker)" in column(processes, 0)[0]

    press(job, act)


def test_the_cursor_stays_with_its_process_and_the_table_scrolls(job):
    async def act(app: WatchApp, pilot: Any) -> None:
        processes = table(app, "#processes")
        await pilot.press("end")
        await pilot.pause(0.12)
        last = processes.chosen.key
        assert processes.scroll_offset.y > 0
        await pilot.press("r")
        assert processes.chosen.key == last and processes.cursor_row == 0
        offset = processes.scroll_offset
        await pilot.pause(0.12)
        assert processes.chosen.key == last and processes.scroll_offset == offset

    press(job, act)


def test_a_process_and_what_it_holds_are_looked_into(job):
    async def act(app: WatchApp, pilot: Any) -> None:
        await pilot.press("enter")
        await until(pilot, lambda: "train.py [100]" in said(app))
        assert isinstance(app.screen, ProcessDetail)
        for expected in ("peak 590 MiB", "growth +2", "▁", "gpu:0 19.0 GiB", "7 threads"):
            assert expected in said(app)
        own = app.screen.query_one(Columns)
        assert column(own, 0) == ["main() trainer.history", "train.CACHE"]
        own.focus()
        await until(pilot, lambda: own.has_focus)
        await pilot.press("enter")
        await until(pilot, lambda: "list with 100 members" in said(app))
        assert isinstance(app.screen, HolderDetail)
        assert "200 MiB at the last snapshot, +100 MiB" in said(app)
        assert "no line of the recorded sources adds to it" in said(app)
        assert column(app.screen.query_one(Columns), 0) == ["['loss']"]
        await pilot.press("escape", "escape")
        await until(pilot, lambda: app.screen is app.screen_stack[0])

    press(job, act)


def test_a_look_may_come_between_the_key_and_its_screen(job):
    async def act(app: WatchApp, pilot: Any) -> None:
        app.push_screen(ProcessDetail(app._viewer, table(app, "#processes").chosen.key))
        app._look()  # as the timer does: nothing of the screen is there yet
        await until(pilot, lambda: "train.py [100]" in said(app))

    press(job, act)


def test_a_holder_is_looked_into_from_its_table(job):
    async def act(app: WatchApp, pilot: Any) -> None:
        await pilot.press("tab", "down", "enter")
        await until(pilot, lambda: "CACHE" in said(app))
        assert isinstance(app.screen, HolderDetail)

    press(job, act)


def test_a_holder_says_which_line_fills_it(tmp_path):
    seen = [KEPT | {"deep_bytes": size * MiB} for size in (1, 90)]
    builder = a_job(tmp_path).source(100, "/home/me/train.py", TRAIN)
    recording = builder.take(100, 3, 22.0, holders=seen[:1]).take(100, 4, 25.0, holders=seen[1:]).open()

    async def act(app: WatchApp, pilot: Any) -> None:
        await pilot.press("tab", "enter")
        await until(pilot, lambda: "trainer.history" in said(app))
        assert "train.py:3: self.history.append(x)" in said(app)

    press(recording, act)


def test_while_it_is_paused_nothing_moves(job):
    async def act(app: WatchApp, pilot: Any) -> None:
        await pilot.press("space")
        assert "paused" in text(app)
        looks = []
        app._viewer.look = lambda: looks.append(1)  # type: ignore[method-assign]
        await pilot.pause(0.15)
        assert not looks
        await pilot.press("p")
        await pilot.pause(0.15)
        assert looks and "paused" not in text(app)

    press(job, act)


def test_help_lies_over_it_and_goes_away(job):
    async def act(app: WatchApp, pilot: Any) -> None:
        await pilot.press("question_mark")
        assert "look into the process or the holder" in str(app.screen.query_one(".said").render())
        await pilot.press("escape")
        assert app.screen is app.screen_stack[0]

    press(job, act)


def test_q_and_an_interrupt_end_it_with_their_status(job):
    async def quit(app: WatchApp, pilot: Any) -> None:
        await pilot.press("q")

    async def interrupt(app: WatchApp, pilot: Any) -> None:
        await pilot.press("ctrl+c")

    assert press(job, quit).return_value == 0
    assert press(job, interrupt).return_value == 130


@pytest.mark.further
def test_names_of_the_job_are_no_markup_and_move_no_cursor(tmp_path):
    async def act(app: WatchApp, pilot: Any) -> None:
        assert "[bold]x[/nope]" in text(app) and "\x1b" not in text(app)
        await pilot.press("tab", "enter")
        assert "[red]h[/]" in str(app.screen.query_one(".said").render())

    builder = a_job(tmp_path, 0, command=["python", "[bold]x[/nope]", "\x1b[2J"])
    press(builder.take(100, 3, 25.0, holders=[holder("[red]h[/]", 900 * MiB, variable="[red]h[/]")]).open(), act)
