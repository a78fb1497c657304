"""An interrupt that nobody catches ends a process by its signal: its shell is told so, and stops, too.

Python remembers it until the exit handlers have run, unless one evaluates a string, as collections does as it is
imported. Here nothing that comes with it is there any more, and there is text to be written.
"""

import sys
import threading


def fail():
    raise ValueError("of_a_thread_with_a_long_word")


thread = threading.Thread(target=fail)
thread.start()
thread.join()
for name in set(sys.modules) & {"collections", "enum", "functools", "re"}:
    del sys.modules[name]
raise KeyboardInterrupt
