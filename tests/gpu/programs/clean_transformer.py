"""Clean: a BERT from a config, mixed precision, AdamW, a schedule, evaluation every 100 steps."""

import sys
import time

import torch
from transformers import BertConfig, BertForMaskedLM

SECONDS = float(sys.argv[1]) if len(sys.argv) > 1 else 24.0


def main():
    config = BertConfig(
        vocab_size=8000, hidden_size=384, num_hidden_layers=6, num_attention_heads=6, intermediate_size=1536
    )
    model = BertForMaskedLM(config).cuda()
    optimizer = torch.optim.AdamW(model.parameters(), 1e-4)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, 10_000)
    began, steps, losses = time.monotonic(), 0, []
    while time.monotonic() - began < SECONDS:
        length = (64, 96, 128)[steps % 3]
        tokens = torch.randint(8000, (16, length), device="cuda")
        with torch.autocast("cuda", torch.bfloat16):
            loss = model(input_ids=tokens, labels=tokens).loss
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        schedule.step()
        steps += 1
        if steps % 100 == 0:
            model.eval()
            with torch.no_grad():
                losses.append(model(input_ids=tokens, labels=tokens).loss.item())
            model.train()
    print(steps, "steps", losses[-1:])


main()
