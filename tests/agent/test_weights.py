"""A fingerprint says the same of the same weights, whatever their layout, and touches nothing it must leave alone."""

from __future__ import annotations

import gc
import struct
from typing import Any

import pytest

from leakscope.agent.torch import weights

from ..late import torch

pytestmark = pytest.mark.torch


def read(tensor: Any, **known: Any) -> bytes | None:
    with torch._C.DisableTorchFunction():
        return weights.fingerprint(tensor, **known)


def expected(tensor: Any) -> bytes:
    """The definition, by torch's own operations."""
    flat = tensor.detach().flatten()
    step = flat.numel() // 32
    return struct.pack("<32f", *flat[: 32 * step : step].float().tolist())


@pytest.mark.parametrize("dtype", ["float32", "float64", "float16", "bfloat16"])
def test_any_layout_gives_the_elements_in_logical_order(dtype):
    dtype = getattr(torch, dtype)
    plain = torch.randn(130, 77, dtype=dtype)
    images = torch.randn(4, 8, 16, 16, dtype=dtype).to(memory_format=torch.channels_last)
    for tensor in (plain, plain.t(), plain[1:, 3:], plain[:1].expand(200, 77), images, torch.nn.Parameter(plain)):
        assert read(tensor) == expected(tensor)
        assert weights._samples(torch, [tensor]) == [expected(tensor)], "the way of a GPU says the same"


def test_a_copy_in_lower_precision_is_rounded_and_no_more():
    tensor = torch.randn(64, 64)
    full = struct.unpack("<32f", read(tensor))
    half = struct.unpack("<32f", read(tensor.bfloat16()))
    assert half == pytest.approx(full, rel=2**-8)


def test_what_cannot_be_read_gives_none():
    freed = torch.randn(1000)
    part = freed[10:]
    freed.untyped_storage().resize_(0)  # as FSDP does
    shrunk = torch.randn(1000)
    shrunk.untyped_storage().resize_(2000)
    no_weights = [
        torch.randn(127),
        torch.arange(1000),
        torch.randn(1000, dtype=torch.complex64),
        torch.randn(1000, device="meta"),
        torch.eye(100).to_sparse(),
        torch._efficientzerotensor((1000,)),
        torch._neg_view(torch.randn(1000)),
        torch._to_functional_tensor(torch.randn(1000)),
        torch.nn.parameter.UninitializedParameter(),
        "text",
        None,
    ]
    for value in (freed, part, shrunk, *no_weights):
        assert read(value) is None
    assert read(torch.randn(1000), storage_bytes=100) is None


def test_inside_transforms_and_modes_nothing_is_dispatched(monkeypatch, tmp_path):
    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", str(tmp_path))  # torch sets it when functorch is first used
    from torch.utils._python_dispatch import TorchDispatchMode

    seen = []

    class Watching(TorchDispatchMode):
        def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            seen.append(func)
            return func(*args, **(kwargs or {}))

    tensor, inside = torch.randn(50, 50).t(), []

    def function(x: Any) -> Any:
        inside.append(read(x))
        return x.sum()

    with Watching():
        assert read(tensor) is not None
    assert not seen
    torch.vmap(function)(torch.randn(4, 200))
    torch.func.grad(function)(torch.randn(200))
    assert inside == [None, None]


def test_a_lazy_copy_stays_lazy():
    tensor = torch.randn(1000)
    copy = torch._lazy_clone(tensor)
    assert read(copy) is None
    assert torch._C._is_cow_tensor(copy)


def test_no_object_is_left_behind():
    tensors = [torch.randn(200) for _ in range(100)]
    read(tensors[0])
    gc.collect()
    before = len(gc.get_objects())
    for tensor in tensors:
        assert read(tensor, storage_bytes=800) is not None
    assert len(gc.get_objects()) <= before + 5


def test_without_a_gpu_nothing_is_asked_of_one():
    if torch.cuda.is_available():
        pytest.skip("there is one")
    assert weights.fingerprints_on_device([torch.randn(1000)]) == [None]
    assert not torch.cuda.is_initialized()


@pytest.mark.gpu
def test_on_a_gpu():
    if not torch.cuda.is_available():
        pytest.skip("no GPU")
    tensors = [torch.randn(100, 70, device="cuda").t(), torch.randn(500, device="cuda").half(), torch.randn(500)]
    assert weights.fingerprints_on_device(tensors) == [expected(tensors[0].cpu()), expected(tensors[1].cpu()), None]
