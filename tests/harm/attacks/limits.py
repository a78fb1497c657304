"""Starts itself anew with a low limit, and goes to it. Which: the first argument."""

import errno
import os
import resource
import signal
import sys
import threading

from busy import rounds

LIMITS = {
    "files": (resource.RLIMIT_NOFILE, 32),
    "size": (resource.RLIMIT_FSIZE, 2000),
    "memory": (resource.RLIMIT_AS, 1 << 30),
    "stack": (resource.RLIMIT_STACK, 512 << 10),
}


def files():
    opened = []
    try:
        while True:
            opened.append(os.open(os.devnull, os.O_RDONLY))
    except OSError as error:
        return tuple(opened), errno.errorcode[error.errno]
    finally:
        for one in opened:
            os.close(one)


def size():
    signal.signal(signal.SIGXFSZ, signal.SIG_DFL)
    with open("short", "w") as stream:
        stream.write("short")
    return os.path.getsize("short")


def memory():
    try:
        return len(bytearray(2 << 30))
    except MemoryError:
        return "no memory"


def stack():
    return threading.stack_size()


if len(sys.argv) == 2:
    resource.setrlimit(LIMITS[sys.argv[1]][0], (LIMITS[sys.argv[1]][1],) * 2)
    os.execv(sys.executable, [sys.executable, __file__, sys.argv[1], "limited"])
answers, ask = set(), {"files": files, "size": size, "memory": memory, "stack": stack}[sys.argv[1]]
for _ in rounds():
    held = [[one] for one in range(3000)]
    answers.add(ask())
print(answers)
