"""Workers that are forked, live long and gain memory, so that they are looked into: what they say, and how they end."""

import gc
import multiprocessing
import os
import signal
import sys
import threading
import warnings

from busy import rounds

warnings.simplefilter("error")
CALLS = []
ROUNDS_A_WORKER = 12


class Hostile:
    @property
    def __dict__(self):
        CALLS.append("__dict__")
        raise ValueError("asked")

    def __hash__(self):
        CALLS.append("hash")
        raise ValueError("asked")

    def __len__(self):
        CALLS.append("len")
        return -1

    def __repr__(self):
        CALLS.append("repr")
        raise SystemExit(9)


def gain(rows=30_000):
    """What a snapshot has to walk through."""
    return [[number, (number, str(number)), Hostile()] if number % 100 == 0 else [number] * 4 for number in range(rows)]


def work(held):
    """For as long as some snapshots take; what is held has to be as it was."""
    total = 0
    for number in range(ROUNDS_A_WORKER):
        held.append([number])
        total += sum(len(row) for row in held[-1000:]) > 0
    return total == ROUNDS_A_WORKER and not CALLS and gc.isenabled() and threading.active_count() == 1


def with_threads(held):
    """Threads come and go while it is looked into, and each may fork."""
    answers = []

    def begun():
        answers.append(work(list(held[:1000])) or threading.active_count() > 1)

    threads = [threading.Thread(target=begun) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return len(answers) == 3 and work(held)


def forks_again(held, depth=2):
    """Each of them is forked while it may be looked into."""
    if depth == 0:
        return work(held)
    child = os.fork()
    if child == 0:
        try:
            os._exit(0 if forks_again(held[:5000] + gain(5_000), depth - 1) else 1)
        finally:
            os._exit(7)
    return os.waitpid(child, 0)[1] == 0 and work(held)


def terminated(held):
    os.kill(os.getpid(), signal.SIGTERM)


def killed(held):
    os.kill(os.getpid(), signal.SIGKILL)


def raises(held):
    sys.stderr.close()  # its traceback is of no interest
    raise LookupError("in the worker")


ENDS = {
    "returns": work, "threads": with_threads, "again": forks_again, "terminated": terminated, "killed": killed,
    "raises": raises, "exits": lambda held: sys.exit(5), "exits at once": lambda held: os._exit(6),
}  # fmt: skip


def begin(name, answers):
    held = gain()
    answer = work(held) and ENDS[name](held)
    answers.send(answer)
    answers.close()


def main():
    context = multiprocessing.get_context("fork")
    kept = gain(10_000)  # which they share
    seen = set()
    for _ in rounds():
        for name in ENDS:
            theirs, ours = context.Pipe(duplex=False)
            worker = context.Process(target=begin, args=(name, ours))
            worker.start()
            ours.close()
            try:
                answer = theirs.recv()
            except EOFError:
                answer = "nothing"
            worker.join()
            theirs.close()
            seen.add((name, answer, worker.exitcode))
    return sorted(seen, key=str), len(kept), CALLS


if __name__ == "__main__":
    print(*main(), multiprocessing.active_children())
