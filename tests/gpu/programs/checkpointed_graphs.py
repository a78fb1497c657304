"""Leaky: losses stay in a list, with what activation checkpointing keeps of each step: its input."""

import sys
import time

import torch
from torch.utils.checkpoint import checkpoint

SECONDS = float(sys.argv[1]) if len(sys.argv) > 1 else 16.0


class Blocks(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.blocks = torch.nn.ModuleList(torch.nn.Linear(1024, 1024) for _ in range(4))

    def forward(self, x):
        for number, block in enumerate(self.blocks):
            x = checkpoint(block, x, use_reentrant=number % 2 == 0)
        return x


def main():
    model = Blocks().cuda()
    losses = []
    began = time.monotonic()
    while time.monotonic() - began < SECONDS:
        batch = torch.randn(256, 1024, device="cuda", requires_grad=True)
        losses.append(model(batch).square().mean())  # leaks
        time.sleep(0.02)


main()
