"""Two ranks on one device (gloo): the second keeps what the first lets go."""

import os
import sys
import time

import torch
import torch.distributed as dist
import torch.multiprocessing as mp

SECONDS = float(sys.argv[1]) if len(sys.argv) > 1 else 20.0


def work(rank, world):
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT="29511")
    dist.init_process_group("gloo", rank=rank, world_size=world)
    model = torch.nn.Linear(1024, 1024).cuda()
    optimizer = torch.optim.SGD(model.parameters(), 0.01)
    gathered = []
    for step in range(int(SECONDS * 25)):
        output = model(torch.randn(256, 1024, device="cuda"))
        output.square().mean().backward()
        optimizer.step()
        optimizer.zero_grad()
        if rank == 1:
            gathered.append(output.detach())
        if step % 25 == 0:
            total = torch.zeros(1)
            dist.all_reduce(total)
        time.sleep(0.03)
    dist.destroy_process_group()


if __name__ == "__main__":
    mp.spawn(work, args=(2,), nprocs=2)
