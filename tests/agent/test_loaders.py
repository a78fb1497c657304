"""Live DataLoader iterators: which processes work for them and what they read."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from leakscope.agent.torch import loaders

from ..late import torch

pytestmark = pytest.mark.torch


class Squares:
    def __len__(self) -> int:
        return 64

    def __getitem__(self, i: int) -> int:
        return i * i


@pytest.mark.live
def test_workers_are_named_with_what_they_read() -> None:
    loader = torch.utils.data.DataLoader(Squares(), batch_size=4, num_workers=2, prefetch_factor=2)
    iterator = iter(loader)
    try:
        next(iterator)
        (row,) = loaders.look([iterator])
        assert row["worker_pids"] == ",".join(str(worker.pid) for worker in iterator._workers)
        assert row["dataset_type"].endswith("test_loaders.Squares")
        assert (row["batches_yielded"], row["prefetch_factor"], row["is_persistent"]) == (1, 2, False)
        assert row["batches_in_flight"] == iterator._tasks_outstanding > 0
    finally:
        iterator._shutdown_workers()


def test_a_loader_without_workers_reads_in_the_process() -> None:
    inner = torch.utils.data.Subset(torch.utils.data.Subset(Squares(), range(32)), range(8))
    iterator = iter(torch.utils.data.DataLoader(inner, batch_size=4))
    (row,) = loaders.look([iterator])
    assert row["worker_pids"] == ""
    assert row["dataset_type"].endswith("Squares"), "wrappers of torch are seen through"


def test_a_broken_iterator_costs_nobody_the_others() -> None:
    class Slots:
        __slots__ = ()

    odd: Any = SimpleNamespace(_workers="none", _num_yielded="many")
    rows = loaders.look([Slots(), odd])
    assert [row["worker_pids"] for row in rows] == ["", ""]
    assert [row["batches_yielded"] for row in rows] == [None, None]
