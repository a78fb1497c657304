"""A tool of ``sys.monitoring`` that is told of every event: whose code does it see?"""

import os
import sys

from busy import rounds

files = set()
E = sys.monitoring.events


def small(a, b, c):
    d = a + b + c
    return d


def main():
    right = True
    for number in rounds():
        right = right and small(number, 1, 2) == number + 3
    return right


def see(code, *_):
    files.add(code.co_filename)


tool = int(sys.argv[1])
sys.monitoring.use_tool_id(tool, "attack")
wanted = 0
for name in ("PY_START", "PY_RETURN", "LINE", "CALL", "RAISE"):
    wanted |= getattr(E, name)
    sys.monitoring.register_callback(tool, getattr(E, name), see)
sys.monitoring.set_events(tool, wanted)
right = main()
sys.monitoring.set_events(tool, 0)
sys.monitoring.free_tool_id(tool)
print(right, sorted(map(os.path.basename, files)))
