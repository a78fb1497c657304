"""What a process, and one that it forks, knows of its threads. The first argument: what is asked."""

import os
import sys
import threading
import warnings

from busy import rounds

warnings.simplefilter("always")
os.register_at_fork(after_in_parent=lambda: None)  # Python, that runs before Python 3.13 counts threads
asked = {
    "counted": lambda: (threading.active_count(), [thread.name for thread in threading.enumerate()]),
    "frames": lambda: len(sys._current_frames()),
}[sys.argv[1]]
answers, statuses = set(), set()
forked = 0
for number in rounds():
    answers.add(str(asked()))
    held = [[number] for number in range(3000)]  # a collection, after which we go on in a process that has forked
    if number == 10 * forked and forked < 30:
        forked += 1
        child = os.fork()
        if child == 0:
            try:
                answer = str(asked())
                for _ in range(100_000):
                    pass
                os._exit(asked() is not None and answer in answers and str(asked()) in answers)
            finally:
                os._exit(7)
        statuses.add(os.waitpid(child, 0)[1])
print(sorted(answers), sorted(statuses), forked > 0)
