"""Clean: an EMA copy beside the model, updated after each step."""

import copy
import sys
import time

import torch

SECONDS = float(sys.argv[1]) if len(sys.argv) > 1 else 16.0


def main():
    model = torch.nn.Sequential(*[torch.nn.Linear(2048, 2048) for _ in range(12)]).cuda()
    average = copy.deepcopy(model).requires_grad_(False)
    optimizer = torch.optim.Adam(model.parameters(), 1e-4)
    began = time.monotonic()
    while time.monotonic() - began < SECONDS:
        model(torch.randn(64, 2048, device="cuda")).square().mean().backward()
        optimizer.step()
        optimizer.zero_grad()
        with torch.no_grad():
            for mean, now in zip(average.parameters(), model.parameters()):
                mean.lerp_(now, 0.001)
        time.sleep(0.02)


main()
