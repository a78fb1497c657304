"""A tool of ``sys.monitoring`` that is told of every event: whose code does it see?"""

import os
import sys

from busy import adds_up

files = set()
E = sys.monitoring.events


def see(code, *_):
    files.add(code.co_filename)


tool = int(sys.argv[1])
sys.monitoring.use_tool_id(tool, "attack")
wanted = 0
for name in ("PY_START", "PY_RETURN", "LINE", "CALL", "RAISE"):
    wanted |= getattr(E, name)
    sys.monitoring.register_callback(tool, getattr(E, name), see)
sys.monitoring.set_events(tool, wanted)
right = adds_up()
sys.monitoring.set_events(tool, 0)
sys.monitoring.free_tool_id(tool)
print(right, sorted(map(os.path.basename, files)))
