"""Types, names, and whose code it is: read without running any of it. Runs in the job.

Nothing here calls a metaclass, a property or a module's ``__getattr__``: classes are read by
the descriptors of ``type``.
"""

from __future__ import annotations

import ctypes
import os
import sys
import types
from _collections import OrderedDict, deque
from _io import BufferedRandom, BufferedReader, BufferedWriter, BytesIO
from _signal import getsignal as _getsignal
from _signal import valid_signals as _valid_signals

from .. import libraries

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from types import CodeType, FrameType
    from typing import Any, Optional, Tuple

    # (qualified name, module, file, line) of whoever has a variable.
    Owner = Tuple[Optional[str], Optional[str], str, Optional[int]]
    # The same of a variable by its name, and whether its file is the user's.

_VALUES = (str, bytes, int, float)
_HEX_DIGITS, _LEAST_HEX = "0123456789abcdefABCDEF", 16  # in hex, so many letters are no word
_own: Any = type.__dict__
_mro_of = _own["__mro__"].__get__
_namespace_of = _own["__dict__"].__get__
_qualname_of = _own["__qualname__"].__get__
_module_of = _own["__module__"].__get__
basicsize_of = _own["__basicsize__"].__get__
flags_of = _own["__flags__"].__get__
HEAPTYPE = 1 << 9


def mro_of(cls: type) -> tuple[type, ...]:
    """Its ancestors, itself first; none of a class that is still being made, or was never made ready."""
    return _mro_of(cls) or ()


def namespace_of(cls: type) -> Mapping[str, Any]:
    """What the class itself defines; nothing for a class of C that was never made ready."""
    return _namespace_of(cls) or {}


def text_of(value: object) -> str | None:
    """A text as an exact str: one of a subclass without its methods. None for anything else."""
    if type(value) is str:
        return value
    return str.__str__(value) if is_a(type(value), str) else None


def qualname_of(cls: type) -> str:
    """Its name as ``type`` keeps it, whatever its metaclass has in the place of ``__qualname__``."""
    return text_of(_qualname_of(cls))  # type: ignore[return-value]  # which is always one


def module_of(cls: type) -> str | None:
    """The name of the module that the class says it is of; None where that is no exact str."""
    module = namespace_of(cls).get("__module__")
    return module if type(module) is str else None


def type_name(cls: type) -> str:
    """``module.Qualified.name`` without running a metaclass; builtins without their module."""
    module = module_of(cls)
    name = qualname_of(cls)
    if module is None:
        try:
            module = _module_of(cls)
        except AttributeError:
            pass
    if type(module) is not str or module == "builtins":
        return name
    return module + "." + name


def value_base(name: str) -> str | None:
    """``str`` of a class, by its full name, that is derived from str; also bytes, int and float. Else None."""
    module, _, own = name.rpartition(".")
    cls = getattr_plain(sys.modules.get(module), own)
    is_class = is_a(type(cls), type) and module
    return next((base.__name__ for base in _VALUES if is_class and is_a(cls, base)), None)


def definition(cls: type) -> tuple[str | None, int | None]:
    """(file, line) of a Python class, by its __init__."""
    namespace = namespace_of(cls)
    method = namespace.get("__init__")
    file = module_file(namespace.get("__module__"))
    if type(method) is types.FunctionType and not file_of(method.__code__).startswith("<"):  # of a dataclass
        return file_of(method.__code__), method.__code__.co_firstlineno
    return (file, None) if flags_of(cls) & HEAPTYPE else (None, None)


def is_a(cls: type, base: type) -> bool:
    """Whether ``base`` is among its ancestors. Not by ``in``, which asks a metaclass whether classes are equal."""
    return any(above is base for above in mro_of(cls))


def ids_of(*classes: object) -> frozenset[int]:
    """To ask whether a class is one of these by its id: in a set it would be hashed by its metaclass."""
    return frozenset(map(id, classes))


class ByClass:
    """A mapping with classes as keys, told apart by identity; it holds them."""

    def __init__(self) -> None:
        self._items: dict[int, tuple[type, Any]] = {}

    def get(self, cls: type, default: Any = None) -> Any:
        found = self._items.get(id(cls))
        return default if found is None else found[1]

    def set(self, cls: type, value: Any) -> None:
        self._items[id(cls)] = cls, value

    def add(self, cls: type, amount: float) -> None:
        self.set(cls, self.get(cls, 0.0) + amount)

    def items(self) -> list[tuple[type, Any]]:
        """[(class, value), ...]"""
        return list(self._items.values())

    def values(self) -> list[Any]:
        return [value for _, value in self._items.values()]

    def __contains__(self, cls: type) -> bool:
        return id(cls) in self._items


def getattr_plain(module: object, name: str) -> Any:
    """A module's global without its ``__getattr__``; None if the module or the name is not there."""
    return (namespace_of_module(module) or {}).get(name)


_dict_of_module = types.ModuleType.__dict__["__dict__"].__get__  # type: ignore[index]


def namespace_of_module(module: object) -> dict[str, Any] | None:
    """Its globals, whatever its class has in the place of ``__dict__``; None for what is no module."""
    return _dict_of_module(module) if is_a(type(module), types.ModuleType) else None


def is_like_a_name(key: str) -> bool:
    """Whether a key of a dict is a name that somebody gave. A digest or a token in hex is data, even with no digit
    first."""
    return key.isidentifier() and (len(key) < _LEAST_HEX or bool(key.strip(_HEX_DIGITS)))


def name_of(code: CodeType) -> str:
    return text_of(code.co_name)  # type: ignore[return-value]


def qualified_name_of(code: CodeType) -> str:
    return text_of(getattr(code, "co_qualname", code.co_name))  # type: ignore[return-value]  # since Python 3.11


def file_of(code: CodeType) -> str:
    return text_of(code.co_filename)  # type: ignore[return-value]


def names_of(function: Any) -> Owner:
    """(qualified name, module or None, file, line) of a function of Python, which anybody may have changed."""
    code = function.__code__
    return text_of(function.__qualname__), text_of(function.__module__), file_of(code), code.co_firstlineno


def module_of_frame(frame: FrameType) -> str | None:
    """``__name__`` of its globals, which may be of a subclass of dict."""
    return text_of(dict.get(frame.f_globals, "__name__"))


def is_made_in_c(cls: type) -> bool:
    """Whether it was itself: no class of Python is the owner of a C function, whatever it calls itself."""
    return any(id(type(value)) in _C_METHODS and value.__objclass__ is cls for value in namespace_of(cls).values())


_C_METHODS = ids_of(types.WrapperDescriptorType, types.MethodDescriptorType)


def safe_size(obj: Any) -> int:
    """sys.getsizeof where the type's answer is known to need nothing but the object's own memory, half made or not.

    In Python it would be the job's; in C it may take for granted what ``__init__`` makes (``struct.Struct``).
    """
    for base in mro_of(type(obj)):
        method = namespace_of(base).get("__sizeof__")
        if method is not None:
            if id(method) in _SIZES or _is_sized_by_name(base, obj):
                return sys.getsizeof(obj)
            break
    return basicsize_of(type(obj))


def _is_sized_by_name(base: type, obj: object) -> bool:
    name = type_name(base)
    if name not in _SIZED_BY_NAME or not is_made_in_c(base):
        return False
    return name != "array.array" or has_item_type(base, obj)


def has_item_type(array: type, obj: object) -> bool:
    """Whether an ``array.array`` (``array``, or a class derived from it) knows yet of what type its items are.

    It looks there for its size, type code and items: where nothing is, that ends the process.
    """
    if basicsize_of(array) != _ARRAY_HEAD_BYTES + ctypes.sizeof(_Array):
        return False
    return _Array.from_address(id(obj) + _ARRAY_HEAD_BYTES).item_type is not None


class _Array(ctypes.Structure):
    """What follows the head and length of an ``array.array`` in every CPython from 3.8 to 3.14."""

    _fields_ = [
        ("items", ctypes.c_void_p),
        ("allocated", ctypes.c_ssize_t),
        ("item_type", ctypes.c_void_p),
        ("weakrefs", ctypes.c_void_p),
        ("exports", ctypes.c_ssize_t),
    ]


_ARRAY_HEAD_BYTES = object.__basicsize__ + ctypes.sizeof(ctypes.c_ssize_t)


_SIZED = (
    *(object, str, bytes, int, bytearray, list, tuple, dict, set, frozenset, deque, OrderedDict, BytesIO),
    *(BufferedReader, BufferedWriter, BufferedRandom),
)
_SIZES = ids_of(*(namespace_of(cls)["__sizeof__"] for cls in _SIZED if "__sizeof__" in namespace_of(cls)))
_SIZED_BY_NAME = frozenset(("array.array", "bitarray.bitarray", "_bitarray.bitarray"))


STDLIB = os.path.dirname(os.path.realpath(os.__file__)) + os.sep
STDLIB_PLAIN = os.path.dirname(os.__file__) + os.sep
_agent = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
AGENT = _agent + os.sep
BOOT = os.path.join(os.path.dirname(_agent), "boot") + os.sep
_user_files: dict[str, bool] = {}


def is_user_file(file: object) -> bool:
    """Not the standard library, site-packages, frozen or ours. ``<string>`` and notebooks are the user's."""
    if type(file) is not str:
        return False
    known = _user_files.get(file)
    if known is None:
        known = _user_files[file] = not (
            file.startswith("<frozen")
            or file.startswith((STDLIB, STDLIB_PLAIN, AGENT, BOOT))
            or _is_ours(file)
            or (os.sep + "site-packages" + os.sep) in file
            or (os.sep + "dist-packages" + os.sep) in file
            or file.startswith("<__array_function__")
            or file.startswith("<attrs generated")
        )
    return known


def _is_ours(file: str) -> bool:
    """Of the library that a program imports by our name: where it is a checkout, in no site-packages."""
    own = getattr_plain(sys.modules.get("leakscope"), "__file__")
    return type(own) is str and os.path.basename(own) == "__init__.py" and file.startswith(own[: -len("__init__.py")])


_main: tuple[int, str] | None = None  # which module, and its file


def module_file(module: object) -> str | None:
    """``__file__`` of a loaded module by name, or None. That of the script is remembered: it is gone at exit.

    A notebook's kernel puts another in its place, which has no file.
    """
    global _main
    if type(module) is not str:
        return None
    loaded = sys.modules.get(module)
    file = getattr_plain(loaded, "__file__")
    if type(file) is not str:
        is_known = module == "__main__" and _main is not None and (loaded is None or id(loaded) == _main[0])
        return _main[1] if is_known and _main is not None else None
    if module == "__main__":
        _main = id(loaded), file
    return file


# Who forks processes in numbers, by the files their functions are in; the outermost that is known counts.
_FORKERS = tuple((thing.name, str(thing.library)) for thing in libraries.all_of(libraries.FORKER))


def forker(frame: FrameType | None) -> str:
    """Who forked the process, by the calls that led there; "the program" if nobody known did."""
    found = "the program"
    while frame is not None:
        for file, name in _FORKERS:
            if file_of(frame.f_code).endswith(file):
                found = name
        frame = frame.f_back
    return found


def is_user_module(module: str | None, file: str | None) -> bool:
    if module == "__main__":
        return file is None or is_user_file(file)
    return file is not None and is_user_file(file) and not file.endswith((".so", ".pyd"))


def user_namespaces() -> list[tuple[str, dict[str, Any], str | None]]:
    """[(module, its globals, file), ...] of the user's own modules."""
    found = []
    for name, module in list(sys.modules.items()):
        namespace = namespace_of_module(module)
        if type(name) is str and namespace is not None:
            file = module_file(name)
            if is_user_module(name, file):
                found.append((name, namespace, file))
    return found


_LIBRARIES_WE_CALL = ("torch", "numpy", "pyarrow", "binascii", "ctypes", "mmap", "struct", "zlib")


def is_foreign(error: BaseException) -> bool:
    """Raised by a signal handler of the job that ran inside our code, not by our code: it must go on its way.

    What comes out of our own frames is ours, but for KeyboardInterrupt and what ``PyThreadState_SetAsyncExc`` raises,
    which have no frame of their own: they are of other types. What comes from a frame below ours is the job's only if
    that is a signal handler's. Anything else would be code of the job that we called: what it raises is not its either.
    """
    trace = error.__traceback__
    others = False
    while trace is not None:
        code = trace.tb_frame.f_code
        if not file_of(code).startswith((AGENT, BOOT, STDLIB_PLAIN, "<frozen")):
            if _is_signal_handler(code):
                return True
            others = True
        trace = trace.tb_next
    if others:
        return False
    cls = type(error)
    is_static = not flags_of(cls) & HEAPTYPE
    ours = is_static or (module_of(cls) or "").split(".")[0] in _LIBRARIES_WE_CALL
    return not ours or not is_a(cls, Exception)


def _is_signal_handler(code: CodeType) -> bool:
    """Whether a handler that is set for a signal runs this code, or may: other callable objects do not say."""
    for number in _valid_signals():
        handler = _getsignal(number)
        if type(handler) is types.MethodType:
            handler = handler.__func__
        kind = type(handler)
        if kind is types.FunctionType:
            if handler.__code__ is code:
                return True
        elif id(kind) not in _SAY_NOTHING:
            return True
    return False


_SAY_NOTHING = ids_of(int, type(None), types.BuiltinFunctionType)
