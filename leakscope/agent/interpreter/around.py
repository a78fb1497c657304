"""Functions of C that stand for functions of libraries and have ours called round them. Runs in the job.

A function of Python in that place would be in the program's tracebacks, in ``inspect.stack()``, and one frame more for
``stacklevel``. Where there is no library of ours for this machine, nothing is put there, and less is known.
"""

from __future__ import annotations

import ctypes
import os
import types
from _ctypes import dlopen, dlsym

from . import doors, names

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

_FILE = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "libleakscope_entry.so")
_PLAIN = names.ids_of(type(None), bool, int, str)
_make: list[Any] = []  # leakscope_round, once it is loaded
_bind = ctypes.PYFUNCTYPE(ctypes.py_object, ctypes.py_object)(("PyInstanceMethod_New", ctypes.pythonapi))


def load() -> None:
    """As the process starts, while the job has no other root and no limits."""
    if not _make:
        try:
            address = dlsym(dlopen(_FILE, 0), "leakscope_round")
        except OSError:
            return
        objects = ctypes.py_object
        kind = ctypes.PYFUNCTYPE(objects, objects, objects, objects, objects, ctypes.c_char_p, ctypes.c_char_p, objects)
        _make.append(kind(address))


def function(
    original: Any,
    before: Callable[[], object] | None = None,
    after: Callable[[tuple[Any, ...], Any, int], object] | None = None,
) -> Any:
    """What calls ``original`` as it was called itself, and before it and after it ours, where a door is open.

    ``after(arguments, result or None, calls)``: of calls one in the other in a thread the outermost is told, and how
    many there were; arguments by name are not. None where there is no library for it, and for other callables.
    """
    is_plain = type(original) is types.FunctionType or type(original) is types.BuiltinFunctionType
    if not _make or not is_plain:
        return None
    name = original.__name__
    text = _text(original).encode("utf-8", "replace")
    return _make[0](original, doors.is_open, before, after, name.encode("utf-8", "replace"), text, original.__module__)


def method(original: Any, **ours: Any) -> Any:
    """As ``function``, for a class, whose objects bind it."""
    made = function(original, **ours)
    return None if made is None else _bind(made)


def _text(original: Any) -> str:
    """What ``help`` and ``inspect.signature`` read of a function of C: its parameters, a line ``--``, and its text."""
    if type(original) is types.FunctionType:
        signature = f"({', '.join(_parameters(original))})"
    else:
        signature = original.__text_signature__
    described = original.__doc__ if type(original.__doc__) is str else ""
    return described if signature is None else f"{original.__name__}{signature}\n--\n\n{described}"


def _parameters(original: types.FunctionType) -> list[str]:
    code = original.__code__
    count, by_name = code.co_argcount, code.co_kwonlyargcount
    words = list(code.co_varnames[: count + by_name])
    defaults = original.__defaults__ or ()
    for at, value in enumerate(defaults, count - len(defaults)):
        words[at] += f"={_literal(value)}"
    for at in range(count, count + by_name):
        if words[at] in (original.__kwdefaults__ or {}):
            words[at] += f"={_literal((original.__kwdefaults__ or {})[words[at]])}"
    rest = list(code.co_varnames[count + by_name :])
    star = f"*{rest.pop(0)}" if code.co_flags & 4 else "*"
    only = words[count:]
    words = words[:count] + ([star, *only] if only or star != "*" else [])
    if code.co_posonlyargcount:
        words.insert(code.co_posonlyargcount, "/")
    return [*words, *([f"**{rest[0]}"] if code.co_flags & 8 else [])]


def _literal(value: Any) -> str:
    """A default as text; what no literal can say stands as an ellipsis."""
    return ascii(value) if id(type(value)) in _PLAIN else "..."
