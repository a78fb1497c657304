"""Who looks at an object holds it: counts of references are as ever, and what ends does so where it was let go.

Large containers come and go: their rows have finalizers, weak references with callbacks, and a clock that says how long
after the last reference they were still there: in time of this thread, since others may have the processor for longer.
"""

import gc
import sys
import threading
import time
import weakref
from collections import deque

from busy import rounds

ROWS, LATEST_S = 1500, 0.5
ours = {threading.main_thread().ident}
elsewhere, late, counts = set(), [], set()
let_go_at = [0.0]


class Row:
    __slots__ = ("text", "other", "__weakref__")

    def __init__(self, number):
        self.text = str(number) * 1000
        self.other = {"text": ("word " * 200) + str(number)}

    def __del__(self):
        ended()


def ended(*_):
    if threading.get_ident() not in ours:
        elsewhere.add("finalizer on another thread")
    if let_go_at[0] and time.thread_time() - let_go_at[0] > LATEST_S:
        late.append(1)


def made(number):
    rows = [Row(number + i) for i in range(ROWS)]
    watchers = [weakref.ref(row, ended) for row in rows[::50]]
    return rows if number % 3 == 0 else deque(rows) if number % 3 == 1 else {
        i: row for i, row in enumerate(rows)
    }, watchers


sys.setswitchinterval(1e-5)
kept = made(0)[0]
for number in rounds():
    held, watchers = made(number)
    until = time.monotonic() + 0.01 * (number % 17)
    while time.monotonic() < until:
        counts.add((sys.getrefcount(kept), sys.getrefcount(kept[0]), sys.getrefcount(kept[-1].other)))
        time.sleep(0)
    let_go_at[0] = time.thread_time()
    held = None
    if any(watch() is not None for watch in watchers):
        late.append(2)
    let_go_at[0] = 0.0
listed = [one for one in gc.get_objects() if type(one) is Row]
print(sorted(elsewhere), sorted(set(late)), len(counts), len(listed))
