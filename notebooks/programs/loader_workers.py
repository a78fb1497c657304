"""Trains on images that two loader workers decode; each worker keeps every image it has decoded."""

import gc
import time

import torch
from torch.utils.data import DataLoader, Dataset


class Images(Dataset):
    """Decodes an image when it is asked for, and remembers it for the next epoch."""

    def __init__(self, count):
        self.count = count
        self.decoded = {}

    def __len__(self):
        return self.count

    def __getitem__(self, index):
        if index not in self.decoded:
            pixels = torch.full((3, 96, 96), index % 255, dtype=torch.uint8)
            self.decoded[index] = pixels.float() / 255
        time.sleep(0.006)
        return self.decoded[index].mean(dim=(1, 2))


def train(seconds):
    loader = DataLoader(Images(100_000), batch_size=8, shuffle=True, num_workers=2)
    model = torch.nn.Linear(3, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
    started = time.monotonic()
    for step, batch in enumerate(loader, start=1):
        optimizer.zero_grad()
        model(batch).square().mean().backward()
        optimizer.step()
        if step % 10 == 0:
            gc.collect()  # "every 10 steps"
        if time.monotonic() - started > seconds:
            break
    print(f"{step} steps")


if __name__ == "__main__":
    torch.manual_seed(0)
    torch.set_num_threads(1)
    train(seconds=20)
