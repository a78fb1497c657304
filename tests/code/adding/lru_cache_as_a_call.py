# holder: search, search, cache, functools._lru_cache_wrapper
from functools import lru_cache


def search(key):
    return key


find = lru_cache(maxsize=None)(search)  # HERE
