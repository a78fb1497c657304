"""Reads made-up survey records."""

import random
import time


def decode(record, name):
    """The same in Python."""
    return record.get(name)


def records():
    chance = random.Random(0)
    while True:
        yield {"age": chance.randrange(100), "income": chance.choice([None, 1200, 2500])}


def main(seconds=40):
    total, read, until = 0, 0, time.monotonic() + seconds
    for record in records():
        total += decode(record, "income") or 0
        read += 1
        time.sleep(0.001)
        if time.monotonic() > until:
            break
    print(f"{read} records, mean income {total / read:.0f}")


main()
