"""Ends by torch.OutOfMemoryError, since a process that is none of the job's holds most of the device."""

import time

import torch

model = torch.nn.Linear(64, 64).cuda()
optimizer = torch.optim.SGD(model.parameters(), 0.1)
began = time.monotonic()
kept = []
while time.monotonic() - began < 25:
    model(torch.randn(8, 64, device="cuda")).sum().backward()
    optimizer.step()
    optimizer.zero_grad()
    time.sleep(0.02)
    if time.monotonic() - began > 12:
        kept.append(torch.empty(2**29, dtype=torch.uint8, device="cuda"))
