"""Who has no children is told so, whenever it asks; and those it has are its own."""

import os
import resource
import signal

from busy import rounds

told, answers = [], set()
signal.signal(signal.SIGCHLD, lambda *_: told.append(True))
parent = os.getppid()
for number in rounds():
    held = [[one] for one in range(3000)]
    try:
        answers.add(os.waitpid(-1, os.WNOHANG))
    except ChildProcessError as error:
        answers.add(type(error).__name__)
used = resource.getrusage(resource.RUSAGE_CHILDREN)
print(answers, told, used.ru_utime + used.ru_stime, used.ru_maxrss, os.getppid() == parent)
