"""What the agent reads of parameters and their gradients, with real modules."""

from __future__ import annotations

import gc
import sys
import warnings
from types import ModuleType

import pytest

from leakscope.agent.torch import gradients

from ..late import torch

pytestmark = pytest.mark.torch
MODEL = 7  # whatever names the model


def model(width: int = 32, **options):
    layers = [torch.nn.Linear(width, width, **options) for _ in range(4)]
    return torch.nn.Sequential(*layers)


def backward(net):
    net(torch.ones(2, 32)).sum().backward()
    return net


def looked(net) -> dict[str, list[tuple[str | None, int]]]:
    """{state: [(name, count), …]} of a model, as the agent's inventory hands it over."""
    owned = [
        (MODEL, f"{path}.{name}", tensor, tensor is None or tensor.requires_grad)
        for path, module in net.named_modules()
        for name, tensor in module._parameters.items()
    ]
    found: dict[str, list[tuple[str | None, int]]] = {}
    for row in gradients.look(owned):
        assert row["weight_set"] == MODEL
        found.setdefault(row["gradient_state"], []).append((row["tensor_name"], row["parameter_count"]))
    return found


def test_a_healthy_model_is_one_row():
    assert looked(backward(model())) == {"ok": [(None, 8)]}


def test_layers_without_bias_are_counted():
    found = looked(backward(model(bias=False)))
    assert found["none-parameter"] == [(f"{i}.bias", 1) for i in range(4)]
    assert found["ok"] == [(None, 4)]


@pytest.mark.parametrize("dtype", ["float32", "float64", "bfloat16", "float16"])
def test_nan_and_inf_are_named(dtype):
    net = backward(model()).to(getattr(torch, dtype))
    net[0].weight.data.fill_(float("nan"))
    net[1].weight.grad.fill_(float("nan"))
    net[2].weight.grad.fill_(float("-inf"))
    found = looked(net)
    assert found["nan-parameter"] == [("0.weight", 1)]
    assert found["nan"] == [("1.weight", 1)]
    assert found["inf"] == [("2.weight", 1)]


def test_missing_gradients_are_told_from_frozen_parameters():
    net = backward(model())
    net[0].requires_grad_(False)
    net[1].weight.grad = None
    net[1].bias.grad = None
    found = looked(net)
    assert found["frozen"] == [(None, 2)]
    assert found["none"] == [("1.weight", 1), ("1.bias", 1)]


def test_only_the_first_are_named_and_weights_before_biases():
    net = torch.nn.Sequential(*[torch.nn.Linear(32, 32) for _ in range(30)])
    rows = looked(net)["none"]
    assert len(rows) == gradients.MOST_NAMED + 1
    assert all(name.endswith("weight") for name, _ in rows[:-1])
    assert sum(count for _, count in rows) == 60


def test_looking_runs_no_code_of_a_subclass_warns_of_nothing_and_keeps_nothing():
    calls = []

    class Traced(torch.Tensor):
        @classmethod
        def __torch_function__(cls, function, types, args=(), kwargs=None):
            calls.append(function)
            return super().__torch_function__(function, types, args, kwargs)

    net = backward(model())
    odd = torch.ones(200).as_subclass(Traced).requires_grad_()
    lazy = torch.nn.LazyLinear(3).weight
    sparse = torch.ones(200, 2).to_sparse().requires_grad_()
    inner = net[0].weight * 2
    calls.clear()
    before = sys.getrefcount(net[0].weight)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        entries = [(1, str(i), t, True) for i, t in enumerate([net[0].weight, odd, lazy, sparse, inner])]
        rows = gradients.look(entries)
    del entries
    gc.collect()
    after = sys.getrefcount(net[0].weight)
    assert not calls
    assert after == before
    assert sum(row["parameter_count"] for row in rows) >= 4


def test_a_lazy_clone_is_not_copied():
    weight = torch.nn.Parameter(torch._lazy_clone(torch.full((200,), float("nan"))))
    (row, *_) = gradients.look([(1, "weight", weight, True)])
    assert torch._C._is_cow_tensor(weight)
    assert row["gradient_state"] == "none"  # its values were left alone


def test_an_extension_that_came_too_late_is_noted(monkeypatch):
    assert gradients.import_order_notes() == []
    for name in ("unsloth", "transformers", "trl"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    for name in ("transformers", "unsloth", "trl"):
        monkeypatch.setitem(sys.modules, name, ModuleType(name))
    assert gradients.import_order_notes() == [
        {"note": "import-order", "text": "unsloth was imported after transformers"}
    ]
