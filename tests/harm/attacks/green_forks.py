"""A patched process forks; the child waits until it has nothing left to do.

The first argument: with which library; the second, how the child waits.
"""

import sys

if sys.argv[1] == "gevent":
    from gevent import monkey

    monkey.patch_all()
    import gevent as green
else:
    import eventlet as green

    green.monkey_patch()

import os

from busy import rounds


def wait():
    sleeps = green.spawn(green.sleep, 0.2)
    if sys.argv[1] == "eventlet":
        sleeps.wait()
    elif sys.argv[2] == "wait":
        green.wait()
    else:
        green.get_hub().join()


child = os.fork()
if child == 0:
    wait()
    os._exit(3)
_, status = os.waitpid(child, 0)
print("child status", os.WEXITSTATUS(status), os.WIFEXITED(status))
ticks = []
ticker = green.spawn(lambda: [ticks.append(green.sleep(0.01)) for _ in range(20)])
for _ in rounds():
    held = [[number] for number in range(3000)]  # a collection, after which we go on in a process that has forked
    green.sleep(0.001)
while len(ticks) < 20:
    green.sleep(0.01)
wait()
print(len(ticks))
