"""The exception that ends a process or one of its threads, as text. Runs in the job.

Nothing is hooked for the main thread: Python itself keeps an exception that nobody caught as ``sys.last_value``,
whatever ``sys.excepthook`` the job has set, and at exit it is read there. A thread's exception is kept nowhere, so
``threading.excepthook`` is ours until the job sets its own; it first does what the one before it does.

The text is not made by the module ``traceback``: that asks the job's loaders for source, fills ``linecache``, and lets
the exception's own ``__str__`` answer.
"""

from __future__ import annotations

import os
import sys
import types
from gc import get_referents

from ..interpreter import around, arrays, files, names, reading

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from .hooks import Hooks

MAX_BYTES = 64 * 1024
MAX_THREADS = 20  # exceptions of threads in one process: who starts threads that fail in a loop fills no disk
_MAX_CHAIN = 10
_MAX_SOURCE_BYTES = 4 << 20
_MAX_REPEATS = 3
_PLAIN = names.ids_of(str, int, float, bool, bytes, type(None))
_CAUSED = "\nThe above exception was the direct cause of the following exception:\n\n"
_MEANWHILE = "\nDuring handling of the above exception, another exception occurred:\n\n"

# Address space, no memory: under RLIMIT_AS a MemoryError leaves too little even to say so.
_reserve = arrays.mapped(2 << 20)

_trace_of, _cause_of, _context_of, _is_context_hidden, _args_of = (
    BaseException.__dict__[name].__get__
    for name in ("__traceback__", "__cause__", "__context__", "__suppress_context__", "args")
)


def of_main_thread() -> dict[str, Any] | None:
    """Columns of ``crash_text`` for the exception that ended the main thread, at exit; None if there is none."""
    value = sys.__dict__.get("last_value")
    if not _is_exception(value) or names.is_a(type(value), KeyboardInterrupt):
        return None  # ^C is no crash
    _reserve.close()
    return _columns("exception", value)


def of_threads(report: Callable[[dict[str, Any] | None], None]) -> Callable[[Hooks, Any], None]:
    """A function of the module ``threading`` that makes ``report`` get the columns for each exception of a thread."""

    def watch(hooks: Hooks, threading: Any) -> None:
        original = threading.excepthook
        left = [MAX_THREADS]

        def raised(arguments: tuple[Any, ...], _result: object, _calls: int) -> None:
            try:
                value = arguments[0].exc_value
                if left[0] and _is_exception(value) and not names.is_a(type(value), SystemExit):
                    left[0] -= 1
                    report(_columns("thread-exception", value))
            except Exception:
                pass

        excepthook = around.function(original, after=raised)
        hooks.replace(threading, "excepthook", original, excepthook)
        if names.getattr_plain(threading, "__excepthook__") is original:  # programs ask whether theirs is that
            hooks.replace(threading, "__excepthook__", original, excepthook)

    return watch


def _is_exception(value: Any) -> bool:
    return names.is_a(type(value), BaseException)


def _columns(source: str, value: Any) -> dict[str, Any]:
    data = _text(value).encode("utf-8", "replace")
    text = data[-MAX_BYTES:].decode("utf-8", "ignore")
    return {"crash_source": source, "exception_type": names.type_name(type(value)), "last_words": text}


def _text(value: Any) -> str:
    """As Python prints it, with what caused it and what was being handled before it."""
    parts = []
    files: dict[str, list[bytes]] = {}
    seen: set[int] = set()
    joint = ""
    while value is not None and id(value) not in seen and len(seen) < _MAX_CHAIN:
        seen.add(id(value))
        parts.append(_one(value, files) + joint)
        cause = _cause_of(value)
        joint = _MEANWHILE if cause is None else _CAUSED
        value = cause if cause is not None or _is_context_hidden(value) else _context_of(value)
    return "".join(reversed(parts))


def _one(value: Any, files: dict[str, list[bytes]]) -> str:
    trace = _trace_of(value)
    lines = [] if trace is None else ["Traceback (most recent call last):"]
    before, repeats = None, 0
    while trace is not None:
        code, number = trace.tb_frame.f_code, trace.tb_lineno or 0
        repeats = repeats + 1 if (id(code), number) == before else 0  # code compares its constants
        before = id(code), number
        trace = trace.tb_next
        if repeats < _MAX_REPEATS:
            file = names.file_of(code)
            lines.append(f'  File "{file}", line {number}, in {names.qualified_name_of(code)}')
            source = _source_line(file, number, files)
            if source:
                lines.append("    " + source)
        elif trace is None or (id(trace.tb_frame.f_code), trace.tb_lineno) != before:
            lines.append(f"  [Previous line repeated {repeats - _MAX_REPEATS + 1} more times]")
    name = names.type_name(type(value))
    name = name[len("__main__.") :] if name.startswith("__main__.") else name
    message = _message(value)
    return "\n".join(lines + [name + ": " + message if message else name, ""])


def _message(value: Any) -> str:
    """What str() says where that runs no code of the job."""
    for base in names.mro_of(type(value)):
        method = names.namespace_of(base).get("__str__")
        if method is not None:
            break
    args = _args_of(value)
    try:
        is_in_c = type(method) is types.WrapperDescriptorType
        if is_in_c and all(id(type(part)) in _PLAIN for part in _parts(value, args)):
            return str.__str__(str(value))
        if is_in_c and len(args) == 1 and names.is_a(type(args[0]), str):
            return str.__str__(args[0])  # a KeyError of a loader worker, as torch hands it on
    except Exception:
        pass  # half made: UnicodeDecodeError.__new__ without its arguments
    return "(its message was not read: that would run code of the program)"


def _parts(value: Any, args: tuple[Any, ...]) -> list[Any]:
    """What its C code may put into its text: the arguments, and what has a slot of its own (a file's name)."""
    others = (args, _trace_of(value), _context_of(value), _cause_of(value), type(value))
    ids = names.ids_of(*others, reading.attributes_of(value))
    return [*args, *(part for part in get_referents(value) if id(part) not in ids)]


def _source_line(file: str, number: int, files: dict[str, list[bytes]]) -> str:
    if file not in files:
        files[file] = _read_lines(file)
    lines = files[file]
    return lines[number - 1].decode("utf-8", "replace").strip() if 0 < number <= len(lines) else ""


def _read_lines(file: str) -> list[bytes]:
    try:
        if file.startswith("<") or not os.path.isfile(file) or os.path.getsize(file) > _MAX_SOURCE_BYTES:
            return []
        with open(file, "rb", opener=files.open_high) as stream:
            return stream.read().splitlines()
    except (OSError, ValueError, MemoryError):
        return []
