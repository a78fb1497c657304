"""Functions, code, frames, modules, caches and contexts of which everything that may be replaced has been."""

import contextvars
import functools
import io
import mmap
import sys
import threading
import types

import look
from look import called


def counting(base, where):
    """A subclass whose every method counts, and does what the base does."""

    def method_of(name):
        def method(self, *arguments, **options):
            called(where + "." + name)
            return getattr(base, name)(self, *arguments, **options)

        return method

    untouched = ("__new__", "__init__", "__class__", "__getattribute__", "__init_subclass__", "__subclasshook__",
                 "__class_getitem__", "__doc__", "__dict__", "__weakref__", "__hash__")  # fmt: skip
    names = [n for n in dir(base) if n not in untouched and callable(getattr(base, n))]
    namespace = {n: method_of(n) for n in [*names, "__bool__", "__radd__", "__rmod__"]}
    namespace["__hash__"] = base.__hash__
    return type("Counting" + base.__name__, (base,), namespace)


Text, Dict, Tuple, List = (counting(base, base.__name__) for base in (str, dict, tuple, list))


def plain(first=1, *rest, second=2):
    held = [first]

    def inner():
        return held, first

    return inner


def replaced():
    for _ in range(3):
        one = types.FunctionType(plain.__code__, globals(), "one", (1,))
        one.__defaults__ = look.choose.choice([Tuple(([1],)), Tuple(()), ([1], [2], [3], [4]), None])
        one.__kwdefaults__ = look.choose.choice([Dict(second=[2]), Dict(), {}, {7: [1], Text("second"): [2]}, None])
        one.__dict__ = look.choose.choice([Dict(a=[1]), {Text("a"): [1], 7: [2]}, {}])
        one.__qualname__ = look.choose.choice([Text("a.<locals>.b"), Text(""), "\ud800"])
        one.__name__ = Text("other")
        one.__module__ = look.choose.choice([Text("__main__"), 7, [1], None])
        yield one
    inner = plain([1])
    inner.__code__ = other([2]).__code__
    yield inner
    for code in codes():
        yield types.FunctionType(code, look.choose.choice([globals(), {}, Dict(__name__=Text("odd"))]))


def other(a):
    b = [a]

    def inner():
        return a, b

    return inner


def codes():
    for name, file in ((Text("odd"), Text("odd.py")), (Text("<module>"), Text("<string>")), ("<lambda>", Text("/x"))):
        yield generate.__code__.replace(co_name=name, co_filename=file, co_consts=(None, Tuple((1,)), Dict(), 1, 2, 3))


def generate():
    held = [1]
    yield held
    yield held


def generators():
    """That wait in frames whose code, names and globals are odd."""
    for code in codes():
        for space in ({}, Dict(__name__=Text("odd")), {"__name__": 7}):
            one = types.FunctionType(code.replace(co_consts=generate.__code__.co_consts), space)()
            next(one)
            yield one


class Module(types.ModuleType):
    @property
    def __dict__(self):
        called("Module.__dict__")
        return {}

    def __getattr__(self, name):
        called("Module.__getattr__ " + name)
        raise AttributeError(name)

    @property
    def __file__(self):
        called("Module.__file__")
        return Text("/odd.py")


space_of = types.ModuleType.__dict__["__dict__"].__get__


def modules():
    odd = Module("odd_module")
    space_of(odd).update(held=[1], __file__=Text("/odd.py"), Class=type("C", (), {}))
    yield "odd_module", odd
    yield "odd_none", None
    yield "odd_list", List([1])
    yield "odd_class", type("Odd", (), {"__getattr__": lambda self, name: called("Odd.__getattr__")})()
    yield 7, odd
    yield Text("odd_text"), types.ModuleType("odd_text")
    for name in ("numpy", "torch", "pyarrow.lib", "threading2"):
        if name not in sys.modules:
            fake = Module(name)
            space_of(fake).update(ndarray=type("ndarray", (), {}), Tensor=7, Table=7)
            yield name, fake


def caches():
    class Info(object):
        def __new__(cls, *arguments):
            called("Info")

    for most in (None, 0, 5, 3000):
        one = functools.lru_cache(most)(lambda key: [key])
        for key in range(look.choose.choice([0, 1, 4, 1500])):
            one(key)
        one.__dict__["__wrapped__"] = look.choose.choice([plain, 7, one, Text("x")])
        yield one
        made = functools._lru_cache_wrapper(lambda key: [key], most, False, Info)
        made(1)
        yield made


def closed():
    views = [memoryview(bytearray(9)) for _ in range(3)]
    for view in views:
        view.release()
    text, data, mapped = io.StringIO("x" * 9000), io.BytesIO(b"x" * 9000), mmap.mmap(-1, 4096)
    for stream in (text, data, mapped):
        stream.close()
    return [views, text, data, mapped, open("/dev/null"), mmap.mmap(-1, 4096), io.StringIO.__new__(io.StringIO)]


def contexts():
    variables = [contextvars.ContextVar(name, default=[1]) for name in (Text("odd"), "plain", Text(""))]
    for variable in variables:
        variable.set(Dict(a=[2]))
    local = threading.local()
    local.held = [1]
    local.__dict__[Text("odd")] = [2]
    return [variables, contextvars.copy_context(), local, counting(threading.local, "local")()]


def errors():
    one = OSError(2, "odd", "file")
    one.filename = List([1])
    two = ImportError("odd")
    two.msg = Text("odd")
    three = ValueError(Tuple((1,)))
    three.args = Tuple(([1],))
    three.__dict__[Text("odd")] = [1]
    return [one, two, three, UnicodeDecodeError.__new__(UnicodeDecodeError), SyntaxError("x", ("f", 1, 2, "t"))]


def exec_frame():
    """A frame whose globals and locals are of subclasses, on the stack meanwhile."""
    space = Dict(look=look, held=[1])
    space["__name__"] = Text("odd")
    before = look.count()
    exec("def inside():\n kept = [1]\n look.here()\n return kept\nresult = inside()", space)
    look.expected(before)
    return space


held = []
look.begin()
before = look.count()
held += replaced()
held += generators()
held += caches()
held += errors()
held.append(closed())
held.append(contexts())
held += codes()
for name, module in modules():
    sys.modules[name] = module
globals().update({"odd%d" % number: one for number, one in enumerate(held)})
look.expected(before)
look.here()
look.here()
look.between()
look.beside()
look.here()
answer = len(held)
look.end(answer)
