"""Leaky: each step's outputs stay in a list of the trainer, on the GPU, with the graphs that made them."""

import sys
import time

import torch

SECONDS = float(sys.argv[1]) if len(sys.argv) > 1 else 16.0


class Trainer:
    def __init__(self):
        self.model = torch.nn.Sequential(
            torch.nn.Linear(1024, 1024), torch.nn.GELU(), torch.nn.Linear(1024, 256)
        ).cuda()
        self.optimizer = torch.optim.AdamW(self.model.parameters())
        self.history = []

    def step(self, batch):
        output = self.model(batch)
        loss = output.square().mean()
        loss.backward()
        self.optimizer.step()
        self.optimizer.zero_grad()
        self.history.append(output)  # leaks: 256 KiB of output and the graph behind it
        return loss.item()


def main():
    trainer = Trainer()
    began = time.monotonic()
    while time.monotonic() - began < SECONDS:
        trainer.step(torch.randn(256, 1024, device="cuda"))
        time.sleep(0.02)


main()
