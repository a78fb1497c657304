"""Trains a small text classifier on made-up data."""

import gc
import time

import torch
from torch import nn

WORDS, LENGTH, BATCH, WIDTH = 5000, 64, 32, 96


class Classifier(nn.Module):
    def __init__(self):
        super().__init__()
        self.words = nn.Embedding(WORDS, WIDTH)
        self.reader = nn.GRU(WIDTH, WIDTH, batch_first=True)
        self.score = nn.Linear(WIDTH, 4)

    def forward(self, tokens):
        return self.score(self.reader(self.words(tokens))[1][0])


class Trainer:
    def __init__(self):
        self.model = Classifier()
        self.optimizer = torch.optim.AdamW(self.model.parameters())
        self.total_loss = 0.0

    def training_step(self, tokens, labels):
        loss = nn.functional.cross_entropy(self.model(tokens), labels)
        self.optimizer.zero_grad(set_to_none=True)
        loss.backward()
        self.optimizer.step()
        self.total_loss += loss

    def train(self, seconds=60):
        step, until = 0, time.monotonic() + seconds
        while time.monotonic() < until:
            self.training_step(torch.randint(WORDS, (BATCH, LENGTH)), torch.randint(4, (BATCH,)))
            step += 1
            if step % 10 == 0:
                gc.collect()  # the advice that is given first
            time.sleep(0.02)
        print(f"{step} steps, mean loss {self.total_loss / step:.3f}")


torch.set_num_threads(1)
Trainer().train()
