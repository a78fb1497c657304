# holder: route, Model.route, cache, functools._lru_cache_wrapper
from functools import cache


class Other:
    @cache
    def route(self):
        pass


class Model:
    @cache  # HERE
    def route(self):
        pass
