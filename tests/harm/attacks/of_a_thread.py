"""``threading.setprofile`` or ``settrace``: only the other thread is looked at. Which: the first argument."""

import sys
import threading
from itertools import count

from busy import spin

stop = False


def small(a, b, c):
    d = a + b + c
    return d


def look(frame, event, arg):
    for _ in range(20):
        pass


def work():
    for number in count():
        if stop:
            break
        wrong.extend([] if small(number, 1, 2) == number + 3 else [number])
    finished.append(True)


wrong, finished = [], []
sys.setswitchinterval(1e-4)
switch = getattr(threading, sys.argv[1])
switch(look)
thread = threading.Thread(target=work)
thread.start()
switch(None)
print(spin())
stop = True
thread.join()
print(wrong, finished)
