"""Closes the agent's files again and again, and watches the number that the next file of its own will get."""

import os
import re  # noqa: F401  the agent would load it later, once, as modules are loaded: from files with low numbers
import sys
import threading
from time import sleep

import busy

sys.setswitchinterval(1e-5)
number = os.dup(0)
os.close(number)
seen, looks = [], [0]
ends = threading.Event()


def look():
    while not ends.is_set():
        looks[0] += 1
        try:
            os.get_inheritable(number)  # lets no other thread run while it asks
        except OSError:
            continue
        seen.append(looks[0])


def opened(*arguments):
    """For ``busy``, which opens a file at the end: nobody looks any more."""
    ends.set()
    for thread in threads:
        thread.join()
    return open(*arguments)


busy.open = opened
threads = [threading.Thread(target=look) for _ in range(2)]
for thread in threads:
    thread.start()
for one in busy.rounds():
    if one % 20 == 0:
        os.closerange(200, 300)
    sleep(0.001)
print(len(seen), looks[0] > 100)
