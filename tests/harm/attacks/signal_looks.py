"""A handler of a signal, as a sampling profiler has it, looks which files' functions it comes between."""

import os
import signal

from busy import rounds


def look(number, frame):
    while frame is not None:
        files.add(os.path.basename(frame.f_code.co_filename))
        frame = frame.f_back


files = set()
signal.signal(signal.SIGALRM, look)
signal.setitimer(signal.ITIMER_REAL, 0.002, 0.002)
for _ in rounds():
    held = [[one] for one in range(3000)]
signal.setitimer(signal.ITIMER_REAL, 0)
print(sorted(files))
