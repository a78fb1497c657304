"""Objects that lie about what they are, and count whoever asks: containers, proxies, descriptors, keys."""

import array
import collections
import datetime
import decimal
import io
import types
import weakref

import look
from look import called

DUNDERS = (
    "__abs__ __add__ __and__ __bool__ __bytes__ __call__ __contains__ __complex__ __delattr__ __delitem__ __dir__ "
    "__divmod__ __enter__ __eq__ __exit__ __float__ __floordiv__ __format__ __fspath__ __ge__ __get__ __getitem__ "
    "__gt__ __iadd__ __index__ __instancecheck__ __int__ __invert__ __iter__ __le__ __len__ __length_hint__ __lt__ "
    "__mod__ __mul__ __ne__ __neg__ __next__ __or__ __pos__ __pow__ __radd__ __rand__ __reduce__ __reduce_ex__ "
    "__repr__ __reversed__ __rmod__ __rmul__ __ror__ __round__ __rsub__ __set__ __setitem__ __sizeof__ "
    "__str__ __sub__ __truediv__ __xor__ __missing__ __await__ __aiter__ __anext__ __hash__ __getattr__ "
    "__getattribute__ __buffer__"
).split()
PLAIN = (
    "append extend insert pop popitem remove clear copy count index sort reverse get items keys values update "
    "setdefault fromkeys add discard union isidentifier startswith endswith encode decode split rsplit partition "
    "join strip lower replace hex tobytes tolist buffer_info cache_info tell getvalue getbuffer seek read obj "
    "nbytes shape dtype size mode base flat"
).split()


def hostile_method(where, name, raises):
    def method(self, *arguments, **options):
        called(where + "." + name)
        if raises:
            raise look.choose_error()
        return getattr(super(type(self), self), name)(*arguments, **options)

    return method


def hostile(base, raises, extra=()):
    """A subclass of which every method counts."""
    where = "%s%s" % (base.__name__, " that raises" if raises else "")
    namespace = {}
    for name in DUNDERS + PLAIN:
        if hasattr(base, name) or name in ("__getattr__", "__len__", "__bool__", "__sizeof__", "__iter__"):
            namespace[name] = hostile_method(where, name, raises)
    for name in extra:
        namespace[name] = property(hostile_method(where, name, raises))
    try:
        return type("Hostile" + base.__name__.title(), (base,), namespace)
    except TypeError:
        return None


BASES = [
    list, tuple, dict, set, frozenset, str, bytes, bytearray, int, float, complex, object, collections.deque,
    collections.OrderedDict, collections.defaultdict, collections.Counter, collections.ChainMap, collections.UserDict,
    collections.UserList, array.array, io.BytesIO, io.StringIO, types.ModuleType, types.SimpleNamespace, BaseException,
    KeyError, OSError, SystemExit, datetime.datetime, decimal.Decimal, weakref.ref, weakref.WeakKeyDictionary,
    property, staticmethod, classmethod, type, enumerate, zip, map, filter, reversed, super, io.RawIOBase,
]  # fmt: skip
ARGUMENTS = {
    list: ([1, [2], "x"],), tuple: ((1, [2], "x"),), dict: ({"a": [1], 2: []},), set: ([1, "x"],), str: ("text",),
    frozenset: ([1, "x"],), bytes: (b"x" * 9000,), bytearray: (b"x" * 9000,), int: (7,), array.array: ("i", [1, 2]),
    types.ModuleType: ("odd",), datetime.datetime: (2000, 1, 1), weakref.ref: (set(),), property: (len,),
    staticmethod: (len,), classmethod: (len,), enumerate: ([],), zip: ([],), map: (len, []), filter: (None, []),
    reversed: ([],), type: ("Made", (), {}), collections.deque: ([1, [2]],),
    collections.OrderedDict: ([("a", [1])],), collections.Counter: ("abc",),
    collections.defaultdict: (list, {"a": [1]}),
}  # fmt: skip


def make(cls, base):
    """Made without a method of its own, which would count; filled by those of its base."""
    try:
        one = base.__new__(cls, *ARGUMENTS.get(base, ()))
        base.__init__(one, *ARGUMENTS.get(base, ()))
        return one
    except BaseException as error:
        return error


class Class(object):
    """Says that it is something else."""

    def __init__(self, lie):
        object.__setattr__(self, "lie", lie)

    @property
    def __class__(self):
        called("__class__")
        return object.__getattribute__(self, "lie")


class Attributes(object):
    def __getattr__(self, name):
        called("Attributes.__getattr__ " + name)
        raise AttributeError(name)

    def __getattribute__(self, name):
        called("Attributes.__getattribute__ " + name)
        raise KeyboardInterrupt


class Namespace(object):
    @property
    def __dict__(self):
        called("Namespace.__dict__")
        raise SystemExit(7)


class Descriptor(object):
    def __get__(self, one, owner=None):
        called("Descriptor.__get__")
        return {"descriptor": [1]}

    def __set__(self, one, value):
        called("Descriptor.__set__")


class Described(object):
    __slots__ = ("slot", "gone", "__weakref__")
    attribute = Descriptor()


Described.__dict__  # noqa: B018
gone = Described()
gone.gone = [1]
of_slot = Described.slot
Described.slot = Descriptor()
Described.__slots__ = property(lambda self: called("__slots__"))


class Dictless(object):
    __dict__ = Descriptor()


class DictSlot(object):
    __slots__ = ("__dict__", "other")


class OwnDict(dict):
    def __getitem__(self, key):
        called("OwnDict.__getitem__")
        raise KeyError(key)

    def items(self):
        called("OwnDict.items")
        raise KeyError

    get = keys = values = __iter__ = __len__ = __bool__ = __contains__ = items


class Plain(object):
    pass


class Key(str):
    """A text as a key that is as good as the text, but for those who compare it."""

    def __eq__(self, other):
        called("Key.__eq__")
        raise ValueError

    __hash__ = str.__hash__

    def isidentifier(self):
        called("Key.isidentifier")

    startswith = __getitem__ = __add__ = __radd__ = __mod__ = __format__ = __str__ = __repr__ = isidentifier


def keyed():
    one = Plain()
    space = OwnDict(a=[1], b={"x": [2]})
    one.__dict__ = space
    other = Plain()
    other.__dict__ = {Key("__module__"): [1], Key("shown"): [2], Key("_initializing"): [3], 5: [4], None: [5]}
    return [one, other, {Key("a"): [1], Key("input_ids"): [2]}]


def proxies():
    target = Plain()
    kept.append(target)
    found = [weakref.proxy(target), weakref.proxy(set), weakref.ref(target)]
    target_gone = Plain()
    found.append(weakref.proxy(target_gone))
    try:
        import wrapt

        found.append(wrapt.ObjectProxy([1]))
        found.append(wrapt.CallableObjectProxy(len))
        if hasattr(wrapt, "LazyObjectProxy"):
            found.append(wrapt.LazyObjectProxy(lambda: called("wrapt factory")))
    except ImportError:
        pass
    try:
        import lazy_object_proxy
        from lazy_object_proxy.slots import Proxy

        found += [one(lambda: called("factory")) for one in (lazy_object_proxy.Proxy, Proxy)]
    except ImportError:
        pass
    from unittest import mock

    found += [mock.MagicMock(), mock.MagicMock(spec=dict), mock.NonCallableMagicMock(spec=list), mock.sentinel.odd]
    return found


kept = []
held = {}
look.begin()
for base in BASES:
    for raises in (False, True):
        cls = hostile(base, raises, extra=[n for n in ("__class__", "__dict__") if look.choose.random() < 0.3])
        if cls is not None:
            held[base.__name__ + str(raises)] = [make(cls, base) for _ in range(look.choose.choice([1, 2, 5]))]
            kept.append(cls)
lies = [list, dict, set, int, str, type, types.ModuleType, BaseException, types.FunctionType, weakref.ref, 7, None]
try:
    import numpy

    lies.append(numpy.ndarray)
except ImportError:
    pass
held["lies"] = [Class(lie) for lie in lies]
held["others"] = [Attributes(), Namespace(), gone, Dictless(), DictSlot(), *keyed()]
held["proxies"] = proxies()
held["many"] = [Class(list) for _ in range(100)]
held["many keys"] = [{Key("a"): Class(7)} for _ in range(100)]
held["by position"] = [dict.fromkeys(map(Key, "abcdefg"), [2]) for _ in range(3)]
globals().update({"odd_%s" % name.replace(" ", "_"): one for name, one in list(held.items())[:10]})


class Holder(object):
    def __init__(self):
        self.held = held
        self.listed = list(held.values())


holder = Holder()
before = look.count()
look.here()
look.here()
look.between()
look.beside()
for one in held.values():
    one.append([1])
look.here()
look.end(len(held))
