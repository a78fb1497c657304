"""A clock that goes on a second each time somebody looks at it: nobody but the job does."""

import time

from busy import spin
from freezegun import freeze_time

with freeze_time("2020-01-01", auto_tick_seconds=1):
    before = time.time()
    print(spin())
    print("moved", time.time() - before)
with freeze_time("2020-01-01") as clock:
    before = time.time(), time.monotonic(), time.perf_counter()
    print(spin())
    print("stood", [now - then for now, then in zip((time.time(), time.monotonic(), time.perf_counter()), before)])
