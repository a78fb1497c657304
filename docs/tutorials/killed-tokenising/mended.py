"""Prepares made-up texts for a fine-tuning."""

import random
import time
from array import array

WORDS = ["".join(random.Random(n).choices("abcdefghijklmnop", k=2 + n % 8)) for n in range(4000)]
IDS = {word: number for number, word in enumerate(WORDS)}


def read_rows(count=120_000, rows_per_second=4000):
    chance, started = random.Random(7), time.monotonic()
    for number in range(count):
        time.sleep(max(0.0, started + number / rows_per_second - time.monotonic()))
        question, answer = (" ".join(chance.choices(WORDS, k=k)) for k in (24, 160))
        yield {"question": question, "answer": answer}


def as_prompt(row):
    return f"### Question:\n{row['question']}\n\n### Answer:\n{row['answer']}\n"


def tokenise(prompt):
    return [IDS.get(word, 0) for word in prompt.split()]


def prepare():
    count = 0
    with open("samples.bin", "wb") as file:
        for row in read_rows():
            array("H", tokenise(as_prompt(row))).tofile(file)
            count += 1
    return count


print(f"{prepare()} samples")
