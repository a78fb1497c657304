"""Reads made-up survey records with a decoder whose C code has a bug in its reference counts."""

import ctypes
import random
import time

drop_reference = ctypes.pythonapi.Py_DecRef
drop_reference.argtypes, drop_reference.restype = [ctypes.py_object], None


def decode(record, name):
    """Stands for a function of a C extension: None is given back once too often."""
    value = record.get(name)
    if value is None:
        drop_reference(value)
    return value


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
