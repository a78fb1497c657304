"""Threads that begin and end all the time, two hundred at once: of Python's, of C code's own, and timers."""

import ctypes
import sys
import threading
import time

from busy import rounds

AT_ONCE = 200
sys.setswitchinterval(1e-5)
wrong, ran = [], []
wait_s = [0.0002 * (i % 7) for i in range(AT_ONCE)]
# Without the lock until they call: their state is made, and unmade, each time.
callback = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p)
libc = ctypes.CDLL(None)
create, join = libc.pthread_create, libc.pthread_join
create.argtypes = (ctypes.c_void_p, ctypes.c_void_p, callback, ctypes.c_void_p)
join.argtypes = (ctypes.c_void_p, ctypes.c_void_p)


class Counted(threading.Thread):
    def __init__(self, number):
        super().__init__()
        self.number = number
        self.held = [number] * 50

    def run(self):
        mine = [self.number] * 100
        time.sleep(wait_s[self.number % AT_ONCE])
        if mine != [self.number] * 100 or self.held != [self.number] * 50:
            wrong.append(self.number)
        ran.append(1)


@callback
def called_by_c(argument):
    mine = [argument] * 100
    if mine != [argument] * 100:
        wrong.append(argument)
    ran.append(1)
    return None


begun = 0
for number in rounds():
    threads = [Counted(begun + i) for i in range(AT_ONCE // 2)]
    timers = [threading.Timer(wait_s[i], ran.append, (1,)) for i in range(AT_ONCE // 4)]
    for thread in threads + timers:
        thread.start()
    handles = [ctypes.c_void_p() for _ in range(AT_ONCE // 4)]
    for handle in handles:
        assert create(ctypes.addressof(handle), None, called_by_c, 7) == 0
    for timer in timers[::5]:
        timer.cancel()
    for thread in threads + timers:
        thread.join()
    for handle in handles:
        assert join(handle, None) == 0
    begun += AT_ONCE
print(wrong, len(ran) > AT_ONCE // 2, threading.active_count())
