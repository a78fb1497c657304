"""Every report says who holds most, whatever its verdict: in a terminal and in markdown."""

from __future__ import annotations

import dataclasses

from leakscope.findings import Band, HeapHolder, HeapTake, HeapView, Report
from leakscope.renderers import render
from leakscope.renderers._holders import largest_holders
from leakscope.renderers._plots import views

from .reports import EMPTY

MiB = 1024**2


def holder(path: str, kind: str, *mib: float, parent: int | None = None, count: tuple[int, int] = (1, 1)) -> HeapHolder:
    return HeapHolder(path, parent, kind, [round(one * MiB) for one in mib], count)


def with_heap(*holders: HeapHolder, takes: int = 2) -> Report:
    moments = [HeapTake(1, 3.0, None, "schedule", False), HeapTake(2, 63.0, None, "schedule", False)]
    return dataclasses.replace(EMPTY, heap=[HeapView("train.py[7]", moments[:takes], holders, 0, True)])


HOLDERS = (
    holder("main()", "frame", 0.2, 62),
    holder("main() memory.items", "list", 0.1, 61, parent=0),
    holder("main() memory.items[*]", "numpy.ndarray", 0.1, 60, parent=1, count=(10, 6000)),
    holder("shop.CACHE", "dict", 40, 40),
    holder("smaller modules", "module", 30, 30),
    holder("shop.NAMES'", "set", 0.3, 0.4),
)


def test_the_largest_are_told_with_what_they_gained_and_how_many_members() -> None:
    ((heading, held),) = largest_holders(with_heap(*HOLDERS))
    assert heading == "Largest holders, at 3.0 s and at 63.0 s"
    assert [one.cells for one in held] == [
        ("main() memory.items", "list of numpy.ndarray, 10 → 6,000", "102 KiB", "61.0 MiB", "+60.9 MiB"),
        ("shop.CACHE", "dict", "40.0 MiB", "40.0 MiB", "unchanged"),
    ]


def test_gains_are_counted_from_the_snapshot_at_which_growth_is_judged_from() -> None:
    filling = holder("main() memory.items", "list", 1, 40, 100, count=(1, 400, 1000))
    report = with_heap(filling)
    moments = [HeapTake(number, 30.0 * number, None, "schedule", False) for number in range(3)]
    report = dataclasses.replace(
        report,
        heap=[dataclasses.replace(report.heap[0], takes=moments)],
        verdict=dataclasses.replace(report.verdict, start_s=26.0, end_s=60.0),
    )
    ((heading, held),) = largest_holders(report)
    assert heading == "Largest holders, at 30.0 s and at 60.0 s"
    assert held[0].cells[2:] == ("40.0 MiB", "100 MiB", "+60.0 MiB")


def test_members_that_others_hold_too_are_counted() -> None:
    frames = dataclasses.replace(HOLDERS[1], length=[12, 6100])
    ((_, held),) = largest_holders(with_heap(HOLDERS[0], frames, *HOLDERS[2:]))
    assert held[0].cells[1] == "list of numpy.ndarray, 12 → 6,100"


def test_nobody_is_said_to_hold_more_than_its_process_has() -> None:
    """An array of zeros has its size from the beginning, and memory once somebody writes to it."""
    report = with_heap(*HOLDERS)
    there = [Band("arrays", [10 * MiB, 25 * MiB]), Band("python-objects", [10 * MiB, 20 * MiB])]
    ((_, held),) = largest_holders(
        dataclasses.replace(report, heap=[dataclasses.replace(report.heap[0], accounts=there)])
    )
    _, what, first, last, gained = held[0].cells
    assert (first, last, gained) == ("102 KiB", "≤ 45.0 MiB", "")
    assert what.endswith("; 61.0 MiB with pages that nobody wrote to")
    assert held[1].cells[3] == "40.0 MiB"


def test_they_are_in_the_terminal_and_in_markdown_also_where_nothing_leaks() -> None:
    report = with_heap(*HOLDERS)
    assert not report.findings
    for text in (render(report, "terminal"), render(report, "markdown")):
        assert "Largest holders" in text and "memory.items" in text and "+60.9 MiB" in text


def test_what_is_on_gpus_has_a_table_of_its_own() -> None:
    report = with_heap(*HOLDERS)
    bank = HeapView("train.py[7] on GPUs", report.heap[0].takes, [holder("bank", "dict", 10, 900)], 0, True)
    report = dataclasses.replace(report, heap=[*report.heap, dataclasses.replace(bank, on_devices=True)])
    for text in (render(report, "terminal", verbose=True), render(report, "markdown")):
        assert text.index("Largest holders, at 3.0 s") < text.index("Largest holders on GPUs, at 3.0 s")
        assert "memory.items" in text and "+890 MiB" in text


def test_one_snapshot_says_nothing_of_growth() -> None:
    assert not list(largest_holders(with_heap(*HOLDERS, takes=1)))
    assert "Largest holders" not in render(with_heap(*HOLDERS, takes=1), "terminal")


def test_who_carries_nearly_all_is_told_by_a_name_of_its_own() -> None:
    """Below the table of running functions: what lies between has no name that a person would use."""
    ((_, held),) = largest_holders(
        with_heap(
            holder("events._local", "events._Local", 1, 24),
            holder("events._local.<dict>", "dict", 1, 24, parent=0),
            holder("run() main engine", "app.Engine", 1, 23.5, parent=1),
        )
    )
    assert [one.path for one in held] == ["run() main engine"]


def test_what_does_not_gain_and_is_small_beside_others_is_left_out() -> None:
    ((_, held),) = largest_holders(with_heap(*HOLDERS, holder("linecache.cache", "dict", 3, 3)))
    assert "linecache.cache" not in [one.path for one in held]


def test_a_chart_of_holders_counts_nothing_twice() -> None:
    """In the first snapshot ``study`` was the only way to the trials, which hang beside it in the last."""
    study, trials = holder("main() study", "Study", 60, 1), holder("main() study.trials", "list", 59, 70)
    report = with_heap(study, trials, holder("shop.CACHE", "dict", 40, 40))
    named = [curve.name for curve in views(report)["holders-0"].curves]
    assert len({"main() study", "main() study.trials"} & {*named}) == 1
    assert "shop.CACHE" in named
