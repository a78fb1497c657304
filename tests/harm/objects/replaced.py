"""Objects that are there at one look and freed, changed, or others at the same place at the next: their types too."""

import array
import asyncio
import collections
import gc
import io
import sys
import threading
import types

import look

CHAIN = 1000000
MANY = 300
THREADS = 4
held = {}


class Plain(object):
    def __init__(self):
        self.first, self.second = [1], {"a": 2}


class Slots(object):
    __slots__ = ("first", "second", "third")


def named_like(name, base=object):
    """A class that is called as one of C's is whose objects have memory of their own."""
    return type(name, (base,), {"__slots__": ()} if look.choose.random() < 0.5 else {})


NAMES = [
    "generator", "coroutine", "async_generator", "collections.deque", "collections.OrderedDict", "array.array",
    "numpy.ndarray", "_io.BytesIO", "frame", "function", "code", "",
]  # fmt: skip


def generate(value):
    local = [value]
    while True:
        yield local


def ends(value):
    yield [value]


async def wait(value):
    local = [value]
    await asyncio.sleep(0)
    return local


def started(one):
    one.send(None)
    return one


def ended():
    one = ends(1)
    list(one)
    return one


def long_list():
    return [[n] for n in range(MANY)]


def shared_keys():
    one = Plain()
    one.third = [3]
    return one


def given_dict():
    one = Plain()
    one.__dict__ = {"first": [1], 3: [2]}
    return one


def with_slots():
    one = Slots()
    one.first, one.third = [1], (2,)
    return one


def module():
    one = types.ModuleType("odd")
    one.attribute = [1]
    return one


def stream():
    one = io.BytesIO(b"x" * 5000)
    one.write(b"y")
    return one


MAKERS = [
    list, dict, tuple, set, long_list, lambda: {n: [n] for n in range(MANY)}, lambda: set(map(str, range(MANY))),
    lambda: {str(n): [n] for n in range(40)}, lambda: collections.deque(map(list, [[1]] * 200)),
    lambda: collections.OrderedDict((n, [n]) for n in range(50)), lambda: array.array("d", range(200)), stream,
    lambda: started(generate(1)), lambda: generate(2), ended, lambda: started(wait(3)), lambda: bytearray(b"x" * 3000),
    Plain, shared_keys, given_dict, with_slots, module, lambda: -(2**70), lambda: "B\xe4r" * 50,
    lambda: "\U0001f43b" * 9,
    lambda: types.SimpleNamespace(a=[1]), lambda: lambda: held, lambda: collections.defaultdict(list, a=[1]),
    lambda: collections.Counter("abc"), lambda: iter([[1], [2]]), lambda: memoryview(bytearray(100)), object,
]  # fmt: skip


def some():
    found = []
    for _ in range(60):
        one = look.choose.choice(MAKERS)()
        found.append([one] if look.choose.random() < 0.3 else one)
    return found


def some_of_new_types():
    """Their bases have little in common, so that a type at the place of one that was freed is read otherwise."""
    found = []
    for number in range(60):
        base = look.choose.choice(
            [list, dict, tuple, set, object, str, bytes, collections.deque, io.BytesIO, Slots, int]
        )
        space = {"__slots__": ()} if look.choose.random() < 0.4 else {"held": [number]}
        found.append(type("C%d" % number, (base,), space)())
    return found


def named():
    found = []
    for name in NAMES:
        for base in (object, list, tuple, Slots, Plain):
            cls = named_like(name, base)
            found += [cls(), [cls()], cls]
    return found


def clear(one):
    """In place: who held it holds it still."""
    for name in () if isinstance(one, type) else ("clear", "close"):
        try:
            getattr(one, name, lambda: None)()
        except (BufferError, RuntimeError, ValueError):
            pass
    if isinstance(one, Plain):
        one.__dict__ = {}
        one.__class__ = look.choose.choice([Plain, Other])


class Other(Plain):
    pass


def replace_each(holder, make):
    """Freed and made one by one: the next often comes to lie where the last one was."""
    for at in range(len(holder)):
        holder[at] = None
        fresh = make()
        holder[at] = fresh[at % len(fresh)]
        del fresh


def go_on(made, make):
    how = look.choose.randrange(4)
    if how == 0:
        made.clear()
    elif how == 1:
        for one in made:
            clear(one)
    elif how == 2:
        replace_each(made, lambda: [look.choose.choice(MAKERS)()])
    else:
        count = len(made)
        made.clear()
        if look.choose.random() < 0.5:
            gc.collect()
        made.extend(make()[:count])


def of_type(base):
    cls = type("Odd", (base,), {"__slots__": ()})
    found = [base.__new__(cls) for _ in range(MANY)]
    for one in found:
        if base is dict:
            one["a"] = 1
        elif base is list:
            one += [1, 2]
    return cls, found


def types_at_one_place():
    """Freed and made at once, often where the one before was, with objects of as many bytes at the places of those."""
    held["one"] = [None] * MANY
    for base in [dict, list] * 8 + [bytearray, types.SimpleNamespace, list, object] * 2:
        cls, found = of_type(base)
        held["one"][:] = found
        del found, cls
        look.here()
        held["one"][:] = [None] * MANY
        gc.collect()
    del held["one"]


def deep():
    chain = ()
    for _ in range(CHAIN):
        chain = (chain,)
    held["deep"] = chain
    look.here()
    del held["deep"], chain


def in_frames(depth):
    """A frame lies where another one was at the look before, with other variables."""
    local, other = [depth], {"depth": depth}
    if depth:
        return in_frames(depth - 1)
    look.here()
    return local, other


def in_other_frames(depth):
    text = generate(depth)
    if depth:
        return next(text), in_other_frames(depth - 1)
    look.here()
    return text is None


def sorting():
    one = [[n] for n in range(5)]
    held["sorted"] = one

    def key(item):
        one.append(item)  # an error, at the end; until then it is another list
        look.here()
        return item

    try:
        one.sort(key=key)
    except ValueError:
        pass


def busy(is_over, number):
    mine = []
    while not is_over.is_set():
        mine.append(look_like_work(number))
        if len(mine) > 20:
            del mine[:15]


def look_like_work(number):
    cls = type("Busy%d" % number, (Plain,), {})
    return [cls(), {"a": [number]}, {number}, [str(n) for n in range(30)]]


def threads():
    is_over = threading.Event()
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    workers = [threading.Thread(target=busy, args=(is_over, n)) for n in range(THREADS)]
    for worker in workers:
        worker.start()
    for _ in range(10):
        look.here()
        gc.collect(look.choose.randrange(3))
    is_over.set()
    for worker in workers:
        worker.join()
    sys.setswitchinterval(before)


look.begin()
for make in (some, some_of_new_types, named):
    for _ in range(8):
        made = held["made"] = make()
        look.here()
        go_on(made, make)
        look.here()
        del held["made"], made
for number in range(3):
    in_frames(20 + number)
    in_other_frames(20)
sorting()
types_at_one_place()
threads()
look.between()
look.beside()
deep()
look.here()
look.end(len(held))
