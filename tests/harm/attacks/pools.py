"""Work is given to processes begun in every way there is: what each of them says of itself."""

import multiprocessing
import os
import sys
import threading
import warnings
from concurrent.futures import ProcessPoolExecutor as Pool

from busy import rounds

warnings.simplefilter("error")


def begin(word):
    global said
    said = word, threading.active_count(), len(sys.argv)


def work(number):
    held = [[one] for one in range(3000)]
    return said, number * len(held), threading.active_count()


def main():
    answers, statuses = set(), set()
    for _ in rounds():
        for method in ("spawn", "forkserver"):
            context = multiprocessing.get_context(method)
            with Pool(2, mp_context=context, initializer=begin, initargs=(method,)) as pool:
                answers.update(pool.map(work, [1] * 20))
            process = context.Process(target=sys.exit, args=(5,))
            process.start()
            process.join()
            statuses.add(process.exitcode)
        child = os.posix_spawn("/bin/sh", ["sh", "-c", "exit 3"], os.environ)
        statuses.add(os.waitpid(child, 0)[1])
    return sorted(answers), sorted(statuses)


if __name__ == "__main__":
    print(*main(), multiprocessing.active_children())
