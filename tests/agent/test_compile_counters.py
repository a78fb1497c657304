"""What the agent reads of torch.compile: after real compilations, without importing anything."""

from __future__ import annotations

import json
import subprocess
import sys
from collections import Counter, OrderedDict, defaultdict
from pathlib import Path
from types import MappingProxyType, ModuleType

import pytest

from leakscope.agent.probes import compile_counters

ROOT = Path(__file__).parents[2]
# A program of its own: dynamo's counters are global to a process, and it takes seconds to import.
PROGRAM = """
import json, sys, time
import torch
from leakscope.agent.probes import compile_counters
before = list(compile_counters.rows(None)), "torch._dynamo" in sys.modules
import torch._dynamo
unused = list(compile_counters.rows(None))
torch._dynamo.config.cache_size_limit = 100
@torch.compile(backend="eager", dynamic=False)
def other(x):
    return x + 1
@torch.compile(backend="eager", dynamic=False)
def forward(x):
    x = x * 2
    torch._dynamo.graph_break()
    return x.sum()
other(torch.ones(3))
for n in range(2, 42):
    forward(torch.ones(n))
begin = time.perf_counter()
used = list(compile_counters.rows(None))
print(json.dumps([before, unused, used, time.perf_counter() - begin]))
"""


@pytest.mark.live
@pytest.mark.slow
@pytest.mark.torch
def test_every_shape_is_a_graph_with_its_function_and_reason(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    program = tmp_path / "job.py"
    program.write_text(PROGRAM)
    environment = {"PYTHONPATH": str(ROOT), "PATH": "/usr/bin:/bin", "HOME": str(tmp_path)}
    done = subprocess.run([sys.executable, program], capture_output=True, text=True, timeout=120, env=environment)
    assert not done.returncode, done.stderr
    before, unused, (row,), cost_s = json.loads(done.stdout.splitlines()[-1])
    assert before == [[], False]  # looking imported nothing
    assert unused == []
    assert (row["unique_graph_count"], row["recompile_count"]) == (81, 78)  # forward is two graphs a shape
    assert row["function"] == "forward"
    assert row["owner_file"] == str(program)
    assert "size mismatch" in row["recompile_reason"]
    assert cost_s < 0.01


def test_torch_before_2_6_kept_reasons_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    utils = ModuleType("torch._dynamo.utils")
    utils.counters = defaultdict(Counter, frames=Counter(total=3), stats=Counter())
    utils.guard_failures = defaultdict(list, {PROGRAM: ["tensor 'x' size mismatch\n expected 2, actual 3"]})
    monkeypatch.setitem(sys.modules, "torch._dynamo.utils", utils)
    monkeypatch.delitem(sys.modules, "torch._dynamo.convert_frame", raising=False)
    (row,) = compile_counters.rows(None)
    assert (row["unique_graph_count"], row["recompile_count"]) == (0, None)
    assert row["recompile_reason"] == "tensor 'x' size mismatch expected 2, actual 3"
    assert list(utils.counters) == ["frames", "stats"]  # nothing was added by asking
    assert not utils.counters["stats"]


def test_tf_function_is_read_from_its_caches(monkeypatch: pytest.MonkeyPatch) -> None:
    """Stand-ins with the attributes that TensorFlow 2.21 has; a cache of each object that a method was called on."""
    library = ModuleType("tensorflow.python.eager.polymorphic_function.polymorphic_function")

    class Thing:
        def __init__(self, **attributes: object) -> None:
            self.__dict__.update(attributes)

    class Function(Thing):
        pass

    class Literal(Thing):
        pass

    class Parameter:
        __slots__ = ("_annotation",)

        def __init__(self, annotation: object) -> None:
            self._annotation = annotation

    def traced_for(rate: float) -> Thing:
        same = Thing(_shape=Thing(_dims=(3, 64)))
        parameters = {"x": Parameter(same), "rate": Parameter(Literal(value=rate))}
        return Thing(_parameters=MappingProxyType(parameters))

    def update(x: object, rate: float) -> None:
        """What is traced."""

    cache = Thing(_primary=OrderedDict(((None, traced_for(rate)), object()) for rate in (0.25, 0.5, 0.75)))
    bound = Function(_python_function=update, _variable_creation_config=Thing(function_cache=cache))
    method = Function(_descriptor_cache=Thing(data={object(): bound}))
    library.Function = Function  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, library.__name__, library)
    for name in ("train", "serve"):  # one has it from the other
        module = ModuleType(name)
        module.__dict__.update(Trainer=type("Trainer", (), {"update": method}), __file__=f"/home/me/{name}.py")
        monkeypatch.setitem(sys.modules, name, module)
    (row,) = compile_counters.rows(None)
    assert (row["unique_graph_count"], row["recompile_count"]) == (3, 2)
    assert (row["function"], row["owner_file"]) == ("update", __file__)
    assert row["recompile_reason"] == "rate: value 0.5, then value 0.75"
