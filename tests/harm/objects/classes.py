"""Classes whose metaclasses, names and orders of resolution are hostile, and classes that call themselves others."""

import abc
import enum
import sys
import types

import look
from look import called

METHODS = (
    "__hash__ __eq__ __ne__ __lt__ __repr__ __str__ __getattribute__ __getattr__ __call__ __instancecheck__ "
    "__subclasscheck__ __subclasses__ __dir__ __len__ __iter__ __bool__ __contains__ __getitem__ __or__ __ror__ "
    "__prepare__ __sizeof__ __format__ __reduce_ex__ __setattr__"
).split()
PROPERTIES = "__name__ __module__ __mro__ __dict__ __bases__ __basicsize__ __flags__ __class__ __doc__".split()
NAMES = """
functools._lru_cache_wrapper _contextvars.ContextVar _contextvars.Context builtins.ContextVar builtins.Context
_thread._local mmap.mmap array.array _io.BytesIO _io.StringIO builtins.ImagingCore PIL._imaging.ImagingCore
pyarrow.lib.Buffer pyarrow.lib.ResizableBuffer pyarrow.lib.ForeignBuffer pyarrow.lib.Table pyarrow.lib.RecordBatch
pyarrow.lib.ChunkedArray matplotlib.backends.backend_agg.RendererAgg numpy.ndarray torch.Tensor torch.nn.Parameter
sqlite3.Connection pyexpat.xmlparser _pickle.Unpickler builtins.list builtins.dict collections.OrderedDict
_leakscope_agent.main.Agent torch.autograd.function.Node types.SimpleNamespace threading.Thread
""".split()


def text_that_counts(raises):
    def method(self, *arguments, **options):
        called("Text")
        if raises:
            raise look.choose_error()
        return NotImplemented

    names = [n for n in dir(str) if n not in ("__class__", "__new__", "__init__", "__hash__", "__getattribute__",
                                              "__init_subclass__", "__subclasshook__", "__dir__", "__doc__",
                                              "__setattr__", "__delattr__")]  # fmt: skip
    names += ["__radd__", "__rmod__", "__bool__"]
    return type("Text", (str,), dict({n: method for n in names}, __hash__=str.__hash__))


Text, RaisingText = text_that_counts(False), text_that_counts(True)


def meta(name, raises):
    is_property = name in PROPERTIES

    def method(*arguments, **options):
        if state.is_made:
            called("Meta." + name)
            if raises:
                raise look.choose_error()
        if is_property:
            return types.MappingProxyType({})
        if name == "__hash__":
            return 7
        if name in ("__eq__", "__ne__"):
            return arguments[0] is arguments[1]
        if name == "__prepare__":
            return {}
        return getattr(type, name)(*arguments, **options)

    special = property(method) if is_property else classmethod(method) if name == "__prepare__" else method
    return type("Meta", (look.choose.choice([type, abc.ABCMeta]),), {name: special})


class state:
    is_made = False


def instances(cls, number):
    return [object.__new__(cls) for _ in range(number)]


def made_by(metaclass, **namespace):
    return type.__new__(metaclass, "Made", (object,), dict(namespace, shared=[1], made=instances))


class Resolved(type):
    """With an order of its own, in which classes stand that the class does not inherit from."""

    def mro(cls):
        called("mro") if state.is_made else None
        usual = type.mro(cls)
        return [usual[0], Stranger, *usual[1:]]


class Stranger(object):
    __slots__ = ()
    borrowed = [1]

    @property
    def __dict__(self):
        called("Stranger.__dict__")
        return {}


class WithSlots(object):
    __slots__ = ("one", "two", "__dict__")


class Alien(type):
    """An order without object in it."""

    def mro(cls):
        return [cls, WithSlots] if WithSlots in cls.__bases__ else [cls, object]


def lies():
    """Classes with names of others; some have attributes as these would."""
    for name in NAMES:
        module, _, qualname = name.rpartition(".")

        class Liar(look.choose.choice([object, dict, list, WithSlots])):
            def __init__(self):
                self.width, self.height = Liar, 10**400
                self.__wrapped__ = self

            def cache_info(self):
                called("cache_info")

            get = items = tell = size = mode = __len__ = __sizeof__ = get_total_buffer_size = nbytes = cache_info

        Liar.__module__, Liar.__qualname__ = module, qualname
        if look.choose.random() < 0.5:
            Liar.__name__ = qualname.rpartition(".")[2]
        found = Liar.__new__(Liar)
        if issubclass(Liar, WithSlots) or not issubclass(Liar, (dict, list)):
            Liar.__init__(found)
        yield found


def oddly_named():
    for text in (Text, RaisingText, str):
        for value in (
            text("odd"),
            text(""),
            text("<locals>"),
            text("a.b.<locals>.c"),
            text("\ud800"),
            text("x" * 10000),
        ):
            cls = type("Odd", (look.choose.choice([object, dict, WithSlots]),), {})
            cls.__qualname__ = value
            if "\0" not in str.__str__(value) and value is not None:
                try:
                    cls.__name__ = value
                except UnicodeEncodeError:
                    pass
            cls.__module__ = look.choose.choice(
                [text("__main__"), text("mmap"), None, 7, [1], "__main__", text("gone")]
            )
            yield cls
    for module in (None, 7, [1], Text("m"), RaisingText("m"), types, property(lambda self: called("module"))):
        yield type("Odd", (), {"__module__": module, "held": [1]})
        yield type("OddError", (Exception,), {"__module__": module, "held": [1]})


class Hostile(enum.Enum):
    ONE = [1]
    TWO = {"a": 2}


kept, classes, named, held = [], [], {}, []
for name in METHODS + PROPERTIES:
    for raises in (False, True):
        metaclass = meta(name, raises)
        kept.append(metaclass)
        try:
            classes.append(made_by(metaclass, __slots__=("one",)) if name == "__hash__" else made_by(metaclass))
        except BaseException as error:
            kept.append(error)
Odd = Resolved("Odd", (object,), {"held": [1]})
Alone = type.__new__(Alien, "Alone", (WithSlots,), {})
look.begin()
before = look.count()
number = look.choose.choice([1, 3, 70])
for cls in classes:
    held.append(instances(cls, number))
held += [object.__new__(Odd), Alone]
held += list(lies())
odd = list(oddly_named())
held += odd
for cls in odd:
    held.append([cls.__new__(cls) for _ in range(number)])
look.expected(before)
state.is_made = True
for at, cls in enumerate(classes):
    globals()["Global%d" % at] = cls
for at, cls in enumerate(odd):
    globals()["Odd%d" % at] = cls
    globals()["one%d" % at] = cls.__new__(cls)
module = types.ModuleType("made_up")
module.__file__ = "/made/up.py"
module.__dict__.update({"Class%d" % at: cls for at, cls in enumerate(classes + odd)})
sys.modules["made_up"] = module
look.here()
look.here()
look.between()
look.beside()
held.append([instances(cls, 400) for cls in classes[:3]])
look.here()
look.here()
state.is_made = False
look.end(len(held) > 10)
