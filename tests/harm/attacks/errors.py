"""What a program reads of its own errors: that of Python, as it is handled, and that of the C library."""

import ctypes
import errno
import os
import sys

from busy import rounds

libc = ctypes.CDLL(None, use_errno=True)
wrong, seen = [], set()
for number in rounds():
    libc.close(-1)
    for _ in range(3000):
        pass
    seen.add(ctypes.get_errno())
    try:
        raise KeyError(number)
    except KeyError as error:
        for _ in range(3000):
            pass
        if sys.exc_info()[1] is not error or error.__context__ is not None or error.__traceback__.tb_next is not None:
            wrong.append(number)
        try:
            [[one] for one in range(3000)]
            raise ValueError(number)
        except ValueError as second:
            if second.__context__ is not error:
                wrong.append(-number)
        del error
    if sys.exc_info() != (None, None, None):
        wrong.append("still handled")
print(wrong, seen == {errno.EBADF}, os.strerror(errno.EBADF))
