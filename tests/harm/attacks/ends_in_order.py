"""Its end in order: exit handlers, threads that one of them starts or that go on, finalizers of what is left."""

import atexit
import sys
import threading
import time
import weakref

from busy import spin


class Says:
    def __init__(self, name):
        self.name = name

    def __del__(self, print=print):
        print("gone:", self.name)


def in_a_thread():
    time.sleep(0.05)
    print("a thread goes on")
    sys.exit(3)


def at_exit():
    print("at exit")
    try:
        thread = threading.Thread(target=print, args=("a thread of an exit handler",))
        thread.start()
        thread.join()
    except RuntimeError as error:
        print(type(error).__name__)


of_module, cycle = Says("of the module"), [Says("of a cycle")]
cycle.append(cycle)
weakref.finalize(of_module, print, "finalize")
atexit.register(at_exit)
atexit.register(print, "last registered, first called")
spin()
threading.Thread(target=in_a_thread).start()
threading.Thread(target=time.sleep, args=(60,), daemon=True).start()
sys.exit(5)
