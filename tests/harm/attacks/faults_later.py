"""``faulthandler``'s tracebacks after a time, again and again, and at a signal; and is it on as this begins?

It writes them while the threads run on, whose frames may be gone by then: bare, too, Python ends so at times. (Seen on
3.13.0, with a traceback each millisecond for 25 s: it ends by SIGSEGV bare as well as recorded, in ``dump_frame`` of
the thread that writes them.) So a second thread is here that runs Python code, as a recorder's may be. Of a thread in C
alone it says "<no Python frame>".
"""

import faulthandler
import os
import signal
import threading
import time

from busy import rounds

before = faulthandler.is_enabled()
is_over = []


def work():
    while not is_over:
        sum(number for number in range(100))
        time.sleep(0.001)


thread = threading.Thread(target=work)
thread.start()
with open("later", "w+") as later, open("asked", "w+") as asked:
    faulthandler.dump_traceback_later(0.05, repeat=True, file=later)
    faulthandler.register(signal.SIGUSR1, file=asked, all_threads=False)
    for number in rounds():
        held = [[one] for one in range(3000)]
        if number == 1:
            os.kill(os.getpid(), signal.SIGUSR1)
    faulthandler.cancel_dump_traceback_later()
    later.seek(0)
    asked.seek(0)
    texts = [{line.split()[0] for line in stream if line.strip()} - {"<no"} for stream in (later, asked)]
is_over.append(True)
thread.join()
print(before, [sorted(text) for text in texts], faulthandler.unregister(signal.SIGUSR1), faulthandler.is_enabled())
