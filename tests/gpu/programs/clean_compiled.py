"""Clean: torch.compile, with CUDA graphs."""

import sys
import time

import torch

SECONDS = float(sys.argv[1]) if len(sys.argv) > 1 else 30.0


def main():
    model = torch.nn.Sequential(
        *[layer for _ in range(6) for layer in (torch.nn.Linear(512, 512), torch.nn.GELU())]
    ).cuda()
    compiled = torch.compile(model, mode="reduce-overhead")
    optimizer = torch.optim.AdamW(model.parameters(), 1e-4)
    began = time.monotonic()
    while time.monotonic() - began < SECONDS:
        compiled(torch.randn(64, 512, device="cuda")).square().mean().backward()
        optimizer.step()
        optimizer.zero_grad()
        time.sleep(0.005)


if __name__ == "__main__":
    main()
