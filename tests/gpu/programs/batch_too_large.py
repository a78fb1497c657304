"""Ends by torch.OutOfMemoryError: the batch doubles until activations do not fit into the part of the device it has."""

import time

import torch

torch.cuda.set_per_process_memory_fraction(4 * 2**30 / torch.cuda.get_device_properties(0).total_memory)


def train(model, optimizer, batch):
    loss = model(batch).square().mean()
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    return loss.item()


def main():
    model = torch.nn.Sequential(
        *[layer for _ in range(8) for layer in (torch.nn.Linear(1024, 1024), torch.nn.GELU())]
    ).cuda()
    optimizer = torch.optim.AdamW(model.parameters())
    size = 1024
    while True:
        until = time.monotonic() + 2
        while time.monotonic() < until:
            train(model, optimizer, torch.randn(size, 1024, device="cuda"))
            time.sleep(0.01)
        size *= 2


main()
