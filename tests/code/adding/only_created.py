# holder: audit, main, local, itertools._tee
import itertools


def main():
    live, audit = itertools.tee(stream())  # HERE
    for item in live:
        print(item)
    next(audit)
