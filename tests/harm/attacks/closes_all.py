"""Closes every descriptor above 2, as daemons do, and uses their numbers for files of its own.

An argument: ``traced`` all the while, or with a tool of sys.monitoring (``monitored``), as a process forks and ends.
"""

import os
import sys

from busy import rounds

if "traced" in sys.argv:
    sys.settrace(lambda *_: None)
if "monitored" in sys.argv:
    sys.monitoring.use_tool_id(4, "attack")
os.closerange(3, 4096)
names = ["own-%d" % number for number in range(250)]
files = [open(name, "w+") for name in names]
for number in rounds():
    held = [[one] for one in range(3000)]
    if number % 20 == 0:
        os.closerange(300, 4096)
    if number % 40 == 0 and os.fork() == 0:
        os._exit(0)
    files[number % 250].write("%d\n" % (number % 250))
wrong = []
for number, file in enumerate(files):
    file.seek(0)
    wrong += [name for name in file.read().split() if name != str(number)]
    os.remove(names[number])
print(wrong)
