"""Whether the collector is switched on is the job's affair, at every instant another thread can look."""

import gc
import sys
import threading

from busy import rounds

stop, wanted, wrong = False, None, []


def poll():
    while not stop:
        expected = wanted
        found = gc.isenabled()
        if expected is not None and expected is wanted and found is not expected:
            wrong.append((expected, found))


ballast = [[i] for i in range(100_000)]
sys.setswitchinterval(1e-5)
thread = threading.Thread(target=poll)
thread.start()
for setting in (False, True):
    wanted = None
    gc.enable() if setting else gc.disable()
    wanted = setting
    for number in rounds():
        if number == 0:
            held = [[i] for i in range(1000)]
        if gc.isenabled() is not setting:
            wrong.append((setting, "here"))
            break
stop = True
thread.join()
print(sorted(set(map(str, wrong))), gc.get_threshold(), gc.get_debug(), len(gc.garbage))
