"""Threads change places as rarely, or as often, as the first argument (seconds) says; each has its turn and its due."""

import sys
import threading

from busy import rounds

sys.setswitchinterval(float(sys.argv[1]))
counts, stop, lock = [0, 0, 0], [], threading.Lock()


def count(number):
    while not stop:
        with lock:
            counts[number] += 1
        if number == 0:
            threading.Event().wait(0.001)


threads = [threading.Thread(target=count, args=(number,)) for number in range(3)]
for thread in threads:
    thread.start()
for _ in rounds():
    held = [[one] for one in range(3000)]
    threading.Event().wait(0.001)
stop.append(True)
for thread in threads:
    thread.join()
print(all(counts), sys.getswitchinterval() == float(sys.argv[1]))
