"""The same with eventlet."""

import eventlet

eventlet.monkey_patch()

import os
import time

from busy import rounds

child = os.fork()
if child == 0:
    eventlet.spawn(eventlet.sleep, 0.2).wait()
    time.sleep(0.1)
    os._exit(3)
_, status = os.waitpid(child, 0)
print("child status", os.WEXITSTATUS(status), os.WIFEXITED(status))
ticks = []
ticker = eventlet.spawn(lambda: [ticks.append(eventlet.sleep(0.01)) for _ in range(20)])
for _ in rounds():
    held = [[number] for number in range(3000)]  # a collection, after which we go on in a process that has forked
    time.sleep(0.001)
ticker.wait()
print(len(ticks))
