"""Leaky until it ends by torch.OutOfMemoryError: validation outputs with their graphs pile up on a device of 3 GiB."""

import time

import torch

torch.cuda.set_per_process_memory_fraction(3 * 2**30 / torch.cuda.get_device_properties(0).total_memory)


def validate(model, outputs):
    for _ in range(4):
        outputs.append(model(torch.randn(512, 1024, device="cuda")))  # no torch.no_grad()


def main():
    model = torch.nn.Sequential(
        *[layer for _ in range(4) for layer in (torch.nn.Linear(1024, 1024), torch.nn.GELU())]
    ).cuda()
    optimizer = torch.optim.AdamW(model.parameters())
    outputs = []
    while True:
        for _ in range(10):
            model(torch.randn(128, 1024, device="cuda")).square().mean().backward()
            optimizer.step()
            optimizer.zero_grad()
            time.sleep(0.01)
        validate(model, outputs)


main()
