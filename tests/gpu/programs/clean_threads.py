"""Clean: four threads train their own models on one device, so that one is always in a backward pass."""

import sys
import threading
import time

import torch

SECONDS = float(sys.argv[1]) if len(sys.argv) > 1 else 16.0


def train():
    model = torch.nn.Sequential(*(torch.nn.Linear(256, 256) for _ in range(8))).cuda()
    optimizer = torch.optim.AdamW(model.parameters())
    total, began = 0.0, time.monotonic()
    while time.monotonic() - began < SECONDS:
        loss = model(torch.randn(64, 256, device="cuda")).square().mean()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        total += loss.item()


threads = [threading.Thread(target=train) for _ in range(4)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
