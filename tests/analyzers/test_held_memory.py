"""What filled during the run and is kept: said with its size, and accused of nothing."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from leakscope.facts.heap.graph import graph_places
from leakscope.facts.heap.place import Place, Reference
from leakscope.facts.heap.standing import held_by_users, shared_table
from leakscope.findings import Report
from leakscope.reporting import analyze

from ..builders import RecordingBuilder
from ..sentences import says
from .test_filling import row
from .test_retained import place

MB = 1_000_000


def run(folder: Path, held_mb: Callable[[float], float]) -> Report:
    """30 s of a process of 50 MB beside what ``Cache.entries`` holds at each second."""
    builder = RecordingBuilder(folder).process(100)
    builder.samples(100, [50 * MB + round(held_mb(i / 4) * MB) for i in range(120)], every_s=0.25)
    for number, at_s in enumerate((3.0, 9.0, 15.0, 21.0, 27.0), 1):
        held = round(held_mb(at_s) * MB)
        holders = [row("main() cache.entries", deep_bytes=held, length=held // 1000)]
        builder.take(100, number, at_s, holders=holders, rss_bytes=50 * MB + held)
    return analyze(builder.ends(30.0, exit_code=0).open())


def test_what_only_stands_is_in_the_bill_and_no_finding(tmp_path: Path) -> None:
    """A cache that filled: whether anything will read it is not known, so nothing is said against it."""
    report = run(tmp_path, lambda s: min(s, 10) * 20)
    assert not report.findings and "held-memory" in {ruled_out.kind for ruled_out in report.ruled_out}
    told = [part for row in report.bill[0].rows if row.account == "data" for part in row.parts]
    assert [part.name for part in told if part.bytes > 150 * MB] == ["main() cache.entries"]


def test_where_nobody_can_tell_what_gained_most_is_said_however_little_it_is(tmp_path: Path) -> None:
    """A rise that begins late may be the beginning of a leak: who runs it longer knows where to look."""
    report = run(tmp_path, lambda s: max(0.0, 2 * (s - 18)))
    (finding,) = report.findings
    assert report.verdict.leaking is None
    assert (finding.kind, finding.severity, finding.subject.variable) == ("held-memory", "note", "entries")
    assert says(finding.title, "Cache.entries", "17.2 MiB") and finding.title in report.verdict.headline


LIMITED = """
class Cache:
    def __init__(self):
        self.entries = {}

    def add(self, key, value):
        self.entries[key] = value
        while len(self.entries) > 210_000:
            self.entries.popitem()
"""


def test_what_has_a_limit_is_not_to_be_released(tmp_path: Path) -> None:
    """The run is too short to tell whether it grows on."""
    builder = RecordingBuilder(tmp_path).process(100).source(100, "/job/serve.py", LIMITED)
    builder.samples(100, [round((50 + 6 * i) * MB) for i in range(34)], every_s=0.25)
    for number, at_s in enumerate((2.0, 5.0, 8.3), 1):
        held = round(24 * at_s * MB)
        holders = [row("main() cache.entries", deep_bytes=held, length=held // 1000)]
        builder.take(100, number, at_s, holders=holders, rss_bytes=50 * MB + held)
    (finding,) = analyze(builder.ends(8.5, exit_code=0).open()).findings
    assert says(finding.title, "Cache.entries", "is filling", "210,000 members")
    assert [says(text, "a lower limit at serve.py:8") for text in finding.remedy] == [True]


POOL = "from multiprocessing import Pool\n\npool = Pool(4)\nprint(sum(pool.map(score, range(64))))\ntrain()\n"
LOADER = "from torch.utils.data import DataLoader\n\nloader = DataLoader(rows)\nevaluate(loader)\ntrain()\n"


def pool_of(
    folder: Path,
    busy: Callable[[float], bool],
    role: str = "a pool",
    source: str = POOL,
    yielded: int = 0,
    ran: str = "",
    looked_cpu_s: float = 0.0,
) -> Report:
    """40 s of a trainer of 60 MB, and of four children of it that hold 50 MB each and work when ``busy``.

    ``looked_cpu_s``: what a snapshot of each of them cost, at 26 s.
    ``role``: by whom they were forked, or ``spawn``. ``yielded``: batches of a loader that come after the first look.
    """
    builder = RecordingBuilder(folder).process(100, role="trainer").source(100, "/job/train.py", source)
    seconds = [second / 4 for second in range(160)]
    builder.samples(100, [60 * MB] * 160, every_s=0.25, cpu_s=[second * 0.2 for second in seconds])
    seen = {"seen_lines": "/job/train.py:5 <module>"}
    for number, at_s in enumerate((3.0, 20.0), 1):
        held = [row("main() step", type_name="dict", deep_bytes=1000, length=1)]
        builder.take(100, number, at_s, holders=held, **seen)
        if role == "a DataLoader":
            batches = {"batches_yielded": 40 + yielded * number, "batches_in_flight": 0}
            builder.row("loaders", at_s, 100, take=number, worker_pids="101,102,103,104", **batches)
    for pid in range(101, 105):
        cpu_s = [0.25 * sum(busy(one) for one in seconds[: at + 1]) for at in range(160)]
        if role == "spawn":
            builder.process(pid, ppid=100, role="python-spawn").allocated(101, 4.0, MB, ran)
        else:
            builder.process(pid, ppid=100, role="python-fork").note(pid, 0.5, "forked", f"forked by {role}")
        builder.samples(pid, [50 * MB] * 160, every_s=0.25, cpu_s=cpu_s)
        if looked_cpu_s:
            builder.take(pid, 1, 26.0, take_cpu_s=looked_cpu_s)
    return analyze(builder.ends(40.0, exit_code=0).open())


def test_the_pool_of_an_evaluation_that_is_over_is_said(tmp_path: Path) -> None:
    (finding,) = pool_of(tmp_path, lambda s: s < 5).findings
    assert (finding.kind, finding.severity, finding.wasted) == ("held-memory", "warning", True)
    assert says(finding.title, "4 pool workers", "done nothing", "since")
    assert finding.bytes == pytest.approx(200 * MB, rel=0.2)
    assert finding.subject.line == 3
    assert says(finding.remedy[0], "close the pool")


def test_of_spawned_children_it_is_known_by_what_one_of_them_runs(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    stacks = "/lib/multiprocessing/pool.py:125 worker\n/job/train.py:9 score", "/job/train.py:9 serve"
    told = [pool_of(tmp_path / name, lambda s: s < 5, "spawn", ran=ran).findings for name, ran in zip("ab", stacks)]
    assert [says(one.title, "4 pool workers") for findings in told for one in findings] == [True]


def test_our_own_looks_keep_no_worker_busy(tmp_path: Path) -> None:
    """A snapshot of it late in its life: what it cost is known."""
    told = []
    for name, cpu_s in (("a", 2.0), ("b", 0.1)):
        (tmp_path / name).mkdir()
        told.append(pool_of(tmp_path / name, lambda s: s < 5 or 26 < s < 28, looked_cpu_s=cpu_s))
    assert [[one.kind for one in report.findings] for report in told] == [["held-memory"], []]


def test_the_workers_of_a_loader_that_is_read_are_said(tmp_path: Path) -> None:
    """By its batches: our own snapshots keep a fork busy now and then."""
    (finding,) = pool_of(tmp_path, lambda s: s < 3 or 30 < s < 31, "a DataLoader", LOADER).findings
    assert says(finding.title, "4 loader workers", "done nothing", "since")
    assert says(finding.remedy[0], "persistent_workers") and finding.subject.line == 3


def test_the_workers_of_a_loader_that_yields_are_not(tmp_path: Path) -> None:
    assert not pool_of(tmp_path, lambda s: s < 5, "a DataLoader", LOADER, yielded=3).findings


@pytest.mark.parametrize("then", ["print(pool.map(score, tests))", "pool.map(score, tests)"])
def test_a_pool_that_is_sure_to_be_wanted_again_is_not(tmp_path: Path, then: str) -> None:
    assert not pool_of(tmp_path, lambda s: s < 5, source=f"{POOL}{then}\n").findings


def test_to_end_a_pool_is_no_use_of_it(tmp_path: Path) -> None:
    assert pool_of(tmp_path, lambda s: s < 5, source=f"{POOL}pool.terminate()\npool.join()\n").findings


def test_a_pool_that_works_now_and_then_is_not(tmp_path: Path) -> None:
    assert not pool_of(tmp_path, lambda s: s % 12 < 2).findings


def test_pools_that_are_made_anew_each_time_pile_up_and_are_told_as_that(tmp_path: Path) -> None:
    builder = RecordingBuilder(tmp_path).process(100, role="trainer").source(100, "/job/train.py", POOL)
    builder.samples(100, [60 * MB] * 160, every_s=0.5, cpu_s=[second * 0.1 for second in range(160)])
    builder.take(100, 1, 3.0, holders=[row("main() step", type_name="dict", deep_bytes=1000, length=1)])
    for number, pid in enumerate(range(101, 121)):
        born_s = 1.0 + 3.5 * number
        count = round((80.0 - born_s) / 0.5)
        builder.process(pid, ppid=100, role="python-fork", born_s=born_s).note(
            pid, born_s, "forked", "forked by a pool"
        )
        builder.samples(pid, [50 * MB] * count, every_s=0.5, from_s=born_s, cpu_s=[1.0] * count)
    findings = analyze(builder.ends(80.0, exit_code=0).open()).findings
    assert [finding.kind for finding in findings if finding.kind in ("process-pileup", "held-memory")] == [
        "process-pileup"
    ]
    assert says(findings[0].remedy[0], "one pool")


def test_forks_that_wait_for_requests_are_no_pool(tmp_path: Path) -> None:
    """Workers of a server that nobody asks would be idle as well, and are needed."""
    assert not pool_of(tmp_path, lambda s: s < 5, role="a server").findings


FROZEN = "def main():\n    optimizer = torch.optim.Adam(model.parameters())\n    while True:\n        step(optimizer)\n"


def training(
    folder: Path,
    *,
    last_step_s: float = 40.0,
    frozen_mb: int = 0,
    state: int = 2,
    source: str = FROZEN,
    at: int = 0,
    counts: tuple[int, int] = (10, 7),
) -> Report:
    """40 s of a process of 400 MB that trains 50 MB of parameters, with ``state`` times as much for each.

    ``at``: the line at which main() was seen; 0: nobody saw it. ``counts``: of parameters, and of tensors of state.
    """
    builder = RecordingBuilder(folder)
    builder.process(100)
    builder.samples(100, [400 * MB] * 160, every_s=0.25).source(100, "/job/train.py", source)
    seen = {"seen_lines": f"/job/train.py:{at} main"} if at else {}
    for second in range(1, 40):
        builder.row("phases", second, 100, phase="train", step=min(second, last_step_s), phase_s=second)
    for number, at_s in enumerate((6.0, 20.0, 36.0), 1):
        holders = [place("main() optimizer", 5000, type_name="torch.optim.adam.Adam")]
        builder.take(100, number, at_s, holders=holders, rss_bytes=400 * MB, **seen)
        one = {"take": number, "device": "cpu"}
        for owner, size_mb in (("parameter", 50), ("gradient", 50), ("optimizer-state", 50 * state)):
            builder.row(
                "tensors",
                at_s,
                100,
                **one,
                moment="take",
                tensor_owner=owner,
                storage_bytes=size_mb * MB,
                storage_count=counts[owner == "optimizer-state"],
            )
        for is_trained, size_mb in ((False, frozen_mb), (True, 50 - frozen_mb)):
            columns = {"tensor_owner": "parameter", "requires_grad": is_trained, "storage_bytes": size_mb * MB}
            builder.row("weights", at_s, 100, **one, **columns)
    return analyze(builder.ends(40.0, exit_code=0).open())


def test_what_training_leaves_once_no_step_is_made_is_idle(tmp_path: Path) -> None:
    (finding,) = training(tmp_path, last_step_s=12.0).findings
    assert (finding.kind, finding.severity, finding.bytes) == ("held-memory", "warning", 150 * MB)
    assert finding.subject.line == 2
    assert says(finding.title, "optimizer", "143 MiB") and says(finding.remedy[0], "zero_grad()", "143 MiB")


EVALUATES = """
def main():
    optimizer = torch.optim.Adam(model.parameters())
    for epoch in range(3):
        optimizer.step()
    evaluate(model)
    {then}
"""


@pytest.mark.parametrize(
    ("last_step_s", "then", "is_told"),
    [
        (24.0, "print()", True),  # for less than half of the time, but no line is left that steps
        (36.0, "print()", False),
        (12.0, "torch.save(optimizer.state_dict(), path)", False),
    ],
)
def test_an_optimizer_is_idle_once_no_line_is_left_that_reads_it(
    tmp_path: Path, last_step_s: float, then: str, is_told: bool
) -> None:
    report = training(tmp_path, last_step_s=last_step_s, source=EVALUATES.format(then=then), at=6)
    assert [says(finding.title, "optimizer", "143 MiB") for finding in report.findings] == [True] * is_told


def test_state_and_gradients_of_frozen_parameters_are_idle(tmp_path: Path) -> None:
    (finding,) = training(tmp_path, frozen_mb=45).findings
    assert finding.bytes == (100 - 3 * 5) * MB + 45 * MB
    assert says(finding.evidence[0].text, "42.9 MiB of the parameters are frozen")


ALTERNATES = """
def main():
    optimizer = torch.optim.Adam(model.parameters())
    while True:
        critic.requires_grad_(False)
        optimizer.step()
        critic.requires_grad_(True)
"""


def test_what_is_frozen_for_a_while_has_state_that_is_needed(tmp_path: Path) -> None:
    assert not training(tmp_path, frozen_mb=45, source=ALTERNATES, at=6).findings


def test_where_each_parameter_has_state_that_of_frozen_ones_is_their_share(tmp_path: Path) -> None:
    (finding,) = training(tmp_path, frozen_mb=30, counts=(10, 20)).findings
    assert finding.bytes == pytest.approx(60 * MB + 30 * MB)


@pytest.mark.parametrize(("last_step_s", "frozen_mb"), [(40, 0), (24, 0), (40, 20)])
def test_what_training_may_need_is_not(tmp_path: Path, last_step_s: float, frozen_mb: int) -> None:
    """It goes on; an evaluation at its end; a frozen half, whose share of the state may be of the other."""
    report = training(tmp_path, last_step_s=last_step_s, frozen_mb=frozen_mb, state=1)
    assert not [finding for finding in report.findings if finding.bytes > 20 * MB]


SIZES = np.array([0.0, 100.0 * MB])


def named(path: str, kind: str, variable: str | None, parent: Place | None, *, is_user: bool) -> Place:
    reference = Reference(kind, variable, "main", "__main__", "/job/daily.py", None, is_user)
    found = Place(path, "numpy.ndarray", reference, SIZES, np.ones(2), np.zeros(2), parent=parent)
    if parent is not None:
        parent.children.append(found)
    return found


def test_a_block_that_two_tables_have_is_known_by_one_of_them() -> None:
    """Neither keeps it alone: it hangs on the function that has both."""
    main = named("main()", "reference", None, None, is_user=False)
    orders = named("main() orders", "local", "orders", main, is_user=True)
    orders.deep_bytes = np.array([0.0, 1.0 * MB])
    block = named("main() orders._mgr", "attribute", "_mgr", main, is_user=False)
    block.named_by = orders
    assert shared_table(block) is orders and shared_table(orders) is None
    assert list(held_by_users(main, 4.0 * MB)) == [block]


def test_a_model_that_is_known_by_its_key_is_held_as_a_whole() -> None:
    models = named("main() models", "local", "models", None, is_user=True)
    model = named("main() models['large']", "item", None, models, is_user=False)
    parts = named("main() models['large']._modules", "attribute", "_modules", model, is_user=True)
    parts.has_parts = True
    assert list(held_by_users(models, 4.0 * MB)) == [model]


BY_KEY = """
def main():
    parts = {"train": load(1), "test": load(2)}
    fit(parts)
    while True:
        serve()


main()
"""


@pytest.mark.parametrize("looks_s", [(6.0, 12.0, 18.0, 24.0), (12.0,)], ids=["many looks", "one look"])
@pytest.mark.parametrize("rest_mb", [0, 200])
def test_a_container_of_which_all_is_idle_is_what_to_let_go_of(
    tmp_path: Path, rest_mb: int, looks_s: tuple[float, ...]
) -> None:
    """Not where it has more than that."""
    builder = RecordingBuilder(tmp_path).process(100).source(100, "/job/fit.py", BY_KEY)
    builder.samples(100, [600 * MB] * 120, every_s=0.25)
    owner: dict[str, Any] = {"owner": "main", "variable": "parts", "owner_file": "/job/fit.py", "is_user": True}
    held = [
        row("main() parts", type_name="dict", deep_bytes=(200 + rest_mb) * MB, edge_kind="local", length=2, **owner),
        *(
            row(f"main() parts['{key}']", type_name="numpy.ndarray", deep_bytes=100 * MB, edge_kind="item",
                parent="main() parts", reference_count=1, **owner)
            for key in ("train", "test")
        ),
    ]  # fmt: skip
    for number, at_s in enumerate(looks_s, 1):
        builder.take(100, number, at_s, holders=held, array_bytes=200 * MB, seen_lines="/job/fit.py:6 main")
    (told,) = [one for one in analyze(builder.ends(30.0, exit_code=0).open()).findings if one.wasted]
    holders = ["main() parts['train']"] if rest_mb else ["main() parts (dict)", "main parts (dict)"]
    assert told.bytes == 200 * MB
    assert told.subject.holder in holders, told.subject.holder


COUNTED = """
def main():
    trials = search()
    report(trials)
    for _ in range(9):
        serve()
    print({last})


main()
"""


@pytest.mark.parametrize(("last", "is_idle"), [("len(trials)", True), ("trials[0]", False), ("min(trials)", False)])
def test_of_what_is_only_counted_yet_the_members_are_idle(tmp_path: Path, last: str, is_idle: bool) -> None:
    builder = RecordingBuilder(tmp_path).process(100).source(100, "/job/fit.py", COUNTED.format(last=last))
    builder.samples(100, [600 * MB] * 120, every_s=0.25)
    owner: dict[str, Any] = {"owner": "main", "variable": "trials", "owner_file": "/job/fit.py", "is_user": True}
    held = [
        row("main() trials", type_name="list", deep_bytes=300 * MB, edge_kind="local", length=20, reference_count=1,
            **owner)
    ]  # fmt: skip
    for number, at_s in enumerate((6.0, 18.0), 1):
        builder.take(100, number, at_s, holders=held, seen_lines="/job/fit.py:6 main")
    told = [one for one in analyze(builder.ends(30.0, exit_code=0).open()).findings if one.wasted]
    assert [one.subject.variable for one in told] == ["trials"] * is_idle
    assert not told or (says(told[0].remedy[0], "keep the length", "fit.py:7") and not told[0].idle[0].file)


NEVER_READ = """
def work(part):
    while True:
        wait(part)


table = load()
start(work, 2)
join()
"""


def test_what_forks_were_born_with_is_wasted_once_and_by_their_parent(tmp_path: Path) -> None:
    """It is one memory: dropped in the parent before they start it is gone in all of them."""
    builder = RecordingBuilder(tmp_path).process(100).source(100, "/job/fit.py", NEVER_READ)
    builder.samples(100, [300 * MB] * 120, every_s=0.25)
    table = row("fit.table", type_name="numpy.ndarray", deep_bytes=200 * MB, edge_kind="global", variable="table")
    table |= {
        "owner": None,
        "root_kind": "module",
        "owner_module": "__main__",
        "owner_file": "/job/fit.py",
        "reference_count": 1,
    }
    for pid in (101, 102):
        builder.process(pid, born_s=4.0, role="forked")
        builder.samples(pid, [300 * MB] * 100, every_s=0.25, from_s=4.0, anon_bytes=[300 * MB] * 100)
    for number, at_s in enumerate((6.0, 12.0, 18.0, 24.0), 1):
        for pid in (100, 101, 102):
            lines = "/job/fit.py:9 <module>" if pid == 100 else "/job/fit.py:4 work"
            builder.take(pid, number, at_s, holders=[table], array_bytes=200 * MB, seen_lines=lines)
    report = analyze(builder.ends(30.0, exit_code=0).open())
    told = [finding for finding in report.findings if finding.wasted]
    assert [finding.subject.pid for finding in told] == [100]
    assert report.verdict.wasted_bytes == 200 * MB


STAGES = """
def main():
    stages = [load()]
    for stage in (clean, scale, shift):
        stages.append(stage(stages[-1]))
    while True:
        fit({read})


main()
"""


def stages(folder: Path, read: str) -> Report:
    """Four arrays in a list, of 50, 60, 70 and 80 MB."""
    builder = RecordingBuilder(folder).process(100).source(100, "/job/fit.py", STAGES.format(read=read))
    builder.samples(100, [300 * MB] * 120, every_s=0.25)
    owner: dict[str, Any] = {"owner": "main", "variable": "stages", "owner_file": "/job/fit.py", "is_user": True}
    held = [
        row("main() stages", type_name="list", deep_bytes=260 * MB, edge_kind="local", length=4, **owner),
        *(
            row(f"main() stages[{at}]", type_name="numpy.ndarray", deep_bytes=(50 + 10 * at) * MB, edge_kind="item",
                parent="main() stages", reference_count=1, **owner)
            for at in range(4)
        ),
    ]  # fmt: skip
    for number, at_s in enumerate((6.0, 12.0, 18.0, 24.0), 1):
        builder.take(100, number, at_s, holders=held, array_bytes=260 * MB, seen_lines="/job/fit.py:7 main")
    return analyze(builder.ends(30.0, exit_code=0).open())


def test_of_a_list_of_which_the_newest_is_read_the_others_are_waste(tmp_path: Path) -> None:
    report = stages(tmp_path, "stages[-1]")
    (finding,) = [one for one in report.findings if one.kind == "held-memory"]
    assert (finding.wasted, finding.bytes, finding.subject.line) == (True, 180 * MB, 5), "the newest may be the largest"
    assert says(finding.title, "stages", "172 MiB", "before the newest")
    assert finding.edit is not None and "+        del stages[:-1]" in (finding.edit.diff or "")


@pytest.mark.parametrize("read", ["stages[0], stages[-1]", "*stages", "stages[-4:]", "stages", "sum(stages)"])
def test_a_list_of_which_other_members_are_read_is_not(tmp_path: Path, read: str) -> None:
    assert not [one for one in stages(tmp_path, read).findings if one.kind == "held-memory"]


TRIALS = """
def main():
    trials = []
    for fold in folds():
        trials.append({{"loss": fit(fold), "rows": rows_of(fold)}})
    while True:
        {read}


main()
"""


def trials(folder: Path, read: str) -> Report:
    """20 dicts in a list, each with an array of 10 MB under one key."""
    builder = RecordingBuilder(folder).process(100).source(100, "/job/fit.py", TRIALS.format(read=read))
    builder.samples(100, [300 * MB] * 120, every_s=0.25)
    owner: dict[str, Any] = {"owner": "main", "variable": "trials", "owner_file": "/job/fit.py", "is_user": True}
    held = [row("main() trials", type_name="list", deep_bytes=200 * MB, edge_kind="local", length=20, **owner)]
    for at in range(20):
        inside = {"edge_kind": "item", "variable": None, "owner": None, "is_user": False, "reference_count": 1}
        one = f"main() trials[{at}]"
        held.append(row(one, type_name="dict", deep_bytes=10 * MB, parent="main() trials", **inside))
        held.append(row(f"{one}['rows']", type_name="numpy.ndarray", deep_bytes=10 * MB, parent=one, **inside))
    for number, at_s in enumerate((6.0, 12.0, 18.0, 24.0), 1):
        builder.take(100, number, at_s, holders=held, array_bytes=200 * MB, seen_lines="/job/fit.py:7 main")
    return analyze(builder.ends(30.0, exit_code=0).open())


@pytest.mark.parametrize(
    "read", ["print(min(one['loss'] for one in trials))", "[print(n, one.get('loss')) for n, one in enumerate(trials)]"]
)
def test_a_field_of_members_that_nothing_reads_is_waste(tmp_path: Path, read: str) -> None:
    (finding,) = [one for one in trials(tmp_path, read).findings if one.kind == "held-memory"]
    assert (finding.wasted, finding.bytes, finding.subject.line) == (True, 200 * MB, 5)
    assert says(finding.title, "trials", "under rows of its members")
    assert finding.edit is None or not finding.edit.diff, "to bound the list would drop what is read"


@pytest.mark.parametrize(
    "read",
    [
        "use(trials)",
        "print(trials[0]['rows'])",
        "for one in trials: use(one)",
        "for one in trials: print(one.values())",
        "print([one[key] for one in trials for key in one])",
        "print([one['loss'] for one in trials]); print(get('rows'))",
    ],
)
def test_a_field_that_may_be_read_is_not(tmp_path: Path, read: str) -> None:
    assert not [one for one in trials(tmp_path, read).findings if one.kind == "held-memory"]


EVALUATES_ANEW = """
class Judge:
    def run(self, model):
        self.scores = model(load())
        {then}

    def rank(self, row):
        return int((self.scores > self.scores[row]).sum())


def distance(scores, wanted):
    return (scores - wanted).square().mean()


def main():
    judge, model = Judge(), Model()
    while True:
        found = distance(model(load()), load())
        (found * 2).backward()
        held = judge.run(model)
        {step}


main()
"""


@pytest.mark.parametrize(
    ("then", "step", "is_told"),
    [
        ("return distance(self.scores, load())", "print(held.item())", True),
        ("return distance(self.scores, load())", "held.backward()", False),
        ("return distance(self.scores, load())", "found.backward(retain_graph=True)", False),
        ("self.all = [self.scores]", "sum(judge.all).backward()", False),
    ],
)
def test_a_graph_that_each_evaluation_makes_is_told_where_no_backward_pass_reaches_it(
    tmp_path: Path, then: str, step: str, is_told: bool
) -> None:
    source = EVALUATES_ANEW.format(then=then, step=step)
    builder = RecordingBuilder(tmp_path).process(100).source(100, "/job/fit.py", source)
    builder.samples(100, [400 * MB] * 120, every_s=0.25)
    owner: dict[str, Any] = {"owner": "Judge", "variable": "scores", "owner_file": "/job/fit.py", "is_user": True}
    for number, (at_s, size) in enumerate(((9.0, 1), (24.0, 200)), 1):  # at first one was just being made
        path, inside = "main() judge.scores", {"variable": None, "owner": None, "is_user": False}
        held = [
            row(path, type_name="torch.Tensor", deep_bytes=size * MB, **owner),
            row(f"{path}.grad_fn", type_name="torch autograd graph", deep_bytes=size * MB, parent=path,
                edge_kind="reference", **inside),
        ]  # fmt: skip
        builder.take(100, number, at_s, holders=held, tensor_bytes=size * MB, seen_lines="/job/fit.py:20 main")
    told = [one for one in analyze(builder.ends(30.0, exit_code=0).open()).findings if one.wasted]
    assert [(one.bytes, one.subject.line) for one in told] == [(200 * MB, 4)] * is_told


FAILURES = """
class Importer:
    def take(self, path):
        table = read(path)
        raise ValueError(path)

    def run(self, path):
        try:
            self.take(path)
        except ValueError as error:
            self.failures.append(Failure(path, error))

    def status(self):
        return [{read} for one in self.failures]
"""


def failures(folder: Path, read: str, within: str = "main() job.failures") -> Report:
    """Ten exceptions, each with a frame in which an array of 20 MB is a variable."""
    builder = RecordingBuilder(folder).process(100).source(100, "/job/load.py", FAILURES.format(read=read))
    builder.samples(100, [300 * MB] * 120, every_s=0.25)
    owner: dict[str, Any] = {"owner_file": "/job/load.py", "owner": "Importer", "variable": "failures", "is_user": True}
    is_list = within.endswith("failures")
    named = owner if is_list else owner | {"owner": "Importer.run", "variable": "error", "edge_kind": "local"}
    held = [row(within, type_name="list" if is_list else "load.Failed", deep_bytes=200 * MB, **named)]
    held[0] |= {"length": 10} if is_list else {}
    plain = {"edge_kind": "reference", "variable": None, "owner": None, "is_user": False}
    for at in range(10):
        above, parts = within, (f"[{at}]", ".error", ".<traceback>", ".<frame>", " table")
        for step, kind in zip(parts, ("load.Failure", "ValueError", "traceback", "frame", "numpy.ndarray")):
            about = owner | {"owner": "Importer.take", "variable": "table", "edge_kind": "local"}
            about = about if kind == "numpy.ndarray" else plain
            held.append(row(f"{above}{step}", type_name=kind, deep_bytes=20 * MB, parent=above, **about))
            above += step
    for number, at_s in enumerate((6.0, 12.0, 18.0, 24.0), 1):
        builder.take(100, number, at_s, holders=held, array_bytes=200 * MB, seen_lines="/job/load.py:9 Importer.run")
    return analyze(builder.ends(30.0, exit_code=0).open())


def test_what_the_tracebacks_of_kept_exceptions_keep_is_waste(tmp_path: Path) -> None:
    (finding,) = failures(tmp_path, "str(one.error)").findings
    assert (finding.wasted, finding.bytes, finding.mechanism) == (True, 200 * MB, "tracebacks")
    assert finding.subject.line == 11 and says(finding.title, "Importer.failures", "calls that failed")
    assert finding.edit is not None and "error.with_traceback(None)" in (finding.edit.diff or "")


@pytest.mark.parametrize("way", ["read", "raised"])
def test_what_a_debugger_looks_at_or_is_on_its_way_up_is_not(tmp_path: Path, way: str) -> None:
    if way == "read":
        report = failures(tmp_path, "one.error.__traceback__.tb_frame.f_locals")
    else:
        report = failures(tmp_path, "str(one.error)", "Importer.run() error")
    assert not [one for one in report.findings if one.mechanism == "tracebacks"]


SENDS = """
class Sender:
    def __init__(self):
        self.recent = deque(maxlen=10)

    def send(self, number):
        report = Report(number, pack(number))
        deliver(report.body)
        self.recent.append(report)

    def status(self):
        best = min(self.recent, key=lambda one: one.seconds)
        for one in list(self.recent)[-3:]:
            print(one.number)
        return {read}


def main():
    options = parser.parse_args()
    sender = Sender(options.recent)
"""


def sends(folder: Path, read: str, looked_into: int) -> Report:
    """Ten objects in a deque, of which each has 20 MB as an attribute; snapshots looked into some of them."""
    builder = RecordingBuilder(folder).process(100).source(100, "/job/send.py", SENDS.format(read=read))
    builder.samples(100, [300 * MB] * 120, every_s=0.25)
    owner: dict[str, Any] = {"owner_file": "/job/send.py", "is_user": True}
    path = "main() sender.recent"
    recent = {"owner": "Sender", "variable": "recent", "type_name": "collections.deque", "length": 10}
    held = [row(path, deep_bytes=200 * MB, **recent, **owner)]
    member = {"type_name": "__main__.Report", "edge_kind": "item", "variable": None, "owner": None, "is_user": False}
    for at in range(looked_into):
        one = f"{path}[{at}]"
        held.append(row(one, deep_bytes=20 * MB, parent=path, **member))
        body = {"owner": "Report", "variable": "body", "type_name": "bytes"}
        held.append(row(f"{one}.body", deep_bytes=20 * MB, parent=one, **body, **owner))
    rest = 10 - looked_into
    if rest:
        held.append(row(f"{path}[*]", deep_bytes=rest * 20 * MB, parent=path, **(member | {"object_count": rest})))
    for number, at_s in enumerate((6.0, 12.0, 18.0, 24.0), 1):
        builder.take(100, number, at_s, holders=held, seen_lines="/job/send.py:8 Sender.send")
    return analyze(builder.ends(30.0, exit_code=0).open())


@pytest.mark.parametrize("looked_into", [10, 1])
def test_what_is_read_of_objects_only_before_they_are_put_there_is_waste(tmp_path: Path, looked_into: int) -> None:
    """Objects of one class have the same: one that was looked into stands for all."""
    (finding,) = sends(tmp_path, "best.number", looked_into).findings
    assert (finding.wasted, finding.subject.line) == (True, 9)
    assert finding.bytes == pytest.approx(200 * MB, rel=0.1)
    assert says(finding.title, "Sender.recent", "under body of its members")


@pytest.mark.parametrize("read", ["best", "best.body", "sorted(self.recent)", "len(best.pack())", "self.recent[0]"])
def test_what_may_be_read_of_them_later_is_not(tmp_path: Path, read: str) -> None:
    assert not [one for one in sends(tmp_path, read, 10).findings if one.wasted]


SHOWN = ("rows = load()\nrows\n", "rows = rows[1:]\nrows\n", "{last}\n")


@pytest.mark.parametrize(
    ("last", "told"),
    [
        ("del rows", ["[1] and [2]"]),
        ("print(1)", ["[1]"]),  # the second is still what rows is
        ("print(_1.mean())", []),
        ("Out[2].mean()", []),
    ],
)
def test_results_of_cells_that_no_cell_looks_at_are_told_together(tmp_path: Path, last: str, told: list[str]) -> None:
    builder = RecordingBuilder(tmp_path).process(100)
    for number, text in enumerate(SHOWN, 1):
        module = f"ipython-input-{number}-0abc"
        builder.source(100, f"<{module}>", text.format(last=last), module)
    builder.samples(100, [400 * MB] * 120, every_s=0.25)
    named: dict[str, Any] = {"owner": "__main__", "owner_file": "/job/kernel.py", "edge_kind": "global"}
    held = [
        row(f"__main__._{at}", type_name="pandas.DataFrame", deep_bytes=100 * MB, variable=f"_{at}", is_user=False,
            root_kind="module", **named)
        for at in (1, 2)
    ]  # fmt: skip
    for number, at_s in enumerate((9.0, 24.0), 1):
        builder.take(100, number, at_s, holders=held, array_bytes=200 * MB, seen_lines="/job/kernel.py:7 main")
    findings = [one for one in analyze(builder.ends(30.0, exit_code=0).open()).findings if one.wasted]
    assert [says(one.title, "IPython's Out", *told) for one in findings] == [True] * len(told)
    assert [one.bytes for one in findings] == [100 * MB * (1 + ("and" in cells)) for cells in told]


CACHED = """
from functools import lru_cache

@lru_cache(maxsize=None)
def load_month(month):
    return read(month)


def main():
    peaks = [load_month(month).max() for month in range(12)]
    while True:
        serve({with_})


main()
"""


@pytest.mark.parametrize(("with_", "is_idle"), [("peaks", True), ("load_month(1)", False)])
def test_a_cache_of_a_function_that_is_called_no_more_is_idle(tmp_path: Path, with_: str, is_idle: bool) -> None:
    builder = RecordingBuilder(tmp_path).process(100).source(100, "/job/fit.py", CACHED.format(with_=with_))
    builder.samples(100, [400 * MB] * 120, every_s=0.25)
    cache = row("fit.load_month", edge_kind="cache", variable="load_month", owner="load_month",
                type_name="functools._lru_cache_wrapper", deep_bytes=200 * MB, owner_file="/job/fit.py",
                reference_count=1)  # fmt: skip
    for number, at_s in enumerate((9.0, 24.0), 1):
        builder.take(100, number, at_s, holders=[cache], array_bytes=200 * MB, seen_lines="/job/fit.py:12 main")
    told = [one for one in analyze(builder.ends(30.0, exit_code=0).open()).findings if one.wasted]
    assert [one.bytes for one in told] == [200 * MB] * is_idle
    if told:
        assert says(told[0].remedy[0], "clear load_month()", "cache_clear()")
        assert not told[0].idle[0].file, "the function may be called again: no edit deletes it"


@pytest.mark.parametrize(
    ("hits", "misses", "is_told"),
    [(0, 5000, True), (20, 5000, True), (900, 5000, False), (0, 1100, False), (None, None, False)],
)
def test_a_full_cache_that_is_never_hit_is_waste(
    tmp_path: Path, hits: int | None, misses: int | None, is_told: bool
) -> None:
    """Not yet where most of what it has was put there only once: the next round may find it."""
    source = CACHED.format(with_="load_month(read())")
    builder = RecordingBuilder(tmp_path).process(100).source(100, "/job/fit.py", source)
    builder.samples(100, [400 * MB] * 120, every_s=0.25)
    cache = row("fit.load_month", edge_kind="cache", variable="load_month", owner="load_month", length=1000,
                type_name="functools._lru_cache_wrapper", deep_bytes=200 * MB, owner_file="/job/fit.py",
                reference_count=1, hit_count=hits, miss_count=misses)  # fmt: skip
    for number, at_s in enumerate((9.0, 24.0), 1):
        builder.take(100, number, at_s, holders=[cache], array_bytes=200 * MB, seen_lines="/job/fit.py:12 main")
    told = [one for one in analyze(builder.ends(30.0, exit_code=0).open()).findings if one.wasted]
    assert [(one.bytes, one.subject.line) for one in told] == [(200 * MB, 4)] * is_told
    assert not told or says(told[0].title, "load_month()", f"{hits} hits", "5,000 misses")


BY_INDEX = """
from functools import lru_cache

class Rows:
    @lru_cache(maxsize=16)
    def __getitem__(self, i):
        return decoded(i)

def main():
    rows = Rows()
    while True:
        fit(rows[3])
"""


def test_a_cache_of_a_method_that_nobody_calls_by_its_name_is_in_use(tmp_path: Path) -> None:
    builder = RecordingBuilder(tmp_path).process(100).source(100, "/job/fit.py", BY_INDEX)
    builder.samples(100, [400 * MB] * 120, every_s=0.25)
    cache = row("fit.Rows.__getitem__", edge_kind="cache", variable="__getitem__", owner="__getitem__",
                type_name="functools._lru_cache_wrapper", deep_bytes=200 * MB, owner_file="/job/fit.py",
                reference_count=1)  # fmt: skip
    for number, at_s in enumerate((9.0, 24.0), 1):
        builder.take(100, number, at_s, holders=[cache], array_bytes=200 * MB, seen_lines="/job/fit.py:12 main")
    assert not [one for one in analyze(builder.ends(30.0, exit_code=0).open()).findings if one.wasted]


STAGED = """
class Trainer:
    def __init__(self):
        self.optimizers = {{}}

    def begin(self, name):
        self.optimizers[name] = make(name)
        return self.optimizers[name]

    def pretrain(self):
        by = self.begin("pretrain")
        for _ in range(9):
            by.step()

    def finetune(self):
        by = self.begin({second})
        while True:
            by.step()
            print(self.optimizers["finetune"].lr)


def main():
    trainer = Trainer()
    trainer.pretrain()
    trainer.finetune()


main()
"""


@pytest.mark.parametrize(("second", "is_idle"), [('"finetune"', True), ('"pretrain"', False), ("name()", False)])
def test_the_optimizer_of_a_stage_that_is_over_is_idle(tmp_path: Path, second: str, is_idle: bool) -> None:
    """By the key under which a function gives it back."""
    builder = RecordingBuilder(tmp_path).process(100).source(100, "/job/fit.py", STAGED.format(second=second))
    builder.samples(100, [600 * MB] * 120, every_s=0.25)
    owner: dict[str, Any] = {"owner": "Trainer", "owner_file": "/job/fit.py", "variable": "optimizers", "is_user": True}
    held = [
        row("main() trainer.optimizers", deep_bytes=200 * MB, **owner),
        row("main() trainer.optimizers['pretrain']", type_name="torch.optim.adamw.AdamW", deep_bytes=200 * MB,
            edge_kind="item", parent="main() trainer.optimizers", reference_count=1, **owner),
    ]  # fmt: skip
    seen = "/job/fit.py:18 finetune\n/job/fit.py:25 main\n/job/fit.py:13 pretrain\n/job/fit.py:8 begin"
    for number, at_s in enumerate((6.0, 18.0), 1):
        builder.take(100, number, at_s, holders=held, tensor_bytes=200 * MB, seen_lines=seen)
    told = [one for one in analyze(builder.ends(30.0, exit_code=0).open()).findings if one.wasted]
    assert [one.subject.holder for one in told] == ["main() trainer.optimizers['pretrain']"] * is_idle


REGISTRY = """
class Registry{bases}:
    def __init__(self):
        self._modules = {{}}


def main():
    registry = Registry()
    while True:
        registry._modules["small"](data())


main()
"""


@pytest.mark.parametrize(("bases", "name"), [("", "registry._modules['large']"), ("(Base)", "registry.large")])
def test_only_of_a_module_of_torch_are_members_called_its_parts(tmp_path: Path, bases: str, name: str) -> None:
    builder = RecordingBuilder(tmp_path).process(100).source(100, "/job/fit.py", REGISTRY.format(bases=bases))
    builder.samples(100, [600 * MB] * 120, every_s=0.25)
    owner: dict[str, Any] = {"owner": "Registry", "owner_file": "/job/fit.py", "variable": "_modules", "is_user": True}
    held = [
        row("main() registry", type_name="__main__.Registry", deep_bytes=200 * MB, edge_kind="local", owner="main",
            variable="registry", owner_file="/job/fit.py"),
        row("main() registry._modules", deep_bytes=200 * MB, **owner),
        row("main() registry._modules['large']", type_name="numpy.ndarray", deep_bytes=200 * MB, edge_kind="item",
            parent="main() registry._modules", **owner),
    ]  # fmt: skip
    builder.take(100, 1, 18.0, holders=held, array_bytes=200 * MB, seen_lines="/job/fit.py:10 main")
    recording = builder.ends(30.0, exit_code=0).open()
    assert f"main() {name}" in {one.path for one in graph_places(recording, 100, [1])}
