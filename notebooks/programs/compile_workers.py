"""Trains a compiled model beside torch's compile workers; a monitor keeps what it sees of every step."""

import gc
import os
import time

os.environ["TORCHINDUCTOR_COMPILE_THREADS"] = "4"  # on a larger machine torch starts up to 32

import torch
from torch import nn
from torch._inductor.async_compile import AsyncCompile

WIDTH = 1024


class Monitor:
    """Watches what the hidden layer does."""

    def __init__(self):
        self.seen = []

    def look(self, hidden):
        self.seen.append(hidden.detach().clone())


def train(seconds):
    body = nn.Sequential(nn.Linear(64, WIDTH), nn.ReLU())
    head = nn.Linear(WIDTH, 1)
    compiled = torch.compile(body, backend="aot_eager")
    optimizer = torch.optim.SGD([*body.parameters(), *head.parameters()], lr=1e-3)
    monitor = Monitor()
    started, step = time.monotonic(), 0
    while time.monotonic() - started < seconds:
        hidden = compiled(torch.randn(128, 64))
        optimizer.zero_grad()
        head(hidden).square().mean().backward()
        optimizer.step()
        monitor.look(hidden)
        step += 1
        if step % 10 == 0:
            gc.collect()  # "every 10 steps"
        time.sleep(0.03)
    print(f"{step} steps")


if __name__ == "__main__":
    torch.manual_seed(0)
    torch.set_num_threads(1)
    AsyncCompile.wait_pool_ready()  # with a GPU torch.compile does this by itself
    train(seconds=20)
