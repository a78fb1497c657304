"""A tracer, profiler or tool that is set and unset hundreds of times a second: it is told of this program alone."""

import sys
import threading

from busy import LASTS_S, rounds

strangers, seen = set(), 0
OWN = (__file__, sys.modules["busy"].__file__, threading.__file__)


def told(code):
    global seen
    seen += 1
    if not code.co_filename.endswith(OWN):
        strangers.add(code.co_filename.rpartition("/")[2])


def watch(frame, event, argument):
    told(frame.f_code)
    return watch


def small(number):
    return number + 1


def switch_profiler():
    sys.setprofile(watch)
    small(1)
    sys.setprofile(None)


def switch_tracer():
    sys.settrace(watch)
    small(1)
    sys.settrace(None)


def switch_tool():
    tools = sys.monitoring
    tools.use_tool_id(3, "own")
    tools.register_callback(3, tools.events.PY_START, lambda code, offset: told(code))
    tools.set_events(3, tools.events.PY_START)
    small(1)
    tools.set_events(3, 0)
    tools.free_tool_id(3)


switch = {"profiler": switch_profiler, "tracer": switch_tracer, "tool": switch_tool}[sys.argv[1]]
kept = [[i] for i in range(50_000)]
for number in rounds():
    switch()
    for _ in range(2000):
        small(1)
print(sorted(strangers), seen > 0, LASTS_S > 0)
