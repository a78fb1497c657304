"""Each plot draws what the report says, on the axes it is given, with units; and says so when there is nothing."""

from __future__ import annotations

from pathlib import Path

import pytest

from leakscope import findings
from tests.builders import RecordingBuilder

matplotlib = pytest.importorskip("matplotlib")
matplotlib.use("Agg")

from matplotlib import pyplot  # noqa: E402

from leakscope import plots  # noqa: E402

MiB = 1024**2


@pytest.fixture(autouse=True)
def _closed():
    yield
    pyplot.close("all")


def a_timeline(moments: list[findings.Moment] | None = None, step: tuple[int | None, ...] = ()) -> findings.Timeline:
    accounts = [findings.Band("tensors", [0, 10 * MiB, 20 * MiB], True), findings.Band("mapped-files", [MiB] * 3)]
    return findings.Timeline(
        time_s=[0.0, 5.0, 10.0],
        total_bytes=[MiB, 11 * MiB, 21 * MiB],
        accounts=accounts,
        processes=[findings.Band("train.py[7]", [MiB, 11 * MiB, 21 * MiB])],
        step=step,
        moments=moments or [],
    )


def labels(ax) -> list[str]:
    return [text.get_text() for text in ax.get_legend().get_texts()]


def test_layers_of_the_timeline_are_named_from_the_top_and_estimates_say_so():
    ax = plots.timeline(a_timeline())
    assert labels(ax) == ["mapped-files", "tensors (estimate)"]
    assert ax.get_ylim()[1] >= 21 * MiB
    assert "(s)" in ax.get_xlabel()


def test_sizes_on_the_axis_are_round_and_have_a_unit():
    ax = plots.timeline(a_timeline())
    ax.figure.canvas.draw()
    shown = [tick.get_text() for tick in ax.get_yticklabels()]
    assert {"0 B", "8 MiB", "16 MiB"} <= set(shown)


def test_two_runs_can_share_axes():
    _, (left, right) = pyplot.subplots(1, 2, sharey=True)
    assert plots.timeline(a_timeline(), left) is left
    assert plots.processes(a_timeline(), right) is right
    assert left.get_ylim() == right.get_ylim()


def test_the_steps_that_were_passed_are_named():
    assert "training steps 1 to 2,000" in plots.timeline(a_timeline(step=(None, 1, 2000))).get_xlabel()


def test_a_death_after_the_last_sample_stands_at_the_edge():
    ax = plots.timeline(a_timeline([findings.Moment("death", 12.0, "train.py[7] was ended by SIGKILL")]))
    assert labels(ax)[0] == "train.py[7] was ended by SIGKILL"
    assert ax.get_xlim() == (0.0, 10.0)


def test_phases_are_drawn_as_long_as_they_lasted():
    moments = [findings.Moment("phase", float(at), "", phase, at + 5.0) for at, phase in ((0, "train"), (5, "eval"))]
    ax = plots.timeline(a_timeline([*moments, findings.Moment("phase", 10.0, "", "save")]))
    assert labels(ax)[:2] == ["phase: eval", "phase: train"]
    bars = {bar.get_label(): bar.get_paths()[0].get_extents().intervalx.tolist() for bar in ax.collections}
    assert (bars["phase: train"], bars["phase: eval"]) == ([0.0, 5.0], [5.0, 10.0])
    assert ax.get_ylim()[1] < 40 * MiB, "the bars do not stretch the axis"


def test_ledger_bars_add_up():
    rows = [findings.LedgerRow("tensors", "train.py[7]", 0, n * MiB, n * MiB) for n in (1, 5, -2, 3)]
    rows = [findings.LedgerRow(f"account-{i}", r.process, 0, r.end_bytes, r.growth_bytes) for i, r in enumerate(rows)]
    ax = plots.ledger(rows, most=2)
    widths = [bar.get_width() for bar in ax.patches]
    assert widths == [5 * MiB, 3 * MiB, -1 * MiB]
    assert [tick.get_text() for tick in ax.get_yticklabels()][-1] == "2 smaller"


def a_heap() -> findings.HeapView:
    takes = [findings.HeapTake(n, 5.0 * n, None, "schedule", False) for n in (1, 2, 3)]
    holders = [
        findings.HeapHolder("main() trainer", None, "Trainer", [9, 19 * MiB, 29 * MiB], [1, 1, 1]),
        findings.HeapHolder("main() trainer.history", 0, "list", [5, 18 * MiB, 28 * MiB], [1, 1, 1]),
        findings.HeapHolder("main() trainer.history[*]", 1, "bytearray", [4, 18 * MiB, 28 * MiB], [1, 2, 3]),
        findings.HeapHolder("main() cache", None, "dict", [0, MiB, 2 * MiB], [1, 1, 1]),
        findings.HeapHolder("main() level", None, "dict", [MiB, MiB, MiB], [1, 1, 1]),
    ]
    return findings.HeapView("train.py[7]", takes, holders)


def test_of_the_way_to_what_grows_the_last_name_is_drawn():
    ax = plots.holders([a_heap()])
    assert labels(ax) == ["main() cache", "main() trainer.history"]
    assert "train.py[7]" in ax.get_title("left")


def test_a_name_of_the_job_is_no_formula_and_hides_no_label():
    heap = a_heap()
    strange = findings.HeapHolder("_x$\\frac$\u202e", None, "dict", [0, 0, 50 * MiB], [1, 1, 1])
    ax = plots.holders([findings.HeapView("a[1]", heap.takes, [strange])])
    ax.figure.canvas.draw()
    assert len(labels(ax)) == 1
    assert "\u202e" not in labels(ax)[0]


def test_tensors_are_stacked_by_owner_over_the_takes(tmp_path: Path):
    builder = RecordingBuilder(tmp_path).process(7)
    for take in (1, 2):
        builder.take(7, take, at_s=5.0 * take)
        for owner, size in (("parameter", 4 * MiB), ("user-held", take * MiB)):
            builder.row(
                "tensors", 5.0 * take, 7, take=take, moment="take", tensor_owner=owner, device="cpu", storage_bytes=size
            )
    ax = plots.tensors(builder.ends(at_s=11.0, exit_code=0).open())
    assert labels(ax) == ["user-held", "parameter"]
    assert ax.get_ylim()[1] >= 6 * MiB


def test_nothing_to_draw_is_said(tmp_path: Path):
    recording = RecordingBuilder(tmp_path).process(7).ends(at_s=1.0, exit_code=0).open()
    empty = [plots.timeline(None), plots.processes(None), plots.ledger([]), plots.holders([]), plots.tensors(recording)]
    assert all(len(ax.texts) == 1 and ax.texts[0].get_text() for ax in empty)
