"""Leaky: pinned host batches stay in a queue that nobody empties. Host memory, by CUDA's allocator."""

import collections
import sys
import time

import torch

SECONDS = float(sys.argv[1]) if len(sys.argv) > 1 else 16.0


class Prefetcher:
    def __init__(self):
        self.staged = collections.deque()

    def load(self):
        batch = torch.randn(256, 2048).pin_memory()  # 2 MiB
        self.staged.append(batch)
        return batch.cuda(non_blocking=True)


def main():
    prefetcher = Prefetcher()
    model = torch.nn.Linear(2048, 2048).cuda()
    optimizer = torch.optim.SGD(model.parameters(), 0.01)
    began = time.monotonic()
    while time.monotonic() - began < SECONDS:
        model(prefetcher.load()).square().mean().backward()
        optimizer.step()
        optimizer.zero_grad()
        time.sleep(0.03)


main()
