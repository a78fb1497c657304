"""C code that never lets another thread run, for half a second at a time, and a moment of which it lets all."""

import ctypes
import threading
import time

from busy import rounds

hold = ctypes.PyDLL(None).usleep
hold.argtypes = (ctypes.c_uint,)
kept = [[i] for i in range(100_000)]
done = []


def wait():
    done.append(threading.get_ident())


for number in rounds():
    hold(500_000)
    thread = threading.Thread(target=wait)
    thread.start()
    thread.join()
    began = time.monotonic()
    while time.monotonic() - began < 0.03:
        pass
print(len(set(map(len, kept))), len(done) > 0)
