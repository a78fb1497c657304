"""A patched process forks; the child waits until gevent has nothing left to do. The first argument says how."""

from gevent import monkey

monkey.patch_all()

import os
import sys

import gevent
from busy import rounds

child = os.fork()
if child == 0:
    gevent.spawn(gevent.sleep, 0.2)
    if sys.argv[1] == "wait":
        gevent.wait()
    else:
        gevent.get_hub().join()
    os._exit(3)
_, status = os.waitpid(child, 0)
print("child status", os.WEXITSTATUS(status), os.WIFEXITED(status))
ticks = []
ticker = gevent.spawn(lambda: [ticks.append(gevent.sleep(0.01)) for _ in range(20)])
for _ in rounds():
    held = [[number] for number in range(3000)]  # a collection, after which we go on in a process that has forked
    gevent.sleep(0.001)
ticker.join()
gevent.wait()
print(len(ticks))
