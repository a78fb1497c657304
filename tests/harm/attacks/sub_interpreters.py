"""Interpreters within the process, made and ended one after another: strangers to one another, or akin (``legacy``).

Snapshots wait until there is none: half of the time at least, also on a busy machine. ``often``: strangers as long as
it works, so that somebody looks while one begins.
"""

import sys
import time

from busy import LASTS_S, rounds

try:
    import _interpreters as interpreters

    run, akin = interpreters.exec, (("legacy",), {})
except ImportError:
    import _xxsubinterpreters as interpreters

    run, akin = interpreters.run_string, ((), {"isolated": False} if sys.version_info >= (3, 10) else {})
words, options = akin if sys.argv[1] == "legacy" else ((), {})
began = time.monotonic()
for number in rounds():
    if (number < 40 and time.monotonic() - began < LASTS_S / 2) or sys.argv[1] == "often":
        one = interpreters.create(*words, **options)
        run(one, "import json; held = [json.dumps([1])] * 10")
        interpreters.destroy(one)
print(number > 0)
