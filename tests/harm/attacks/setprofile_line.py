"""The shortest profiler there is."""

import sys

from busy import rounds


def small(a, b, c):
    d = a + b + c
    return d


sys.setprofile(lambda frame, event, arg: None)
right = True
for number in rounds():
    right = right and small(number, 1, 2) == number + 3
sys.setprofile(None)
print(right)
