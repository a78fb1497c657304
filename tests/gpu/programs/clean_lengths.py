"""Clean: batches of many lengths; the allocator's pool fills, and stops."""

import random
import sys
import time

import torch

SECONDS = float(sys.argv[1]) if len(sys.argv) > 1 else 20.0


def main():
    random.seed(0)
    model = torch.nn.TransformerEncoder(torch.nn.TransformerEncoderLayer(256, 8, 1024, batch_first=True), 4).cuda()
    optimizer = torch.optim.AdamW(model.parameters(), 1e-4)
    began = time.monotonic()
    while time.monotonic() - began < SECONDS:
        model(torch.randn(8, random.randint(16, 512), 256, device="cuda")).square().mean().backward()
        optimizer.step()
        optimizer.zero_grad()
        time.sleep(0.01)


main()
