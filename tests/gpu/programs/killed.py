"""Leaky, and ended by SIGKILL in the middle of a step."""

import os
import signal
import time

import torch


def main():
    states, model = [], torch.nn.LSTM(256, 256, batch_first=True).cuda()
    optimizer = torch.optim.Adam(model.parameters())
    began, state = time.monotonic(), None
    while True:
        output, state = model(torch.randn(16, 32, 256, device="cuda"), state)
        state = tuple(part.detach() for part in state)
        output.square().mean().backward()
        optimizer.step()
        optimizer.zero_grad()
        states.append(output.detach())
        time.sleep(0.02)
        if time.monotonic() - began > 15:
            torch.zeros(2**28, device="cuda")
            os.kill(os.getpid(), signal.SIGKILL)


main()
