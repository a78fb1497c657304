"""Work for as long as the test says, and tell it when that was: snapshots of that time are what it counts.

``clock_gettime_ns``, since freezegun replaces the other clocks also where they were imported by name.
"""

import os
from time import CLOCK_MONOTONIC, clock_gettime_ns

LASTS_S = float(os.environ.get("ATTACK_S", "2.5"))


def rounds():
    """Number upon number until the time is over; two at least, however busy the machine is."""
    began = clock_gettime_ns(CLOCK_MONOTONIC)
    number = 0
    while number < 2 or clock_gettime_ns(CLOCK_MONOTONIC) - began < LASTS_S * 1e9:
        yield number
        number += 1
    with open(os.environ["ATTACK_WINDOW"], "a") as stream:
        stream.write("%d %d\n" % (began, clock_gettime_ns(CLOCK_MONOTONIC)))


def spin():
    """The same for who has nothing to do meanwhile."""
    total = 0
    for number in rounds():
        total += number & 1
    return total > 0


def adds_up():
    """The same with local variables: whether they keep their values."""
    right = True
    for number in rounds():
        right = right and _sum(number, 1, 2) == number + 3
    return right


def _sum(a, b, c):
    d = a + b + c
    return d
