"""Every type of C that can be found, as ``__new__`` makes it and as it is before its own code has filled it in.

What takes the latter badly bare is left out: each is tried in a process of its own beforehand.
"""

import ctypes
import gc
import importlib
import json
import os
import subprocess
import sys
import sysconfig
import warnings

import look

# Modules of Python whose types lean on C, beside every module of C that this interpreter has.
PACKAGES = """
asyncio collections concurrent.futures contextvars csv ctypes datetime decimal email enum fractions functools hashlib io
json logging multiprocessing operator pickle queue random re selectors socket sqlite3 ssl struct threading tokenize
types typing uuid weakref xml.etree.ElementTree zoneinfo
""".split()
EXTENSIONS = """
numpy numpy.random pandas lxml.etree lxml.objectify pyarrow pyarrow.compute pyarrow.dataset PIL._imaging PIL.Image
orjson ujson msgpack regex multidict frozenlist yarl aiohttp greenlet gevent wrapt lazy_object_proxy cffi psutil
google.protobuf google._upb._message pydantic_core zstandard simplejson markupsafe bitarray sortedcontainers rpds
xxhash matplotlib.backends.backend_agg polars duckdb
""".split()
# Their objects are made by functions of their own, and known to nobody before they are whole.
MADE_WHOLE = """
function code frame generator coroutine async_generator cell method_descriptor wrapper_descriptor member_descriptor
getset_descriptor classmethod_descriptor traceback builtin_function_or_method method module weakref int str bytes
float complex bool type NoneType ellipsis NotImplementedType range slice weakproxy weakcallableproxy
moduledef EncodingMap PyCapsule hamt hamt_array_node hamt_bitmap_node hamt_collision_node keys values items
ndarray recarray memmap matrix chararray MaskedArray MaskedConstant mvoid
Context Token ContextVar managedbuffer memoryview ReferenceType ProxyType CallableProxyType
""".split()
allocate = ctypes.pythonapi.PyType_GenericAlloc
allocate.restype = ctypes.py_object
allocate.argtypes = (ctypes.py_object, ctypes.c_ssize_t)
keep = ctypes.pythonapi.Py_IncRef
keep.argtypes = (ctypes.py_object,)
HAS_COLLECTOR = 1 << 14


def modules_of_c():
    """Those that are built in, and those of shared libraries, also if they are there only for CPython's own tests."""
    folder = os.path.join(sysconfig.get_path("platstdlib"), "lib-dynload")
    libraries = os.listdir(folder) if os.path.isdir(folder) else []
    return sorted({*sys.builtin_module_names, *(file.partition(".")[0] for file in libraries)})


def import_all(names):
    warnings.simplefilter("ignore")
    for name in names:
        try:
            importlib.import_module(name)
        except Exception:
            pass


def types_of_c():
    """{name: type}, in a stable order; one of each name."""
    found, queue, seen = {}, [object], set()
    while queue:
        cls = queue.pop()
        if id(cls) in seen:
            continue
        seen.add(id(cls))
        queue += type.__subclasses__(cls)
        is_of_c = type(cls) is not type or not cls.__flags__ & (1 << 9) or "__dict__" not in cls.__dict__
        module = getattr(cls, "__module__", None)  # of 3.14 some have none
        name = "%s.%s" % (module, cls.__qualname__) if type(module) is str else cls.__qualname__
        if is_of_c and cls.__name__ not in MADE_WHOLE and not issubclass(cls, (type, BaseException)):
            found.setdefault(name, cls)
    return dict(sorted(found.items()))


def make_new(cls):
    return cls.__new__(cls)


def make_allocated(cls):
    if issubclass(cls, tuple) and hasattr(cls, "n_fields"):
        raise TypeError("its length is not what its memory says")
    one = allocate(cls, 2 if cls.__itemsize__ else 0)
    keep(one)  # for ever: nobody has to free it
    return one


def make_derived(cls):
    derived = type("Derived", (cls,), {"__slots__": ("slot",)} if len(cls.__name__) % 3 else {})
    return derived.__new__(derived)


def make_derived_allocated(cls):
    derived = type("Derived", (cls,), {})
    return make_allocated(derived)


MADE = "made"
WAYS = [make_new, make_allocated, make_derived, make_derived_allocated]


def try_out(chosen):
    """In a process of its own: each is said, made, gone through as the collector does, and said to be made."""
    gc.disable()
    found = types_of_c()
    for name, way in json.loads(chosen):
        say([name, way])
        try:
            one = WAYS[way](found[name])
        except BaseException:
            continue
        gc.get_referents(one)
        keep(one)
        say(MADE)
    os._exit(0)  # without its end


def say(what):
    sys.stdout.write(json.dumps(what) + "\n")
    sys.stdout.flush()


def survivors(chosen):
    """Those of [[name, way], ...] that a process without us makes and lives through, one after the other."""
    env = {k: v for k, v in os.environ.items() if not k.startswith(("LEAKSCOPE", "PYTHONPATH"))}
    # With what fills fresh memory: a slot that is never written to (_testcapi.MethodDescriptor2) ends collectors, too.
    options = ["-X", "dev"] if getattr(sys.flags, "dev_mode", False) else []
    while True:
        words = [sys.executable] + options + [sys.argv[0], sys.argv[1], "try", json.dumps(chosen)]
        done = subprocess.run(words, env=env, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, timeout=120)
        lines = [json.loads(line) for line in done.stdout.decode().splitlines() if line.startswith(("[", '"'))]
        if done.returncode == 0:
            return [one for one, then in zip(lines, lines[1:]) if one != MADE and then == MADE]
        ended = [one for one in lines if one != MADE][-1]
        chosen = [one for one in chosen if one != ended]


def chosen_types():
    """From the file of the bare run, in which they were tried; the recorded one makes the same."""
    file = os.environ["OBJECTS_TYPES"]
    if os.path.exists(file):
        with open(file) as stream:
            return json.load(stream)
    every = [[name, way] for name in types_of_c() for way in range(len(WAYS))]
    look.choose.shuffle(every)
    every = every[:MOST]
    found = survivors(every)
    with open(file, "w") as stream:
        json.dump(found, stream)
    return found


MOST = int(os.environ.get("OBJECTS_MOST", "300"))


def main(which):
    import_all([*modules_of_c(), *PACKAGES] if which == "standard" else EXTENSIONS)
    if sys.argv[2:3] == ["try"]:
        try_out(sys.argv[3])
    global held
    chosen = chosen_types()
    types = types_of_c()
    gc.disable()  # half made as they are, some can be gone through, but not be found to be garbage
    look.begin()
    for name, way in chosen:
        try:
            one = WAYS[way](types[name])
        except BaseException:
            continue
        keep(one)
        held["%s %s" % (name, WAYS[way].__name__)] = [one] * look.choose.choice([1, 2])
        held.setdefault("all", []).append(one)
        globals()["odd_%d" % len(held)] = one
    look.here()
    look.between()
    look.beside()
    many = [[one] for one in held["all"]] * 4
    held["tuples"] = list(map(tuple, many))
    look.here()
    look.end(len(held) > 20)
    sys.stdout.flush()
    os._exit(0)  # what is half made may not be freed


held = {}
