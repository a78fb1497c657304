"""A tracer or profiler (the first argument). It sees the ``files`` of events, slows ``calls`` or does ``nothing``."""

import os
import sys

from busy import adds_up


def see_files(frame, event, arg):
    files.add(os.path.basename(frame.f_code.co_filename))
    return see_files


def see_calls(frame, event, arg):
    for _ in range(20):
        pass


files = set()
switch = getattr(sys, sys.argv[1])
switch({"files": see_files, "calls": see_calls, "nothing": lambda *_: None}[sys.argv[2]])
right = adds_up()
switch(None)
print(right, sorted(files))
