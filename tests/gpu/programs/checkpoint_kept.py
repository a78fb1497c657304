"""Waste: the checkpoint was loaded onto the GPU and stays there beside the model it was loaded into."""

import os
import sys
import tempfile
import time

import torch

SECONDS = float(sys.argv[1]) if len(sys.argv) > 1 else 16.0


def build():
    return torch.nn.Sequential(*[torch.nn.Linear(4096, 4096) for _ in range(10)])


def main():
    path = os.path.join(tempfile.mkdtemp(), "model.pt")
    torch.save(build().state_dict(), path)
    checkpoint = torch.load(path, map_location="cuda")
    model = build().cuda()
    model.load_state_dict(checkpoint)
    model[:9].requires_grad_(False)  # only the head is trained: the rest stays equal to the checkpoint
    optimizer = torch.optim.SGD(model[9].parameters(), 1e-3)
    began = time.monotonic()
    while time.monotonic() - began < SECONDS:
        model(torch.randn(64, 4096, device="cuda")).square().mean().backward()
        optimizer.step()
        optimizer.zero_grad()
        time.sleep(0.02)


main()
