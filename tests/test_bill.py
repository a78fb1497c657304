"""The bill: every byte that the kernel counted in one row, whoever held it, and none that was not measured left out."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from leakscope.facts.case import Case
from leakscope.facts.growth.processes import ProcessGrowth
from leakscope.facts.processes.table import process_rows
from leakscope.findings import Bill, BillRow, Report
from leakscope.renderers import _bill, terminal
from leakscope.reporting import report_of
from leakscope.storage import open_recording
from leakscope.units import MiB

from .builders import RecordingBuilder

GOLDEN = Path(__file__).parent / "golden" / "recordings"
PARENT, WORKER, OTHER = 100, 101, 102


def with_parts(row: BillRow) -> Iterator[BillRow]:
    yield row
    for part in row.parts:
        yield from with_parts(part)


def every(bill: Bill) -> list[BillRow]:
    return [one for row in bill.rows for one in with_parts(row)]


def _held(process: ProcessGrowth, at_s: float) -> float:
    if not process.time_s[0] - 1 <= at_s <= process.time_s[-1] + 1:
        return 0.0
    return float(np.interp(at_s, process.time_s, process.held_bytes + process.file_bytes))


@pytest.mark.golden
@pytest.mark.parametrize(
    "name",
    [
        "dataset_copies-leaky",  # lists of texts
        "caption_list_in_workers-leaky",  # torch, and workers that are no part of its heap
        "duplicate_model-leaky",  # two models
        "events_beside_a_large_index-leaky",  # read in part
        "shards_mapped_and_changed-leaky",  # memory that no snapshot knows of
    ],
)
def test_rows_add_up_to_what_the_processes_held(name: str) -> None:
    case = Case(open_recording(GOLDEN / f"{name}.parquet"))
    for bill in case.bills:
        held = sum(_held(p, bill.time_s) for p in case.growth.processes)
        assert sum(row.bytes for row in bill.rows) == bill.total_bytes == pytest.approx(held, rel=0.02)
        for row in every(bill):
            assert row.bytes >= 0
            assert not row.parts or sum(part.bytes for part in row.parts) == pytest.approx(row.bytes, abs=64)


@pytest.mark.golden
def test_what_variables_hold_is_told_holder_by_holder() -> None:
    """A reader who asks what fills the memory gets the names of the three forms, each with its bytes."""
    case = Case(open_recording(GOLDEN / "dataset_copies-leaky.parquet"))
    level = case.bills[0]
    named = {row.name: row for row in every(level) if row.account == "data"}
    (held,) = [row for row in level.rows if row.account == "data"]
    assert held.bytes > 0.6 * level.total_bytes
    large = [row for row in named.values() if row.bytes > 0.1 * level.total_bytes and not row.parts]
    assert all(row.name.endswith("[*]") for row in large)  # members of one list: there is nothing smaller to name


def test_memory_that_no_snapshot_saw_is_told_as_such(tmp_path: Path) -> None:
    (level, peak) = Case(
        RecordingBuilder(tmp_path)
        .process(PARENT, role="trainer")
        .samples(PARENT, rss=[n * MiB for n in (100, 100, 300, 100, 100)], every_s=1.0)
        .ends(at_s=5.0, exit_code=0)
        .open()
    ).bills
    assert level.snapshot_s is None
    assert {row.account for row in level.rows} == {"not-measured"}
    assert (level.total_bytes, peak.total_bytes) == (100 * MiB, 300 * MiB)


def test_what_allocators_of_libraries_hold_is_measured(tmp_path: Path) -> None:
    """A table of Arrow is no memory of malloc, which has its own; of the rest that Arrow mapped its pool tells."""
    libraries = {"pyarrow": ("libarrow.so.2600", 300), "polars": ("_runtime.so", 60)}
    builder = RecordingBuilder(tmp_path).process(PARENT, role="trainer").samples(PARENT, rss=[500 * MiB] * 20)
    builder.take(PARENT, 1, 10.0, malloc_in_use_bytes=100 * MiB)
    table = [{"path": "main() table", "type_name": "pyarrow.lib.Table", "deep_bytes": 200 * MiB, "is_user": True}]
    graph = {"retained_bytes": 220 * MiB, "array_bytes": 200 * MiB, "beyond_malloc_bytes": 200 * MiB}
    builder.holds(PARENT, 1, 10.0, table, **graph, storage_bytes=0, small_object_bytes=10 * MiB)
    builder.sentinels(PARENT, native_cache_bytes=[200 * MiB] * 20, malloc_free_bytes=[20 * MiB] * 20)
    for package, (file, size) in libraries.items():
        path = f"/lib/python3/site-packages/{package}/{file}"
        mapped = {"allocator": "mmap", "native_library": path, "map_rss_bytes": size * MiB}
        builder.allocated(PARENT, 10.0, 1024 * MiB, "/a/train.py:9 main", **mapped)
    builder.row("memory_maps", 10.0, PARENT, map_kind="file", map_path="/lib/x.so", map_private_dirty_bytes=9 * MiB)
    level = Case(builder.ends(at_s=20.0, exit_code=0).open()).bills[0]
    found = {row.name: row.bytes / MiB for row in every(level)}
    assert found["main() table"] == pytest.approx(200, abs=1), found
    assert found["pyarrow's memory pool"] == pytest.approx(100, abs=1)
    assert found["native memory of libraries"] == pytest.approx(100 - 10 + 60, abs=1)
    assert found["freed, kept by the allocator"] == pytest.approx(120, abs=1)
    assert sum(row.bytes for row in level.rows if row.account == "not-measured") == pytest.approx(1 * MiB, abs=MiB)


def test_a_peak_between_samples_is_in_the_bill(tmp_path: Path) -> None:
    (level, peak) = Case(
        RecordingBuilder(tmp_path)
        .process(PARENT, role="trainer")
        .samples(PARENT, rss=[100 * MiB] * 5, every_s=1.0)
        .row("events", 5.0, event="peak", value=float(900 * MiB), text="peak 900 MiB (by train.py, between samples)")
        .ends(at_s=5.0, exit_code=0)
        .open()
    ).bills
    assert level.total_bytes == 100 * MiB
    assert peak.total_bytes == 900 * MiB
    (came,) = [row for row in peak.rows if row.account == "since-snapshot"]
    assert (came.bytes, came.process) == (800 * MiB, "train.py")


def test_a_peak_between_samples_is_of_the_time_at_which_the_kernel_saw_it_rise(tmp_path: Path) -> None:
    """It came and went while little was held: what came later was no part of it."""
    text = "peak 900 MiB (by train.py, between samples, after 1.0 s)"
    case = Case(
        RecordingBuilder(tmp_path)
        .process(PARENT, role="trainer")
        .samples(PARENT, rss=[n * MiB for n in (100, 100, 100, 600, 600, 600)], every_s=1.0)
        .row("events", 6.0, event="peak", value=float(900 * MiB), text=text)
        .ends(at_s=6.0, exit_code=0)
        .open()
    )
    (_, peak) = case.bills
    assert (peak.total_bytes, peak.time_s) == (900 * MiB, pytest.approx(1.0, abs=1.0))
    (came,) = [row for row in peak.rows if row.account == "since-snapshot"]
    assert came.bytes == 800 * MiB
    assert "between samples, after 1.0 s" in terminal.render(report_of(case), width=100, color=False, verbose=True)


def test_a_peak_says_who_asked_for_it(tmp_path: Path) -> None:
    """What came and went is told by the call of a library in the line of the user's."""
    held = [100] * 6 + [300] + [100] * 6
    stack = "/a/train.py:20 main\n/a/train.py:9 prepare\n/lib/pandas/frame.py:88 DataFrame.to_numpy\n/lib/np.py:3 stack"
    builder = RecordingBuilder(tmp_path).process(PARENT, role="trainer")
    builder.samples(PARENT, rss=[n * MiB for n in held], every_s=1.0)
    at = {"function": "prepare", "owner_file": "/a/train.py", "owner_line": 9}
    builder.allocated(PARENT, 4.0, 50 * MiB, "/a/train.py:20 main")
    builder.allocated(PARENT, 7.0, 50 * MiB, "/a/train.py:20 main", peak_bytes=50 * MiB, peak_ago_s=1.0)
    builder.allocated(PARENT, 7.0, 0, stack, **at, peak_bytes=200 * MiB, peak_ago_s=1.0)
    builder.allocated(PARENT, 10.0, 50 * MiB, "/a/train.py:20 main")
    report = report_of(Case(builder.ends(at_s=13.0, exit_code=0).open()))
    (_, peak) = report.bill
    assert (peak.asked_in, peak.file, peak.line) == ("DataFrame.to_numpy of prepare()", "/a/train.py", 9)
    assert "peak in DataFrame.to_numpy of prepare()" in terminal.render(report, width=100, color=False)
    text = terminal.render(report, width=100, color=False, verbose=True)
    assert "peak in DataFrame.to_numpy of prepare() (train.py:9), at 6.0 s, 3.0 × what it was at 7.0 s" in text


def passing(tmp_path: Path, *, peak_mb: int, gone: dict[int, int], kept_mb: int = 100) -> Report:
    """A kernel's peak after 6 s over a level of ``kept_mb`` + 100 MiB, and what lines of prepare() had then."""
    tmp_path.mkdir(exist_ok=True)
    builder = RecordingBuilder(tmp_path).process(PARENT, role="trainer")
    builder.samples(PARENT, rss=[(100 + kept_mb) * MiB] * 21, every_s=1.0)
    held = [{"path": "main() table", "type_name": "numpy.ndarray", "deep_bytes": kept_mb * MiB}]
    for number, at_s in ((1, 4.0), (2, 18.0)):
        builder.take(PARENT, number, at_s, holders=held, array_bytes=kept_mb * MiB)
    text = "peak 1 GiB (by train.py, between samples, after 6.0 s)"
    builder.row("events", 20.0, event="peak", value=float(peak_mb * MiB), text=text)
    for at_s, is_news in ((5.0, True), (10.0, True), (15.0, False), (20.0, False)):
        then = {"peak_ago_s": 3.5} if is_news else {}
        lines = [(3, kept_mb, kept_mb), *((line, 0, size) for line, size in gone.items() if at_s == 10.0)]
        for line, live, at_peak in lines:
            peak = {**then, "peak_bytes": at_peak * MiB} if is_news else {}
            builder.allocated(PARENT, at_s, live * MiB, f"/a/train.py:20 main\n/a/train.py:{line} prepare", **peak)
    return report_of(Case(builder.ends(at_s=21.0, exit_code=0).open()))


def came(report: Report) -> dict[int | None, int]:
    """Of the bill at the peak, what came by then: MiB by line; None: of no line."""
    rows = [row for row in report.bill[1].rows if row.account == "since-snapshot"]
    assert sum(row.bytes for row in report.bill[1].rows) == pytest.approx(report.bill[1].total_bytes, abs=64)
    return {row.line: round(row.bytes / MiB) for row in rows}


def test_a_peak_that_no_sample_shows_is_divided_by_the_lines_that_had_it(tmp_path: Path) -> None:
    """What is there at the level as well is no part of it; what was asked for and not written to takes no memory."""
    report = passing(tmp_path, peak_mb=500, gone={9: 200, 10: 80})
    assert came(report) == {9: 200, 10: 80, None: 20}
    assert (report.bill[1].asked_in, report.bill[1].line) == ("prepare()", 9)
    assert came(passing(tmp_path / "more", peak_mb=340, gone={9: 210, 10: 70})) == {9: 105, 10: 35}


def test_after_a_snapshot_in_the_midst_of_a_peak_comes_what_was_asked_for_last(tmp_path: Path) -> None:
    """Both lines had asked by the snapshot; of what the second one asked for 60 MiB were written to."""
    held = [100] * 8 + [200, 260, 260] + [100] * 20
    builder = RecordingBuilder(tmp_path).process(PARENT, role="trainer")
    builder.samples(PARENT, rss=[n * MiB for n in held], every_s=1.0)
    for number, at_s, raw_mb in ((1, 4.0, 1), (2, 8.1, 100), (3, 25.0, 1)):
        places = [{"path": "prepare() raw", "type_name": "numpy.ndarray", "deep_bytes": raw_mb * MiB}]
        builder.take(PARENT, number, at_s, holders=places, array_bytes=raw_mb * MiB)
    for at_s in (5.0, 10.4, 15.0, 20.0):
        peak = {"peak_ago_s": 2.4, "peak_bytes": 100 * MiB} if at_s == 10.4 else {}
        for line in (8, 9):
            live = 100 * MiB if peak else 0
            row = {"function": "prepare", "owner_file": "/a/train.py", "owner_line": line}
            builder.allocated(PARENT, at_s, live, f"/a/train.py:20 main\n/a/train.py:{line} prepare", **row, **peak)
            if peak:
                asked = {"stack": f"/a/train.py:{line} prepare", "size_bytes": 100 * MiB, **row}
                builder.row("large_requests", 7.0 + line / 10, PARENT, **asked)
    report = report_of(Case(builder.ends(at_s=31.0, exit_code=0).open()))
    assert report.bill[1].snapshot_s == 8.1
    assert came(report) == {9: 60}


def test_what_came_after_a_snapshot_is_whose_it_is_though_all_is_freed_at_the_end(tmp_path: Path) -> None:
    """A full cache asks for more than the list that grows, and lets go of as much; the last telling is of the exit."""
    builder = RecordingBuilder(tmp_path).process(PARENT, role="trainer")
    builder.samples(PARENT, rss=[(100 + n) * MiB for n in range(61)], every_s=1.0)
    held = [{"path": "main() rows", "type_name": "list", "deep_bytes": 30 * MiB}]
    builder.take(PARENT, 1, 30.0, holders=held, python_bytes=90 * MiB)
    for number, at_s in enumerate((30.0, 40.0, 50.0, 58.0, 61.0)):
        for line, kept, asked in ((9, 30 + 10 * number, 30 + 10 * number), (20, 60, 60 + 50 * number)):
            live = 0 if at_s == 61.0 else kept * MiB
            row = {"function": f"at{line}", "owner_file": "/a/store.py", "owner_line": line, "asked_bytes": asked * MiB}
            builder.allocated(PARENT, at_s, live, f"/a/store.py:{line} at{line}", **row)
    report = report_of(Case(builder.ends(at_s=60.5, exit_code=0).open()))
    assert report.bill[1].asked_in is None, "it goes on growing: the end of that is no peak"
    (came,) = [row for row in report.bill[1].rows if row.account == "since-snapshot"]
    assert came.line == 9


@pytest.mark.golden
def test_it_is_a_few_lines_of_eighty_columns() -> None:
    report = report_of(Case(open_recording(GOLDEN / "caption_list_in_workers-leaky.parquet")))
    text = terminal.render(report, width=80, color=False, verbose=True)
    begin = text.index("What the memory is")
    lines = text[begin : text.index("\n\n", text.index("total", begin))].split("\n")
    assert max(map(len, lines)) <= 80
    assert len([line for line in lines if "%" in line]) <= 10
    assert "not measured" in text
    assert "Largest holders" not in text  # the bill tells them


@pytest.mark.golden
def test_the_first_screen_names_what_fills_the_memory() -> None:
    text = terminal.render(
        report_of(Case(open_recording(GOLDEN / "held_memory_stages-leaky.parquet"))), width=90, color=False
    )
    (line,) = [line for line in text.split("\n") if line.startswith("what your variables hold")]
    assert "main() pipeline" in line and "45.0 MiB" in line


@pytest.mark.golden
def test_what_each_of_several_processes_holds_is_one_holder_and_lines_add_up() -> None:
    report = report_of(Case(open_recording(GOLDEN / "table_in_each_spawned_worker-leaky.parquet")))
    bill = _bill.told(report)
    assert bill is not None
    assert "2 × leaky.PRICES" in bill.lines[0].details
    for most in range(2, len(bill.lines) + 1):
        shown = bill.briefly(most)
        assert len(shown) == most
        assert sum(line.level_bytes for line in shown) == sum(line.level_bytes for line in bill.lines)


def test_a_peak_that_the_last_snapshot_met_is_not_the_level(tmp_path: Path) -> None:
    """Two snapshots at work, the second while a stage held three copies for a moment: the first shows the level."""
    held_mb = [100] * 8 + [400] * 2 + [105] * 20
    builder = RecordingBuilder(tmp_path).process(PARENT, role="trainer")
    builder.samples(PARENT, rss=[n * MiB for n in held_mb], every_s=1.0)
    for number, at_s, size in ((1, 4.0, 60), (2, 8.5, 350)):
        held = [{"path": "main() table", "type_name": "numpy.ndarray", "deep_bytes": size * MiB}]
        builder.take(PARENT, number, at_s, holders=held, array_bytes=size * MiB)
    (level, peak) = Case(builder.ends(at_s=30.0, exit_code=0).open()).bills
    assert (level.snapshot_s, peak.snapshot_s) == (4.0, 8.5)
    assert level.total_bytes == pytest.approx(100 * MiB, rel=0.1)
    assert peak.total_bytes == pytest.approx(400 * MiB, rel=0.05)


def test_files_are_told_though_each_map_was_read_at_its_own_moment(tmp_path: Path) -> None:
    builder = RecordingBuilder(tmp_path).process(PARENT, role="trainer")
    builder.samples(
        PARENT, rss=[300 * MiB] * 10, every_s=1.0, anon_bytes=[80 * MiB] * 10, file_bytes=[220 * MiB] * 10,
        pss_anon_bytes=[80 * MiB] * 10,
    )  # fmt: skip
    for number, (path, size) in enumerate((("/data/features.npy", 200), ("/usr/lib/libc.so.6", 20))):
        columns = {"map_kind": "file", "map_path": path, "map_pss_bytes": size * MiB, "map_rss_bytes": size * MiB}
        builder.row("memory_maps", 5.0 + number * 1e-5, PARENT, **columns)
    level = Case(builder.ends(at_s=10.0, exit_code=0).open()).bills[0]
    of_account = {row.account: row for row in level.rows}
    assert of_account["mapped-files"].bytes == 200 * MiB
    assert [part.name for part in of_account["mapped-files"].parts] == ["features.npy"]
    assert of_account["code"].bytes == 20 * MiB


def test_pages_of_files_that_others_have_mapped_too_count_for_their_share(tmp_path: Path) -> None:
    """Half of them are another job's as well: a tenth less than is resident, and no noise of two readings."""
    builder = RecordingBuilder(tmp_path).process(PARENT, role="trainer")
    builder.samples(
        PARENT, rss=[300 * MiB] * 10, every_s=1.0, anon_bytes=[100 * MiB] * 10, file_bytes=[200 * MiB] * 10,
        pss_bytes=[284 * MiB] * 10, pss_anon_bytes=[100 * MiB] * 10,
    )  # fmt: skip
    level = Case(builder.ends(at_s=10.0, exit_code=0).open()).bills[0]
    assert level.total_bytes == pytest.approx(284 * MiB, rel=0.01)


def test_a_tensor_that_shows_the_memory_of_an_array_is_counted_once(tmp_path: Path) -> None:
    """Made by torch.from_numpy: the bill has 200 MiB, whoever asks the array or the tensor how large it is."""
    size, sketch = 200 * MiB, '[[139945082056720, "0123", "aaaabbbb"]]'
    builder = RecordingBuilder(tmp_path).process(PARENT, role="trainer").samples(PARENT, rss=[300 * MiB] * 20)
    builder.source(PARENT, "/job/train.py", "def main():\n    tensor = torch.from_numpy(table)\n")
    places = [
        {"path": "main() table", "type_name": "numpy.ndarray", "deep_bytes": size},
        {"path": "main() tensor", "type_name": "torch.Tensor", "deep_bytes": size, "tensor_deep_bytes": size},
    ]
    builder.take(PARENT, 1, 10.0, holders=places, array_bytes=size, tensor_bytes=size)
    nodes = [builder.node(PARENT, place["path"]) for place in places]
    for node in nodes:
        form = {"node": node, "data_form": "numeric", "row_count": 1000, "deep_bytes": size, "content_sketch": sketch}
        builder.row("data_forms", 10.0, PARENT, take=1, **form)
    of_user = {"take": 1, "moment": "take", "device": "cpu", "tensor_owner": "user-held", "storage_bytes": size}
    for more in ({}, {"node": nodes[1]}):
        builder.row("tensors", 10.0, PARENT, **of_user, **more)
    level = Case(builder.ends(at_s=20.0, exit_code=0).open()).bills[0]
    assert level.total_bytes == 300 * MiB
    (held,) = [row for row in level.rows if row.account == "data"]
    assert (held.bytes, [(one.type, one.bytes) for one in held.parts]) == (size, [("numpy.ndarray", size)])
    assert sum(row.bytes for row in level.rows if row.account in ("data", "user-held", "tensors")) == size


def test_processes_at_the_peak_add_up_to_it_though_a_fork_ends_soon_after(tmp_path: Path) -> None:
    """The kernel is asked for shares every 10 s: at 9 s half is the worker's, at 21 s all is the main process's."""
    builder = RecordingBuilder(tmp_path).process(PARENT, role="trainer")
    builder.process(WORKER, role="dataloader-worker", born_s=2.0, died_s=20.0, exit_code=0)
    names = ("pss_bytes", "pss_anon_bytes", "uss_bytes")
    asked = {9: (100 * MiB, 100 * MiB, 0), 21: (210 * MiB,) * 3}
    shares = {name: [asked[s][n] if s in asked else None for s in range(25)] for n, name in enumerate(names)}
    builder.samples(PARENT, [(200 if s < 15 else 220 if s < 20 else 210) * MiB for s in range(25)], **shares)
    shares = {name: [asked[9][n] if s == 7 else None for s in range(18)] for n, name in enumerate(names)}
    builder.samples(WORKER, [200 * MiB] * 18, from_s=2.0, **shares)
    case = Case(builder.ends(at_s=25.0, exit_code=0).open())
    assert 15.0 <= case.bills[1].time_s < 20.0
    rows = process_rows(case.processes, case.growth)
    assert [(row.pss_bytes, row.private_bytes) for row in rows] == [(100 * MiB, 0)] * 2


@pytest.mark.parametrize("holder", [None, "main() wide"])
def test_a_large_array_that_is_being_filled_takes_nothing_from_what_others_hold(
    tmp_path: Path, holder: str | None
) -> None:
    """Of 2 GiB that it is to have 200 MiB are there: only it can have so much that nobody has written to."""
    builder = RecordingBuilder(tmp_path).process(PARENT, role="trainer").samples(PARENT, rss=[300 * MiB] * 20)
    builder.source(PARENT, "/job/train.py", "def main():\n    table = make()\n    wide = widen(table)\n")
    places = [{"path": "main() table", "type_name": "numpy.ndarray", "deep_bytes": 90 * MiB}]
    if holder is not None:
        places.append({"path": holder, "type_name": "numpy.ndarray", "deep_bytes": 2048 * MiB})
    builder.take(PARENT, 1, 10.0, holders=places, array_bytes=2138 * MiB)
    level = Case(builder.ends(at_s=20.0, exit_code=0).open()).bills[0]
    (held,) = [row for row in level.rows if row.account == "data"]
    assert level.total_bytes == 300 * MiB
    assert {part.name: part.bytes for part in held.parts}["main() table"] == 90 * MiB


def test_tensors_of_two_types_in_one_holder_are_both_its_own(tmp_path: Path) -> None:
    """Images and their labels: torch says of each type of element what a holder has of it."""
    size = 200 * MiB
    builder = RecordingBuilder(tmp_path).process(PARENT, role="trainer").samples(PARENT, rss=[300 * MiB] * 20)
    builder.source(PARENT, "/job/train.py", "def main():\n    batches = {}\n")
    held = {"path": "main() batches", "type_name": "dict", "deep_bytes": size, "tensor_deep_bytes": size}
    builder.take(PARENT, 1, 10.0, holders=[held], tensor_bytes=size)
    row = {"take": 1, "moment": "take", "device": "cpu", "tensor_owner": "user-held"}
    builder.row("tensors", 10.0, PARENT, **row, storage_bytes=size)
    for name, part in (("float32", size - MiB), ("int64", MiB)):
        node = builder.node(PARENT, held["path"])
        builder.row("tensors", 10.0, PARENT, **row, node=node, dtype=name, storage_bytes=part)
    level = Case(builder.ends(at_s=20.0, exit_code=0).open()).bills[0]
    assert {row.account: row.bytes for row in level.rows if row.account in ("data", "user-held")} == {"data": size}


def test_an_object_with_two_parts_is_told_with_both(tmp_path: Path) -> None:
    """One has a tenth of what the other has: more than what is left out elsewhere."""
    builder = RecordingBuilder(tmp_path).process(PARENT, role="trainer").samples(PARENT, rss=[200 * MiB] * 20)
    builder.source(PARENT, "/job/train.py", "class Store:\n    pass\n\ndef main():\n    store = Store()\n")
    parts = {"main() store.rows": 110 * MiB, "main() store.frame": 10 * MiB}
    places = [{"path": "main() store", "type_name": "Store", "deep_bytes": 120 * MiB}]
    places += [
        {"path": path, "parent_path": "main() store", "edge_kind": "attribute", "type_name": "list", "deep_bytes": size}
        for path, size in parts.items()
    ]
    builder.take(PARENT, 1, 10.0, holders=places, python_bytes=120 * MiB)
    level = Case(builder.ends(at_s=20.0, exit_code=0).open()).bills[0]
    named = {row.name: row.bytes for row in every(level)}
    assert named["main() store"] == 120 * MiB
    assert {path: named.get(path) for path in parts} == parts


@pytest.mark.golden
def test_models_are_named_though_an_optimizer_refers_to_their_weights_too() -> None:
    level = Case(open_recording(GOLDEN / "mean_teacher_ema-clean.parquet")).bills[0]
    (row,) = [row for row in level.rows if row.account == "model"]
    assert [part.name for part in row.parts[:2]] == ["main() student", "main() pair.teacher"]
    assert sum(part.bytes for part in row.parts[:2]) >= 0.99 * row.bytes


def test_a_peak_is_told_by_the_snapshot_that_divides_it_and_by_what_no_object_had_yet(tmp_path: Path) -> None:
    """The second snapshot met a call that makes an array: it is malloc's, and no object's. The peak came later."""
    held = [100] * 8 + [300, 400, 400] + [105] * 20
    builder = RecordingBuilder(tmp_path).process(PARENT, role="trainer")
    builder.samples(PARENT, rss=[n * MiB for n in held], every_s=1.0)
    places = [{"path": "main() table", "type_name": "numpy.ndarray", "deep_bytes": 60 * MiB}]
    for number, at_s, in_use in ((1, 4.0, 70), (2, 8.0, 270)):
        builder.take(PARENT, number, at_s, holders=places, array_bytes=60 * MiB, malloc_in_use_bytes=in_use * MiB)
    stack = "/a/train.py:20 main\n/a/train.py:9 prepare"
    at = {"function": "prepare", "owner_file": "/a/train.py", "owner_line": 9}
    for at_s in (6.0, 12.0, 18.0, 24.0):
        peak = {"peak_bytes": 330 * MiB, "peak_ago_s": 2.5} if at_s == 12.0 else {}
        builder.allocated(PARENT, at_s, 0, stack, **at, **peak)
    report = report_of(Case(builder.ends(at_s=31.0, exit_code=0).open()))
    peak = report.bill[1]
    came = {row.name: row.bytes for row in peak.rows if row.account == "since-snapshot"}
    assert sum(came.values()) == pytest.approx(300 * MiB, rel=0.05)
    assert all("asked for in prepare()" in name for name in came)
    assert any("no object" in name for name in came)
    bill = _bill.told(report)
    assert bill is not None and "the snapshot at 8.0 s" in bill.note


@pytest.mark.golden
def test_rows_without_room_are_named_behind_their_sum() -> None:
    """The first screen has a few lines: nobody is to guess what most of the memory is."""
    report = report_of(Case(open_recording(GOLDEN / "held_memory_stages-leaky.parquet")))
    bill = _bill.told(report)
    assert bill is not None
    *shown, rest = bill.briefly(3)
    left = [line for line in bill.lines if line not in shown]
    assert shown[0].name == "what your variables hold"
    assert shown[1].level_bytes >= max(line.level_bytes for line in left)
    assert all(f"{line.name} {line.level}" in rest.largest for line in left if line.level_bytes)
    assert rest.level_bytes == sum(line.level_bytes for line in left)


def test_the_bill_is_of_what_the_job_came_to_after_its_last_snapshot(tmp_path: Path) -> None:
    """Workers began to copy a table after it, and stayed."""
    held = [100] * 10 + [400] * 20
    builder = RecordingBuilder(tmp_path).process(PARENT, role="trainer")
    builder.samples(PARENT, rss=[n * MiB for n in held], every_s=1.0)
    builder.take(PARENT, 1, 6.0, holders=[{"path": "main() table", "type_name": "list", "deep_bytes": 60 * MiB}])
    level = report_of(Case(builder.ends(at_s=30.0, exit_code=0).open())).bill[0]
    assert level.total_bytes == pytest.approx(400 * MiB, rel=0.02)
    assert sum(row.bytes for row in level.rows if row.account == "since-snapshot") == pytest.approx(300 * MiB, rel=0.05)


def test_a_block_that_two_tables_have_is_counted_once_and_said_by_both_names(tmp_path: Path) -> None:
    builder = RecordingBuilder(tmp_path).process(PARENT, role="trainer").samples(PARENT, rss=[200 * MiB] * 20)
    frame = {"type_name": "frame", "owner": "main", "owner_file": "/a/train.py", "retained_bytes": 101 * MiB}
    nodes = [
        (0, None, None, {"retained_bytes": 120 * MiB}),
        (2, 0, 0, {"root_kind": "thread", "retained_bytes": 101 * MiB}),
        (20, 2, 2, frame),
        (21, 20, 20, {"type_name": "dict", "edge_kind": "local", "edge_name": "tables", "retained_bytes": 100 * MiB}),
        (22, 21, 21, {"type_name": "pandas.DataFrame", "edge_kind": "key", "edge_name": "['all']"}),
        (23, 21, 21, {"type_name": "pandas.DataFrame", "edge_kind": "key", "edge_name": "['renamed']"}),
        (24, 22, 21, {"type_name": "numpy.ndarray", "retained_bytes": 99 * MiB, "also_node": 23}),
    ]
    for number, at_s in ((1, 5.0), (2, 15.0)):
        builder.take(PARENT, number, at_s, malloc_in_use_bytes=110 * MiB)
        for node, path, dominator, columns in nodes:
            known = {"root_kind": "frame", "is_named": True, "shallow_bytes": 100, "retained_bytes": 1000, **columns}
            ways = {"node": node, "path_node": path, "dominator_node": dominator}
            builder.row("heap_nodes", at_s, PARENT, take=number, **ways, **known)
        builder.row("heap_graphs", at_s, PARENT, take=number, node_count=7, retained_bytes=120 * MiB)
    report = report_of(Case(builder.source(PARENT, "/a/train.py", "def main(): ...").ends(20.0, exit_code=0).open()))
    held = [row for row in every(report.bill[0]) if row.account == "data" and row.bytes > MiB and not row.parts]
    (block,) = held
    assert (block.name, block.also) == ("main() tables['all']", "main() tables['renamed']")
    assert "also main() tables['renamed']" in terminal.render(report, width=200, color=False, verbose=True)


@pytest.mark.parametrize(
    ("path", "type_name", "of"), [("val_losses", "list", "data"), ("loss", "torch.Tensor", "activations")]
)
def test_graphs_that_a_variable_keeps_are_that_variables(tmp_path: Path, path: str, type_name: str, of: str) -> None:
    """A list of losses keeps the activations of past steps; the loss of the step under way has those of that step."""
    size = 200 * MiB
    builder = RecordingBuilder(tmp_path).process(PARENT, role="trainer").samples(PARENT, rss=[300 * MiB] * 20)
    builder.source(PARENT, "/job/train.py", f"def main():\n    {path} = []\n")
    held = {"path": f"main() {path}", "type_name": type_name, "deep_bytes": size, "tensor_deep_bytes": size}
    held |= {"edge_kind": "local"}
    builder.take(PARENT, 1, 10.0, holders=[held], tensor_bytes=size)
    row = {"take": 1, "moment": "take", "device": "cpu", "tensor_owner": "saved-for-backward"}
    builder.row("tensors", 10.0, PARENT, **row, storage_bytes=size)
    level = Case(builder.ends(at_s=20.0, exit_code=0).open()).bills[0]
    told = {row.account: row.bytes for row in level.rows if row.account in ("data", "activations") and row.bytes}
    assert told == {of: size}
