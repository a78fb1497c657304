"""Clean: loader workers, pinned batches, training on the GPU."""

import sys
import time

import torch
from torch.utils.data import DataLoader, Dataset

SECONDS = float(sys.argv[1]) if len(sys.argv) > 1 else 20.0


class Images(Dataset):
    def __len__(self):
        return 2000

    def __getitem__(self, index):
        return torch.randn(3, 64, 64), index % 10


def main():
    model = torch.nn.Sequential(
        torch.nn.Conv2d(3, 32, 3, stride=2), torch.nn.ReLU(), torch.nn.Flatten(), torch.nn.LazyLinear(10)
    ).cuda()
    loader = DataLoader(Images(), batch_size=50, num_workers=4, pin_memory=True)
    model(torch.randn(2, 3, 64, 64, device="cuda"))
    optimizer = torch.optim.AdamW(model.parameters())
    began = time.monotonic()
    while time.monotonic() - began < SECONDS:
        for images, labels in loader:
            loss = torch.nn.functional.cross_entropy(
                model(images.cuda(non_blocking=True)), labels.cuda(non_blocking=True)
            )
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()


if __name__ == "__main__":
    main()
