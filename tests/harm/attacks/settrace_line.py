"""A tracer that looks at calls only, and takes its time."""

import sys

from busy import rounds


def small(a, b, c):
    d = a + b + c
    return d


def look(frame, event, arg):
    for _ in range(20):
        pass


def main():
    right = True
    for number in rounds():
        right = right and small(number, 1, 2) == number + 3
    return right


sys.settrace(look)
right = main()
sys.settrace(None)
print(right)
