"""Interpreters with a lock of their own end on another thread while the agent asks whether there are any.

It asks a few times a second, before it looks at what all of them share; here as often as it can be asked. What is
freed is given back to the kernel (``MALLOC_MMAP_THRESHOLD_``): who reads it ends the program.
"""

import sys
import threading
from collections import deque
from itertools import repeat

from busy import rounds

try:
    import _interpreters as interpreters
except ImportError:
    import _xxsubinterpreters as interpreters


def asks():
    agent = sys.modules.get("_leakscope_agent")
    while not is_over:
        if agent is not None and agent._kept:  # else it did not begin in this Python
            deque(map(any, repeat(agent._kept[0].doors.other_interpreters, 2000)), maxlen=0)


is_over = []
thread = threading.Thread(target=asks)
thread.start()
for number in rounds():
    interpreters.destroy(interpreters.create())
is_over.append(True)
thread.join()
print(number > 0)
