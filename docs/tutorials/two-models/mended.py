"""Scores made-up texts with a transformer that is converted to bfloat16 after it was loaded."""

import time

import torch
from torch import nn

WORDS, WIDTH, LAYERS = 8000, 512, 6


class Scorer(nn.Module):
    def __init__(self):
        super().__init__()
        self.words = nn.Embedding(WORDS, WIDTH)
        self.layers = nn.ModuleList(
            nn.TransformerEncoderLayer(WIDTH, 8, 4 * WIDTH, batch_first=True) for _ in range(LAYERS)
        )
        self.score = nn.Linear(WIDTH, 1)

    def forward(self, tokens):
        hidden = self.words(tokens)
        for layer in self.layers:
            hidden = layer(hidden)
        return self.score(hidden.mean(dim=1))


class Service:
    def __init__(self):
        self.fast_model = Scorer().eval().to(torch.bfloat16)

    def run(self, seconds=60):
        scored, until = 0, time.monotonic() + seconds
        while time.monotonic() < until:
            with torch.no_grad():
                scored += len(self.fast_model(torch.randint(WORDS, (4, 32))))
            time.sleep(0.05)
        print(f"{scored} texts scored")


torch.set_num_threads(1)
Service().run()
