"""Types, names, and whose code it is: read without running any of it. Runs in the job.

Nothing here calls a metaclass, a property or a module's ``__getattr__``: classes are read by
the descriptors of ``type``.
"""

import os
import sys
import types

from . import autograd

mro_of = type.__dict__["__mro__"].__get__
_namespace_of = type.__dict__["__dict__"].__get__
basicsize_of = type.__dict__["__basicsize__"].__get__
flags_of = type.__dict__["__flags__"].__get__
HEAPTYPE = 1 << 9
_CO_OPTIMIZED = 1


def namespace_of(cls):
    """What the class itself defines; nothing for a class of C that was never made ready."""
    return _namespace_of(cls) or {}


def type_name(cls):
    """``module.Qualified.name`` without running a metaclass; builtins without their module."""
    module = namespace_of(cls).get("__module__")
    try:
        name = type.__getattribute__(cls, "__qualname__")
        if type(module) is not str:
            module = type.__getattribute__(cls, "__module__")
    except Exception:
        name = "?"
    if type(module) is not str or module == "builtins":
        return name
    if cls is autograd.AutogradGraph:
        return autograd.TYPE_NAME
    return module + "." + name


def definition(cls):
    """(file, line) of a Python class, by its __init__."""
    namespace = namespace_of(cls)
    method = namespace.get("__init__")
    file = module_file(namespace.get("__module__"))
    if type(method) is types.FunctionType and not method.__code__.co_filename.startswith("<"):  # of a dataclass
        return method.__code__.co_filename, method.__code__.co_firstlineno
    return (file, None) if flags_of(cls) & HEAPTYPE else (None, None)


def frame_locals(frame):
    """[(name, value), …] of a frame without leaving a dict behind that pins them.

    Up to Python 3.12 ``f_locals`` of a function is a dict cached on the frame: values in it live until the frame ends
    (a tensor survives ``del``). It is emptied again unless the job itself holds or traces it.
    """
    names = frame.f_locals
    pairs = list(names.items())
    if (
        type(names) is dict
        and frame.f_code.co_flags & _CO_OPTIMIZED
        and frame.f_trace is None
        and sys.getrefcount(names) <= 3
    ):
        names.clear()
    return pairs


def is_plain_class(cls):
    """Its metaclass has no equality or hash of its own, which a set or dict of classes would run."""
    for meta in mro_of(type(cls)):
        if meta is type:
            return True
        namespace = namespace_of(meta)
        if "__hash__" in namespace or "__eq__" in namespace:
            return False
    return True


def getattr_plain(module, name):
    """A module's global without its ``__getattr__``; None if the module or the name is not there."""
    if module is None:
        return None
    try:
        return object.__getattribute__(module, "__dict__").get(name)
    except Exception:
        return None


def getattr_code(function):
    return function.__code__ if type(function) is types.FunctionType else None


def is_written_in_c(cls):
    return any(type(value) in _C_SLOTS for value in namespace_of(cls).values())


_C_SLOTS = frozenset((types.WrapperDescriptorType, types.MethodDescriptorType, types.BuiltinFunctionType))


def safe_size(obj):
    """sys.getsizeof unless the type answers it in Python."""
    for base in mro_of(type(obj)):
        method = namespace_of(base).get("__sizeof__")
        if method is not None:
            return sys.getsizeof(obj) if type(method) is types.MethodDescriptorType else basicsize_of(type(obj))
    return basicsize_of(type(obj))


STDLIB = os.path.dirname(os.path.realpath(os.__file__)) + os.sep
STDLIB_PLAIN = os.path.dirname(os.__file__) + os.sep
AGENT = os.path.dirname(os.path.abspath(__file__)) + os.sep
BOOT = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "boot") + os.sep
_user_files = {}


def is_user_file(file):
    """Not the standard library, site-packages, frozen or the agent. ``<string>`` and notebooks are the user's."""
    if type(file) is not str:
        return False
    known = _user_files.get(file)
    if known is None:
        known = _user_files[file] = not (
            file.startswith("<frozen")
            or file.startswith((STDLIB, STDLIB_PLAIN, AGENT, BOOT))
            or (os.sep + "site-packages" + os.sep) in file
            or (os.sep + "dist-packages" + os.sep) in file
            or file.startswith("<__array_function__")
            or file.startswith("<attrs generated")
        )
    return known


_main_file = None


def module_file(module):
    """``__file__`` of a loaded module by name, or None. That of the script is remembered: it is gone at exit."""
    global _main_file
    if type(module) is not str:
        return None
    file = getattr_plain(sys.modules.get(module), "__file__")
    if type(file) is not str:
        return _main_file if module == "__main__" else None
    if module == "__main__":
        _main_file = file
    return file


# Who forks processes in numbers, by the files their functions are in; the outermost that is known counts.
_FORKERS = (
    (os.sep + os.path.join("datasets", "arrow_dataset.py"), "datasets"),
    (os.sep + os.path.join("torch", "utils", "data", "dataloader.py"), "a DataLoader"),
    (os.sep + os.path.join("multiprocessing", "pool.py"), "a pool"),
    (os.sep + os.path.join("multiprocess", "pool.py"), "a pool"),
    (os.sep + os.path.join("concurrent", "futures", "process.py"), "a pool"),
)
LOADERS = ("datasets", "a DataLoader")


def forker(frame):
    """Who forked the process, by the calls that led there; "the program" if nobody known did."""
    found = "the program"
    while frame is not None:
        for file, name in _FORKERS:
            if frame.f_code.co_filename.endswith(file):
                found = name
        frame = frame.f_back
    return found


def is_user_module(module, file):
    if module == "__main__":
        return file is None or is_user_file(file)
    return file is not None and is_user_file(file) and not file.endswith((".so", ".pyd"))


def user_namespaces():
    """[(module, its globals, file), ...] of the user's own modules."""
    found = []
    for name, module in list(sys.modules.items()):
        try:
            namespace = object.__getattribute__(module, "__dict__")
        except Exception:
            continue
        if type(name) is str and type(namespace) is dict:
            file = module_file(name)
            if is_user_module(name, file):
                found.append((name, namespace, file))
    return found


def named_by(variable, owner):
    qualname, module, file, line = owner
    return (variable, qualname, module if type(module) is str else None, file, line, is_user_file(file))


_LIBRARIES_WE_CALL = ("torch", "numpy", "pyarrow")


def is_foreign(error):
    """Raised by a signal handler of the job that ran inside our code, not by our code: it must go on its way.

    Ours are errors of Python or of a library we read from, out of the frames of the agent and of what it calls.
    KeyboardInterrupt, and what ``PyThreadState_SetAsyncExc`` raises, have no frame of their own but are of other types.
    """
    cls = type(error)
    module = namespace_of(cls).get("__module__") if flags_of(cls) & HEAPTYPE else None
    ours = module is None or (type(module) is str and module.split(".")[0] in _LIBRARIES_WE_CALL)
    if not ours or Exception not in mro_of(cls):
        return True
    trace = error.__traceback__
    foreign = False
    while trace is not None:
        foreign = not trace.tb_frame.f_code.co_filename.startswith((AGENT, BOOT, STDLIB_PLAIN, "<frozen"))
        trace = trace.tb_next
    return foreign
