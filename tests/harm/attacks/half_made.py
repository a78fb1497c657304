"""Tuples and lists with slots that hold nothing yet, for as long as Python code runs that fills them."""

import itertools
import operator
import sqlite3
import sys
import threading

from busy import rounds

stop = False


def slowly(count):
    for number in range(count):
        for _ in range(200):
            pass
        yield [number]


class Slow:
    def __getitem__(self, key):
        for _ in range(300):
            pass
        return [key]

    def __lt__(self, other):
        for _ in range(100):
            pass
        return id(self) < id(other)


def sort_for_ever():
    held = [Slow() for _ in range(500)]
    while not stop:
        held.sort()
        held.reverse()
        held.sort(key=lambda one: [id(one)])
    finished.append(len(held))


finished = []
sys.setswitchinterval(1e-4)
threads = [threading.Thread(target=sort_for_ever) for _ in range(2)]
for thread in threads:
    thread.start()
database = sqlite3.connect(":memory:")
database.text_factory = lambda text: next(slowly(1)) and text.decode()
many = operator.itemgetter(*range(40))
outcomes = set()
for _ in rounds():
    outcomes.add(len(tuple(slowly(40))))
    outcomes.add(len(list(map(operator.itemgetter(0), slowly(40)))))
    outcomes.add(len(many(Slow())))
    outcomes.add(len(next(zip(*(slowly(3) for _ in range(20))))))
    outcomes.add(len(next(itertools.zip_longest(*(slowly(2) for _ in range(20))))))
    outcomes.add(len(next(itertools.product(slowly(4), slowly(4)))))
    outcomes.add(len(dict(zip(range(40), slowly(40)))))
    outcomes.add(len({tuple(one) for one in slowly(40)}))
    outcomes.add(len([*slowly(40), *slowly(2)]))
    outcomes.add(len(database.execute("select 'a', 'b', 'c', 'd', 'e', 'f', 'g', 'h'").fetchone()))
    outcomes.add(max(len(one) for one in itertools.permutations(slowly(4))))
stop = True
for thread in threads:
    thread.join()
print(sorted(outcomes), finished)
