# holder: cache, tokenize, cell, dict
import functools


def remembered(f):
    cache = {}

    @functools.wraps(f)
    def inner(*args):
        if args not in cache:
            cache[args] = f(*args)  # HERE
        return cache[args]

    return inner
