"""A tracer or profiler (the first argument) of every event: which files does it come by?"""

import os
import sys

from busy import rounds

files = set()


def small(a, b, c):
    d = a + b + c
    return d


def look(frame, event, arg):
    files.add(frame.f_code.co_filename)
    return look


def main():
    right = True
    for number in rounds():
        right = right and small(number, 1, 2) == number + 3
    return right


switch = getattr(sys, sys.argv[1])
switch(look)
right = main()
switch(None)
print(right, sorted(map(os.path.basename, files)))
