"""A library has lost references to None, as many as the first argument says: the program ends as long as some are left.

Where None cannot be lost (3.12) nothing comes of it.
"""

import ctypes
import sys

from busy import spin

print(spin())
forget = ctypes.pythonapi.Py_DecRef
forget.argtypes = (ctypes.py_object,)
for _ in range(int(sys.argv[1])):
    forget(None)
