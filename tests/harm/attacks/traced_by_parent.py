"""A child asks to be traced (ptrace); its parent lets it go on wherever it stops, and hears of every stop."""

import ctypes
import os
import signal

from busy import rounds

PTRACE_TRACEME, PTRACE_CONT = 0, 7
ptrace = ctypes.CDLL(None).ptrace
ptrace.argtypes = (ctypes.c_long, ctypes.c_long, ctypes.c_void_p, ctypes.c_void_p)
child = os.fork()
if child == 0:
    ptrace(PTRACE_TRACEME, 0, None, None)
    for number in range(3):
        os.kill(os.getpid(), signal.SIGUSR1)
        for _ in rounds():
            held = [[one] for one in range(3000)]
            if number < 2:
                break
    os._exit(4)
stops = []
while True:
    _, status = os.waitpid(child, 0)
    if not os.WIFSTOPPED(status):
        break
    stops.append(os.WSTOPSIG(status))
    ptrace(PTRACE_CONT, child, None, None)
print(stops == [signal.SIGUSR1] * 3, os.WEXITSTATUS(status))
