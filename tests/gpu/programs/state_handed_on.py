"""Leaky: an LSTM's state is handed from step to step with its graph; cuDNN's node saves large workspaces."""

import sys
import time

import torch

SECONDS = float(sys.argv[1]) if len(sys.argv) > 1 else 16.0


class Agent:
    def __init__(self):
        self.lstm = torch.nn.LSTM(256, 512).cuda()
        self.head = torch.nn.Linear(512, 8).cuda()
        self.hidden = None

    def act(self, frames):
        output, self.hidden = self.lstm(frames, self.hidden)  # leaks: never detached
        return self.head(output[-1])


def main():
    agent = Agent()
    began = time.monotonic()
    while time.monotonic() - began < SECONDS:
        agent.act(torch.randn(8, 64, 256, device="cuda"))
        time.sleep(0.02)


main()
