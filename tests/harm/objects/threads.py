"""Threads that begin and end while they are looked at, and functions that look like those of ``threading``."""

import sys
import threading
import time

import look

sys.setswitchinterval(1e-4)
stop, begun, wrong = [], [], []

# A file of the job's own with that name. It has no variable: where the first would lie is what was calculated last, a
# set, which is freed as the loop goes on.
NO_VARIABLES = """
def run():
    while True:
        if stop:
            return
        {begin}
"""
space = {"stop": stop, "begin": threading}
exec(compile(NO_VARIABLES, "/job/my_threading.py", "exec"), space)


class Held(object):
    def __init__(self, number):
        self.numbers = [number] * 5

    def run(self):
        if len(set(self.numbers)) != 1:
            wrong.append(self)


class Waits(threading.Thread):
    """Its target is no function, and one of its attributes may be anything."""

    def __init__(self, number):
        super(Waits, self).__init__()
        self.function = look.choose.choice([None, Held(number).run, len, Held, 7])
        self.number = number

    def run(self):
        begun.append(self.number)
        del self


class Slotted(threading.Thread):
    __slots__ = ("_target", "function")

    def run(self):
        begun.append(0)


def short(number):
    mine = [number] * 20
    time.sleep(0.0001 * (number % 5))
    if mine != [number] * 20:
        wrong.append(number)


def made(number):
    kind = look.choose.randrange(5)
    if kind == 0:
        return threading.Thread(target=short, args=(number,))
    if kind == 1:
        return threading.Timer(0.001, short, (number,))
    if kind == 2:
        return threading.Thread(target=Held(number).run)
    return Waits(number) if kind == 3 else Slotted()


look.begin()
endless = [threading.Thread(target=space["run"]) for _ in range(1)]
for thread in endless:
    thread.start()
for number in range(25):
    threads = [made(number + i) for i in range(12)]
    for thread in threads:
        thread.start()
    if number % 5 == 0:
        look.here()
    del threads[::2]
    for thread in threads:
        thread.join()
look.between()
look.beside()
stop.append(1)
for thread in endless:
    thread.join()
look.end(wrong)
