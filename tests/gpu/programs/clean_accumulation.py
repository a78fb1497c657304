"""Clean: gradients of eight batches are added up, a window of twenty outputs is kept, losses are detached."""

import collections
import sys
import time

import torch

SECONDS = float(sys.argv[1]) if len(sys.argv) > 1 else 16.0


def main():
    model = torch.nn.Sequential(torch.nn.Linear(1024, 1024), torch.nn.GELU(), torch.nn.Linear(1024, 1024)).cuda()
    optimizer = torch.optim.AdamW(model.parameters())
    window, losses, step = collections.deque(maxlen=20), [], 0
    began = time.monotonic()
    while time.monotonic() - began < SECONDS:
        output = model(torch.randn(256, 1024, device="cuda"))
        window.append(output)
        loss = output.square().mean() / 8
        loss.backward()
        losses.append(loss.detach())
        step += 1
        if step % 8 == 0:
            optimizer.step()
            optimizer.zero_grad()
        time.sleep(0.02)


main()
