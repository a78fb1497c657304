# holder: score, Model.score, cache, functools._lru_cache_wrapper
import functools


class Model:
    @functools.lru_cache(maxsize=None)  # HERE
    def score(self, text):
        return len(text)
