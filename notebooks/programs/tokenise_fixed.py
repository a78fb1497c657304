"""The same data set, tokenised row by row into a file: only what is in hand is in memory."""

import array
import random
import tempfile
import time

WORDS = ["".join(random.Random(n).choices("abcdefghijklmnop", k=2 + n % 8)) for n in range(4000)]
IDS = {word: number for number, word in enumerate(WORDS, start=1)}
ROWS_A_SECOND = 4000  # as fast as a disk might give them


def read_rows(count):
    rng, started = random.Random(7), time.monotonic()
    for number in range(count):
        time.sleep(max(0.0, started + number / ROWS_A_SECOND - time.monotonic()))
        question, answer = (" ".join(rng.choices(WORDS, k=k)) for k in (12, 40))
        yield {"question": question, "answer": answer, "id": number}


def as_prompt(row):
    return f"### Question:\n{row['question']}\n\n### Answer:\n{row['answer']}\n"


def tokenise(prompt):
    return [IDS.get(word, 0) for word in prompt.split()]


def write_samples(count, file):
    written = 0
    for row in read_rows(count):
        ids = array.array("H", tokenise(as_prompt(row)))
        array.array("I", [len(ids)]).tofile(file)
        ids.tofile(file)
        written += 1
    return written


if __name__ == "__main__":
    with tempfile.TemporaryFile() as file:
        print(f"{write_samples(80_000, file)} samples, {file.tell() / 1e6:.0f} MB on disk")
