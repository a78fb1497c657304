"""Leaky: losses stay in a list; what their graphs saved was moved to pinned memory of the host by save_on_cpu."""

import sys
import time

import torch

SECONDS = float(sys.argv[1]) if len(sys.argv) > 1 else 16.0


def main():
    model = torch.nn.Sequential(torch.nn.Linear(512, 2048), torch.nn.GELU(), torch.nn.Linear(2048, 512)).cuda()
    losses = []
    began = time.monotonic()
    while time.monotonic() - began < SECONDS:
        with torch.autograd.graph.save_on_cpu(pin_memory=True):
            losses.append(model(torch.randn(128, 512, device="cuda")).square().mean())  # leaks
        time.sleep(0.04)


main()
