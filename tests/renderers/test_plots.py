"""A chart is described once: what the script gets, the still picture and the table say the same."""

from __future__ import annotations

import dataclasses

import pytest

from leakscope.findings import Band, Series
from leakscope.pages import plots
from leakscope.pages.charts import Lane, Mark
from leakscope.pages.plots import Curve, Plot, Trend
from leakscope.renderers._timeline import PROCESS, timeline_plot
from tests.renderers.reports import FULL, RETAINED

MiB = 1024**2
TWO = Plot(
    "Memory of both",
    [
        Curve("before", 0, [0.0, 1.0, 2.0], [MiB, 2 * MiB, 3 * MiB]),
        Curve("after", 3, [0.0, 1.0, 2.0], [MiB, MiB, None]),
    ],
    names={123456.78: "late", 2.0: "two"},
)


def ys(path: str) -> list[float]:
    return [float(point.split()[1]) for point in path.strip("MZ").split("L")]


def test_the_picture_the_script_and_the_table_have_the_same_figures():
    drawn = plots.still(TWO)
    assert drawn.sentence == "Memory of both: before: from 1 MiB to 3 MiB; after: from 1 MiB to 1 MiB"
    assert [len(ys(shape.path)) for shape in drawn.shapes] == [3, 2]
    told = plots.data(TWO)
    assert (told["unit_bytes"], told["x"]) == (1024, [0.0, 1.0, 2.0])
    assert [curve["steps"] for curve in told["divisions"][0]["curves"]] == [[1024, 1024, 1024], [1024, 0, None]]
    heads, rows = plots.table(TWO)
    assert heads == ["Time", "before", "after"]
    assert rows == [["0 s", "1 MiB", "1 MiB"], ["1 s", "2 MiB", "1 MiB"], ["two", "3 MiB", ""]]


def test_places_are_named_as_javascript_writes_their_numbers():
    assert plots.data(TWO)["names"] == {"123456.78": "late", "2": "two"}


def test_bands_stand_on_each_other():
    bands = dataclasses.replace(TWO, curves=[TWO.curves[0], TWO.curves[0]], stacked=True)
    below, above = (ys(shape.path) for shape in plots.still(bands).shapes)
    assert below[:3] == above[:2:-1]  # the roof of one is the floor of the next
    assert min(above) == 0  # together they are as high as the box


@pytest.mark.parametrize("limit_bytes, is_drawn", [(5 * MiB, True), (500 * MiB, False)])
def test_a_limit_far_away_is_named_and_does_not_flatten_the_curves(limit_bytes, is_drawn):
    drawn = plots.still(dataclasses.replace(TWO, limit=(limit_bytes, "the limit")))
    assert drawn.limit_label == "the limit"
    assert (drawn.limit is not None) == is_drawn
    assert max(ys(drawn.shapes[0].path)) - min(ys(drawn.shapes[0].path)) > 250


def test_another_division_and_what_happened_are_told_in_all_three():
    lane = Lane("phase", "phases", [Mark(0.5, "eval begins", 1.0, "eval", 9), Mark(9.0, "killed")])
    other = [("process", [Curve("train.py", 1, [0.0, 1.0, 2.0], [2 * MiB, 3 * MiB, 4 * MiB])])]
    bands = [TWO.curves[0], dataclasses.replace(TWO.curves[0], name="tensors", estimated=True)]
    plot = dataclasses.replace(TWO, curves=bands, stacked=True, by="account", divisions=other, lanes=[lane])
    drawn, told = plots.drawn(plot), plots.data(plot)
    assert [(by, len(still.shapes)) for by, still in drawn.stills] == [("account", 2), ("process", 1)]
    assert [row[0] for row in drawn.table[1]] == ["before", "tensors ~", "train.py"]
    assert [mark.label for mark in drawn.moments()] == ["eval begins", "killed"]
    assert [(one["by"], len(one["curves"])) for one in told["divisions"]] == [("account", 2), ("process", 1)]
    assert [mark[0] for mark in told["lanes"][0]["marks"]] == [0.5, 2.0]  # what came after the last value: at the edge
    assert drawn.stills[0][1].at(9.0) == 100.0


def test_a_trend_goes_on_to_the_limit():
    trend = Trend((0.0, MiB), (2.0, 3 * MiB), 4.0)
    plot = dataclasses.replace(TWO, trend=trend, limit=(5 * MiB, "full soon"), last=4.0)
    still = plots.still(plot)
    assert still.trend is not None and still.trend.endswith("L1000 0")  # at the limit, which is the top
    assert "full soon" in still.sentence
    assert (plots.data(plot)["top"], plots.data(plot)["last"]) == (5 * MiB, 4.0)


def test_a_long_table_says_first_least_most_and_last_of_each():
    long = dataclasses.replace(TWO, curves=[Curve("memory", 0, range(100), [MiB, *[3 * MiB] * 98, 2 * MiB])])
    assert plots.table(long) == (
        ["", "First", "Least", "Most", "Last"],
        [["memory", "1 MiB", "1 MiB", "3 MiB", "2 MiB"]],
    )


def test_no_two_ticks_of_an_axis_say_the_same():
    near = Plot("Peaks", [Curve("peak", 0, [1.0, 2.0, 3.0], [5170 * MiB, 5055 * MiB, 5210 * MiB])], "commit")
    drawn = plots.still(near)
    labels = [tick.label for tick in drawn.y_ticks]
    assert len(set(labels)) == len(labels) > 2 and "4.94 GiB" in labels


def test_an_axis_that_counts_names_what_it_counts():
    counted = Plot("Growth", [Curve("run", 0, [0.0, 100.0, 200.0], [MiB, 2 * MiB, 3 * MiB])], "step")
    first, *others = [tick.label for tick in plots.still(counted).x_ticks]
    assert first.startswith("step ") and not any("step" in label for label in others)


def test_what_was_not_seen_any_more_is_drawn_on_as_it_grew():
    """The last snapshot was at 10 of 20 s: from there its band is another one, which says so."""
    time_s = [0.0, 10.0, 20.0]
    total = [MiB * y for y in (50, 90, 130)]
    timeline = dataclasses.replace(
        FULL.timeline, time_s=time_s, total_bytes=total, accounts=[Band("tensors", total)], processes=[], step=[]
    )
    series = [Series("in train.py[1]", time_s[:2], [0.0, 40.0 * MiB], process="train.py[1]")]
    finding = dataclasses.replace(RETAINED, series=series)
    drawn = timeline_plot(dataclasses.replace(FULL, timeline=timeline, findings=[finding]))
    tensors, seen, after = drawn.curves
    assert list(seen.y) == [0, 40 * MiB, None] and list(after.y) == [None, None, 80 * MiB]
    assert after.name == f"{seen.name}, extrapolated from 10.0 s on"
    assert list(tensors.y) == [50 * MiB, 50 * MiB, 50 * MiB]


def test_what_it_gained_since_lies_where_the_memory_has_grown_since():
    """After the last snapshot its growth is counted as memory that malloc keeps: no other account loses by that."""
    time_s = [0.0, 10.0, 20.0]
    accounts = {"tensors": [10, 50, 50], "python-objects": [30, 30, 30], "allocator-free": [5, 5, 45]}
    bands = [Band(name, [MiB * y for y in values]) for name, values in accounts.items()]
    total = [sum(at) for at in zip(*(band.value_bytes for band in bands))]
    timeline = dataclasses.replace(
        FULL.timeline, time_s=time_s, total_bytes=total, accounts=bands, processes=[], step=[]
    )
    series = [Series("in train.py[1]", time_s[:2], [0.0, 40.0 * MiB], process="train.py[1]")]
    finding = dataclasses.replace(RETAINED, series=series)
    tensors, objects, free, seen, after = timeline_plot(
        dataclasses.replace(FULL, timeline=timeline, findings=[finding])
    ).curves
    assert list(seen.y) == [0, 40 * MiB, None] and list(after.y) == [None, None, 80 * MiB]
    assert [list(one.y) for one in (tensors, objects, free)] == [
        [10 * MiB] * 3,
        [30 * MiB] * 3,
        [5 * MiB] * 3,
    ]


def test_the_band_of_a_holder_is_what_its_finding_says_it_held():
    """Not what the heap shows below it: objects that others hold as well hang elsewhere there."""
    time_s = [0.0, 10.0, 20.0]
    total = [MiB * y for y in (50, 90, 130)]
    timeline = dataclasses.replace(
        FULL.timeline, time_s=time_s, total_bytes=total, accounts=[Band("tensors", total)], processes=[], step=[]
    )
    series = [Series("bytes held by jobs", time_s, [0.0, 40.0 * MiB, 80.0 * MiB]), Series("members", time_s, [0, 4, 8])]
    finding = dataclasses.replace(RETAINED, series=series)
    tensors, held = timeline_plot(dataclasses.replace(FULL, timeline=timeline, findings=[finding])).curves
    assert list(held.y) == [0, 40 * MiB, 80 * MiB]
    assert list(tensors.y) == [50 * MiB] * 3


def test_what_two_workers_hold_alike_is_a_band_of_both():
    """One holder in two of three processes; the second ends before the last moment."""
    time_s = [0.0, 10.0, 20.0]
    by_process = {"train.py[1]": [50, 50, 50], "worker[2]": [10, 40, 70], "worker[3]": [10, 30, 0]}
    held = {"worker[2]": [0.0, 30.0, 60.0], "worker[3]": [0.0, 20.0, 40.0]}
    series = [Series(f"in {one}", time_s, [float(MiB * y) for y in ys], process=one) for one, ys in held.items()]
    processes = [Band(name, [MiB * y for y in values]) for name, values in by_process.items()]
    total = [sum(at) for at in zip(*(band.value_bytes for band in processes))]
    timeline = dataclasses.replace(
        FULL.timeline, time_s=time_s, total_bytes=total, accounts=[Band("tensors", total)], processes=processes, step=[]
    )
    finding = dataclasses.replace(RETAINED, series=series)
    drawn = timeline_plot(dataclasses.replace(FULL, timeline=timeline, findings=[finding]))
    for by, curves in ((drawn.by, drawn.curves), *drawn.divisions):
        *rest, culprit = curves
        assert [y // MiB for y in culprit.y] == [0, 50, 60], by
        assert [sum(at) for at in zip(*(curve.y for curve in curves))] == total, by
        if by == PROCESS:
            assert [[y // MiB for y in one.y] for one in rest] == [[50, 50, 50], [10, 10, 10], [10, 10, 0]]
