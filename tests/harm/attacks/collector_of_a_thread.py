"""A thread switches the collector off and on again, as timeit and pickle's users do: it stays as it was set."""

import gc
import sys
import threading

from busy import spin

stop, wrong = False, []


def switch():
    while not stop:
        gc.disable()
        for _ in range(3000):
            pass
        if gc.isenabled():
            wrong.append("on again")
        gc.enable()
        for _ in range(3000):
            pass
        if not gc.isenabled():
            wrong.append("off again")


ballast = [[i] for i in range(100_000)]
sys.setswitchinterval(1e-5)
thread = threading.Thread(target=switch)
thread.start()
print(spin())
stop = True
thread.join()
print(sorted(set(wrong)))
