"""For a debugger that steps through it: as many rounds bare as recorded, so that every step is the same.

Whoever steps quits in the middle: what comes afterwards has addresses in it.
"""

import os
import time
from time import CLOCK_MONOTONIC, clock_gettime_ns

from busy import LASTS_S

ROUNDS = 250


def small(a, b, c):
    d = a + b + c
    return d


began = clock_gettime_ns(CLOCK_MONOTONIC)
right = True
try:
    for number in range(ROUNDS):
        right = right and small(number, 1, 2) == number + 3
        time.sleep(LASTS_S / ROUNDS)
finally:
    with open(os.environ["ATTACK_WINDOW"], "a") as stream:
        stream.write("%d %d\n" % (began, clock_gettime_ns(CLOCK_MONOTONIC)))
