"""Leaky: losses of a compiled model stay in a list; its graph is one node that a compiler made."""

import sys
import time

import torch

SECONDS = float(sys.argv[1]) if len(sys.argv) > 1 else 24.0


def main():
    layers = torch.nn.Sequential(torch.nn.Linear(1024, 1024), torch.nn.GELU(), torch.nn.Linear(1024, 1024)).cuda()
    model = torch.compile(layers)
    optimizer = torch.optim.SGD(layers.parameters(), 0.01)
    losses = []
    began = time.monotonic()
    while time.monotonic() - began < SECONDS:
        loss = model(torch.randn(256, 1024, device="cuda")).square().mean()
        loss.backward(retain_graph=True)
        optimizer.step()
        optimizer.zero_grad()
        losses.append(loss)  # leaks
        time.sleep(0.03)


main()
