"""Signals come every few milliseconds, and each has to be handled once, where the program works. How: the argument.

``raises``: a handler raises, and the program catches it; ``interrupts``: it comes while the program waits; ``waits``:
it is blocked, and waited for.
"""

import os
import select
import signal
import sys
import threading

from busy import rounds


class Told(Exception):
    pass


def handle(number, frame):
    handled.append(threading.current_thread() is threading.main_thread())
    if is_raised:
        raise Told


def raises():
    global is_raised
    caught = 0
    for number in rounds():
        try:
            is_raised = True
            signal.setitimer(signal.ITIMER_REAL, 0.001 + number % 7 * 0.0005)
            while True:
                [[one] for one in range(200)]
        except Told:
            caught += 1
        is_raised = False
    print("all caught", caught == len(handled), "on the main thread", all(handled))


def interrupts():
    readable, writable = os.pipe()
    signal.siginterrupt(signal.SIGALRM, True)
    signal.set_wakeup_fd(woken[1], warn_on_full_buffer=False)
    signal.setitimer(signal.ITIMER_REAL, 0.003, 0.003)
    waited = []
    for _ in rounds():
        try:
            select.select([readable], [], [], 0.01)
            waited.append("to its end")
        except InterruptedError:
            waited.append("interrupted")
        [[one] for one in range(3000)]
    signal.setitimer(signal.ITIMER_REAL, 0)
    print(sorted(set(waited)), all(handled), set(os.read(woken[0], 65536)) == {signal.SIGALRM})


def waits():
    signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGUSR1, signal.SIGUSR2])
    got = []
    for number in rounds():
        one = signal.SIGUSR1 if number % 2 else signal.SIGUSR2
        os.kill(os.getpid(), one)
        got.append(signal.sigtimedwait([one], 1).si_signo == one)
        [[one] for one in range(3000)]
    print(all(got), signal.sigpending(), handled)


handled, is_raised = [], False
woken = os.pipe()
os.set_blocking(woken[1], False)
signal.signal(signal.SIGALRM, handle)
{"raises": raises, "interrupts": interrupts, "waits": waits}[sys.argv[1]]()
