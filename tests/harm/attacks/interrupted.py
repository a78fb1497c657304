"""An interrupt that nobody catches ends a process by its signal, which its shell is told of, and stops, too.

Python remembers it until its exit handlers have run, unless one evaluates a string, as collections does as it is
imported. Here none of what comes with it has been.
"""

import sys

for name in set(sys.modules) & {"collections", "enum", "functools", "re"}:
    del sys.modules[name]
raise KeyboardInterrupt
