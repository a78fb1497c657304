"""Forked workers that gain memory and touch nothing of their parent's: what they shared with it they still share."""

import gc
import os
import time

from busy import rounds

ROWS = 30_000
LEAST_KEPT = 0.8  # of what was shared: the agent's own pages are 1 to 2 MiB; reading all from Python copies nearly all


def shared_bytes():
    with open("/proc/self/smaps_rollup") as stream:
        return next(int(line.split()[1]) for line in stream if line.startswith("Shared_Dirty:"))


def worker(held):
    """Its own memory grows by 16 MiB, in one piece; it works long enough to be looked at."""
    at_first = shared_bytes()
    own = bytearray(16 << 20)
    for _ in rounds():
        time.sleep(0.01)
    return len(own) + len(held) == (16 << 20) + ROWS and shared_bytes() > LEAST_KEPT * at_first


def main():
    held = [[number, bytes(600)] for number in range(ROWS)]
    gc.disable()  # a collection writes to every object
    children = []
    for _ in range(2):
        child = os.fork()
        if child == 0:
            try:
                os._exit(0 if worker(held) else 1)
            finally:
                os._exit(7)
        children.append(child)
    return [os.waitpid(child, 0)[1] for child in children]


if __name__ == "__main__":
    print(main())
