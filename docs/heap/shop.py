"""Keeps a session for every visitor, and forgets none of them."""

import time


class Session:
    def __init__(self, visitor: int) -> None:
        self.visitor = visitor
        self.basket = [f"item {visitor * 7 + n}" for n in range(3)]


class Cache:
    def __init__(self) -> None:
        self.entries = {}


CACHE = Cache()


def serve(seconds: float) -> None:
    end = time.monotonic() + seconds
    visitor = 0
    while time.monotonic() < end:
        for _ in range(20):
            CACHE.entries[visitor] = Session(visitor)
            visitor += 1
        time.sleep(0.05)


if __name__ == "__main__":
    serve(12)
