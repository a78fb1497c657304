"""What torch says beside the graph of the heap: gradients, autograd graphs, and whose each tensor is."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

from leakscope import schema
from leakscope.facts.heap.comparable import Heap
from leakscope.facts.heap.graph import laid_over
from leakscope.facts.heap.history import History
from leakscope.facts.heap.place import GRAPH_TYPE, Place
from leakscope.facts.tables import records
from leakscope.facts.weights.named import named_sets
from leakscope.storage import rows_of_table

from .forks import Forks

pytestmark = [pytest.mark.live, pytest.mark.torch, pytest.mark.xdist_group("torch-forks")]

MiB = 1024 * 1024
PID, TICKS = 7, 70

SETUP = """
import json, sys, torch, _thread
from torch import nn
from leakscope.agent.graph.heap_graph import HeapGraph
from leakscope.agent.snapshots import exact, pause, torch_look
from leakscope.agent.torch.remembered import Remembered

torch_is_asked = False
graph, memory, written = HeapGraph(), Remembered(), []

def take(is_after_step=True):
    number = sum(table == "takes" for table, _ in written) + 1
    layout = memory.tensor_layout.get()
    if layout is not None and not graph.weighs_tensors:
        graph.weigh_tensors(*layout)
    memory.history_tries *= not torch_is_asked
    look = torch_look.Look(memory, (), pause.unlimited(), 5.0)
    one = exact.ExactSnapshot(number, graph, pause.unlimited(), look)
    waits = torch_look.others_wait(graph.running())
    assert one.read(holds_still=waits, is_after_step=is_after_step)
    written.extend(one.run())
    written.append(("takes", dict(one.summary, take=number)))
"""


class _Tables(dict[str, Any]):
    def _deriving(self, makers: dict[str, Any]) -> dict[str, Any]:
        return self | {"tensors": makers["tensors"](), "weights": makers["weights"]()}


class Taken:
    """What a program's snapshots say: ``take()`` makes one, in a process of its own."""

    def __init__(self, forks: Forks, script: str) -> None:
        rows: dict[str, list[dict[str, Any]]] = {}
        for table, row in json.loads(forks.run(f"{SETUP}{script}\nprint(json.dumps(written))")):
            row |= {"pid": PID, "start_ticks": TICKS, "time_s": float(row.get("take") or 0)}
            rows.setdefault(table, []).append(row)
        self.rows = rows
        self.tables: Any = _Tables({name: rows_of_table(name, rows.get(name, [])) for name in schema.TABLES})
        self.takes = [row["take"] for row in rows["takes"]]

    def places(self) -> dict[str, Place]:
        return {place.path: place for place in self.seen.places}

    @property
    def seen(self) -> Heap:
        places = laid_over(History(self.tables, PID), self.takes)
        at_s = np.array(self.takes, dtype=float)
        return Heap(PID, at_s, at_s, at_s, at_s, tuple(self.takes), False, (), tuple(places))


@pytest.mark.slow
def test_what_a_list_of_losses_keeps_are_their_graphs(forks: Forks) -> None:
    """Every loss keeps the activations that backward would have used, in C++."""
    places = Taken(
        forks,
        """
net = nn.Sequential(nn.Linear(64, 4096), nn.ReLU(), nn.Linear(4096, 1))
data = torch.randn(32, 64)
class Trainer: pass
def main():
    trainer = Trainer()
    trainer.losses = []
    for _ in range(3):
        for _ in range(20):
            trainer.losses.append(net(data).mean())
        take()
main()
""",
    ).places()
    losses = places["main() trainer.losses"]
    graphs = [place for place in places.values() if place.type_name == GRAPH_TYPE and place.parent is not None]
    own = [place for place in graphs if place.path.startswith("main() trainer.losses")]
    each = 32 * 4096 * 4  # what ReLU saved; its input was freed
    assert losses.growth_bytes == pytest.approx(40 * each, rel=0.2)
    shown = [graph.deep_bytes[-1] for graph in own if graph.deep_bytes[-1] >= each]  # not of all there is room for rows
    assert shown and sum(shown) <= losses.deep_bytes[-1]
    assert shown[1:] == pytest.approx([each] * (len(shown) - 1), rel=0.2)
    assert losses.tensor_bytes[-1] - losses.tensor_bytes[0] <= losses.growth_bytes
    assert np.all(np.diff(sum(graph.count for graph in own)) >= 20 * 4)  # operations of each


@pytest.mark.slow
def test_a_running_loss_is_one_place_though_it_is_another_tensor_each_time(forks: Forks) -> None:
    places = Taken(
        forks,
        """
net = nn.Linear(256, 256)
data = torch.randn(512, 256)
def main():
    total = torch.zeros(())
    for _ in range(3):
        for _ in range(20):
            total = total + net(data).relu().mean()
        take()
main()
""",
    ).places()
    total = places["main() total"]
    assert np.all(np.diff(total.deep_bytes) > 15 * 512 * 256 * 4)
    assert "main() total'" not in places


@pytest.mark.slow
def test_gradients_are_a_part_of_the_model_that_has_them(forks: Forks) -> None:
    places = Taken(
        forks,
        """
model = nn.Linear(1000, 1000)
take()
model(torch.randn(8, 1000)).sum().backward()
take()
""",
    ).places()
    path, weight = next((path, place) for path, place in places.items() if path.endswith("model.weight"))
    assert weight.deep_bytes[0] == pytest.approx(4_000_000, rel=0.01)
    assert weight.deep_bytes[1] == pytest.approx(8_000_000, rel=0.01)
    assert places[path.removesuffix(".weight")].tensor_bytes[1] == pytest.approx(8_008_000, rel=0.01)


def test_tensors_are_told_by_owner_and_by_the_container_that_holds_them(forks: Forks) -> None:
    found = Taken(
        forks,
        """
def main():
    model = nn.Linear(512, 512)
    optimizer = torch.optim.Adam(model.parameters())
    model(torch.randn(4, 512)).sum().backward()
    optimizer.step()
    kept = {"scores": [torch.randn(100_000) for _ in range(5)], "one": torch.randn(200_000)}
    outputs = model(torch.randn(4000, 512))
    take()
    return kept, outputs
main()
""",
    )
    rows = records(found.tables["tensors"])
    sums = {row["tensor_owner"]: row["storage_bytes"] for row in rows if row["node"] is None}
    assert sums["parameter"] == sums["gradient"] == (512 * 512 + 512) * 4
    assert sums["optimizer-state"] == pytest.approx(2 * sums["parameter"], rel=0.01)
    assert sums["user-held"] == pytest.approx(700_000 * 4, rel=0.01)
    assert sums["activation"] == pytest.approx(4000 * 512 * 4, rel=0.01)
    seen = found.seen.by_number
    places = {seen[row["node"]].path: row["storage_bytes"] for row in rows if row["node"] is not None}
    assert sum(places.values()) == 700_000 * 4 and all(path.startswith("main() kept") for path in places)
    (summary,) = found.rows["takes"]
    assert summary["tensor_bytes"] == pytest.approx(sum(sums.values()), rel=0.01)


def test_weights_belong_to_the_model_as_the_program_calls_it(forks: Forks) -> None:
    taken = Taken(
        forks,
        """
def main():
    model = nn.Linear(512, 512)
    models = [nn.Linear(256, 256), nn.Linear(256, 256)]
    saved = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    take()
    return models, saved
main()
""",
    )
    rows = records(named_sets(taken.seen, taken.tables["weights"])[0])
    sets = {(row["weight_set"], row["tensor_name"]) for row in rows}
    assert {("main() model", "weight"), ("main() models[0]", "weight"), ("main() models[1]", "bias")} <= sets
    assert "main() saved" in {weight_set for weight_set, _ in sets}


@pytest.mark.slow
def test_the_graph_has_storages_before_it_is_known_where_torch_keeps_them(forks: Forks) -> None:
    found = Taken(
        forks,
        """
held = torch.ones(1_000_000)
take()
take()
""",
    )
    assert [row["weighs_tensors"] for row in found.rows["heap_graphs"]] == [True, True]
    assert [row["storage_bytes"] >= 4_000_000 for row in found.rows["heap_graphs"]] == [True, True]
    first, second = (row["storage_bytes"] for row in found.rows["heap_graphs"])
    assert first == pytest.approx(second, rel=0.01)


@pytest.mark.parametrize("differs", ["number", "0"], ids=["of-many-sizes", "of-one-size"])
def test_near_a_limit_a_part_of_the_graph_weighs_the_tensors_that_it_reaches(forks: Forks, differs: str) -> None:
    """From the first snapshot on, though torch is asked of a few tensors alone, and they may be all alike."""
    found = Taken(
        forks,
        f"import resource\nnumbers = [{differs} for number in range(50)]"
        """
class Miner:
    def __init__(self):
        self.pool = [(0.5, torch.ones(100_000 + number)) for number in numbers]
def main():
    miner = Miner()
    mapped = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (mapped + 40 * 1024 * 1024, resource.RLIM_INFINITY))
    take()
main()
""",
    )
    (graph,) = found.rows["heap_graphs"]
    assert (graph["is_sampled"], graph["weighs_tensors"]) == (True, True)
    (pool,) = [row for row in found.rows["heap_nodes"] if row["edge_name"] == "pool"]
    assert pool["length"] == 50
    assert pool["retained_storage_bytes"] == pytest.approx(4 * 50 * 100_025, rel=0.001)


def test_near_a_limit_a_part_of_the_graph_weighs_what_autograd_keeps(forks: Forks) -> None:
    """A list of losses that were not detached is small; what hangs on it is what the process is killed for."""
    found = Taken(
        forks,
        """
import resource
class Trainer:
    def __init__(self):
        self.losses = []
def main():
    trainer, model = Trainer(), nn.Sequential(nn.Linear(256, 10), nn.Tanh(), nn.Linear(10, 3), nn.Tanh())
    for _ in range(50):
        trainer.losses.append(model(torch.randn(400, 256)).mean())
    mapped = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (mapped + 64 * 1024 * 1024, resource.RLIM_INFINITY))
    take(); take()
main()
""",
    )
    assert [(row["is_sampled"], row["weighs_tensors"]) for row in found.rows["heap_graphs"]] == [(True, True)] * 2
    losses = [row for row in found.rows["heap_nodes"] if row["edge_name"] == "losses"]
    assert [row["length"] for row in losses] == [50, 50]
    kept = 50 * 4 * 400 * (256 + 10 + 3)
    assert [row["retained_storage_bytes"] for row in losses] == [pytest.approx(kept, rel=0.01)] * 2


def test_what_views_keep_alive_and_do_not_show_is_known(forks: Forks) -> None:
    """Beside them a layer, an array that is held as a whole as well, and one that is all shown."""
    found = Taken(
        forks,
        """
import numpy
layer, kept = nn.Linear(300, 300), []
tensors = [torch.zeros(1000, 100)[3:10] for _ in range(6)]
arrays = [numpy.zeros((1000, 50))[:, 3:8] for _ in range(6)]
wholes = [numpy.zeros((1000, 50)) for _ in range(6)]
parts = [one[:10] for one in wholes]
turned = [torch.zeros(1000, 100).T for _ in range(6)]
take(); take()
""",
    )
    names = [f"['{name}']" for name in ("tensors", "arrays", "parts", "turned", "layer")]
    rows = {row["edge_name"]: row for row in found.rows["heap_nodes"] if row["take"] == 2 and row["edge_name"] in names}
    unshown = [rows[name]["retained_unshown_bytes"] if name in rows else None for name in names]
    assert unshown[:2] == [6 * 4 * 100 * 993, pytest.approx(6 * 8 * 45 * 1000, rel=0.001)]  # an array has a head
    assert unshown[2:] == [None, None, None]


@pytest.mark.slow
def test_a_graph_that_two_hold_hangs_on_what_holds_both(forks: Forks) -> None:
    """The middle of a computation and its end: one graph, and it is freed once both are."""
    places = Taken(
        forks,
        """
weights = nn.Parameter(torch.randn(256, 256))
class Kept: pass
def main():
    kept = Kept()
    kept.middle = (torch.randn(4096, 256) @ weights).sigmoid()
    kept.end = kept.middle.sigmoid().sigmoid().mean()
    take(); take()
main()
""",
    ).places()
    kept = places["main() kept"]
    assert kept.deep_bytes[0] >= 3 * 4096 * 256 * 4
    assert sum(place.deep_bytes[0] for place in kept.children) <= kept.deep_bytes[0]


@pytest.mark.slow
def test_what_looks_is_nobodys_memory(forks: Forks) -> None:
    """At a safe point the recorder runs on the program's own thread, and its variables are not the program's."""
    rows = Taken(
        forks,
        """
held = [torch.ones(1000) for _ in range(2000)]
take()
""",
    ).rows["heap_nodes"]
    own = [row for row in rows if "/agent/" in (row["owner_file"] or "") and row["type_name"] == "frame"]
    assert all(row["root_kind"] == "recorder" for row in own)
    assert {row["owner"] for row in rows if row["type_name"] == "frame" and row["root_kind"] != "recorder"} <= {"take"}


def test_of_too_many_tensors_the_large_ones_and_those_with_a_history_are_looked_at(forks: Forks) -> None:
    """A small one stands for its like: a large one, taken for two, would be most of what there is."""
    taken = Taken(
        forks,
        """
small = [torch.zeros(4) for _ in range(30_000)]
large = [torch.zeros(1024 * 1024)]
net = nn.Linear(16, 64)
data = torch.randn(8, 16)
def main():
    history = []
    for _ in range(3):
        history += [net(data) for _ in range(50)]
        take()
main()
""",
    )
    rows = taken.rows["takes"]
    assert all(row["truncated"] for row in rows)
    assert rows[0]["tensor_bytes"] == pytest.approx(4 * MiB + 30_000 * 16 + 50 * 8 * 64 * 4, rel=0.02)
    assert taken.places()["main() history"].growth_bytes >= 100 * 8 * 64 * 4


def test_a_graph_is_held_by_what_was_kept_and_not_by_what_came_of_it(forks: Forks) -> None:
    """The state that a network hands on to itself, and what it says now: both lead to all that was before."""
    places = Taken(
        forks,
        """
class Agent(nn.Module):
    def __init__(self):
        super().__init__()
        self.cell, self.out = nn.GRUCell(8, 64), nn.Linear(64, 4)
        self.state = torch.zeros(32, 64)
    def act(self, seen):
        self.state = self.cell(seen, self.state)
        return self.out(self.state)
agent = Agent()
class Meter: total = 0.0
meter = Meter()
def main():
    for _ in range(4):
        for _ in range(50):
            said = agent.act(torch.randn(32, 8))
            value = agent.out(torch.randn(32, 64)).exp().mean()
            meter.total = meter.total + value
        take()
main()
""",
    ).places()
    for path, each in (("__main__.agent.state", 50 * 3 * 32 * 64 * 4), ("__main__.meter.total", 50 * 32 * 4 * 4)):
        grew = np.diff(places[path].deep_bytes)
        assert grew[1] == pytest.approx(grew[2], rel=0.05)
        assert np.all(grew[1:] > each)  # what the gates saved, and what exp() did
    assert places["main() said"].deep_bytes[-1] < 0.05 * places["__main__.agent.state"].deep_bytes[-1]


def test_graphs_are_followed_through_functions_written_in_python_and_to_what_only_these_keep(forks: Forks) -> None:
    places = Taken(
        forks,
        """
class Scaled(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, table):
        ctx.table = table
        return x * 2
    @staticmethod
    def backward(ctx, grad):
        return grad * 2, None
weights = nn.Parameter(torch.ones(100_000))
def main():
    take()
    first = Scaled.apply(weights * 3, bytearray(1_000_000)).exp().view(10, -1)[2:]
    first += 1
    take(); take()
main()
""",
    ).places()
    assert places["main() first"].deep_bytes[-1] == pytest.approx(1_000_000 + 400_000, rel=0.02)


def test_what_large_operations_save_is_found_and_what_stands_in_lists(forks: Forks) -> None:
    """A fused layer saves a dozen tensors in a node of a kilobyte, an index a list of them."""
    places = Taken(
        forks,
        """
layer = nn.LSTM(64, 128, batch_first=True)
table = nn.Parameter(torch.ones(1000, 2))
class Log: pass
def main():
    log = Log()
    log.states, log.rows = [], []
    take()
    for _ in range(3):
        for _ in range(5):
            log.states.append(layer(torch.randn(16, 50, 64))[0].mean())
            log.rows.append(table[torch.randint(1000, (100_000,)), torch.zeros(100_000, dtype=torch.long)].mean())
        take()
main()
""",
    ).places()
    gates = 16 * 50 * 4 * 128 * 4
    states, rows = (np.diff(places[f"main() log.{name}"].deep_bytes[1:]) for name in ("states", "rows"))
    assert np.all(states >= 5 * gates)  # beside what the layer works with
    assert rows == pytest.approx(5 * 2 * 100_000 * 8, rel=0.1)


def test_what_hooks_made_of_saved_tensors_is_found_and_no_hook_is_run(forks: Forks) -> None:
    """Activation checkpoints and offloading keep something else than the tensor, which only the hooks know.

    From the others it is seen where tensors have their bytes.
    """
    taken = Taken(
        forks,
        """
others = [torch.ones(1000 * n) for n in range(1, 6)]
unpacked = []
class Packed:
    def __init__(self, tensor):
        self.kept = tensor.detach().clone()
def unpack(packed):
    unpacked.append(packed)
    return packed.kept
def main():
    losses = []
    take()
    for _ in range(3):
        with torch.autograd.graph.saved_tensors_hooks(Packed, unpack):
            losses += [torch.ones(250_000, requires_grad=True).exp().mean() for _ in range(5)]
        take()
    assert not unpacked
main()
""",
    )
    grew = np.diff(taken.places()["main() losses"].deep_bytes[1:])
    assert grew == pytest.approx([5_000_000, 5_000_000], rel=0.02)


def test_the_input_that_a_checkpoint_keeps_is_found(forks: Forks) -> None:
    """Since torch 2.13 it is in an object of C++, of which Python has only a wrapper."""
    taken = Taken(
        forks,
        """
from torch.utils.checkpoint import checkpoint
others = [torch.ones(1000 * n) for n in range(1, 6)]
layer = nn.Linear(1000, 4)
def main():
    losses = []
    take()
    for _ in range(3):
        for _ in range(20):
            losses.append(checkpoint(layer, torch.ones(250, 1000, requires_grad=True), use_reentrant=False).mean())
        take()
main()
""",
    )
    grew = np.diff(taken.places()["main() losses"].deep_bytes[1:])
    assert grew == pytest.approx([20_000_000] * 2, rel=0.02)


def test_what_functions_written_in_python_saved_is_found_however_much(forks: Forks) -> None:
    """It is in their objects, in lists that the collector is not told of: a compiled model saves dozens of tensors."""
    taken = Taken(
        forks,
        """
others = [torch.ones(1000 * n) for n in range(1, 6)]
class Compiled(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(*(x + n for n in range(40)))
        return x * 2
    @staticmethod
    def backward(ctx, grad):
        return grad * 2
weights = nn.Parameter(torch.ones(25_000))
def main():
    losses = []
    take()
    for _ in range(3):
        losses += [Compiled.apply(weights).mean() for _ in range(3)]
        take()
main()
""",
    )
    grew = np.diff(taken.places()["main() losses"].deep_bytes[1:])
    assert grew == pytest.approx([3 * 40 * 100_000] * 2, rel=0.02)


def test_a_pointer_that_was_left_over_in_a_node_is_no_object_that_it_holds(forks: Forks) -> None:
    """Nobody clears the memory of a node before it is made, and the object may go before the graph is followed."""
    said = forks.run(
        SETUP
        + """
import ctypes
from leakscope.agent.torch import autograd
others = [torch.ones(1000 * n) for n in range(1, 6)]
weights = nn.Parameter(torch.ones(4))
usable = ctypes.CDLL(None).malloc_usable_size
usable.argtypes, usable.restype = (ctypes.c_void_p,), ctypes.c_size_t
def last_words_of(tensor, count):
    node = tensor.grad_fn
    for _ in range(count):
        at = autograd._behind(node)
        yield ctypes.c_uint64.from_address(at + usable(at) // 8 * 8 - 8)
        node = node.next_functions[0][0]
def main():
    take()
    x = weights * 1
    for _ in range(20):
        x = x * 1
    take()
    left_over = [([],) * 1_000_000]  # malloc gives its memory back at once
    words = list(last_words_of(x, 20))
    before = [word.value for word in words]
    for word in words:
        word.value = id(left_over[0])
    follow = graph.histories
    def after_it_went(*arguments):
        left_over.clear()
        return follow(*arguments)
    graph.histories = after_it_went
    take()
    for word, value in zip(words, before):
        word.value = value
    assert not left_over, "the graph was not followed"
    print("went on")
main()
"""
    )
    assert said == "went on\n"


def test_wherever_a_node_is_thought_to_lie_the_job_goes_on(forks: Forks) -> None:
    """What was learnt of torch may be wrong: then what is read as an address is any number."""
    said = forks.run(
        f"""{SETUP}
net = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 10))
losses = [net(torch.randn(8, 64)).sum() for _ in range(100)]
take(), take()
assert memory.history_places is not None
meta, function, edges, sequence, each = memory.history_places
tokens = [(id(tensor), 2**62 + number) for number, tensor in enumerate(losses)]
tried = 0
def follow(*places):
    global tried
    tried += 1
    graph.histories(places, tokens, (), 0.002)
    return True
assert graph.read(3, 1e9, 1 << 33) is not None
for one in range(8, 128, 8):
    for other in range(8, 256, 8):
        follow(one, other, edges, sequence, each)
for at in range(8, 240, 8):
    for bytes_each in (16, 24):
        follow(meta, function, at, sequence, bytes_each)
        follow(meta, function, edges, at, bytes_each)
graph.drop()
print(tried)
"""
    )
    assert int(said) == 15 * 31 + 29 * 4


def test_a_way_to_a_node_that_may_be_by_chance_is_not_taken(forks: Forks) -> None:
    """Behind the end of another of a tensor's blocks there may lie the one that knows of its node."""
    said = forks.run(
        f"""{SETUP}
import ctypes
def block(**words):
    made = (ctypes.c_uint64 * 40)()
    for at, value in words.items():
        made[int(at[1:])] = value
    blocks.append(made)
    return ctypes.addressof(made)
blocks = []
def places(is_by_chance):
    nodes = [block(_2=7 + number) for number in range(4)]
    nexts, known = [], []
    for number, node in enumerate(nodes[:3]):
        edge = block(_0=nodes[number + 1])
        ctypes.memmove(node + 64, (ctypes.c_uint64 * 2)(edge, edge + 16), 16)
        known.append((node, 7 + number, len(nexts), 1))
        nexts.append(nodes[number + 1])
    knows = block(_6=nodes[0])
    others = block(_20=nodes[0] if is_by_chance else 0)
    tensor = block(_2=block(_2=others, _3=knows))
    return graph.find_histories(known, nexts, [(tensor, nodes[0])])
graph.weigh_tensors(0, 16, 16, 8, 16, 0)
print(places(False), places(True))
"""
    )
    assert said == "(24, 48, 64, 16, 16) None\n"


@pytest.mark.parametrize("is_busy", (False, True), ids=("waits", "works"))
def test_of_a_thread_that_may_be_inside_torch_nothing_that_it_may_change_is_read(forks: Forks, is_busy: bool) -> None:
    """It lets go of the GIL there: gradients come and go, and what graphs have saved. Two models are trained."""
    found = Taken(
        forks,
        f"""
import threading
net, other = nn.Linear(64, 64), nn.Linear(64, 64)
optimizers = [torch.optim.SGD(one.parameters(), lr=0.1) for one in (net, other)]
ends, begun = threading.Event(), threading.Event()
def work():
    begun.set()
    while {is_busy} and not ends.is_set():
        sum(range(100))
    ends.wait()
thread = threading.Thread(target=work)
def main():
    thread.start()
    begun.wait()
    take()
    net(torch.randn(8, 64)).sum().backward()
    kept = [net(torch.randn(4000, 64)).exp().mean() for _ in range(3)]
    take()
    ends.set()
    thread.join()
main()
""",
    )
    owners = {row["tensor_owner"] for row in found.rows["tensors"] if row["take"] == 2}
    assert ({"gradient", "saved-for-backward"} <= owners) is not is_busy
    assert bool(found.rows.get("gradients")) is not is_busy


def test_looking_at_graphs_leaves_no_trace_on_their_nodes(forks: Forks) -> None:
    """Of one that torch was asked about the Python object stays, and frees it by recursion."""
    told = forks.run(
        SETUP
        + """
from leakscope.agent.interpreter import census
from leakscope.agent.torch import autograd
import gc
weights, net = nn.Parameter(torch.ones(4)), nn.Linear(64, 32)
def main():
    take()
    kept = []
    for _ in range(5):
        for _ in range(30):
            x = weights * 1
            for _ in range(100):
                x = x * 1
            kept.append(x)
        take()
    print(json.dumps([sum("Backward" in type(one).__name__ for one in gc.get_objects()), autograd.MOST_ASKED_NODES]))
main()
"""
    )
    seen, most = json.loads(told)
    assert seen <= 2 * most  # with those that these lead to


@pytest.mark.parametrize("shape", ("4", "4 + len(history)"), ids=("of-one-shape", "of-many-shapes"))
def test_graphs_are_weighed_when_no_more_of_them_may_be_looked_at(forks: Forks, shape: str) -> None:
    """Looks leave traces, and of those only so many may exist: what was seen before tells of what comes later."""
    taken = Taken(
        forks,
        f"""
torch_is_asked = True
weights = nn.Parameter(torch.ones(1))
def main():
    history = []
    for _ in range(6):
        for _ in range(40):
            x = torch.ones({shape}) * weights
            for _ in range(200):
                x = x + weights
            history.append(x)
        take()
main()
""",
    )
    held = taken.places()["main() history"].deep_bytes
    assert held == pytest.approx([held[0] * (take + 1) for take in range(6)], rel=0.1)


@pytest.mark.parametrize("knows_layout", (True, False), ids=("by-the-reader", "by-torch"))
def test_what_is_on_a_device_is_told_beside_the_memory_of_the_process(forks: Forks, knows_layout: bool) -> None:
    """There is no device here: these storages of the host say that they are on one."""
    taken = Taken(
        forks,
        f"""
import ctypes
from leakscope.agent.torch import tensors as looking

class Trainer:
    def __init__(self):
        self.history = []

def on_device(*sizes):
    made = [torch.empty(n) for n in sizes]
    for one in made:
        layout = memory.tensor_layout.get() or known
        ctypes.c_uint8.from_address(one.untyped_storage()._cdata + layout[4]).value = 1
    return made

trainer, on_host = Trainer(), [torch.zeros(300_000), torch.zeros(200_000)]
take()
known = memory.tensor_layout.get()
assert known
if not {knows_layout}:
    graph.weigh_tensors = lambda *layout: None
    graph.weighs_tensors = False
    add = looking._add
    def told(inventory, tensor, factor=1):
        storage = add(inventory, tensor, factor)
        if storage is not None and any(tensor is one for one in trainer.history):
            storage.device = "cuda:0"
        return storage
    looking._add = told
for round in range(3):
    trainer.history += on_device(*[250_000] * 10)
    take()
""",
    )
    graphs = taken.rows["heap_graphs"]
    assert [row["device_bytes"] for row in graphs] == [None, 10_000_000, 20_000_000, 30_000_000]
    assert all(row["storage_bytes"] <= 2_100_000 for row in graphs), "no memory of the process"
    told = laid_over(History(taken.tables, PID, on_devices=True), taken.takes)
    places = {place.path: place for place in told}
    history = next(place for path, place in places.items() if path.endswith("trainer.history"))
    assert history.deep_bytes.tolist() == [0, 10_000_000, 20_000_000, 30_000_000]
    assert history.length[-1] == 30
    assert not any("on_host" in path for path in places)


def test_of_many_tensors_so_many_are_asked_as_may_be_and_the_others_are_weighed_by_them(forks: Forks) -> None:
    script = """
import functools
torch_look.Look = functools.partial(torch_look.Look, most_tensors=50)
kept = [torch.zeros(1000) for _ in range(500)]
take()
"""
    (take,) = Taken(forks, script).rows["takes"]
    assert 0.8 * 500 * 4000 < take["tensor_bytes"] < 1.2 * 500 * 4000
