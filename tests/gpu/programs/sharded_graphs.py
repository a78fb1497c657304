"""Leaky: losses of a model under FSDP2 (its parameters are DTensors) stay in a list."""

import os
import sys
import time

import torch
import torch.distributed as dist
from torch.distributed.fsdp import fully_shard

SECONDS = float(sys.argv[1]) if len(sys.argv) > 1 else 16.0


def main():
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT="29517", RANK="0", WORLD_SIZE="1")
    dist.init_process_group("nccl")
    model = torch.nn.Sequential(*(torch.nn.Linear(1024, 1024) for _ in range(4))).cuda()
    for layer in model:
        fully_shard(layer)
    fully_shard(model)
    optimizer = torch.optim.AdamW(model.parameters())
    losses = []
    began = time.monotonic()
    while time.monotonic() - began < SECONDS:
        loss = model(torch.randn(256, 1024, device="cuda")).square().mean()
        loss.backward(retain_graph=True)
        optimizer.step()
        optimizer.zero_grad()
        losses.append(loss)  # leaks
        time.sleep(0.02)
    dist.destroy_process_group()


main()
