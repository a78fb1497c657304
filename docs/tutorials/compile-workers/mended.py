"""Trains a small network beside the workers of torch.compile; a monitor looks at every step."""

import os
import time

os.environ["TORCHINDUCTOR_COMPILE_THREADS"] = "1"

import torch
from torch import nn
from torch._inductor.async_compile import AsyncCompile


class Monitor:
    def __init__(self):
        self.seen = []

    def look(self, hidden):
        self.seen.append(hidden.mean().item())


def train(seconds=60):
    body = nn.Sequential(nn.Linear(64, 1024), nn.ReLU())
    head = nn.Linear(1024, 1)
    optimizer = torch.optim.SGD([*body.parameters(), *head.parameters()], lr=1e-3)
    monitor = Monitor()
    step, until = 0, time.monotonic() + seconds
    while time.monotonic() < until:
        hidden = body(torch.randn(128, 64))
        optimizer.zero_grad()
        head(hidden).square().mean().backward()
        optimizer.step()
        monitor.look(hidden)
        step += 1
        time.sleep(0.03)
    print(f"{step} steps")


torch.set_num_threads(1)
AsyncCompile.wait_pool_ready()  # torch.compile does this by itself where it compiles for a GPU
train()
