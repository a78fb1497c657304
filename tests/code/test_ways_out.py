"""What lets go of what a library keeps, read from its source."""

from __future__ import annotations

import pytest

from leakscope.facts.code.index import Source
from leakscope.facts.code.ways_out import Library, emptied_by

REGISTRY = """
class Registry:
    def __init__(self):
        self.registry = {}

    def __call__(self):
        return self.registry.setdefault(key(), object())

    def has(self):
        return key() in self.registry

    def clear(self):
        known = self.registry
        del known[key()]

    def _forget(self):
        self.registry.clear()
"""
SCOPED = """
from .registry import Registry

class Base:
    def remove(self):
        if self.registry.has():
            self.registry().close()
        self.registry.clear()

    def query(self):
        return self.registry()

class Session(Base):
    pass

class Graph:
    _next = Edges()
    _edges = _next

    def drop(self, name):
        self._drop(name)

    def _drop(self, name):
        del self._next[name]

class Scheduler:
    def __init__(self):
        self.__jobs = Jobs()
        self.stores = {}

    def remove_all_jobs(self):
        self.__jobs = Jobs()

    def remove_job(self, name):
        self.__jobs.pop(name)

    def end(self, name):
        for _, store in self.stores.items():
            store.remove_job(name)

HANDLERS = []

def add_handler(handler):
    HANDLERS.append(handler)

def drop_handler(handler):
    HANDLERS.remove(handler)
"""
LIBRARY = Library(
    [Source("store.registry", "/lib/registry.py", REGISTRY), Source("store.scoped", "/lib/scoped.py", SCOPED)]
)


def test_a_public_method_that_removes_from_the_attribute_is_a_way_out() -> None:
    assert LIBRARY.methods("store.registry.Registry", "registry") == ["clear"]


def test_an_object_that_calls_such_a_method_offers_one_itself_also_by_its_base() -> None:
    assert LIBRARY.methods("store.scoped.Session", "registry", ["clear"]) == ["remove"]


def test_of_a_variable_of_a_module_functions_let_go() -> None:
    assert LIBRARY.functions("store.scoped", "HANDLERS") == ["drop_handler"]


@pytest.mark.parametrize("name", ["store.registry.Missing", "other.Registry2", "dict"])
def test_what_is_not_in_the_sources_offers_nothing(name: str) -> None:
    assert LIBRARY.methods(name, "registry") == []
    assert not LIBRARY.functions("elsewhere", "HANDLERS")


@pytest.mark.parametrize("attribute", ["_next", "_edges"])
def test_a_method_may_do_so_by_one_of_its_own_and_by_another_name(attribute: str) -> None:
    assert LIBRARY.methods("store.scoped.Graph", attribute) == (["drop"] if attribute == "_next" else [])
    assert Library([Source("g", "/g.py", SCOPED.replace("_next[", "_edges["))]).methods("g.Graph", "_next") == ["drop"]


def test_a_private_name_is_known_as_python_has_it_and_one_comes_before_all() -> None:
    assert LIBRARY.methods("store.scoped.Scheduler", "_Scheduler__jobs") == ["remove_job", "remove_all_jobs"]


def test_what_has_several_of_them_offers_one_itself() -> None:
    assert LIBRARY.methods("store.scoped.Scheduler", "stores", ["remove_job"]) == ["end"]


METRIC = """
class Metric:
    def reset(self):
        for name in self._defaults:
            getattr(self, name).clear()

    def sync(self):
        for name in self._defaults:
            getattr(self, name).pop()

class Recall(Metric):
    pass
"""


def test_what_resets_all_that_an_object_has_lets_go_of_each() -> None:
    assert Library([Source("metrics", "/lib/metrics.py", METRIC)]).methods("metrics.Recall", "preds") == ["reset"]


EVENT = """
class Event:
    def __init__(self):
        self._waiters = []

    async def wait(self):
        waiter = make()
        self._waiters.append(waiter)
        try:
            await waiter
        finally:
            self._waiters.remove(waiter)

    def drop(self, waiter):
        self._waiters.remove(waiter)
"""


def test_who_waits_in_what_it_fills_itself_lets_go_of_nothing() -> None:
    library = Library([Source("locks", "/lib/locks.py", EVENT)])
    assert library.methods("locks.Event", "_waiters") == ["drop"]


SEARCH = """
class Search:
    def __init__(self, space, queue_size=None, seed=0):
        self.most = queue_size
        self.models = []

    def tell(self, point):
        self._tell(point)

    def _tell(self, point):
        if self.most is not None and len(self.models) >= self.most:
            self.models.pop(0)
        self.models.append(fitted(point))
"""


def test_what_fills_by_a_private_method_lets_go_of_nothing_and_can_be_told_how_many_to_keep() -> None:
    library = Library([Source("search", "/lib/search.py", SEARCH)])
    assert library.methods("search.Search", "models") == []
    assert library.limit("search.Search", "models") == "queue_size"
    assert library.limit("search.Search", "most") is None
    always = Library([Source("search", "/lib/search.py", SEARCH.replace("queue_size=None", "queue_size"))])
    assert always.limit("search.Search", "models") is None, "whoever made it has told it"


def test_of_c_code_of_the_standard_library_its_class_is_asked() -> None:
    assert emptied_by("_pickle.Pickler") == ["clear_memo"]
    assert not emptied_by("_pickle.NoSuchClass") and not emptied_by("_nothing.Pickler")
    assert not emptied_by("threading.Event"), "it has a source to read, and is not imported"


CLIENT = """
class Handler:
    def flush(self):
        if self.target:
            for record in self.buffer:
                self.target.handle(record)
            self.buffer.clear()

class Client:
    @property
    def jar(self):
        return self._jar

    @property
    def size(self):
        return len(self._pool)
"""


def test_a_private_attribute_is_asked_for_by_the_property_that_gives_it() -> None:
    library = Library([Source("web.client", "/site/web/client.py", CLIENT)])
    assert library.public_name("web.client.Client", "_jar") == "jar"
    assert library.public_name("web.client.Client", "_pool") is None
    assert library.public_name("web.client.Client", "limit") == "limit"


def test_what_a_method_needs_to_let_go_of_anything_is_told() -> None:
    library = Library([Source("web.client", "/site/web/client.py", CLIENT)])
    assert library.needs("web.client.Handler", "flush", "buffer") == "target"
    assert library.needs("web.client.Client", "jar", "_jar") is None
