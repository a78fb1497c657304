"""A small service with a leak, for `leakscope demo`: each session is kept for good after its client has left."""

from __future__ import annotations

import random
import sys
import time

WORDS = ["".join(random.choices("abcdefgh", k=6)) for _ in range(5000)]
PER_SECOND = 200


class Sessions:
    """Who is connected, and what each of them has read so far."""

    def __init__(self) -> None:
        self.open: dict[int, float] = {}
        self.history: dict[int, list[list[str]]] = {}

    def connect(self, client: int) -> None:
        self.open[client] = time.monotonic()
        self.history[client] = [random.choices(WORDS, k=100) for _ in range(10)]

    def pages(self, client: int) -> int:
        return len(self.history[client])

    def leave(self, client: int) -> None:
        del self.open[client]  # and not self.history[client]


def main(seconds: float) -> None:
    sessions, began, served, pages = Sessions(), time.monotonic(), 0, 0
    while (passed := time.monotonic() - began) < seconds:
        while served < PER_SECOND * passed:  # on a busy machine, too
            sessions.connect(served)
            pages += sessions.pages(served)
            sessions.leave(served)
            served += 1
        time.sleep(0.005)
    print(f"{served:,} clients have read {pages:,} pages, {len(sessions.open)} are connected")


if __name__ == "__main__":
    main(float(sys.argv[1]))
