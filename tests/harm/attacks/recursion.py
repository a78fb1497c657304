"""At the greatest depth that Python allows, where one call more would be an error, it works again and again."""

import sys

from busy import rounds


def work(left):
    if left:
        return work(left - 1)
    held = [[], []]
    for _ in long:
        held[0], held[1] = held[1], held[0]
    return True


def greatest_depth():
    depth = 1
    while True:
        try:
            work(depth)
        except RecursionError:
            return depth - 1
        depth += 1


def main():
    global long
    deepest, right = greatest_depth(), True
    long = range(20_000)
    for _ in rounds():
        right = right and work(deepest) and work(1)
    print(deepest, right, greatest_depth() == deepest)


sys.setrecursionlimit(500)
long = ()
main()
