"""What a program with torch can observe of itself. Run bare and with the agent inside, each answer must be the same.

``python scenarios.py NAME...`` prints the answers as JSON. A scenario is a function; it calls ``take()``
where an inventory would hurt most: the agent may take one between any two bytecodes of the main thread.
"""

from __future__ import annotations

import copy
import gc
import hashlib
import inspect
import io
import json
import pickle
import random
import re
import sys
import time
import warnings
import weakref
from collections.abc import Callable
from contextlib import contextmanager
from typing import Any, ClassVar
from unittest import mock

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

SCENARIOS: dict[str, Callable[[], Any]] = {}


def scenario(function: Callable[[], Any]) -> Callable[[], Any]:
    SCENARIOS[function.__name__] = function
    return function


def take(safe_point: str = "pending-call") -> None:
    """An inventory here and now on this thread; nothing without the agent."""
    snapshots = _free_snapshots()
    if snapshots is not None:
        snapshots.wanted = "pressure"
        snapshots.make(safe_point)


def _free_snapshots() -> Any:
    """The agent's, once it is not at work on the snapshot before; None without the agent."""
    module = sys.modules.get("_leakscope_agent")
    if module is None:
        return None
    snapshots = module.main._agent.snapshots
    give_up = time.monotonic() + 30
    while (snapshots._graph is None or snapshots._graph.is_busy or snapshots._begun) and time.monotonic() < give_up:
        time.sleep(0.001)
    return snapshots


def take_at_next_step() -> None:
    """An inventory in the hook of the next optimizer step, where a training program has it."""
    snapshots = _free_snapshots()
    if snapshots is not None:
        snapshots.wanted = "pressure"
        snapshots.wanted_at = time.monotonic()  # or it has waited too long, and is made at once


def digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def small_model() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Dropout(0.1), nn.Linear(32, 1))


# ---- training


@scenario
def loss_curve() -> Any:
    random.seed(0)
    model = small_model()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    losses = []
    for step in range(40):
        if step % 9 == 0:
            take_at_next_step()
        loss = model(torch.randn(8, 16)).pow(2).mean()
        if step % 19 == 0:
            take()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item().hex())
        if step % 10 == 9:
            model.eval()
            with torch.no_grad():
                losses.append(model(torch.ones(1, 16)).item().hex())
            model.train()
    return [losses, random.random(), digest(torch.get_rng_state().numpy().tobytes())]


@scenario
def checkpointed_forwards() -> Any:
    """Whoever reads what a checkpointed graph saved makes it compute its forward again."""
    from torch.utils.checkpoint import checkpoint

    counts = {}
    for reentrant in (False, True):
        block, calls = nn.Linear(8, 8), []

        def forward(x: Any, block: Any = block, calls: Any = calls) -> Any:
            calls.append(1)
            return block(x).relu()

        losses = []
        for _ in range(4):
            x = torch.randn(4, 8, requires_grad=True)
            losses.append(checkpoint(forward, checkpoint(forward, x, use_reentrant=reentrant), use_reentrant=reentrant))
        take("optimizer-step")
        for loss in losses:
            loss.sum().backward()
        counts[str(reentrant)] = len(calls)
    return counts


@scenario
def saved_tensor_hooks() -> Any:
    calls = []

    def pack(tensor: Any) -> Any:
        calls.append("pack")
        return tensor.clone()

    def unpack(tensor: Any) -> Any:
        calls.append("unpack")
        return tensor

    x = torch.randn(4, 4, requires_grad=True)
    with torch.autograd.graph.saved_tensors_hooks(pack, unpack):
        y = (x * x).sin().sum()
        take("optimizer-step")
    take("optimizer-step")
    y.backward()
    return calls


@scenario
def functions_of_ones_own() -> Any:
    """A custom autograd function, its context, and a second backward through the first."""
    events = []

    class Square(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            ctx.save_for_backward(x)
            ctx.note = "kept"
            events.append("forward")
            return x * x

        @staticmethod
        def backward(ctx: Any, gradient: Any) -> Any:
            events.append("backward " + ctx.note)
            take()
            return 2 * ctx.saved_tensors[0] * gradient

    x = torch.tensor([3.0], requires_grad=True)
    y = Square.apply(x)
    take("optimizer-step")
    (first,) = torch.autograd.grad(y, x, create_graph=True)
    take("optimizer-step")
    (second,) = torch.autograd.grad(first, x)
    return [events, first.item(), second.item(), x._version, y._version, x.grad is None]


@scenario
def gradients_of_inner_tensors() -> Any:
    """Asking a tensor that is no leaf for its gradient warns."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        x = torch.randn(3, requires_grad=True)
        y = x * 2
        base = torch.randn(3)
        view = base[:2]
        base.requires_grad_()
        z = y.sum()
        take("optimizer-step")
        z.backward()
        take("optimizer-step")
    return [[str(w.message) for w in caught], view.is_leaf, y.retains_grad]


# ---- tensors


@scenario
def swapped_tensors() -> Any:
    """A weak reference to a tensor makes swapping it an error."""
    a, b = torch.zeros(3), torch.ones(3)
    take()
    torch.utils.swap_tensors(a, b)
    model = small_model()
    take("optimizer-step")
    torch.__future__.set_swap_module_params_on_conversion(True)
    try:
        take()
        model.to(torch.float64)
        model.load_state_dict({k: v.clone() for k, v in model.state_dict().items()})
    finally:
        torch.__future__.set_swap_module_params_on_conversion(False)
    return [a.tolist(), b.tolist(), [str(p.dtype) for p in model.parameters()]]


class Wrapped(torch.Tensor):
    """A subclass that notes what is asked of it."""

    calls: ClassVar[list[str]] = []

    @classmethod
    def __torch_function__(cls, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        cls.calls.append(getattr(function, "__name__", str(function)))
        return super().__torch_function__(function, types, args, kwargs or {})


@scenario
def subclass_parameters() -> Any:
    model = nn.Linear(4, 4)
    model.weight = nn.Parameter(torch.randn(4, 4).as_subclass(Wrapped))
    kept = torch.randn(3).as_subclass(Wrapped)
    Wrapped.calls.clear()
    take()
    take("optimizer-step")
    asked_of_us = len(Wrapped.calls)
    model.to(torch.float64)
    model(torch.randn(2, 4, dtype=torch.float64)).sum().backward()
    take("optimizer-step")
    return [asked_of_us, Wrapped.calls, type(model.weight).__name__, type(kept).__name__]


@scenario
def modes() -> Any:
    """Whoever listens in on torch hears only the program."""
    from torch.overrides import TorchFunctionMode
    from torch.utils._python_dispatch import TorchDispatchMode

    functions, operators = [], []

    class Functions(TorchFunctionMode):
        def __torch_function__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            functions.append(getattr(function, "__name__", str(function)))
            return function(*args, **(kwargs or {}))

    class Operators(TorchDispatchMode):
        def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            operators.append(str(function))
            return function(*args, **(kwargs or {}))

    model = small_model()
    optimizer = torch.optim.AdamW(model.parameters())
    loss = model(torch.randn(2, 16)).sum()
    for mode in (Functions(), Operators()):
        with mode:
            kept = model(torch.ones(2, 16)).sum()
            take()
    loss.backward()
    optimizer.step()
    for mode in (Functions(), Operators()):
        with mode:
            take("optimizer-step")
    del kept
    return [functions, operators]


@scenario
def lazy_copies() -> Any:
    """A copy-on-write tensor becomes a real copy when somebody asks for its address."""
    original = torch.zeros(1000)
    lazy = torch._lazy_clone(original)
    model = nn.Linear(10, 10)
    model.register_buffer("lazy", torch._lazy_clone(original))
    take()
    take("optimizer-step")
    is_lazy = torch._C._is_cow_tensor
    return [is_lazy(lazy), is_lazy(original), is_lazy(model.lazy)]


@scenario
def odd_tensors() -> Any:
    """Tensors without an ordinary storage; what they say is the same before and after."""
    from torch._subclasses.fake_tensor import FakeTensorMode

    emptied = torch.ones(8)
    emptied.untyped_storage().resize_(0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        nested = torch.nested.nested_tensor([torch.ones(2), torch.ones(3)])
        sparse = torch.eye(4).to_sparse_csr()
    kept = [
        torch.empty(4, device="meta"), torch.eye(3).to_sparse(), sparse, nested, emptied, torch.ones(3).neg(),
        torch.ones(2, dtype=torch.complex64).conj(), torch.ones(3).expand(5, 3), torch.zeros(0),
        nn.parameter.UninitializedParameter(), torch.quantize_per_tensor(torch.ones(3), 0.1, 0, torch.quint8),
    ]  # fmt: skip
    with torch.inference_mode():
        kept.append(torch.ones(2))
    with FakeTensorMode() as fake:
        kept.append(torch.ones(5))
        take()
        kept.append(kept[-1] * 2)
        take("optimizer-step")
    take()
    take("optimizer-step")
    return [[[type(t).__name__, str(t.layout)] for t in kept], emptied.untyped_storage().nbytes(), fake.allow_meta]


# ---- lifetimes


@scenario
def times_of_death() -> Any:
    """With the collector off, an object dies when its last reference goes, and a cycle when it is collected."""
    events: list[str] = []

    def tensor(name: str) -> Any:
        made = torch.zeros(10, requires_grad=True)
        weakref.finalize(made, events.append, name)
        return made

    def local_only() -> None:
        inner = tensor("local")
        take()
        inner.sum()
        take("optimizer-step")

    gc.collect()
    gc.disable()
    try:
        held, in_dict, model = tensor("held"), {"x": tensor("in dict")}, nn.Linear(3, 3)
        weakref.finalize(model, events.append, "model")
        weakref.finalize(model.weight, events.append, "weight")
        optimizer = torch.optim.AdamW(model.parameters())
        model(torch.ones(1, 3)).sum().backward()
        take_at_next_step()
        optimizer.step()
        local_only()
        events.append("function over")
        cycle: list[Any] = [tensor("in cycle")]
        cycle.append(cycle)
        graph = held * 2
        weakref.finalize(graph, events.append, "graph")
        take("optimizer-step")
        del graph
        take()
        del held
        take("optimizer-step")
        in_dict.clear()
        events.append("cleared")
        take()
        del cycle
        take("optimizer-step")
        events.append("before collection")
        optimizer.state.clear()
        del optimizer, model
        gc.collect()
    finally:
        gc.enable()
    return events


@scenario
def references() -> Any:
    """Each look gives back what it took: counts of references, of tensors, of uncollected garbage."""
    model = small_model()
    model(torch.ones(2, 16)).sum().backward()
    optimizer = torch.optim.AdamW(model.parameters())
    optimizer.step()
    tensors = [torch.zeros(4) for _ in range(50)]
    rows = [{"x": [i]} for i in range(50)]
    take()
    take("optimizer-step")
    gc.collect()

    def counts() -> list[int]:
        several = [sys.getrefcount(o) for o in (tensors[0], tensors, rows[0], rows, model, model[0].weight, optimizer)]
        return [*several, sys.getrefcount(torch.Tensor), sys.getrefcount(nn.Parameter), sys.getrefcount(nn.Linear)]

    before = counts()
    take()
    take("optimizer-step")
    return [b - a for a, b in zip(before, counts())]


# ---- foreign code


class Touchy:
    """Counts whoever runs its code."""

    touched: ClassVar[list[str]] = []


def _touch(name: str) -> Callable[..., Any]:
    def method(self: Any, *arguments: Any) -> Any:
        Touchy.touched.append(name)
        raise RuntimeError(f"{name} was called by somebody else")

    return method


_SPECIAL = "eq ne hash len bool iter contains getitem repr str sizeof getattr call next reversed length_hint dir index"


@contextmanager
def touchy_objects() -> Any:
    methods = {f"__{name}__": _touch(f"__{name}__") for name in _SPECIAL.split()}
    methods["__class__"] = property(_touch("__class__"))
    methods["grad_fn"] = methods["shape"] = methods["items"] = property(_touch("property"))
    Meta = type("Meta", (type,), {f"__{n}__": _touch(f"meta {n}") for n in ("instancecheck", "subclasscheck")})
    kinds = [type("Plain", (), methods), Meta("WithMeta", (), dict(methods))]
    for base in (list, dict, set, torch.nn.Module):
        kept = {k: v for k, v in methods.items() if k not in ("__getattr__", "__call__")}
        kinds.append(type(f"Odd{base.__name__}", (base,), kept))
    objects = [kind() for kind in kinds for _ in range(20)]
    objects += [mock.MagicMock(spec=torch.Tensor), mock.MagicMock(spec=nn.Module), mock.MagicMock()]
    Touchy.touched.clear()
    yield objects


def classes_that_mind() -> list[Any]:
    """Objects of torch's kinds whose classes must not be compared or hashed, nor their ``__dict__`` be asked for by
    whoever does not make them."""
    is_made = []

    def dict_of(base: Any) -> Any:
        plain, asked = base.__dict__["__dict__"].__get__, _touch("__dict__")
        return {"__dict__": property(lambda self: asked(self) if is_made else plain(self))}

    methods = {"__hash__": _touch("meta hash"), "__eq__": _touch("meta eq"), "mro": type.mro}
    of_tensors = type("OfTensors", (type(torch.Tensor),), methods)
    of_others = type("OfOthers", (type,), methods)
    module = of_others("OddModule", (nn.Linear,), dict_of(nn.Module))
    optimizer = of_others("OddOptimizer", (torch.optim.SGD,), dict_of(torch.optim.Optimizer))
    tensor = of_tensors("OddTensor", (torch.Tensor,), {})
    modules = [module(30, 30) for _ in range(20)]
    optimizers = [optimizer(one.parameters(), 0.1) for one in modules]
    tensors = [torch.ones(300).as_subclass(tensor) for _ in range(20)]
    is_made.append(True)
    Touchy.touched.clear()
    return [modules, optimizers, tensors]


@scenario
def objects_that_mind_being_looked_at() -> Any:
    with touchy_objects() as objects:
        held = {"objects": objects, "by name": [list(objects)]}
        take()
        take("optimizer-step")
        touched = list(Touchy.touched)
        mocks = [str(m.mock_calls) for m in objects[-3:]]
        del held
        return [touched, mocks]


@scenario
def classes_that_mind_being_compared() -> Any:
    held = classes_that_mind()
    take()
    take("optimizer-step")
    touched = list(Touchy.touched)
    del held
    return touched


# ---- tracing and serialising


@scenario
def scripted() -> Any:
    class Model(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.line = nn.Linear(4, 4)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            if bool(x.sum() > 0):
                return self.line(x)
            return x

    torch.manual_seed(0)
    model = torch.jit.script(Model())
    take()
    take("optimizer-step")
    model.eval()
    stream = io.BytesIO()
    torch.jit.save(model, stream)
    stream.seek(0)
    again = torch.jit.load(stream)
    take()
    again.train()
    return [model.code, model.training, again.training, again(torch.ones(1, 4)).tolist()]


@scenario
def copies_of_a_model() -> Any:
    model = small_model()
    optimizer = torch.optim.AdamW(model.parameters())
    for _ in range(6):  # past the steps in which the agent looks at a backward pass
        model(torch.ones(2, 16)).sum().backward()
        optimizer.step()
        optimizer.zero_grad()
    take()
    stream = io.BytesIO()
    torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict()}, stream)
    take("optimizer-step")
    loaded = torch.load(io.BytesIO(stream.getvalue()), weights_only=True)
    twin = copy.deepcopy(model)
    pickled = pickle.dumps(model)
    # torch names a storage inside the pickle by its address: fourteen digits or fifteen, as the allocator has it.
    without_addresses = re.sub(rb"\d{10,}", b"", pickled)
    return [
        digest(stream.getvalue()), len(without_addresses), list(loaded["model"]), sorted(model.__dict__),
        sorted(vars(pickle.loads(pickled))), [p.tolist() for p in twin.parameters()],
        len(optimizer._optimizer_step_post_hooks), [sorted(vars(p)) for p in model.parameters()],
    ]  # fmt: skip


@scenario
def what_functions_say_of_themselves() -> Any:
    """Those that the agent stands in front of: by name, signature, source, and when pickled or replaced."""
    from torch.utils.data import dataloader

    take()
    iterator = dataloader._BaseDataLoaderIter
    found: list[Any] = []
    for owner, name in ((nn.Module, "train"), (nn.Module, "eval"), (iterator, "__next__"), (torch, "save")):
        function = getattr(owner, name)
        found += [function.__name__, function.__qualname__, function.__module__, function.__doc__]
        found += [str(inspect.signature(function)), digest(inspect.getsource(function).encode())]
    found += [pickle.loads(pickle.dumps(torch.save)) is torch.save, torch.save is torch.serialization.save]
    found.append(torch.autograd.backward.__name__)
    with mock.patch.object(torch, "save") as replaced:
        torch.save({}, "nowhere")
    found.append(replaced.call_count)
    return found


@scenario
def train_and_eval() -> Any:
    """``train`` and ``eval``, by keyword, overridden, refused, and their values."""
    calls = []

    class Frozen(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.norm = nn.BatchNorm1d(3)

        def train(self, mode: bool = True) -> Any:
            calls.append(mode)
            return super().train(False)

    model = nn.Sequential(nn.Linear(3, 3), Frozen())
    answers: list[Any] = [model.train() is model, model.eval() is model, model.train(mode=False) is model]
    model.train(True)
    try:
        model.train("yes")  # type: ignore[arg-type]
    except ValueError as error:
        answers.append(repr(error))
    return [answers, calls, [m.training for m in model.modules()]]


# ---- data loaders


class Numbers(Dataset):  # type: ignore[type-arg]
    def __init__(self, broken_at: int = -1) -> None:
        self.broken_at = broken_at

    def __len__(self) -> int:
        return 24

    def __getitem__(self, index: int) -> Any:
        if index == self.broken_at:
            raise KeyError("a broken row")
        return torch.full((3,), float(index)) + torch.rand(3)


@scenario
def loader_workers() -> Any:
    """Forked workers: their batches, their random numbers, their errors, their end."""
    import multiprocessing

    torch.manual_seed(0)
    batches = []
    for options in ({}, {"num_workers": 2}, {"num_workers": 1, "persistent_workers": True}):
        loader: Any = DataLoader(Numbers(), batch_size=4, shuffle=True, **options)
        for _ in range(2):
            for batch in loader:
                batches.append(batch.flatten().tolist())
                if len(batches) % 13 == 0:
                    take()
        iterator = iter(loader)
        next(iterator)
        batches += [type(iterator).__name__, len(iterator), iterator._num_yielded]
        batches += [sum(1 for _ in iterator), next(iterator, "exhausted")]
        del iterator, loader
    failing = iter(DataLoader(Numbers(broken_at=5), batch_size=4, num_workers=1))
    next(failing)
    take()
    try:
        next(failing)
    except KeyError as error:
        batches.append(str(error).splitlines()[0])
    empty = iter(DataLoader([], batch_size=1))  # type: ignore[arg-type]
    batches.append(next(empty, "exhausted"))
    del failing
    gc.collect()
    batches.append(len(multiprocessing.active_children()))
    return [batches, digest(torch.get_rng_state().numpy().tobytes())]


# ---- state of torch


@scenario
def settings() -> Any:
    from torch.autograd.graph import get_gradient_edge

    x = torch.ones(2, requires_grad=True)
    with torch.no_grad():
        take("optimizer-step")
        inside = torch.is_grad_enabled()
    take()
    return [
        inside, torch.is_grad_enabled(), torch.is_inference_mode_enabled(), str(torch.get_default_dtype()),
        torch.get_num_threads(), torch.cuda.is_initialized(), torch.is_anomaly_enabled(),
        str(get_gradient_edge(x).node.name()), gc.isenabled(), gc.get_threshold(), gc.get_freeze_count(),
        sys.getrecursionlimit(), sys.gettrace() is None, sys.getprofile() is None,
    ]  # fmt: skip


# ---- in the middle of torch's own work; the first of these imports dynamo, which makes every later inventory dearer


@scenario
def transforms_in_progress() -> Any:
    """vmap and grad hand out tensors that stand for others and must not outlive their level."""

    def loss(weight: Any, x: Any) -> Any:
        y = (weight * x).sin().sum()
        take("optimizer-step")
        return y

    weight, xs = torch.arange(3.0), torch.ones(4, 3)
    gradients = torch.func.vmap(torch.func.grad(loss), in_dims=(None, 0))(weight, xs)
    _, tangent = torch.func.jvp(lambda w: loss(w, xs[0]), (weight,), (torch.ones(3),))
    return [gradients.tolist(), tangent.item()]


@scenario
def fake_mode_in_progress() -> Any:
    from torch._subclasses.fake_tensor import FakeTensorMode
    from torch.fx.experimental.proxy_tensor import make_fx

    def function(x: Any) -> Any:
        y = x @ x
        take("optimizer-step")
        return y.relu()

    with FakeTensorMode():
        shapes = [list(function(torch.ones(n, n)).shape) for n in (2, 3)]
    return [shapes, str(make_fx(function, tracing_mode="fake")(torch.ones(2, 2)).code)]


@scenario
def traced() -> Any:
    class Model(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.line = nn.Linear(4, 4)

        def forward(self, x: Any) -> Any:
            y = self.line(x)
            take("optimizer-step")
            return y.relu()

    model = Model().eval()
    made = torch.jit.trace(model, torch.ones(2, 4))
    take()
    symbolic = torch.fx.symbolic_trace(small_model())
    return [str(made.graph), made.code, symbolic.code]


# ---- compiled; by far the dearest to import, so these run in a process of their own


@scenario
def compiled() -> Any:
    """Graphs, breaks and recompilations of one program, with inventories before, between and inside."""
    import torch._dynamo as dynamo
    from torch._dynamo.utils import counters

    answers: list[Any] = []
    for backend in ("eager", "aot_eager"):
        dynamo.reset()
        counters.clear()
        graphs = []

        def counting(graph: Any, inputs: Any, backend: str = backend, graphs: list[str] = graphs) -> Any:
            graphs.append(graph.code)
            if len(graphs) == 1:
                take()  # while dynamo is at work
            return dynamo.lookup_backend(backend)(graph, inputs)

        model = small_model()
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        forward = torch.compile(model, backend=counting)
        step = torch.compile(optimizer.step, backend=counting)

        @torch.compile(backend=counting)
        def switches(x: Any, model: nn.Module = model) -> Any:
            model.eval()
            y = model(x)
            model.train()
            return y + 1

        losses = []
        for size in (2, 2, 3, 3, 4):
            loss = forward(torch.ones(size, 16)).pow(2).mean()
            loss.backward()
            if size != 2:
                take_at_next_step()
            step()
            optimizer.zero_grad()
            losses.append(loss.item().hex())
        losses.append(switches(torch.ones(2, 16)).sum().item().hex())
        figures = {name: dict(counters[name]) for name in ("stats", "graph_break")}
        answers.append([losses, graphs, figures])
    return answers


# ---- failing


@scenario
def failing_threads() -> Any:
    """What a thread that fails prints, and that nobody holds on to its exception."""
    import re
    import threading

    class Failure(Exception):
        asked = 0

        def __str__(self) -> str:
            Failure.asked += 1
            return "no more data"

    alive = []

    def work() -> None:
        error = Failure()
        alive.append(weakref.ref(error))
        raise error

    take()
    with mock.patch("sys.stderr", io.StringIO()) as printed:
        for _ in range(3):
            thread = threading.Thread(target=work, name="T")
            thread.start()
            thread.join()
    take()
    gc.collect()  # an exception and its frame hold each other
    calls = re.sub(r'File ".*/', 'File "', printed.getvalue())
    return [calls, Failure.asked, [ref() is None for ref in alive], threading.excepthook.__module__ != __name__]


@scenario
def crash_reports() -> Any:
    """faulthandler is off until the program switches it on, and then it is the program's alone."""
    import faulthandler
    import tempfile

    answers = [faulthandler.is_enabled()]
    take()
    with tempfile.TemporaryFile() as file:
        faulthandler.enable(file)
        answers.append(faulthandler.is_enabled())
        take()
        answers += [faulthandler.disable(), faulthandler.is_enabled(), faulthandler.disable()]
    return answers


def answer(name: str) -> Any:
    try:
        return SCENARIOS[name]()
    except Exception as error:
        return f"failed with {type(error).__name__}: {error}"


if __name__ == "__main__":
    print(json.dumps({name: answer(name) for name in sys.argv[1:]}))
