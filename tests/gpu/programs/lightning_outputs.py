"""Leaky: a Lightning module keeps each step's loss with its graph in a list of its own, and never clears it."""

import sys
import time

import pytorch_lightning as lightning
import torch
from torch.utils.data import DataLoader, TensorDataset

SECONDS = float(sys.argv[1]) if len(sys.argv) > 1 else 20.0


class Module(lightning.LightningModule):
    def __init__(self):
        super().__init__()
        self.net = torch.nn.Sequential(torch.nn.Linear(512, 2048), torch.nn.ReLU(), torch.nn.Linear(2048, 10))
        self.training_step_outputs = []

    def training_step(self, batch, _index):
        loss = torch.nn.functional.cross_entropy(self.net(batch[0]), batch[1])
        self.training_step_outputs.append({"loss": loss, "features": self.net[0](batch[0])})
        time.sleep(0.01)
        return loss

    def configure_optimizers(self):
        return torch.optim.AdamW(self.parameters(), 1e-4)


def main():
    data = TensorDataset(torch.randn(3200, 512), torch.randint(10, (3200,)))
    trainer = lightning.Trainer(
        max_time={"seconds": SECONDS},
        max_epochs=10_000,
        accelerator="gpu",
        devices=1,
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
    )
    trainer.fit(Module(), DataLoader(data, batch_size=64))


if __name__ == "__main__":
    main()
