"""Shuts itself in while it works. How: the first argument."""

import ctypes
import os
import sys

from busy import rounds

libc = ctypes.CDLL(None, use_errno=True)
CLONE_NEWUSER, CLONE_NEWNS, CLONE_NEWUTS = 0x10000000, 0x20000, 0x4000000
PR_SET_DUMPABLE, PR_SET_NO_NEW_PRIVS = 4, 38
place, answers = os.getcwd(), set()


def asks(function, *arguments):
    return "done" if function(*arguments) == 0 else os.strerror(ctypes.get_errno())


def shut_in(how):
    if how == "namespace":
        return asks(libc.unshare, CLONE_NEWNS | CLONE_NEWUTS)
    if how == "user":
        return asks(libc.unshare, CLONE_NEWUSER)
    if how == "root":
        os.makedirs("cell", exist_ok=True)
        return asks(libc.chroot, b"cell")
    return asks(libc.prctl, PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), asks(libc.prctl, PR_SET_DUMPABLE, 0, 0, 0, 0)


outside = os.open("/", os.O_RDONLY)
for number in rounds():
    if number == 20 or (number > 20 and sys.argv[1] == "root"):
        answers.add(shut_in(sys.argv[1]))
    held = [[one] for one in range(3000)]
    if sys.argv[1] == "root":  # and out again, to where the files are
        os.fchdir(outside)
        libc.chroot(b".")
        os.chdir(place)
if not answers:  # on a busy machine there were fewer rounds
    answers.add(shut_in(sys.argv[1]))
with open("/proc/self/status") as stream:
    print(answers, [line.split() for line in stream if line.startswith("TracerPid")])
