"""Numbers of tensors, read as those of arrays are: the same data shows alike, and no file is read."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

from leakscope.agent.graph import sketch
from leakscope.agent.graph.heap_graph import anonymous_ranges
from leakscope.agent.torch import figures
from leakscope.agent.torch.tensors import Storage

from ..sketching import sketched

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.torch
TABLE = np.random.default_rng(7).gamma(2.0, 3.0, (400_000, 14))


def columns_of(tensor: Any, ranges: Any = None) -> list[tuple[int, list[float]]]:
    dtype = str(tensor.dtype).rsplit(".", 1)[-1]
    storage = Storage(tensor.untyped_storage().nbytes(), "cpu", dtype, tuple(tensor.shape))
    return figures.columns_of(tensor, storage, ranges or anonymous_ranges(), sketch.LINES, sketch.ACROSS)[0]


def test_a_tensor_shows_the_same_as_the_array_it_was_made_of() -> None:
    found = sketched(TABLE)
    assert found is not None
    tensor = torch.from_numpy(TABLE).to(torch.float32)
    of_tensor = json.loads(sketch.form_of_figures(columns_of(tensor))["content_sketch"])
    of_array = json.loads(found[2])
    assert [ranks for _, ranks, _ in of_array] == [ranks for _, ranks, _ in of_tensor]


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.int64, torch.uint8])
def test_other_types_are_read_as_they_are(dtype: Any) -> None:
    tensor = torch.arange(200).reshape(200, 1).to(dtype)
    ((_, numbers),) = columns_of(tensor)
    assert numbers[: sketch.LINES] == [float(n) for n in range(sketch.LINES)]


def test_a_file_that_is_mapped_is_not_read(tmp_path: Any) -> None:
    TABLE[:1000].tofile(tmp_path / "table.bin")
    mapped = np.memmap(tmp_path / "table.bin", dtype=np.float64, mode="r+", shape=(1000, 14))
    assert columns_of(torch.from_numpy(mapped)) == []


def test_what_lies_beyond_its_memory_is_not_read() -> None:
    tensor = torch.zeros(4000, 10)
    tensor.untyped_storage().resize_(1000)
    assert columns_of(tensor) == []


@pytest.mark.parametrize("dtype", [torch.float32, torch.int64])
def test_windows_of_one_series_repeat_each_other_as_tensors_too(dtype: Any) -> None:
    series = (torch.rand(5000) * 1e6).to(dtype)
    windows = torch.stack([series[at : at + 100] for at in range(0, 4000, 2)])
    assert _repeated(windows) == pytest.approx(0.98)
    assert _repeated((torch.rand(2000, 100) * 1e6).to(dtype)) is None


def _repeated(tensor: Any) -> float | None:
    storage = Storage(
        tensor.untyped_storage().nbytes(), "cpu", str(tensor.dtype).rsplit(".", 1)[-1], tuple(tensor.shape)
    )
    return figures.columns_of(tensor, storage, anonymous_ranges(), sketch.LINES, sketch.ACROSS)[1]
