"""retained-objects and retained-graph: the holder is named, whatever lies above and below it on the path."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from leakscope import analyze
from leakscope.facts.code.index import Source
from leakscope.facts.heap.accumulation import accumulations, keeps_growing
from leakscope.facts.heap.comparable import Heap
from leakscope.facts.heap.place import Place, Reference
from leakscope.facts.where.libraries import filled_by
from leakscope.findings import Finding, Report
from tests.builders import RecordingBuilder
from tests.sentences import says

MB = 1_000_000
TAKES_S = (2.0, 6.0, 10.0, 14.0, 18.0, 22.0)
SOURCE = """class Trainer:
    def __init__(self):
        self.history = []

    def step(self, batch):
        self.history.append(batch)


def main():
    trainer = Trainer()
    while True:
        trainer.step(bytearray(1000))
"""


def place(path: str, deep: float, **columns: Any) -> dict[str, Any]:
    """One row of the table holders; the parent is the path without its last step unless told otherwise."""
    name = path.rsplit(".", 1)[-1]
    parent = columns.pop("parent", path.rsplit(".", 1)[0] if "." in path else None)
    row = {
        "path": path,
        "parent_path": parent,
        "root_kind": "frame",
        "edge_kind": "attribute" if "." in path else "local",
        "variable": name if "." in path else path.split(" ")[-1],
        "owner": "Trainer" if "." in path else "main",
        "owner_module": "__main__",
        "owner_file": "/job/train.py",
        "owner_line": None,
        "is_user": True,
        "type_name": "list",
        "member_type": None,
        "object_count": 1.0,
        "length": None,
        "length_limit": None,
        "shallow_bytes": 100,
        "deep_bytes": int(deep),
        "array_deep_bytes": 0,
        "tensor_deep_bytes": 0,
        "opaque": False,
        "chained": False,
    }
    return {**row, **columns}


def history(deep: float, length: float, **columns: Any) -> list[dict[str, Any]]:
    """main() trainer -> .history (list) -> its members."""
    return [
        place("main() trainer", deep, type_name="__main__.Trainer"),
        place("main() trainer.history", deep, length=length, member_type="bytearray", **columns),
        place(
            "main() trainer.history[*]",
            deep * 0.98,
            parent="main() trainer.history",
            edge_kind="item",
            variable="history",
            type_name="bytearray",
            object_count=length,
        ),
    ]


def recorded(folder: Path, holders: Any, *, growing: bool = True, takes_s: tuple[float, ...] = TAKES_S) -> Report:
    """A run of 24 s that gains 10 MB a second (or nothing), with ``holders(fraction of the run)`` at each take."""
    rss = [50 * MB + (round(10 * MB * i / 4) if growing else 0) for i in range(96)]
    builder = RecordingBuilder(folder).process(100).samples(100, rss, every_s=0.25).source(100, "/job/train.py", SOURCE)
    for number, at_s in enumerate(takes_s, 1):
        builder.take(100, number, at_s, holders=holders(at_s / 24), rss_bytes=50 * MB + round(at_s * 10 * MB))
    return analyze(builder.ends(24.0, exit_code=0).open())


def growing_run(folder: Path, source: str = SOURCE) -> RecordingBuilder:
    """The same run, its inventories still to come."""
    rss = [50 * MB + round(10 * MB * i / 4) for i in range(96)]
    return RecordingBuilder(folder).process(100).samples(100, rss, every_s=0.25).source(100, "/job/train.py", source)


def first(report: Report) -> Finding:
    assert report.findings, report.verdict.headline
    return report.findings[0]


@pytest.mark.parametrize("role", ["trainer", "dataloader-worker", "pool-worker"])
def test_what_grew_is_told_by_steps_where_they_were_counted(tmp_path: Path, role: str) -> None:
    """All snapshots are of a time in which the job was slow; a loader's worker counts no steps of its own."""

    def steps(at_s: float) -> float:
        return 8 * at_s if at_s < 12 else 96 + 40 * (at_s - 12)

    builder = RecordingBuilder(tmp_path).process(100, role=role).source(100, "/job/train.py", SOURCE)
    builder.samples(100, [50 * MB + round(0.5 * MB * steps(i / 4)) for i in range(96)], every_s=0.25)
    counting = 100 if role == "trainer" else 99
    builder.sentinels(counting, step=[round(steps(s)) for s in range(24)])
    for number, at_s in enumerate((3.0, 6.0, 9.0), 1):
        holders = history(0.4 * MB * steps(at_s), steps(at_s))
        builder.take(100, number, at_s, holders=holders, rss_bytes=50 * MB + round(0.5 * MB * steps(at_s)))
    report = analyze(builder.ends(24.0, exit_code=0).open())
    assert first(report).bytes == pytest.approx(0.8 * report.verdict.growth_bytes, rel=0.05)
    who = {"trainer": "growing: +", "dataloader-worker": "The loader worker", "pool-worker": "in a pool worker: +"}
    assert who[role] in first(report).title


def test_a_table_of_tensors_that_fills_gained_as_many_as_came(tmp_path: Path) -> None:
    """All snapshots are of a time in which it filled fast: live tensors are counted to the end."""

    def members(at_s: float) -> float:
        return 4000 * (1 - float(np.exp(-at_s / 8)))

    each = 20_000.0
    builder = RecordingBuilder(tmp_path).process(100).source(100, "/job/train.py", SOURCE)
    rss = [50 * MB + round(1.2 * each * members(i / 4) + 6 * MB * i / 4) for i in range(96)]
    builder.samples(100, rss, every_s=0.25)
    builder.sentinels(100, tensor_count=[100 + round(members(s)) for s in range(24)])
    for number, at_s in enumerate((3.0, 6.0, 9.0), 1):
        size = each * members(at_s)
        holders = history(size, members(at_s), tensor_deep_bytes=round(size))
        builder.take(100, number, at_s, holders=holders, rss_bytes=50 * MB + round(1.2 * size + 6 * MB * at_s))
    report = analyze(builder.ends(24.0, exit_code=0).open())
    (found,) = [one for one in report.findings if one.kind == "retained-objects"]
    start_s, end_s = report.verdict.start_s or 0.0, report.verdict.end_s or 24.0
    assert found.bytes == pytest.approx(each * (members(end_s) - members(start_s)), rel=0.15)


def test_the_list_is_named_not_its_members_nor_its_owner(tmp_path: Path) -> None:
    found = first(recorded(tmp_path, lambda f: history(240 * MB * f, 2000 * f)))
    assert found.kind == "retained-objects"
    assert found.subject.holder == "Trainer.history (list)"
    assert found.subject.variable == "history"
    assert found.subject.path == "main() trainer.history"
    assert (found.subject.file, found.subject.line) == ("/job/train.py", 6)
    assert found.bytes == pytest.approx(200 * MB, rel=0.15)
    assert found.confidence > 0.85
    assert found.severity == "critical"


HOOKS_SOURCE = """import torch


def attach(layers, masks):
    for layer in layers:
        layer.weight.register_hook(masks[layer].mul)


def main():
    optimizer = torch.optim.SGD(model.parameters())
    while True:
        attach(model, draw())
        optimizer.step()
"""


def test_hooks_that_pile_up_on_tensors_are_named_with_the_line_that_registers(tmp_path: Path) -> None:
    """Whatever leads to the tensor: the line is found by the method, since nobody writes ``_backward_hooks``."""
    library: dict[str, Any] = {"is_user": False, "owner_module": "torch", "owner_file": None}
    rss = [50 * MB + round(10 * MB * i / 4) for i in range(96)]
    builder = RecordingBuilder(tmp_path).process(100).samples(100, rss, every_s=0.25)
    builder.source(100, "/job/train.py", HOOKS_SOURCE)
    for number, at_s in enumerate(TAKES_S, 1):
        held, count = 10 * MB * at_s, 20 * at_s
        state = "main() optimizer.state<key>"
        holders = [
            place("main() optimizer", held, type_name="torch.optim.sgd.SGD"),
            place("main() optimizer.state", held, owner="SGD", type_name="dict", **library),
            place(state, held, parent="main() optimizer.state", edge_kind="key", variable="state", owner="SGD",
                  type_name="torch.nn.parameter.Parameter", object_count=3.0, **library),
            place(f"{state}._backward_hooks", held, parent=state, owner="Parameter", length=count,
                  type_name="collections.OrderedDict", **library),
            place(f"{state}._backward_hooks[*]", held, parent=f"{state}._backward_hooks", edge_kind="item",
                  variable="_backward_hooks", owner="Parameter", type_name="functools.partial", object_count=count,
                  **library),
        ]  # fmt: skip
        builder.take(100, number, at_s, holders=holders, rss_bytes=50 * MB + round(held))
    found = first(analyze(builder.ends(24.0, exit_code=0).open()))
    assert found.kind == "retained-objects"
    assert found.subject.holder == "Parameter._backward_hooks (OrderedDict)"
    assert (found.subject.line, found.subject.function) == (6, "attach")
    assert "remove()" in found.remedy[0]


LOGGING_SOURCE = """import logging
from logging.handlers import MemoryHandler

log = logging.getLogger("samples")


def configure(size):
    recorder = MemoryHandler(size)
    log.addHandler(recorder)


def main():
    configure(500)
    while True:
        log.debug(read())


main()
"""


def test_an_object_given_to_a_library_is_named_with_the_line_that_makes_it(tmp_path: Path) -> None:
    """Its handler was added once: that is not what fills memory, but the buffer of the handler."""
    library: dict[str, Any] = {"root_kind": "module", "is_user": False, "owner_module": "logging", "owner_file": None}
    builder = growing_run(tmp_path, LOGGING_SOURCE)
    for number, at_s in enumerate(TAKES_S, 1):
        held, count = 10 * MB * at_s, 20 * at_s
        logger = {"parent": None, "owner": "train", "variable": "log", "root_kind": "module", "edge_kind": "global"}
        handler = {"variable": "handlers", "type_name": "logging.handlers.MemoryHandler", "edge_kind": "item"}
        record = {"variable": "buffer", "type_name": "logging.LogRecord", "edge_kind": "item", "object_count": count}
        buffer = "train.log.handlers[*].buffer"
        holders = [
            place("train.log", held, type_name="logging.Logger", **logger),
            place("train.log.handlers", held, owner="Logger", length=1.0, **library),
            place("train.log.handlers[*]", held, parent="train.log.handlers", owner="Logger", **library, **handler),
            place(buffer, held, owner="MemoryHandler", length=count, **library),
            place(f"{buffer}[*]", held, parent=buffer, owner="MemoryHandler", **library, **record),
        ]
        builder.take(100, number, at_s, holders=holders, rss_bytes=50 * MB + round(held))
    found = first(analyze(builder.ends(24.0, exit_code=0).open()))
    assert (found.subject.variable, found.subject.holder) == ("buffer", "MemoryHandler.buffer (list)")
    assert (found.subject.line, found.subject.function, found.subject.library) == (8, "configure", "logging")


TIMERS_SOURCE = """import asyncio


class Quota:
    def admit(self, customer):
        loop = asyncio.get_running_loop()
        loop.call_later(1800, self.release, customer)


async def main():
    quota = Quota()
    while True:
        asyncio.create_task(handle(quota))
        await asyncio.sleep(0.1)
"""


def test_timers_of_an_event_loop_are_named_with_the_line_that_asks_for_them(tmp_path: Path) -> None:
    library: dict[str, Any] = {"is_user": False, "owner_module": "asyncio.unix_events", "owner": "_UnixEventLoop"}
    builder = growing_run(tmp_path, TIMERS_SOURCE)
    for number, at_s in enumerate(TAKES_S, 1):
        held, count = 10 * MB * at_s, 20 * at_s
        timer = {"variable": "_scheduled", "type_name": "asyncio.events.TimerHandle", "edge_kind": "item"}
        timers = "run() loop._scheduled"
        holders = [
            place("run() loop", held, type_name="asyncio.unix_events._UnixEventLoop", **library),
            place(timers, held, length=count, **library),
            place(f"{timers}[*]", held, parent=timers, object_count=count, **library, **timer),
        ]
        builder.take(100, number, at_s, holders=holders, rss_bytes=50 * MB + round(held))
    found = first(analyze(builder.ends(24.0, exit_code=0).open()))
    assert (found.subject.variable, found.subject.library) == ("_scheduled", "asyncio")
    assert (found.subject.line, found.subject.function) == (7, "Quota.admit")


def test_a_program_that_does_not_grow_has_no_culprit(tmp_path: Path) -> None:
    report = recorded(tmp_path, lambda f: history(2 * MB * f, 2000 * f), growing=False)
    assert report.findings == []
    assert report.verdict.leaking is False
    assert any(r.kind == "retained-objects" for r in report.ruled_out)


def test_a_container_that_does_not_grow_is_not_accused(tmp_path: Path) -> None:
    report = recorded(tmp_path, lambda f: history(40 * MB, 2000))
    assert [f.kind for f in report.findings] == ["unexplained-growth"]


def test_a_cache_that_filled_early_is_not_accused(tmp_path: Path) -> None:
    report = recorded(tmp_path, lambda f: history(80 * MB * min(1.0, f * 3), 1000 * min(1.0, f * 3)))
    assert "retained-objects" not in [f.kind for f in report.findings]


def test_two_leaks_are_two_findings_largest_first(tmp_path: Path) -> None:
    def holders(f: float) -> list[dict[str, Any]]:
        rows = history(80 * MB * f, 2000 * f)
        rows += [
            place("train.CACHE", 150 * MB * f, parent=None, edge_kind="global", variable="CACHE", owner="train",
                  root_kind="module", type_name="dict", length=500 * f),
            place("train.CACHE[*]", 149 * MB * f, parent="train.CACHE", edge_kind="item", variable="CACHE",
                  owner="train", type_name="numpy.ndarray", object_count=500 * f),
        ]  # fmt: skip
        return rows

    report = recorded(tmp_path, holders)
    assert [f.subject.variable for f in report.findings if f.kind == "retained-objects"] == ["CACHE", "history"]


def test_an_attribute_that_a_hook_gave_to_a_library_object_is_named(tmp_path: Path) -> None:
    source = """def remember(module, inputs, output):
    module.features.append(output.detach())


def main():
    net = build()
    net.register_forward_hook(remember)
"""
    builder = RecordingBuilder(tmp_path).process(100).source(100, "/job/train.py", source)
    builder.samples(100, [50 * MB + round(10 * MB * i / 4) for i in range(96)], every_s=0.25)
    for number, at_s in enumerate(TAKES_S, 1):
        deep = 9.5 * MB * at_s
        conv = {"owner": "Conv2d", "owner_module": "torch.nn", "is_user": False, "variable": "features"}
        rows = [
            place("main() net", deep, type_name="torch.nn.Conv2d"),
            place("main() net.features", deep, length=50 * at_s, **conv),
            place("main() net.features[*]", deep, parent="main() net.features", edge_kind="item",
                  type_name="torch.Tensor", object_count=50 * at_s, **conv),
        ]  # fmt: skip
        builder.take(100, number, at_s, holders=rows, rss_bytes=50 * MB + round(at_s * 10 * MB))
    found = first(analyze(builder.ends(24.0, exit_code=0).open()))
    assert (found.subject.variable, found.subject.line) == ("features", 2)


def test_the_same_attribute_of_several_objects_is_one_finding(tmp_path: Path) -> None:
    """Each meter of a logger keeps its values: one line mends them all."""

    def holders(f: float) -> list[dict[str, Any]]:
        rows = [place("main() log", 230 * MB * f, type_name="__main__.Log")]
        for name, share in (("loss", 0.6), ("boxes", 0.4)):
            values = f"main() log.{name}.values"
            meter = {"owner": "Meter", "variable": "values"}
            rows += [
                place(f"main() log.{name}", 230 * MB * f * share, type_name="__main__.Meter", owner="Log"),
                place(values, 230 * MB * f * share, length=300 * f, **meter),
                place(f"{values}[*]", 229 * MB * f * share, parent=values, edge_kind="item",
                      type_name="torch.Tensor", object_count=300 * f, **meter),
            ]  # fmt: skip
        return rows

    report = recorded(tmp_path, holders)
    assert [f.subject.holder for f in report.findings] == ["Meter.values (list)"]
    assert first(report).bytes == pytest.approx(200 * MB, rel=0.2)


def test_lists_of_one_dict_that_all_grow_are_told_as_the_dict(tmp_path: Path) -> None:
    """Callbacks by topic: each list gained a little, and what holds them gained all of it."""

    def holders(f: float) -> list[dict[str, Any]]:
        feed = {"owner": "Feed", "variable": "listeners"}
        rows = [place("main() feed.listeners", 240 * MB * f, type_name="builtins.dict", length=8, **feed)]
        for number in range(8):
            topic = f"main() feed.listeners[{number}]"
            rows += [
                place(topic, 30 * MB * f, parent="main() feed.listeners", edge_kind="item", length=300 * f, **feed),
                place(f"{topic}[*]", 29 * MB * f, parent=topic, edge_kind="item", type_name="builtins.method",
                      object_count=300 * f, **feed),
            ]  # fmt: skip
        return rows

    finding = first(recorded(tmp_path, holders))
    assert finding.subject.path == "main() feed.listeners"
    weighed = finding.evidence[0].figures
    assert weighed["end_bytes"] == pytest.approx(240 * MB, rel=0.1)
    assert (weighed["start_length"], weighed["end_length"]) == (8, 8)
    assert "method" in finding.title
    assert not any("explains only" in doubt for doubt in finding.doubts)


BANK = SOURCE.replace("= []", "= {}").replace(
    "self.history.append(batch)",
    "kept = self.history.setdefault(len(batch) % 8, [])\n        print(len(kept))\n        kept.append(batch)",
)


def test_where_members_grow_that_came_since_the_line_that_fills_them_is_named(tmp_path: Path) -> None:
    """The dict had no entry in the first snapshot, and its eight lists became longer in all others."""
    builder = growing_run(tmp_path, BANK)
    for number, at_s in enumerate(TAKES_S, 1):
        f = max(0.0, (at_s - 3) / 24)
        rows = [place("main() trainer", 240 * MB * f, type_name="__main__.Trainer")]
        own = {"type_name": "dict", "member_type": "list", "length": 8 if f else 0}
        rows.append(place("main() trainer.history", 240 * MB * f, **own))
        for key in range(8 if f else 0):
            inside = {"parent": "main() trainer.history", "edge_kind": "item", "variable": "history"}
            rows.append(place(f"main() trainer.history[{key}]", 30 * MB * f, length=300 * f, **inside))
        builder.take(100, number, at_s, holders=rows, rss_bytes=50 * MB + round(at_s * 10 * MB))
    finding = first(analyze(builder.ends(24.0, exit_code=0).open()))
    assert finding.subject.line == 1 + BANK.splitlines().index("        kept.append(batch)")


def test_a_library_inside_a_user_object_is_named_by_the_user_variable(tmp_path: Path) -> None:
    def holders(f: float) -> list[dict[str, Any]]:
        state = {"is_user": False, "owner": "Adam", "owner_module": "torch.optim.adam", "variable": "state"}
        return [
            place("main() optimizer", 220 * MB * f, type_name="torch.optim.adam.Adam"),
            place("main() optimizer.state", 220 * MB * f, type_name="dict", length=100 * f, **state),
            place("main() optimizer.state[*]", 219 * MB * f, parent="main() optimizer.state", edge_kind="item",
                  type_name="dict", object_count=100 * f, **state),
        ]  # fmt: skip

    found = first(recorded(tmp_path, holders))
    assert found.subject.variable == "optimizer"
    assert found.subject.path == "main() optimizer.state"


def test_a_part_of_a_module_is_named_as_it_is_written(tmp_path: Path) -> None:
    """torch keeps submodules in a dict of its own: ``model.auroc`` is what the user wrote."""

    def holders(f: float) -> list[dict[str, Any]]:
        net = {"owner": "Net", "variable": "_modules"}
        metric = {"owner": "AUROC", "owner_module": "torchmetrics", "is_user": False, "variable": "preds"}
        modules = "main() model._modules"
        return [
            place("main() model", 220 * MB * f, type_name="__main__.Net"),
            place(modules, 220 * MB * f, type_name="dict", **net),
            place(f"{modules}['auroc']", 220 * MB * f, parent=modules, edge_kind="item",
                  type_name="torchmetrics.AUROC", **net),
            place(f"{modules}['auroc'].preds", 220 * MB * f, parent=f"{modules}['auroc']", length=50 * f, **metric),
            place(f"{modules}['auroc'].preds[*]", 219 * MB * f, parent=f"{modules}['auroc'].preds", edge_kind="item",
                  type_name="torch.Tensor", object_count=50 * f, **metric),
        ]  # fmt: skip

    found = first(recorded(tmp_path, holders))
    assert (found.subject.variable, found.subject.path) == ("auroc", "main() model.auroc.preds")


def test_a_list_of_losses_with_their_graphs_is_a_retained_graph(tmp_path: Path) -> None:
    def holders(f: float) -> list[dict[str, Any]]:
        rows = history(230 * MB * f, 400 * f, tensor_deep_bytes=int(230 * MB * f))
        rows[2] |= {"type_name": "torch.Tensor", "tensor_deep_bytes": int(229 * MB * f)}
        graph = place("main() trainer.history[*].grad_fn", 228 * MB * f, parent="main() trainer.history[*]")
        graph |= {"type_name": "torch autograd graph", "object_count": 4000 * f, "edge_kind": "reference"}
        return [*rows, graph]

    report = recorded(tmp_path, holders)
    found = first(report)
    assert (found.kind, found.subject.variable) == ("retained-graph", "history")
    assert any(".detach()" in advice for advice in found.remedy)
    assert "retained-objects" in [r.kind for r in report.ruled_out]


def test_a_graph_too_long_to_follow_is_suspected(tmp_path: Path) -> None:
    """``total_loss += loss``: the chain has a node for every operation of every step, and a walk gives up early."""
    builder = growing_run(tmp_path)
    for number, at_s in enumerate(TAKES_S, 1):
        rows = [
            place("main() total_loss", 6 * MB, type_name="torch.Tensor"),
            place("main() total_loss.grad_fn", 6 * MB, parent="main() total_loss", edge_kind="reference",
                  variable="total_loss", owner="main", type_name="torch autograd graph", object_count=12000),
        ]  # fmt: skip
        builder.take(100, number, at_s, holders=rows, rss_bytes=50 * MB + round(at_s * 10 * MB), truncated=True)
    found = first(analyze(builder.ends(24.0, exit_code=0).open()))
    assert (found.kind, found.subject.variable) == ("retained-graph", "total_loss")
    assert found.confidence < 0.6
    assert any("longer than a snapshot follows" in e.text for e in found.evidence)


def test_a_holder_of_a_small_part_is_not_critical_though_none_has_more(tmp_path: Path) -> None:
    """A list of results beside a leak in C code."""
    report = recorded(tmp_path, lambda f: history(36 * MB * f, 2000 * f))
    (found,) = [one for one in report.findings if one.kind == "retained-objects"]
    assert (found.subject.variable, found.severity) == ("history", "warning")


def test_two_holders_of_half_explain_the_growth_together(tmp_path: Path) -> None:
    def holders(f: float) -> list[dict[str, Any]]:
        cache = {"edge_kind": "global", "variable": "CACHE", "owner": "train", "root_kind": "module"}
        rows = history(110 * MB * f, 2000 * f)
        rows.append(place("train.CACHE", 110 * MB * f, parent=None, type_name="dict", length=500 * f, **cache))
        return rows

    report = recorded(tmp_path, holders)
    assert {one.subject.variable for one in report.findings} == {"CACHE", "history"}
    assert not [doubt for one in report.findings for doubt in one.doubts if "of the growth" in doubt]


@pytest.mark.parametrize(("part", "is_advised"), [(0.9, True), (0.1, False)])
def test_what_keeps_the_memory_of_exceptions_is_said_where_it_is_much(
    tmp_path: Path, part: float, is_advised: bool
) -> None:
    """A response that failed, with its body and its error: without the traceback the body would stay."""

    def holders(f: float) -> list[dict[str, Any]]:
        rows = history(240 * MB * f, 2000 * f)
        kept = "main() trainer.history[*]"
        for path, kind in ((f"{kept}.error", "builtins.ValueError"), (f"{kept}.error.__traceback__", "traceback")):
            rows.append(place(path, part * 235 * MB * f, type_name=kind, object_count=2000 * f))
        return rows

    remedy = first(recorded(tmp_path, holders)).remedy
    assert any("with_traceback(None)" in advice for advice in remedy) is is_advised


TWO_LINES = SOURCE.replace(
    "\n\ndef main", "\n    def log(self, batch):\n        self.history.append(batch)\n\n\ndef main", 1
)


def allocated(folder: Path, samples: int) -> Finding:
    """Of two functions that add to one list, all that stays is allocated under the second."""
    builder = growing_run(folder, TWO_LINES)
    for number, at_s in enumerate(TAKES_S, 1):
        live = round(10 * MB * at_s)
        builder.take(100, number, at_s, holders=history(live, 100 * at_s), rss_bytes=50 * MB + live)
        builder.row(
            "allocation_stacks", at_s, 100, allocator="malloc", owner_file="/job/train.py", owner_line=9,
            function="Trainer.log", stack="/job/train.py:15 main\n/job/train.py:9 Trainer.log", sample_count=samples,
            live_bytes=live, settled_bytes=live, asked_bytes=live, error_bytes=round(live / samples**0.5),
            native_stack="python3.11:PyByteArray_Resize",
        )  # fmt: skip
    return first(analyze(builder.ends(24.0, exit_code=0).open()))


def test_of_two_lines_that_add_the_one_is_named_under_which_memory_was_allocated(tmp_path: Path) -> None:
    found = allocated(tmp_path, 60)
    assert (found.subject.variable, found.subject.line) == ("history", 9)


def test_few_samples_are_no_evidence_of_where_memory_was_allocated(tmp_path: Path) -> None:
    few, many = tmp_path / "few", tmp_path / "many"
    few.mkdir(), many.mkdir()
    assert allocated(few, 4).confidence < allocated(many, 60).confidence


def test_what_was_never_written_to_is_not_said_to_take_memory(tmp_path: Path) -> None:
    found = first(recorded(tmp_path, lambda f: history(2400 * MB * f, 2000 * f)))
    assert found.bytes < 240 * MB
    assert "never written" in " ".join(found.doubts)


def test_a_full_buffer_beside_a_leak_does_not_excuse_it(tmp_path: Path) -> None:
    def holders(f: float) -> list[dict[str, Any]]:
        full = place("main() recent", 5 * MB, type_name="collections.deque", length=100, length_limit=100)
        return [*history(240 * MB * f, 2000 * f), full]

    assert first(recorded(tmp_path, holders)).subject.variable == "history"


def test_the_locals_that_are_gone_at_exit_are_no_decline(tmp_path: Path) -> None:
    rss = [50 * MB + round(10 * MB * i / 4) for i in range(96)]
    builder = RecordingBuilder(tmp_path).process(100).samples(100, rss, every_s=0.25)
    for number, at_s in enumerate(TAKES_S, 1):
        builder.take(
            100, number, at_s, holders=history(10 * MB * at_s, 100 * at_s), rss_bytes=50 * MB + round(at_s * 10 * MB)
        )
    builder.take(100, 7, 23.9, holders=[place("train.LOG", 40_000, parent=None)], reason="exit", rss_bytes=60 * MB)
    found = first(analyze(builder.ends(24.0, exit_code=0).open()))
    assert found.subject.variable == "history"


def test_two_takes_are_enough_to_name_and_too_few_to_be_sure(tmp_path: Path) -> None:
    found = first(recorded(tmp_path, lambda f: history(240 * MB * f, 2000 * f), takes_s=(6.0, 18.0)))
    assert found.subject.variable == "history"
    assert any("only 2 snapshots" in doubt for doubt in found.doubts)


def test_one_take_cannot_tell(tmp_path: Path) -> None:
    report = recorded(tmp_path, lambda f: history(240 * MB * f, 2000 * f), takes_s=(6.0,))
    assert any(s.kind == "retained-objects" and "two" in s.reason for s in report.skipped)


def test_inventories_that_were_cut_short_are_better_than_none_of_the_growth(tmp_path: Path) -> None:
    """The first two were whole, before the list grew; the walks of the others ran out of time."""
    builder = growing_run(tmp_path)
    for number, at_s in enumerate(TAKES_S, 1):
        builder.take(
            100, number, at_s, holders=history(10 * MB * max(at_s - 6, 0), 100 * at_s),
            rss_bytes=50 * MB + round(at_s * 10 * MB), truncated=number > 2,
        )  # fmt: skip
    found = first(analyze(builder.ends(24.0, exit_code=0).open()))
    assert found.subject.variable == "history"
    assert any("cut short" in doubt for doubt in found.doubts)


def test_uncountable_members_of_a_library_are_no_guess(tmp_path: Path) -> None:
    """Its length is an estimate that wavers; nothing says that its members are what nobody can see."""

    def holders(f: float) -> list[dict[str, Any]]:
        lib = {"is_user": False, "owner": "OpOverload", "owner_module": "torch._ops", "root_kind": "library"}
        return [
            place("lib.table[*]._tags", 60_000, length=700 + 400 * f, variable="_tags", parent=None, **lib),
            place("lib.table[*]._tags[*]", 50_000, parent="lib.table[*]._tags", edge_kind="item", opaque=True, **lib),
        ]

    assert [f.kind for f in recorded(tmp_path, holders).findings] == ["unexplained-growth"]


def test_what_lies_between_freed_memory_answers_for_it(tmp_path: Path) -> None:
    """Small tensors kept between large ones that were freed: malloc has the memory back and cannot use it."""
    builder = growing_run(tmp_path)
    builder.sentinels(100, malloc_free_bytes=[8 * MB * s for s in range(24)])
    for number, at_s in enumerate(TAKES_S, 1):
        rows = history(2 * MB * at_s, 100 * at_s)
        builder.take(100, number, at_s, holders=rows, rss_bytes=50 * MB + round(at_s * 10 * MB))
    report = analyze(builder.ends(24.0, exit_code=0).open())
    found = first(report)
    assert found.subject.variable == "history"
    assert found.bytes == pytest.approx(200 * MB, rel=0.2), "what mending it frees"
    assert "of freed memory fragmented around them" in found.title
    assert any("malloc" in e.text and "pinned_bytes" in e.figures for e in found.evidence)
    assert "unexplained-growth" in [r.kind for r in report.ruled_out]


@pytest.mark.parametrize(("pinned", "is_one"), [(0.02, True), (0.12, False)])
def test_hardly_anything_in_pieces_gives_title_and_remedy_one_figure(
    tmp_path: Path, pinned: float, is_one: bool
) -> None:
    builder = growing_run(tmp_path)
    builder.sentinels(100, malloc_free_bytes=[round(10 * MB * pinned * s) for s in range(24)])
    for number, at_s in enumerate(TAKES_S, 1):
        rows = history((1 - pinned) * 10 * MB * at_s, 100 * at_s)
        builder.take(100, number, at_s, holders=rows, rss_bytes=50 * MB + round(at_s * 10 * MB))
    found = first(analyze(builder.ends(24.0, exit_code=0).open()))
    told = found.title.partition("+")[2].partition(" of ")[0]
    assert (f"about {told} " in found.remedy[0]) is is_one
    assert ("of freed memory" in found.remedy[0]) is not is_one


@pytest.mark.parametrize(("ratio", "is_more"), [(1.03, False), (1.2, True)])
def test_a_gain_is_more_than_the_process_gained_only_beyond_what_estimates_are_off(
    tmp_path: Path, ratio: float, is_more: bool
) -> None:
    found = first(recorded(tmp_path, lambda f: history(ratio * 240 * MB * f, 2000 * f)))
    assert any("memory the process already had" in evidence.text for evidence in found.evidence) is is_more


def test_a_small_list_does_not_answer_for_a_heap_full_of_holes(tmp_path: Path) -> None:
    builder = growing_run(tmp_path)
    builder.sentinels(100, malloc_free_bytes=[9.9 * MB * s for s in range(24)])
    for number, at_s in enumerate(TAKES_S, 1):
        rows = history(0.1 * MB * at_s, 100 * at_s)
        builder.take(100, number, at_s, holders=rows, rss_bytes=50 * MB + round(at_s * 10 * MB))
    report = analyze(builder.ends(24.0, exit_code=0).open())
    assert "retained-objects" not in [f.kind for f in report.findings]


@pytest.mark.parametrize(
    ("values", "time_s", "expected"),
    [
        ([1, 2, 3, 4, 5, 6], None, True),
        ([1, 1, 3, 3, 5, 5], None, True),  # in jumps
        ([5, 9, 2, 8, 3, 9], None, False),  # up and down
        ([1, 5, 9, 9, 9, 9, 9, 9, 9], None, False),  # filled early
        ([1, 3, 5, 7, 9, 9], [1, 2, 3, 4, 5, 60], False),  # the same: snapshots had become dear
        ([1, 9, 9, 9, 9, 9, 14], [1, 54, 55, 56, 57, 58, 90], True),  # they came often for a while
        ([6, 5, 4, 3], None, False),
        ([1, 2], None, True),
        ([2, 2], None, False),
    ],
)
def test_what_keeps_growing(values: list[float], time_s: list[float] | None, expected: bool) -> None:
    import numpy as np

    at_s = np.array(time_s or range(len(values)), dtype=float)
    assert keeps_growing(at_s, np.array(values, dtype=float)) is expected


LISTENERS = """
from busline import events

class Import:
    def __init__(self, session):
        self.session, self.rows = session, []
        {register}

    def changed(self, row):
        self.rows.append(row)

def main():
    session = events.Session()
    while True:
        Import(session)
"""


@pytest.mark.parametrize(
    "register, held_below, kind",
    [
        ('events.listen(session, "change", self.changed)', {"type_name": "__main__.Import"}, "method"),
        (
            "def seen(row):\n            self.rows.append(row)\n        session.on_change(seen)",
            {"edge_kind": "cell", "variable": "self", "owner": "Import.__init__.<locals>.seen"},
            "function",
        ),
    ],
)
def test_callbacks_in_a_table_of_a_library_have_the_line_that_registers_them(
    tmp_path: Path, register: str, held_below: dict[str, Any], kind: str
) -> None:
    source = LISTENERS.replace("{register}", register)
    table = "main() session.dispatch.listeners"
    library = {"owner": "Dispatch", "owner_module": "busline.events", "owner_file": None, "is_user": False}

    def holders(f: float) -> list[dict[str, Any]]:
        deep, count = 240 * MB * f, 2000 * f
        own = {"owner": "main", "variable": "session"}
        return [
            place("main() session", deep, type_name="busline.events.Session", **own),
            place("main() session.dispatch", deep, type_name="busline.events.Dispatch", **library),
            place(table, deep, type_name="list", length=count, member_type=kind, **library),
            place(table + "[*]", deep, parent=table, edge_kind="item", type_name=kind, object_count=count, **library),
            place(
                table + "[*].~", deep, parent=table + "[*]", object_count=count,
                **{**library, "edge_kind": "reference", **held_below},
            ),
        ]  # fmt: skip

    builder = growing_run(tmp_path, source)
    for number, at_s in enumerate(TAKES_S, 1):
        builder.take(100, number, at_s, holders=holders(at_s / 24), rss_bytes=50 * MB + round(at_s * 10 * MB))
    found = first(analyze(builder.ends(24.0, exit_code=0).open()))
    wanted = register.splitlines()[-1].strip()
    assert (found.kind, source.splitlines()[(found.subject.line or 0) - 1].strip()) == ("retained-objects", wanted)
    assert any("unregister what is registered" in remedy for remedy in found.remedy)


BOARD = """
import multiprocessing

def worker(board):
    number = 0
    while True:
        board[number] = bytes(1000)
        number += 1

def main():
    with multiprocessing.Manager() as manager:
        board = manager.dict()
        seen = manager.list()
        settings = dict(board)
        multiprocessing.Process(target=worker, args=(board,)).start()
"""


@pytest.mark.parametrize("members", [1, 2000], ids=["of numbers", "of dicts, which are one place with it"])
def test_what_a_managers_server_keeps_has_the_name_of_the_proxy(tmp_path: Path, members: int) -> None:
    def holders(f: float) -> list[dict[str, Any]]:
        library = {"owner": "Server", "owner_module": "multiprocessing.managers", "owner_file": None, "is_user": False}
        kept = "BaseManager._run_server() server.id_to_obj"
        inner = {"edge_kind": "item", "variable": "id_to_obj", **library}
        deep = 240 * MB * f
        return [
            place(
                kept, deep, type_name="dict", variable="id_to_obj", length=3, **{**library, "edge_kind": "attribute"}
            ),
            place(kept + "[*]", deep, parent=kept, type_name="tuple", **inner),
            place(
                kept + "[*][*]", deep, parent=kept + "[*]", type_name="dict", length=2000 * f,
                object_count=max(1, members * f), **inner,
            ),
        ]  # fmt: skip

    builder = growing_run(tmp_path, BOARD)
    for number, at_s in enumerate(TAKES_S, 1):
        builder.take(100, number, at_s, holders=holders(at_s / 24), rss_bytes=50 * MB + round(at_s * 10 * MB))
    found = first(analyze(builder.ends(24.0, exit_code=0).open()))
    assert (found.kind, found.subject.holder) == ("retained-objects", "main() board (dict)")
    assert (found.subject.file, found.subject.line) == ("/job/train.py", 7)


REGISTERED_SOURCE = """import atexit


class Log:
    def __init__(self):
        self.rounds = []
        atexit.register(self.close)

    def close(self):
        self.rounds.clear()


def main():
    while True:
        Log().rounds.append(bytearray(1 << 20))
"""


@pytest.mark.cases(2)
@pytest.mark.parametrize("type_name", ["__main__.Log", "method"])  # the method that was given, in an exact graph
@pytest.mark.parametrize("is_registered", [True, False])
def test_objects_that_only_c_code_holds_are_named_with_the_line_that_gave_them_away(
    tmp_path: Path, is_registered: bool, type_name: str
) -> None:
    """Given to nobody, they are a matter of reference counts. Inventories look for them once memory is seen to grow."""
    source = REGISTERED_SOURCE if is_registered else REGISTERED_SOURCE.replace("atexit.register(self.close)", "pass")
    builder = growing_run(tmp_path, source)
    for number, at_s in enumerate(TAKES_S, 1):
        columns: dict[str, Any] = {
            "root_kind": "outside", "edge_kind": "global", "variable": "Log", "owner": None,
            "type_name": type_name, "object_count": 10.0 * at_s,
        }  # fmt: skip
        holders = [place("__main__.Log objects outside Python", 10 * MB * at_s, **columns)]
        builder.take(100, number, at_s, holders=holders, rss_bytes=50 * MB + round(10 * MB * at_s))
    report = analyze(builder.ends(24.0, exit_code=0).open())
    assert bool([f for f in report.findings if f.kind == "retained-objects"]) is is_registered
    if is_registered:
        found = first(report)
        assert found.title.startswith("What C code holds of Log keeps growing")
        assert (found.subject.line, found.subject.function) == (7, "Log.__init__")
        assert found.bytes == pytest.approx(200 * MB, rel=0.15)  # also what was there before anybody looked


def test_a_setting_up_that_runs_once_is_not_the_line_that_fills(tmp_path: Path) -> None:
    source = """import contextlib


class Watch:
    def __init__(self):
        self.resources = contextlib.ExitStack()

    def __enter__(self):
        self.file = self.resources.enter_context(open("f"))

    def trigger(self):
        self.resources.enter_context(window(self.file))


def main():
    with Watch() as watch:
        while True:
            watch.trigger()
"""
    builder = growing_run(tmp_path, source)
    for number, at_s in enumerate(TAKES_S, 1):
        held = 10 * MB * at_s
        holders = [
            place("main() watch", held, type_name="__main__.Watch"),
            place("main() watch.resources", held, type_name="contextlib.ExitStack", owner="Watch"),
        ]
        builder.take(100, number, at_s, holders=holders, rss_bytes=50 * MB + round(held))
    found = first(analyze(builder.ends(24.0, exit_code=0).open()))
    assert (found.subject.line, found.subject.function) == (12, "Watch.trigger")


@pytest.mark.parametrize("edge_kind", ["item", "reference"])  # of an OrderedDict Python lists no items
def test_large_members_that_arrive_one_after_the_other_are_told_as_their_container(
    tmp_path: Path, edge_kind: str
) -> None:
    """Each has a row of its own in the graph, and none of them grows."""
    builder = growing_run(tmp_path, SOURCE)
    for number, at_s in enumerate((6.0, 14.0, 22.0), 1):
        kept = [n for n in range(8) if 3 * n < at_s]
        path = "main() history"
        holders = [place(path, 30 * MB * len(kept), object_count=1.0, length=len(kept))]
        for n in kept:
            item = {
                "parent": path,
                "edge_kind": edge_kind,
                "variable": None,
                "owner": None,
                "type_name": "__main__.Encoder",
            }
            embed = {"parent": f"{path}[{n}]", "variable": "embed", "owner": "Encoder", "type_name": "torch.Tensor"}
            one = {"object_count": 1.0, "length": None}
            holders += [
                place(f"{path}[{n}]", 30 * MB, **item, **one),
                place(f"{path}[{n}].embed", 30 * MB, **embed, **one),
            ]
        builder.take(100, number, at_s, holders=holders, rss_bytes=50 * MB + round(10 * MB * at_s))
    found = first(analyze(builder.ends(24.0, exit_code=0).open()))
    assert found.kind == "retained-objects"
    assert found.subject.path == "main() history"


def test_members_that_had_rows_of_their_own_at_first_are_told_as_their_container(tmp_path: Path) -> None:
    """The group of the others held next to nothing then, and a thousand times as much for each of them later."""
    builder = growing_run(tmp_path, SOURCE)
    path = "main() history"
    for number, at_s in enumerate((6.0, 14.0, 22.0), 1):
        count, size = round(10 * at_s), round(10 * MB * at_s)
        together = (count, size) if number > 1 else (1, 400)
        rest = place(
            f"{path}[*]", together[1], parent=path, edge_kind="item", variable=None, owner=None, length=None,
            type_name="function", object_count=float(together[0]),
        )  # fmt: skip
        holders = [place(path, size, object_count=1.0, length=count), rest]
        builder.take(100, number, at_s, holders=holders, rss_bytes=50 * MB + size)
    found = first(analyze(builder.ends(24.0, exit_code=0).open()))
    assert found.subject.path == path


def test_what_a_lesser_process_holds_is_not_critical(tmp_path: Path) -> None:
    """A parent holds 40 MB by the end, and its worker gains 240: what the parent has is a part of the answer."""
    rss = [50 * MB + round(MB * i / 4 * 1.7) for i in range(96)]
    builder = (
        RecordingBuilder(tmp_path).process(100).samples(100, rss, every_s=0.25).source(100, "/job/train.py", SOURCE)
    )
    builder.process(101, "worker").samples(101, [50 * MB + round(10 * MB * i / 4) for i in range(96)], every_s=0.25)
    for number, at_s in enumerate(TAKES_S, 1):
        held = 40 * MB * at_s / 24
        builder.take(100, number, at_s, holders=history(held, held / 1e4), rss_bytes=50 * MB + round(at_s * 1.7 * MB))
    report = analyze(builder.ends(24.0, exit_code=0).open())
    (lesser,) = [finding for finding in report.findings if finding.subject.variable == "history"]
    assert lesser.severity == "warning"


def test_a_table_that_came_at_once_is_no_leak_yet(tmp_path: Path) -> None:
    """Its process gained steadily while the table was built under no name; then all of it was there."""
    report = recorded(tmp_path, lambda f: history(220 * MB, 2000) if f > 0.8 else history(1000, 1))
    assert report.verdict.leaking is None
    assert says(report.verdict.headline, "main() trainer.history", "at once", "18.0 s", "22.0 s")
    assert all(finding.severity == "note" for finding in report.findings)


def test_what_is_emptied_after_the_last_samples_is_no_leak_yet(tmp_path: Path) -> None:
    """The list of an epoch: a starved recorder saw it fill, and a snapshot a little later saw it empty."""

    report = recorded(
        tmp_path,
        lambda f: history(240 * MB * f, 2000 * f) if f < 1.04 else history(2 * MB, 20),
        takes_s=(*TAKES_S, 25.2),
    )
    assert report.verdict.leaking is None
    assert says(report.verdict.headline, "main() trainer.history", "25.2 s", "emptied")


CHANNELS = """
import busline

class Job:
    def __init__(self, number):
        self.sink = busline.Sink(f"{number}.txt")
        self.channel = busline.channel(f"jobs.{number}")
        self.channel.to(self.sink)

def main():
    busline.configure(level=INFO)
    while True:
        Job(new_number())
"""


def test_of_calls_of_a_library_that_holds_it_the_one_that_makes_members_is_named(tmp_path: Path) -> None:
    """What set it up ran once; what makes an object of another class adds nothing to it, whatever it allocates."""
    table = "busline.hub.channels"
    library = {
        "owner": "Hub",
        "owner_module": "busline.hub",
        "owner_file": None,
        "is_user": False,
        "root_kind": "module",
    }

    def holders(f: float) -> list[dict[str, Any]]:
        deep, count = 240 * MB * f, 2000 * f
        members = {"edge_kind": "item", "type_name": "busline.Channel", "object_count": count, **library}
        return [
            place("busline.hub", deep, parent=None, type_name="busline.hub.Hub", **library),
            place(table, deep, type_name="dict", length=count, member_type="busline.Channel", **library),
            place(table + "[*]", deep, parent=table, **members),
        ]

    builder = growing_run(tmp_path, CHANNELS)
    for number, at_s in enumerate(TAKES_S, 1):
        types = [{"type_name": f"busline.{name}", "object_count": 100 * number} for name in ("Channel", "Sink")]
        builder.take(
            100, number, at_s, holders=holders(at_s / 24), types=types, rss_bytes=50 * MB + round(at_s * 10 * MB)
        )
        for line, bytes_a_second in ((6, 8 * MB), (7, MB)):
            stack = f"/job/train.py:13 main\n/job/train.py:{line} Job.__init__"
            builder.row(
                "allocation_stacks", at_s, 100, allocator="malloc", stack=stack, function="Job.__init__",
                owner_file="/job/train.py", owner_line=line, live_bytes=int(at_s * bytes_a_second), settled_bytes=0,
                sample_count=40, error_bytes=0, asked_bytes=int(at_s * bytes_a_second),
            )  # fmt: skip
    found = first(analyze(builder.ends(24.0, exit_code=0).open()))
    assert (found.kind, found.subject.line) == ("retained-objects", 7)


@pytest.mark.parametrize("module", ["loaded_5e8ff9bf_train", "train"])
def test_a_module_with_a_name_of_its_loaders_making_is_called_as_its_file(tmp_path: Path, module: str) -> None:
    """As Airflow gives to the files of its DAGs."""
    source = "KEPT = []\n\ndef read(rows):\n    KEPT.extend(rows)\n"
    builder = growing_run(tmp_path, source)
    of_module = {"owner": module, "owner_module": module, "edge_kind": "global", "root_kind": "module"}
    for number, at_s in enumerate(TAKES_S, 1):
        kept = place(f"{module}.KEPT", 10 * MB * at_s, parent=None, variable="KEPT", length=90 * at_s, **of_module)
        builder.take(100, number, at_s, holders=[kept], rss_bytes=50 * MB + round(at_s * 10 * MB))
    found = first(analyze(builder.ends(24.0, exit_code=0).open()))
    assert (found.subject.holder, found.subject.line) == ("train.KEPT (list)", 4)


STEPS = """
import flow

@flow.steps
def regions():
    for number in count():
        yield flow.Region(number)

@flow.step
def history(region):
    return table(region)

flow.run(regions, history)
"""


@pytest.mark.parametrize("caller", ["flow/runs.py:88 call", "other/runs.py:88 call"])
def test_what_a_function_returns_to_the_library_that_keeps_it_is_told_with_its_line(
    tmp_path: Path, caller: str
) -> None:
    """The engine of a workflow calls the steps and keeps what they return: calls of it elsewhere fill nothing."""
    library = {"owner": "Outputs", "owner_module": "flow.kept", "owner_file": None, "is_user": False}
    library |= {"root_kind": "module"}
    builder = growing_run(tmp_path, STEPS)
    for number, at_s in enumerate(TAKES_S, 1):
        kept = {"type_name": "dict", "length": 40 * at_s, "array_deep_bytes": int(10 * MB * at_s), **library}
        outputs = place("flow.kept", 10 * MB * at_s, parent=None, type_name="flow.kept.Outputs", **library)
        table = place("flow.kept.values", 10 * MB * at_s, **kept)
        builder.take(100, number, at_s, holders=[outputs, table], rss_bytes=50 * MB + round(at_s * 10 * MB))
        stack = f"/env/lib/python3.11/site-packages/{caller}\n/job/train.py:11 history"
        builder.allocated(100, at_s, int(10 * MB * at_s), stack, sample_count=60)
    found = first(analyze(builder.ends(24.0, exit_code=0).open()))
    is_its_own = caller.startswith("flow")
    assert (found.subject.holder, found.subject.line) == ("Outputs.values (dict)", 11 if is_its_own else 7)
    assert says(found.remedy[0], "flow keeps what history() returns") == is_its_own


def test_workers_that_fill_the_same_thing_are_one_finding(tmp_path: Path) -> None:
    """Of a web server, say: with eight workers nobody wants to read eight times what is wrong."""
    builder = RecordingBuilder(tmp_path).process(1).samples(1, [30 * MB] * 96, every_s=0.25)
    builder.source(1, "/job/train.py", SOURCE)
    for pid, faster in ((11, 1.0), (12, 1.1)):
        builder.process(pid, ppid=1, role="python-fork")
        builder.samples(pid, [50 * MB + round(10 * MB * faster * i / 4) for i in range(96)], every_s=0.25)
        for number, at_s in enumerate(TAKES_S, 1):
            gained = 10 * MB * faster * at_s
            builder.take(pid, number, at_s, holders=history(gained, 90 * at_s), rss_bytes=round(50 * MB + gained))
    report = analyze(builder.ends(24.0, exit_code=0).open())
    (found,) = [f for f in report.findings if f.kind == "retained-objects"]
    assert says(found.title, "Trainer.history", "each of 2 processes")
    assert found.bytes == pytest.approx(report.verdict.growth_bytes, rel=0.1)
    assert any(says(e.text, "[11]", "[12]") for e in found.evidence)


HUBS = """import busline

first, second = busline.Hub(), busline.Hub()


def main():
    while True:
        for hub in (first, second):
            hub.send(make())
"""


def test_two_objects_of_a_class_that_are_filled_at_one_line_are_one_finding(tmp_path: Path) -> None:
    """To mend the one is to mend the other: both are named, and what the two gained is added up."""

    def holders(f: float) -> list[dict[str, Any]]:
        own = {"owner": "Hub", "owner_module": "busline.hub", "owner_file": None, "is_user": False}
        own |= {"root_kind": "module", "variable": "sent", "edge_kind": "attribute", "member_type": "dict"}
        return [
            place(f"busline.hub.{name}.sent", part * MB * f, parent=None, length=1000 * f, **own)
            for name, part in (("left", 140), ("right", 100))
        ]

    builder = growing_run(tmp_path, HUBS)
    for number, at_s in enumerate(TAKES_S, 1):
        builder.take(100, number, at_s, holders=holders(at_s / 24), rss_bytes=50 * MB + round(at_s * 10 * MB))
    report = analyze(builder.ends(24.0, exit_code=0).open())
    (found,) = [f for f in report.findings if f.kind == "retained-objects"]
    assert any(says(e.text, "2 objects", "left.sent", "right.sent") for e in found.evidence)
    assert found.bytes == pytest.approx(report.verdict.growth_bytes, rel=0.15)


@pytest.mark.parametrize(("kind", "told"), [("bytes", "bytes in dict"), ("numpy.ndarray", "arrays in dict")])
def test_the_title_names_what_weighs_in_the_members(tmp_path: Path, kind: str, told: str) -> None:
    """By a member that was looked into: a dict itself takes next to nothing."""

    def holders(f: float) -> list[dict[str, Any]]:
        deep, rows = 240 * MB * f, "main() rows"
        member = {"edge_kind": "item", "type_name": "dict", "variable": None}
        return [
            place(rows, deep, length=2000 * f, member_type="dict"),
            place(f"{rows}[*]", 0.99 * deep, parent=rows, object_count=2000 * f, **member),
            place(f"{rows}[7]", 0.12 * MB, parent=rows, **member),
            place(f"{rows}[7]['image']", 0.119 * MB, parent=f"{rows}[7]", **{**member, "type_name": kind}),
        ]

    assert told in first(recorded(tmp_path, holders)).title


GATEWAY = """class Gateway:
    def __init__(self):
        self.cache, self.failures = {}, []

    def handle(self, request):
        self.cache[request.key] = request
        if request.failed:
            self.failures.append(request)


def main():
    gateway = Gateway()
    while True:
        gateway.handle(Request())
"""


def test_a_list_that_grows_beside_a_cache_that_is_emptied_now_and_then_is_named(tmp_path: Path) -> None:
    """The object that has both holds less in the last snapshot than in the first, as the cache was just emptied."""
    takes_s = tuple(float(s) for s in range(4, 160, 8))
    cache = {s: 60 * MB * ((s + 9) % 15) / 15 for s in takes_s}
    failures = {s: 0.8 * MB * s for s in takes_s}
    rss = [round(50 * MB + 0.8 * MB * i / 4 + 60 * MB * ((i / 4 + 9) % 15) / 15) for i in range(640)]
    builder = RecordingBuilder(tmp_path).process(100).samples(100, rss, every_s=0.25)
    builder.source(100, "/job/train.py", GATEWAY)
    own = {"owner": "Gateway", "parent": "main() gateway"}
    for number, at_s in enumerate(takes_s, 1):
        kept, gone = failures[at_s], cache[at_s]
        holders = [
            place("main() gateway", kept + gone, type_name="__main__.Gateway"),
            place("main() gateway.cache", gone, type_name="dict", length=gone / 1000, **own),
            place("main() gateway.failures", kept, length=kept / 1000, member_type="Request", **own),
        ]
        builder.take(100, number, at_s, holders=holders, rss_bytes=round(50 * MB + kept + gone))
    report = analyze(builder.ends(160.0, exit_code=0).open())
    assert report.verdict.leaking is True
    found = first(report)
    assert (found.kind, found.subject.variable, found.subject.line) == ("retained-objects", "failures", 8)
    assert says(found.title, "Gateway.failures")


def test_a_doubt_counts_in_how_sure_a_holder_is(tmp_path: Path) -> None:
    """Three snapshots, of which the last saw as much more as the one before, or much less as of what fills up."""

    def told(folder: str, late: float) -> Finding:
        at = {2.0: 2.0, 12.0: 12.0, 22.0: 12.0 + 10 * late}
        rows = {s / 24: history(10 * MB * n, 1000 * n) for s, n in at.items()}
        (tmp_path / folder).mkdir()
        return first(recorded(tmp_path / folder, rows.__getitem__, takes_s=tuple(at)))

    steady, slower = told("steady", 1.0), told("slower", 0.4)
    is_doubted = ["cache" in " ".join(one.doubts) for one in (steady, slower)]
    assert is_doubted == [False, True]
    assert slower.confidence < steady.confidence
    assert any(not ground.is_for for ground in slower.grounds)


@pytest.mark.parametrize("goes_on", [True, False])
def test_a_table_that_was_loaded_early_keeps_growing_no_more(tmp_path: Path, goes_on: bool) -> None:
    """Another list goes on: three snapshots, of which the first saw the table half loaded."""
    builder = growing_run(tmp_path)
    for number, at_s in enumerate((2.0, 7.0, 22.0), 1):
        table = at_s if goes_on else min(at_s, 7.0)
        held = [
            place("main() table", 8 * MB * table, length=round(100 * table), member_type="Row"),
            *history(3 * MB * at_s, round(500 * at_s)),
        ]
        builder.take(100, number, at_s, holders=held, rss_bytes=50 * MB + round(at_s * 10 * MB))
    report = analyze(builder.ends(24.0, exit_code=0).open(), only=["retained-objects"])
    told = [one.subject.variable for one in report.findings]
    assert told == (["table", "history"] if goes_on else ["history"])


@pytest.mark.parametrize("grows", [True, False])
def test_a_chain_of_objects_may_be_of_any_length(grows: bool) -> None:
    import numpy as np

    levels = np.array([1.0, 2.0, 3.0, 4.0]) * MB if grows else np.full(4, 1.0 * MB)
    top = below = None
    for number in range(5_000):
        here = Place(f"node{number}", "list", Reference("attribute", "next"), levels, np.ones(4), np.zeros(4))
        here.parent = below
        if below is None:
            top = here
        else:
            below.children.append(here)
        below = here
    assert top is not None
    none = np.zeros(4)
    heap = Heap(1, np.arange(4.0), none, none, none, (1, 2, 3, 4), False, (top,), (top,))
    assert [one.place for one in accumulations(heap, MB)] == ([below] if grows else [])


TRACED = """import tracelib


class Trainer:
    @tracelib.function
    def update(self, batch, rate):
        return batch * rate

    def fit(self):
        step = 0
        while True:
            self.update(step, 1 / step)
            step += 1


Trainer().fit()
"""


def test_a_call_that_ran_once_gives_way_to_the_line_that_allocated_what_is_held(tmp_path: Path) -> None:
    """A library hangs a cache on a class of the user's: nothing adds to that, and one call adds no hundreds."""
    library = {"owner": "Function", "owner_module": "tracelib", "owner_file": None, "is_user": False}
    user = {"owner": "train", "edge_kind": "global"}

    def holders(f: float) -> list[dict[str, Any]]:
        deep, count, table = 240 * MB * f, 2000 * f, "train.Trainer.graphs"
        graph = {"edge_kind": "item", "type_name": "tracelib.Graph", "object_count": count, "root_kind": "module"}
        return [
            place("train.Trainer", deep, parent=None, type_name="type", root_kind="module", **user),
            place(table, deep, type_name="dict", length=count, root_kind="module", **library),
            place(f"{table}[*]", deep, parent=table, array_bytes=deep, **graph, **library),
        ]

    builder = growing_run(tmp_path, TRACED)
    for number, at_s in enumerate(TAKES_S, 1):
        builder.take(100, number, at_s, holders=holders(at_s / 24), rss_bytes=50 * MB + round(at_s * 10 * MB))
        builder.allocated(100, at_s, int(at_s * 9 * MB), "/job/train.py:16 <module>\n/job/train.py:12 Trainer.fit")
    found = first(analyze(builder.ends(24.0, exit_code=0).open()))
    assert (found.kind, found.subject.holder) == ("retained-objects", "train.Trainer (type)")
    assert (found.subject.line, found.subject.function) == (12, "Trainer.fit")


@pytest.mark.parametrize("is_users", [True, False])
def test_functions_of_a_librarys_module_do_not_pile_up(is_users: bool) -> None:
    """More of them are read as memory allows; names that a program's own module gets ever more of may be a leak."""
    levels, none = np.array([1.0, 2.0, 3.0, 4.0]) * MB, np.zeros(4)
    space = Place("torch.linalg.__dict__", "dict", Reference(edge_kind="namespace"), levels, np.ones(4), none, node=9)
    norm = Reference("global", "norm", is_user=is_users)
    known = Place("torch.linalg.norm", "function", norm, none, np.ones(4), none)
    members = Place("torch.linalg.__dict__[*]", "function", Reference("item"), levels, np.arange(1, 5) * 9.0, none)
    space.children += [known, members]
    known.parent = members.parent = space
    heap = Heap(1, np.arange(4.0), none, none, none, (1, 2, 3, 4), False, (space,), (space, known, members))
    assert bool([*accumulations(heap, MB)]) == is_users


@pytest.mark.parametrize(("before", "is_told"), [(200.0, False), (2.0 * MB, True)])
def test_a_local_of_a_librarys_call_that_just_runs_holds_nothing_for_long(before: float, is_told: bool) -> None:
    """``concat()`` had small ones in hands at the snapshot before, and has the whole frame now."""
    levels, none = np.array([0.0, before / 2, before, 28.0 * MB]), np.zeros(4)
    local = Place("concat() arrays.<ndarray>", "numpy.ndarray", Reference("reference"), levels, np.ones(4), none)
    local.root_kind = "frame"
    heap = Heap(1, np.arange(4.0), none, none, none, (1, 2, 3, 4), False, (local,), (local,))
    assert bool([*accumulations(heap, MB)]) == is_told


HOOKS = """
def look(net, images):
    outputs = []

    def collect(module, given, output):
        outputs.append(output)

    net.register_forward_hook(collect)
    net(images)


def main(net):
    {calls}


main(make())
"""


@pytest.mark.parametrize(
    ("calls", "line"), [("while True:\n        look(net, read())", 8), ("look(net, read())", None)]
)
def test_what_ever_more_hooks_collect_is_mended_where_they_are_registered(calls: str, line: int | None) -> None:
    none = np.zeros(4)
    path = "main() net._forward_hooks.<function> closure outputs"
    outputs = Place(path, "list", Reference("cell", "outputs", is_user=True), none, none, none)
    found = filled_by([Source("__main__", "/job/train.py", HOOKS.format(calls=calls))], outputs)
    assert (found[1][0].line if found is not None else None) == line


@pytest.mark.parametrize(("share", "told"), [(0.8, "main() rows"), (0.4, "main()")])
def test_of_a_function_that_runs_the_variable_with_most_of_it_is_the_holder(share: float, told: str) -> None:
    """Also where it alone gained less than is told: nobody can hold less in a function."""
    levels = np.array([1.0, 2.0, 3.0, 4.0]) * MB
    call = Place("main()", "frame", Reference(), levels, np.ones(4), np.zeros(4), node=5)
    rows = Place("main() rows", "list", Reference("local", "rows", is_user=True), share * levels, np.ones(4), levels)
    batch = Place("main() batch", "list", Reference("local", "batch"), (1 - share) / 2 * levels, np.ones(4), levels)
    for place_ in (call, rows, batch):
        place_.root_kind = "frame"
    call.children += [rows, batch]
    rows.parent = batch.parent = call
    heap = Heap(1, np.arange(4.0), *[np.zeros(4)] * 3, (1, 2, 3, 4), False, (call,), (call, rows, batch))
    assert [one.place.path for one in accumulations(heap, 2.9 * MB) if one.place is not None] == [told]


def test_members_of_every_size_that_come_one_by_one_are_their_lists() -> None:
    """Of trials of a search only the largest two are worth a word of their own."""
    levels, none = np.array([5.0, 10.0, 16.0, 33.0]) * MB, np.zeros(4)
    length = np.array([1.0, 3.0, 5.0, 8.0])
    trials = Place(
        "main() trials", "list", Reference("local", "trials", is_user=True), levels, np.ones(4), length, has_length=True
    )
    for number, (size, since) in enumerate([(5, 0), (2, 1), (3, 1), (3, 2), (3, 2), (8, 3), (9, 3)]):
        held = np.where(np.arange(4) >= since, size * MB, 0.0)
        one = Place(
            f"main() trials[{number}]", "search.Trial", Reference("item"), held, np.sign(held), none, node=number
        )
        one.parent = trials
        trials.children.append(one)
    heap = Heap(1, np.arange(4.0), none, none, none, (1, 2, 3, 4), False, (trials,), (trials, *trials.children))
    assert [one.place for one in accumulations(heap, 5.5 * MB)] == [trials]


BUFFERED = """import logging.handlers


def main():
    buffered = logging.handlers.MemoryHandler(100_000)
    while True:
        note(read())


def note(batch):
    kept = batch.copy()
    logging.debug("%s", kept)


main()
"""


def test_what_was_made_once_gives_way_to_the_line_that_allocated_what_is_held(tmp_path: Path) -> None:
    """Who adds is a library: of the program only where it was made, and what was allocated for it, are known."""
    builder = growing_run(tmp_path, BUFFERED)
    library = {"owner": "MemoryHandler", "owner_module": "logging.handlers", "owner_file": None, "is_user": False}
    for number, at_s in enumerate(TAKES_S, 1):
        deep = at_s * 9 * MB
        held = [
            place("main() buffered", deep, type_name="logging.handlers.MemoryHandler"),
            place("main() buffered.buffer", deep, length=100 * at_s, **library),
        ]
        builder.take(100, number, at_s, holders=held, rss_bytes=50 * MB + round(at_s * 10 * MB))
        builder.allocated(100, at_s, int(deep), "/job/train.py:7 main\n/job/train.py:11 note")
    found = first(analyze(builder.ends(24.0, exit_code=0).open()))
    assert found.subject.holder == "main() buffered (MemoryHandler)"
    assert (found.subject.line, found.subject.function) == (11, "note")
