"""Leaky: the losses of an epoch are summed up as tensors, so that each step's graph stays on the GPU."""

import sys
import time

import torch

SECONDS = float(sys.argv[1]) if len(sys.argv) > 1 else 16.0


class Meter:
    def __init__(self):
        self.total = 0

    def add(self, loss):
        self.total += loss  # leaks: the sum knows what it was made of


def main():
    model = torch.nn.Sequential(torch.nn.Linear(1024, 1024), torch.nn.GELU(), torch.nn.Linear(1024, 1024)).cuda()
    optimizer = torch.optim.AdamW(model.parameters())
    meter = Meter()
    began = time.monotonic()
    while time.monotonic() - began < SECONDS:
        loss = model(torch.randn(256, 1024, device="cuda")).square().mean()
        loss.backward(retain_graph=True)
        optimizer.step()
        optimizer.zero_grad()
        meter.add(loss)
        time.sleep(0.02)


main()
