"""Counts the words of made-up texts."""

import random
import time

WORDS = ["".join(random.choices("abcdefgh", k=6)) for _ in range(5000)]


class WordCounts:
    def __init__(self):
        self.counts = {}
        self.seen = []

    def add(self, text):
        words = text.split()
        self.seen.append(words)
        for word in words:
            self.counts[word] = self.counts.get(word, 0) + 1


def main(seconds=25):
    counts, until = WordCounts(), time.monotonic() + seconds
    while time.monotonic() < until:
        counts.add(" ".join(random.choices(WORDS, k=100)))
        time.sleep(0.002)
    print(f"{sum(counts.counts.values()):,} words")


main()
