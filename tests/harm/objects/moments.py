"""Objects that are being made, changed, sorted, emptied or freed at the very moment of the look; some come back."""

import array
import bisect
import collections
import contextvars
import copy
import dataclasses
import enum
import functools
import gc
import heapq
import io
import itertools
import json
import pickle
import re
import sqlite3
import threading
import weakref
import xml.etree.ElementTree as tree
import xml.parsers.expat

import look

OFTEN = 40  # moments that are looked at, of all
moments = []


def moment(function):
    moments.append(function)
    return function


class Busy(object):
    """Looks whenever it is asked for anything by who makes, sorts or looks it up."""

    def __init__(self, key=0):
        self.key = key
        self.held = [key]

    def __eq__(self, other):
        here()
        return self is other

    def __hash__(self):
        here()
        return 7

    def __lt__(self, other):
        here()
        return self.key < other.key

    def __index__(self):
        here()
        return self.key

    def __str__(self):
        here()
        return "busy"

    __len__ = __index__

    def __iter__(self):
        return slowly()

    def keys(self):
        here()
        return ["a", "b"]

    def __getitem__(self, key):
        here()
        return [key]

    def __reduce__(self):
        here()
        return Busy, (self.key,), {"state": [1]}

    def __setstate__(self, state):
        here()

    def __deepcopy__(self, memo):
        here()
        return Busy(self.key)


looks = [0]


def here(*ignored):
    if looks[0] > 0:
        looks[0] -= 1
        look.here()
    return 0


def slowly(count=3):
    for number in range(count):
        here()
        yield [number]


def busy(count=3):
    return [Busy(number) for number in range(count)]


class Ends(object):
    """Looks as it is freed, and comes back."""

    def __init__(self, comes_back=False):
        self.held, self.comes_back = [self.__class__], comes_back

    def __del__(self):
        here()
        if self.comes_back:
            self.comes_back = False
            kept.append(self)


kept = []
made = {
    "tuple": lambda: tuple(slowly()),
    "list": lambda: list(slowly()),
    "extended": lambda: [].extend(slowly()),
    "set": lambda: len(set(map(tuple, slowly()))),
    "busy set": lambda: len(set(busy())),
    "busy dict": lambda: len(dict.fromkeys(busy())),
    "updated": lambda: {}.update(Busy()),
    "ordered": lambda: len(collections.OrderedDict.fromkeys(busy())),
    "sorted": lambda: len(sorted(busy())),
    "sorted by": lambda: sorted(slowly(), key=here),
    "sort": lambda: busy().sort(),
    "deque": lambda: len(collections.deque(slowly(), 2)),
    "bytes": lambda: bytes(n[0] for n in slowly()),
    "bytearray": lambda: bytearray(n[0] for n in slowly()),
    "array": lambda: array.array("i", (n[0] for n in slowly())),
    "array extended": lambda: array.array("i").extend(n[0] for n in slowly()),
    "joined": lambda: "".join(str(n) for n in slowly()),
    "sliced": lambda: [0, 1, 2].__setitem__(slice(0, 2), slowly()),
    "counter": lambda: len(collections.Counter(busy())),
    "intersection": lambda: len(set(busy()) & set(busy())),
    "zip": lambda: list(zip(slowly(), slowly())),
    "product": lambda: list(itertools.product(slowly(), slowly())),
    "groupby": lambda: len(list(itertools.groupby(slowly(), key=here))),
    "tee": lambda: [next(t) for t in itertools.tee(slowly())],
    "accumulate": lambda: list(itertools.accumulate(slowly(), lambda a, b: here() or a + b)),
    "heap": lambda: heapq.heapify(busy()),
    "bisect": lambda: bisect.insort(busy(), Busy(1)),
    "max": lambda: max(busy()).key,
    "reduce": lambda: functools.reduce(here, slowly()),
    "json": lambda: json.loads('[{"a": [1]}, {"b": 2}]', object_hook=here),
    "dumped": lambda: json.dumps([object()], default=lambda o: here() or 1),
    "pickle": lambda: len(pickle.dumps(busy())),
    "unpickle": lambda: len(pickle.loads(pickled)),
    "deepcopy": lambda: len(copy.deepcopy(busy())),
    "re": lambda: re.sub("a", lambda match: here() or "b", "aaa"),
    "defaultdict": lambda: collections.defaultdict(lambda: here() or [1])["a"],
    "cached": lambda: cached(3),
    "cached busy": lambda: len(cached(Busy())),
    "range": lambda: len(range(Busy(3))),
    "context": lambda: contextvars.copy_context().run(here),
    "formatted": lambda: "%s" % Busy(),
    "class": lambda: making_classes(),
    "enum": lambda: enum.Enum("Odd", {"ONE": [1]}).ONE.value,
    "dataclass": lambda: len(Fields().a),
    "named": lambda: collections.namedtuple("N", slowly_named())(1, 2),
    "sqlite": lambda: database.execute("select looked(1), looked(2)").fetchone(),
    "expat": lambda: expat(),
    "tree": lambda: tree.XML("<a><b/></a>", parser=tree.XMLParser(target=Target())),
    "lines": lambda: list(io.TextIOWrapper(Raw())),
    "threads": lambda: in_thread(),
    "throw": lambda: thrown(),
    "closed": lambda: closed(),
    "freed": lambda: freed(),
    "cycle": lambda: cycle(),
    "weak": lambda: weak(),
    "cleared": lambda: cleared(),
    "replaced": lambda: replaced(),
    "finalized": lambda: finalized(),
    "local": lambda: local_ends(),
    "partial": lambda: functools.partial(here, [1])(),
    "setstate": lambda: set_state(),
    "comprehension": lambda: [n for n in slowly()],
    "unpacked": lambda: [*slowly(), *slowly()],
    "star": lambda: starred(*slowly(), **Busy()),
    "property": lambda: WithProperty().value,
    "new": lambda: type(New()).__name__,
    "coroutine": lambda: run_coroutine(),
    "async generator": lambda: run_async_generator(),
}


@functools.lru_cache(2)
def cached(key):
    here()
    return [1]


class Target(object):
    def start(self, tag, attributes=None):
        here()

    end = start

    def close(self):
        here()

    def data(self, text):
        here()


class Raw(io.RawIOBase):
    left = 3

    def readable(self):
        return True

    def readinto(self, buffer):
        here()
        self.left -= 1
        buffer[:2] = b"x\n"
        return 2 if self.left > 0 else 0


def making_classes():
    class Space(dict):
        def __setitem__(self, key, value):
            here()
            dict.__setitem__(self, key, value)

    class Meta(type):
        @classmethod
        def __prepare__(cls, *arguments):
            return Space()

        def __new__(cls, *arguments):
            here()
            one = type.__new__(cls, *arguments)
            here()
            return one

        def mro(cls):
            here()
            return type.mro(cls)

    class Named(object):
        def __set_name__(self, owner, name):
            here()

    class Base(object):
        def __init_subclass__(cls):
            here()

    class Made(Base, metaclass=Meta):
        held = [1]
        named = Named()
        here()

    return Made.__name__


@dataclasses.dataclass
class Fields(object):
    a: list = dataclasses.field(default_factory=lambda: here() or [1])


def slowly_named():
    for name in "ab":
        here()
        yield name


def expat():
    parser = xml.parsers.expat.ParserCreate()
    parser.StartElementHandler = parser.EndElementHandler = here
    parser.buffer_text = True
    return parser.Parse("<a>text<b/></a>", True)


def in_thread():
    thread = threading.Thread(target=lambda: [n for n in range(3)])
    thread.start()
    here()
    thread.join()


def generate():
    held = [Ends()]
    try:
        yield held
    finally:
        here()


def thrown():
    waiting = generate()
    next(waiting)
    try:
        waiting.throw(ValueError("odd"))
    except ValueError as error:
        here()
        return str(error)


def closed():
    waiting = generate()
    next(waiting)
    waiting.close()


def freed():
    one = [Ends(True), {"a": Ends()}, (Ends(), {1: Ends(True)})]
    del one
    return len(kept)


def cycle():
    one = [Ends(True), Ends()]
    one[0].cycle = one[1].cycle = one
    del one
    gc.callbacks.append(here)
    gc.collect()
    gc.callbacks.remove(here)
    kept.clear()


def weak():
    one = Ends()
    watched = [weakref.ref(one, here), weakref.WeakKeyDictionary({one: [1]})]
    del one
    return len(watched[1])


def cleared():
    for one in (busy_ends(), set(busy_ends()), dict(enumerate(busy_ends())), collections.deque(busy_ends())):
        one.clear()
    ordered = collections.OrderedDict(enumerate(busy_ends()))
    ordered.clear()


def busy_ends():
    return [Ends(look.choose.random() < 0.3) for _ in range(3)]


def replaced():
    one = Ends()
    one.__dict__ = {"held": Ends(), "comes_back": False}
    one.held = None
    some = busy_ends()
    some[:] = []
    some = {"a": Ends()}
    some["a"] = 1


def finalized():
    one = Ends()
    weakref.finalize(one, here)
    del one


def local_ends():
    local = threading.local()

    def run():
        local.held = Ends()

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()


def set_state():
    one = functools.partial(len)
    one.__setstate__((here, (), {}, {"held": [1]}))
    one()


def starred(*arguments, **options):
    here()
    return len(arguments), len(options)


class WithProperty(object):
    @property
    def value(self):
        here()
        return 1


class New(object):
    def __new__(cls):
        one = object.__new__(cls)
        here()
        return one

    def __init__(self):
        here()
        self.held = [1]
        here()


class Awaited(object):
    def __await__(self):
        here()
        yield [1]


async def wait():
    held = [1]
    await Awaited()
    return held


def run_coroutine():
    one = wait()
    one.send(None)
    here()
    try:
        one.send(None)
    except StopIteration as error:
        return error.value


async def ticks():
    held = [1]
    yield held
    here()
    yield held


def run_async_generator():
    one = ticks()
    found = []
    for _ in range(2):
        step = one.asend(None)
        try:
            here()
            step.send(None)
        except StopIteration as error:
            found.append(error.value)
    return found


pickled = pickle.dumps(busy())
database = sqlite3.connect(":memory:")
database.create_function("looked", 1, lambda number: here() or number)
look.begin()
answers = []
chosen = sorted(made)
look.choose.shuffle(chosen)
for name in chosen:
    looks[0] = 3
    answers.append("%s: %s" % (name, re.sub("0x[0-9a-f]+", "0x", repr(made[name]()))))
    looks[0] = 0
kept.clear()
look.between()
look.beside()
look.end("\n".join(answers))
