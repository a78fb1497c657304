"""Leaky: a feature bank on the GPU that is only ever added to; detached, so that no graph is held."""

import sys
import time

import torch

SECONDS = float(sys.argv[1]) if len(sys.argv) > 1 else 16.0
BANK = {}


def remember(index, features):
    BANK[index] = features.detach().clone()


def main():
    model = torch.nn.Conv2d(3, 16, 3, padding=1).cuda()
    optimizer = torch.optim.SGD(model.parameters(), 0.01)
    began, index = time.monotonic(), 0
    while time.monotonic() - began < SECONDS:
        features = model(torch.randn(8, 3, 64, 64, device="cuda"))
        features.mean().backward()
        optimizer.step()
        optimizer.zero_grad()
        remember(index, features)
        index += 1
        time.sleep(0.03)


main()
