"""A data-parallel training on CPU, one process a rank; the rank that LEAKY_RANK names keeps its outputs."""

import os
import sys
import time

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel


class Trainer:
    def __init__(self, rank: int, leaky: bool) -> None:
        torch.manual_seed(0)
        self.rank, self.leaky = rank, leaky
        self.model = DistributedDataParallel(torch.nn.Linear(256, 256))
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.01)
        self.history: list[torch.Tensor] = []

    def step(self) -> float:
        batch = torch.randn(512, 256)
        out = self.model(batch)
        loss = out.square().mean()
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()
        if self.leaky:
            self.history.append(out.detach())
        return loss.item()


def main(seconds: float) -> None:
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    leaky = os.environ.get("LEAKY_RANK", "") in (str(rank), "all")
    trainer = Trainer(rank, leaky)
    stop = torch.zeros(1)
    end = time.monotonic() + seconds
    while not stop.item():
        trainer.step()
        time.sleep(0.02)
        stop.fill_(float(time.monotonic() > end))
        dist.all_reduce(stop, op=dist.ReduceOp.MAX)
    dist.destroy_process_group()


if __name__ == "__main__":
    main(float(sys.argv[1]) if len(sys.argv) > 1 else 20.0)
