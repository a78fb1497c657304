"""Leaky: a callback of transformers' Trainer keeps predictions of each step on the GPU."""

import sys
import tempfile
import time

import torch
from transformers import BertConfig, BertForSequenceClassification, Trainer, TrainerCallback, TrainingArguments

SECONDS = float(sys.argv[1]) if len(sys.argv) > 1 else 20.0


class Rows(torch.utils.data.Dataset):
    def __len__(self):
        return 100_000

    def __getitem__(self, index):
        return {"input_ids": torch.arange(64) + index % 900, "labels": torch.tensor(index % 2)}


class KeepingTrainer(Trainer):
    def __init__(self, *arguments, **options):
        super().__init__(*arguments, **options)
        self.seen = []

    def compute_loss(self, model, inputs, return_outputs=False, **rest):
        outputs = model(**inputs, output_hidden_states=True)
        self.seen.append(outputs.hidden_states)
        return (outputs.loss, outputs) if return_outputs else outputs.loss


class Stop(TrainerCallback):
    def __init__(self):
        self.began = time.monotonic()

    def on_step_end(self, args, state, control, **rest):
        time.sleep(0.02)
        control.should_training_stop = time.monotonic() - self.began > SECONDS


def main():
    config = BertConfig(
        vocab_size=1000, hidden_size=128, num_hidden_layers=4, num_attention_heads=4, intermediate_size=512
    )
    arguments = TrainingArguments(
        tempfile.mkdtemp(),
        per_device_train_batch_size=16,
        save_strategy="no",
        report_to=[],
        disable_tqdm=True,
        logging_steps=10**6,
    )
    KeepingTrainer(BertForSequenceClassification(config), arguments, train_dataset=Rows(), callbacks=[Stop()]).train()


if __name__ == "__main__":
    main()
