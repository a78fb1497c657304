"""The walk gives every holder its name and its bytes, whatever it is made of, and keeps nothing of what it saw."""

from __future__ import annotations

import _thread
import argparse
import array
import asyncio
import contextlib
import contextvars
import ctypes
import functools
import gc
import importlib
import itertools
import mmap
import subprocess
import sys
import threading
import time
import types
import weakref
from collections import OrderedDict, defaultdict, deque
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from leakscope.agent.interpreter import doors, names, reading
from leakscope.agent.snapshots import snapshot
from leakscope.agent.torch.tensor_openers import Tensors
from leakscope.agent.walking import beyond, openers, roots
from leakscope.agent.walking import walk as w
from leakscope.agent.walking.remembered import Remembered
from leakscope.agent.walking.sampling import VISIT_ALL

from ..harm.interpreters import Interpreter, interpreters
from .staging import stage


def census() -> names.ByClass:
    found = names.ByClass()
    for kind in map(type, gc.get_objects()):
        found.add(kind, 1)
    return found


def walked(**held: Any) -> dict[str, w.Node]:
    """Nodes by path after a walk from named roots."""
    walk = w.Walk(time.perf_counter() + 30, Tensors())
    walk.running = roots.running_frames()
    for name, obj in held.items():
        walk.root("module", name, openers.GLOBAL, obj, (name, "test", "test", __file__, 1, True))
        walk.run()
    walk.finish(census())
    return {node.path(): node for node in walk.nodes}


class Trainer:
    def __init__(self) -> None:
        self.history: list[Any] = []


class Slotted:
    __slots__ = ("rows",)

    def __init__(self) -> None:
        self.rows = [bytearray(1000) for _ in range(100)]


def test_an_attribute_is_named_and_weighed() -> None:
    trainer = Trainer()
    trainer.history = [bytearray(10_000) for _ in range(5_000)]
    nodes = walked(trainer=trainer)
    assert nodes["trainer.history"].length == 5_000
    assert nodes["trainer.history"].deep == pytest.approx(50_000_000, rel=0.02)
    assert nodes["trainer"].deep >= nodes["trainer.history"].deep


def test_sampling_scales_to_the_length() -> None:
    rows = [{"id": i, "tags": [f"tag-{i}-{k}" for k in range(6)]} for i in range(20_000)]
    true_bytes = sum(sys.getsizeof(r["tags"]) + sum(map(sys.getsizeof, r["tags"])) for r in rows)
    true_bytes += sum(map(sys.getsizeof, rows))
    nodes = walked(rows=rows)
    assert nodes["rows"].deep == pytest.approx(true_bytes, rel=0.15)
    assert nodes["rows[*]"].count == pytest.approx(20_000, rel=0.02)


def test_what_members_share_is_counted_once() -> None:
    vocabulary = [f"word {i}" for i in range(50_000)]
    rows = [{"id": i, "vocabulary": vocabulary} for i in range(5_000)]
    nodes = walked(rows=rows)
    assert nodes["rows"].deep < 12_000_000, "the shared list weighs 4 MB and must not be multiplied by the members"


def test_instances_that_members_share_are_not_multiplied() -> None:
    class Customer:
        def __init__(self, name: str) -> None:
            self.name = name
            self.notes = bytearray(10_000)

    customers = [Customer(str(i)) for i in range(20)]
    rows = [(i, customers[i % 20]) for i in range(10_000)]
    assert walked(rows=rows)["rows"].deep < 3_000_000


def test_one_large_member_among_many_small_ones_is_seen() -> None:
    buckets: dict[int, list[int]] = defaultdict(list)
    for i in range(3_000):
        buckets[i].append(i)
    buckets[1234].extend(range(1_000_000))
    assert walked(buckets=buckets)["buckets"].deep > 8_000_000


@pytest.mark.parametrize(
    ("make", "path"),
    [
        (lambda: OrderedDict((i, bytearray(1000)) for i in range(100)), "root[*]"),
        (lambda: deque([bytearray(1000) for _ in range(100)]), "root[*]"),
        (lambda: {"cache": [bytearray(1000) for _ in range(100)]}, "root['cache'][*]"),
        (lambda: types.SimpleNamespace(rows=[bytearray(1000) for _ in range(100)]), "root.rows[*]"),
        (lambda: argparse.Namespace(rows=[bytearray(1000) for _ in range(100)]), "root.rows[*]"),
        (Slotted, "root.rows[*]"),
        (lambda: functools.partial(print, [bytearray(1000) for _ in range(100)]), "root.~[*][*]"),
        (lambda: [memoryview(bytearray(1000)) for _ in range(100)], "root[*].obj"),
        (lambda: itertools.chain([bytearray(1000) for _ in range(100)]), "root.~.~[*]"),
    ],
)
def test_containers_of_every_kind(make: Any, path: str) -> None:
    nodes = walked(root=make())
    assert nodes["root"].deep >= 100_000, sorted(nodes)


def test_closure_default_and_cache() -> None:
    seen: list[bytearray] = [bytearray(1000) for _ in range(50)]

    def closure() -> int:
        return len(seen)

    def default(acc: list[bytearray] = [bytearray(1000) for _ in range(50)]) -> int:  # noqa: B006, B008
        return len(acc)

    @functools.lru_cache(maxsize=None)  # noqa: UP033 - as users write it
    def cached(i: int) -> bytearray:
        return bytearray(1000)

    for i in range(50):
        cached(i)
    nodes = walked(a=closure, b=default, c=cached)
    assert nodes["a closure seen"].deep >= 50_000
    assert nodes["b default acc"].deep >= 50_000
    cache = nodes["c.<lru_cache>"]
    assert cache.deep >= 50_000
    assert cache.length == 50
    assert cache.length_limit is None


MADE = {
    "classes": "{dataclasses.make_dataclass('Row', [(f'f{n}', float) for n in range(12)]): n for n in range(600)}",
    "code": "[compile(TEXT, '<rule>', 'exec') for _ in range(600)]",
    "functions": "[(exec(CODE, space), space.pop('rule_7'))[1] for _ in range(90_000)]",
}


@pytest.mark.live
@pytest.mark.parametrize("made", MADE.values(), ids=MADE)
def test_what_is_made_as_the_program_runs_weighs_what_it_takes(made: str) -> None:
    text = f"""
import dataclasses
from leakscope.agent.native.memory import rss_bytes
from tests.agent.test_walk import walked
TEXT = "\\n".join(f"def rule_{{n}}(a, b):\\n    return (a + {{n}}.5) * b if a > {{n}} else b" for n in range(40))
space, CODE = {{}}, compile(TEXT, "<rules>", "exec")
before = rss_bytes()
made = {made}
taken = rss_bytes() - before
print(taken, walked(made=made)["made"].deep)
"""
    run = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, check=True)
    taken, deep = map(float, run.stdout.split())
    assert 0.5 * taken < deep < 1.3 * taken  # some of what is freed meanwhile is used for them, or left in pieces


def test_classes_of_a_module_are_its_own_however_many_refer_to_them() -> None:
    assert walked(known=[Trainer, Slotted, Refused])["known"].deep < 5_000


def test_what_a_context_variable_holds_is_found_by_its_name() -> None:
    variable: contextvars.ContextVar[Any] = contextvars.ContextVar("request")

    def handle() -> contextvars.Context:
        variable.set([bytearray(1000) for _ in range(100)])
        assert walked(request=variable)["request.get()"].deep >= 100_000
        return contextvars.copy_context()

    context = contextvars.copy_context().run(handle)
    assert walked(request=variable)["request"].deep < 1_000  # of another context than ours
    assert walked(task=context)["task[request]"].deep >= 100_000


def test_suspended_generator_and_stored_exception() -> None:
    def generator() -> Any:
        kept = [bytearray(1000) for _ in range(50)]
        yield len(kept)

    def fails() -> None:
        batch = bytearray(500_000)
        raise ValueError(len(batch))

    running = generator()
    next(running)
    errors = []
    try:
        fails()
    except ValueError as error:
        errors.append(error)
    nodes = walked(g=running, errors=errors)
    assert nodes["g kept"].deep >= 50_000
    assert nodes["errors"].deep >= 500_000
    assert any(path.endswith("fails() batch") for path in nodes), sorted(nodes)


class Refused(Exception):
    """Made once, raised again and again."""


def _paths(ending: str) -> list[str]:
    one = snapshot.Snapshot(1, 5.0, Remembered(), _thread.get_ident(), None, "pending-call")
    return [str(row["path"]) for table, row in one.run() if table == "holders" and str(row["path"]).endswith(ending)]


async def _serve(found: list[list[str]]) -> None:
    pending = {number: bytearray(10_000) for number in range(500)}
    found.append(_paths(" pending"))
    asyncio.get_running_loop().call_soon(lambda: found.append(_paths(" pending")))
    await asyncio.sleep(0)
    assert pending


def test_a_coroutine_holds_under_the_same_name_whether_it_runs_or_waits() -> None:
    """A take comes upon it now this way, now that; two names would share its growth between them."""
    found: list[list[str]] = []
    asyncio.run(_serve(found))
    running, waiting = found
    assert running == waiting and len(waiting) == 1, (running, waiting)


def test_what_an_asynchronous_generator_waits_for_is_found() -> None:
    async def fetch() -> None:
        batch = bytearray(50_000)
        await asyncio.sleep(0)
        assert batch

    async def numbers() -> AsyncIterator[int]:
        await fetch()
        yield 1

    generator = numbers()
    step = generator.__anext__()
    step.send(None)
    nodes = walked(generator=generator)
    assert any(path.endswith(" batch") and node.own_bytes >= 50_000 for path, node in nodes.items()), sorted(nodes)
    step.close()


@pytest.mark.parametrize("times", [40, 4_000])
def test_an_exception_raised_again_and_again_weighs_every_frame_it_went_through(times: int) -> None:
    refused = Refused()

    def check() -> None:
        raise refused

    def handle(order: bytearray) -> None:
        assert order
        with contextlib.suppress(Refused):
            check()

    def serve(request: bytearray) -> None:  # it has returned long ago: only the frame that it called keeps it
        assert request
        handle(bytearray(1_000))

    for _ in range(times):
        serve(bytearray(3_000))
    nodes = walked(refused=refused)
    requests = sum(node.own_bytes for path, node in nodes.items() if path.endswith(" serve() request"))
    assert requests == pytest.approx(times * 3_057, rel=0.03), "two frames lead to each that has returned"
    assert nodes["refused"].deep == pytest.approx(times * 5_100, rel=0.15)  # frames differ in size
    tracebacks = sum(node.count for node in nodes.values() if node.cls is types.TracebackType)
    assert tracebacks == 2 * times
    assert len(nodes) < 20
    assert not any("test_an_exception" in path for path in nodes), "what runs now has a name of its own"
    refused.__traceback__ = None


def test_a_chain_is_one_place_and_weighs_all_its_links() -> None:
    class Link:
        def __init__(self, before: Any) -> None:
            self.before = before
            self.payload = bytearray(1000)

    last = None
    for _ in range(20_000):
        last = Link(last)
    nodes = walked(last=last)
    assert len(nodes) < 20
    assert nodes["last"].deep == pytest.approx(20_000 * 1_100, rel=0.2)
    while last is not None:  # a chain this long is taken apart by hand: freeing it at once would recurse
        last = last.before


class Point(NamedTuple):
    step: int
    value: Any


class Rows(list[Any]):
    pass


class Kept(set[Any]):
    pass


@pytest.mark.torch
@pytest.mark.parametrize("make", [Point, list, lambda i, t: Rows([t]), lambda i, t: Kept([t]), lambda i, t: (i, t)])
def test_members_of_derived_containers_weigh_as_much(make: Any) -> None:
    """A copy of such a container refers to each of its members, too: they had weighed half."""
    torch = pytest.importorskip("torch")
    held = {i: [torch.zeros(1000)] if make is list else make(i, torch.zeros(1000)) for i in range(2000)}
    assert walked(held=held)["held"].deep_tensor == pytest.approx(8_000_000, rel=0.02)


@pytest.mark.parametrize("count", [700, 900, 5_000])
def test_what_hangs_on_the_members_of_a_ring_is_weighed_beside_them(count: int) -> None:
    class Moment:
        __slots__ = ("before", "payload")

        def __init__(self, before: Any) -> None:
            self.before = before
            self.payload = bytearray(1000)

    ring: deque[Moment] = deque(maxlen=700)
    for _ in range(count):
        ring.append(Moment(ring[-1] if ring else None))
    nodes = walked(ring=ring)
    assert nodes["ring"].deep == pytest.approx(count * 1_100, rel=0.1)
    last = ring[-1]
    ring.clear()
    while last is not None:
        last = last.before


def test_thread_local_of_every_thread() -> None:
    local = threading.local()
    ready, done = threading.Event(), threading.Event()

    def work() -> None:
        local.rows = [bytearray(1000) for _ in range(100)]
        ready.set()
        done.wait()

    thread = threading.Thread(target=work)
    thread.start()
    ready.wait()
    try:
        assert walked(local=local)["local.rows"].deep >= 100_000
    finally:
        done.set()
        thread.join()


def test_buffers() -> None:
    np = pytest.importorskip("numpy")
    frames = [np.zeros((100, 1000), dtype=np.uint8)[::10, ::10] for _ in range(30)]
    objects = np.array([bytearray(1000) for _ in range(300)], dtype=object)
    with mmap.mmap(-1, 1 << 20) as mapped:
        nodes = walked(frames=frames, objects=objects, mapped=[mapped], plain=[array.array("d", range(10_000))])
        assert nodes["frames"].deep_array == pytest.approx(3_000_000, rel=0.01)
        assert nodes["frames[*].base"].count == 30
        assert nodes["objects"].deep >= 300_000
        assert nodes["mapped"].deep_array == 1 << 20
        assert nodes["plain"].deep >= 80_000


def test_an_array_is_asked_only_once_it_knows_of_what_type_its_items_are() -> None:
    """Python's own ``__sizeof__`` of it, and ``typecode``, look there: tests/harm/objects/null_slots.py has both."""

    class Derived(array.array):  # type: ignore[type-arg]
        pass

    for whole in (array.array("d", range(9)), Derived("h")):
        assert names.has_item_type(array.array, whole)
        assert names.safe_size(whole) == sys.getsizeof(whole)
        at = id(whole) + array.array.__basicsize__ - 3 * 8
        item_type = ctypes.c_void_p.from_address(at)
        item_type.value, before = None, item_type.value
        try:
            assert not names.has_item_type(array.array, whole)
        finally:
            item_type.value = before


@pytest.mark.torch
def test_tensors_count_their_storage_once() -> None:
    torch = pytest.importorskip("torch")
    base = torch.zeros(1000, 1000)
    nodes = walked(views=[base[i] for i in range(200)], parameter=torch.nn.Parameter(torch.zeros(500, 500)))
    assert nodes["views"].deep_tensor == 4_000_000
    assert nodes["parameter"].deep_tensor == 1_000_000


@pytest.mark.torch
def test_hooks_registered_on_a_tensor_hang_on_it() -> None:
    torch = pytest.importorskip("torch")
    parameter = torch.nn.Parameter(torch.zeros(10))
    result = parameter * 2
    for tensor in (parameter, result):
        for _ in range(5):
            tensor.register_hook(functools.partial(torch.mul, torch.zeros(100_000)))
    nodes = walked(parameter=parameter, result=result)
    assert nodes["parameter._backward_hooks"].deep_tensor == 2_000_000
    assert nodes["parameter._backward_hooks"].length == 5
    assert nodes["result._backward_hooks"].deep_tensor == 2_000_000


@pytest.mark.torch
def test_tensors_that_c_holds_too_weigh_no_less() -> None:
    torch = pytest.importorskip("torch")
    leaves = [torch.zeros(1000, requires_grad=True) for _ in range(1000)]
    for leaf in leaves:
        leaf.grad = torch.ones(1000)
    nodes = walked(gradients=[leaf.grad for leaf in leaves])
    assert nodes["gradients"].deep_tensor == pytest.approx(4_000_000, rel=0.05)


@pytest.mark.torch
def test_views_of_one_tensor_in_a_long_list_weigh_it_once() -> None:
    torch = pytest.importorskip("torch")
    base = torch.zeros(2000, 1000)
    assert walked(views=[base[i] for i in range(2000)])["views"].deep_tensor == pytest.approx(8_000_000, rel=0.1)
    parts = [torch.zeros(1000) for _ in range(2000)]
    assert walked(parts=parts)["parts"].deep_tensor == pytest.approx(8_000_000, rel=0.02)


class Hostile:
    """Every way in which an object could run code when looked at."""

    touched: list[str] = []  # noqa: RUF012

    def __init__(self) -> None:
        self.__dict__["payload"] = bytearray(1000)

    def __getattr__(self, name: str) -> Any:
        Hostile.touched.append(name)
        raise AttributeError(name)

    def __eq__(self, other: object) -> bool:
        Hostile.touched.append("__eq__")
        return False

    def __hash__(self) -> int:
        Hostile.touched.append("__hash__")
        return 0

    def __len__(self) -> int:
        Hostile.touched.append("__len__")
        return 0

    def __iter__(self) -> Any:
        Hostile.touched.append("__iter__")
        return iter(())

    def __sizeof__(self) -> int:
        Hostile.touched.append("__sizeof__")
        return 0

    @property
    def __class__(self) -> Any:
        Hostile.touched.append("__class__")
        return dict


class HostileDict(dict):  # type: ignore[type-arg]
    def __iter__(self) -> Any:
        Hostile.touched.append("dict.__iter__")
        return super().__iter__()

    def items(self) -> Any:
        Hostile.touched.append("dict.items")
        return super().items()

    def __len__(self) -> int:
        Hostile.touched.append("dict.__len__")
        return super().__len__()


def test_no_code_of_the_job_runs() -> None:
    objects = [Hostile() for _ in range(10)]
    mapping = HostileDict({i: bytearray(1000) for i in range(400)})
    Hostile.touched.clear()
    nodes = walked(objects=objects, mapping=mapping)
    assert Hostile.touched == []
    assert nodes["objects"].deep >= 10_000
    assert nodes["mapping"].deep >= 400_000


def test_nothing_is_kept_alive() -> None:
    class Kept:
        pass

    def function() -> Any:
        local = Kept()
        reference = weakref.ref(local)
        frame = sys._getframe()
        walk = w.Walk(time.perf_counter() + 5, Tensors())
        for name, value in reading.frame_locals(frame):
            walk.root("frame", name, openers.LOCAL, value, None)
        walk.run()
        walk.finish(names.ByClass())
        del walk, value, frame, name
        del local
        return reference()

    assert function() is None, "a local that was deleted must be gone although its frame was read"


def test_a_frame_whose_locals_the_job_holds_is_left_alone() -> None:
    frame = sys._getframe()
    marker = object()
    mine = locals()
    reading.frame_locals(frame)
    if sys.version_info < (3, 13):
        assert mine["marker"] is marker


LOCALS = """
import sys
sys.path.insert(0, {folder!r})
from agent.interpreter import reading

class Held:
    pass

def generate(one):
    held = Held()
    yield held

def run():
    local = "here"
    print([name for name, _ in reading.frame_locals(sys._getframe())], end=" ")

run()
waiting = generate(1)
next(waiting)
frame = waiting.gi_frame
print([name for name, _ in reading.frame_locals(frame)], end=" ")
waiting.close()
known = frame.f_locals if {is_safe} else {{}}
print([name for name, _ in reading.frame_locals(frame)] == list(known))
"""


@pytest.mark.live
@pytest.mark.parametrize("interpreter", interpreters(), ids=str)
def test_variables_of_frames_are_read_in_every_python(interpreter: Interpreter, tmp_path: Path) -> None:
    """Also of a closed generator, if its frame goes on to hold them: since 3.14."""
    folder, is_safe = stage(tmp_path), interpreter.version[:2] != (3, 13)  # there a look at that ends the process
    (tmp_path / "program.py").write_text(LOCALS.format(folder=str(folder), is_safe=is_safe))
    done = subprocess.run(
        [interpreter.path, str(tmp_path / "program.py")], capture_output=True, text=True, timeout=60, check=True
    )
    assert done.stdout == "['local'] ['one', 'held'] True\n"


def test_the_deadline_cuts_the_walk_and_says_so() -> None:
    objects = [[[i, j] for j in range(50)] for i in range(200)]
    walk = w.Walk(0.0, Tensors())
    walk.root("module", "objects", openers.GLOBAL, objects, None)
    walk.run()
    assert walk.truncated


def test_a_closure_of_another_module_is_held_by_who_keeps_it(tmp_path, monkeypatch) -> None:
    (tmp_path / "services.py").write_text("def counter():\n    seen = []\n    return lambda x: seen.append(x)\n")
    (tmp_path / "keeper.py").write_text("import services\ncount = services.counter()\nfor i in range(5000): count(i)\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    keeper = importlib.import_module("keeper")
    monkeypatch.setitem(sys.modules, "keeper", keeper)  # and gone afterwards
    monkeypatch.setitem(sys.modules, "services", keeper.services)
    walk = w.Walk(time.perf_counter() + 30, Tensors())
    roots.feed(walk, threading.get_ident(), None, [], {})
    walk.finish(census())
    (held,) = [node for node in walk.nodes if node.path().startswith("keeper.count") and node.length == 5_000]
    assert held.cls is list


def test_a_process_whose_only_thread_is_the_agents_has_no_frames(monkeypatch: pytest.MonkeyPatch) -> None:
    walk = w.Walk(time.perf_counter() + 30, Tensors())
    monkeypatch.setattr(doors, "current_frames", lambda: {threading.get_ident(): sys._getframe()})  # pytest's has more
    assert roots._frames(walk, None, threading.get_ident()) == ({}, [])


def test_open_figures_are_found_in_matplotlib_and_weighed_with_their_pixels() -> None:
    """``plt.figure()`` without ``plt.close()``: no name of the user's leads to them, and C++ holds what was drawn."""
    pyplot = pytest.importorskip("matplotlib.pyplot")
    pyplot.switch_backend("Agg")
    try:
        for _ in range(3):
            pyplot.figure(figsize=(5, 4), dpi=100).canvas.draw()
        walk = w.Walk(time.perf_counter() + 30, Tensors())
        roots.feed(walk, None, threading.get_ident(), [], {})
        walk.finish(names.ByClass())
    finally:
        pyplot.close("all")
    figures = {node.path(): node for node in walk.nodes}["matplotlib._pylab_helpers.Gcf.figs"]
    assert figures.length == 3 and figures.root == "library"
    assert 3 * 500 * 400 * 4 <= figures.deep < 2 * 3 * 500 * 400 * 4


class _Order:
    def __init__(self) -> None:
        self.lines = [float(i) for i in range(beyond.LARGE_LENGTH + 100)]


def test_long_lists_weigh_no_less_while_libraries_are_searched_for_the_like() -> None:
    """Then the taker has a list of all long containers: its references to them are nobody else's."""
    orders = [_Order() for _ in range(2 * VISIT_ALL)]
    weighed = []
    for is_hidden in (False, True):
        memory = Remembered()
        memory.is_growth_hidden, memory.module_count = is_hidden, len(sys.modules)
        one = snapshot.Snapshot(1, 5.0, memory, _thread.get_ident(), None, "pending-call")
        held = [dict(row) for table, row in one.run() if table == "holders"]
        (place,) = [row for row in held if str(row["path"]).endswith(" orders")]
        weighed.append(place["deep_bytes"])
    assert weighed[1] == pytest.approx(weighed[0], rel=0.05)
    assert weighed[0] > len(orders) * beyond.LARGE_LENGTH * 20
