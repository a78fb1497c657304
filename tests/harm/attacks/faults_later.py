"""``faulthandler``'s tracebacks after a time, again and again, and at a signal; and is it on as this begins?"""

import faulthandler
import os
import signal

from busy import rounds

before = faulthandler.is_enabled()
with open("later", "w+") as later, open("asked", "w+") as asked:
    faulthandler.dump_traceback_later(0.05, repeat=True, file=later)
    faulthandler.register(signal.SIGUSR1, file=asked, all_threads=False)
    for number in rounds():
        held = [[one] for one in range(3000)]
        if number == 5:
            os.kill(os.getpid(), signal.SIGUSR1)
    faulthandler.cancel_dump_traceback_later()
    later.seek(0)
    asked.seek(0)
    texts = [set(line.split()[0] for line in stream if line.strip()) for stream in (later, asked)]
print(before, [sorted(text) for text in texts], faulthandler.unregister(signal.SIGUSR1), faulthandler.is_enabled())
