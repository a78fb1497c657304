"""Processes that end while snapshots are made, in every way and at every moment of their first tenth of a second."""

import subprocess
import sys

from busy import rounds

BEGIN = """
import sys, threading, time, os, atexit
held = [[i] for i in range(30_000)]
until = time.monotonic() + float(sys.argv[1])
while time.monotonic() < until:
    pass
"""
ENDS = {
    "exits": "sys.exit(3)",
    "raises": "sys.stderr = None; raise ValueError",
    "at once": "os._exit(4)",
    "by a thread": "threading.Thread(target=time.sleep, args=(0.01,)).start()",
    "by a daemon": "threading.Thread(target=lambda: [sum(range(9)) for _ in iter(int, 1)], daemon=True).start()",
    "slowly": "atexit.register(lambda: [sum(range(99)) for _ in range(5000)])",
    "killed": "os.kill(os.getpid(), 15)",
}
statuses = {end: set() for end in ENDS}
done = 0
for number in rounds():
    end = list(ENDS)[number % len(ENDS)]
    waits_s = number % 9 * 0.012
    child = subprocess.run([sys.executable, "-c", BEGIN + ENDS[end], str(waits_s)])
    statuses[end].add(child.returncode)
    done += 1
while done < len(ENDS):
    end = list(ENDS)[done]
    statuses[end].add(subprocess.run([sys.executable, "-c", BEGIN + ENDS[end], "0"]).returncode)
    done += 1
print(statuses)
