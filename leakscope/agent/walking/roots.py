"""Where the walk begins, in order of preference: users' names before libraries', lasting names before passing ones.

1. globals, classes and functions of the user's modules; 2. locals of the running functions, outermost first, the main
thread before others; 3. generators and coroutines that nothing above reached, those that run now like those that wait.
Each root is walked to its end before the next, so an object's name does not depend on which inner function happens to
run during the snapshot.
"""

from __future__ import annotations

import sys
import types

from .. import libraries
from ..interpreter import doors, names, reading
from . import openers
from .heap import CONTAINERS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import CodeType, FrameType
    from typing import Any

    from .walk import Walk

    # (outermost user function, file, line, what waits to run it)
    Waiting = tuple[str, str | None, int | None, str | None]

_RESUMABLE = 0x20 | 0x80 | 0x200  # code flags of generators, coroutines and asynchronous generators
REGISTRY_GROWTH = 16  # members
# What a library holds on the user's behalf until it is told to let go, or until something else ends:
# {module: (class, attribute)}.
_REGISTRIES = [
    thing.name.rsplit(".", 2) for thing in libraries.all_of(libraries.REGISTRY) if thing.name.count(".") >= 2
]  # module, class, attribute


def feed(
    walk: Walk, main_thread: int, agent_thread: int | None, suspended: list[Any], lengths: dict[str, int]
) -> dict[Waiting, int]:
    """Walk all roots. ``suspended``: the live generators and coroutines. ``lengths``: of registries when first seen.

    Returns {(outermost user function, file, line, what waits to run it, None where it runs): number of threads}.
    """
    _hide_namespaces(walk)
    walk.running = running_frames()
    _user_modules(walk)
    _last_traceback(walk)
    threads, resumed = _frames(walk, main_thread, agent_thread)
    _unreached(walk, suspended)
    for frame, kind in resumed:
        _frame(walk, frame, kind)
    frame = resumed = None  # type: ignore[assignment]
    walk.run()
    _registries(walk, lengths)
    return threads


def _hide_namespaces(walk: Walk) -> None:
    """Module namespaces are roots themselves and never crossed: nobody holds a module by accident."""
    seen = walk.seen
    seen.add(id(sys.modules))
    for module in list(sys.modules.values()):
        namespace = names.namespace_of_module(module)
        if namespace is not None:
            seen.add(id(namespace))
            seen.add(id(module))


def running_frames() -> set[int]:
    """Ids of the frames on the stacks of all threads, which keep them alive meanwhile."""
    found = set()
    for frame in doors.current_frames().values():
        while frame is not None:
            found.add(id(frame))
            frame = frame.f_back
    return found


def _user_modules(walk: Walk) -> None:
    for name, namespace, file in names.user_namespaces():
        _module(walk, name, namespace, file)
        walk.run()


def _module(walk: Walk, name: str, namespace: dict[str, Any], file: str | None) -> None:
    shown = module_label(name, file)
    for variable, value in list(namespace.items()):
        if type(variable) is not str or variable.startswith("__"):
            continue
        kind = type(value)
        if kind is types.FunctionType:
            if value.__globals__ is not namespace and value.__closure__ is None:
                continue  # imported: its own module is its root; a closure is held by whoever keeps it
        elif names.is_a(kind, type) and names.module_of(value) != name:
            continue
        walk.root("module", shown + "." + variable, openers.GLOBAL, value, (variable, shown, name, file, None, True))


def module_label(name: str, file: str | None) -> str:
    """The name a person knows a module by: the script's own instead of ``__main__``."""
    if name in ("__main__", "__mp_main__") and type(file) is str:
        base = file.replace("\\", "/").rsplit("/", 1)[-1]
        return base[:-3] if base.endswith(".py") else base
    return name


def _frames(
    walk: Walk, main_thread: int, agent_thread: int | None
) -> tuple[dict[Waiting, int], list[tuple[FrameType, str]]]:
    """Of functions. Those of generators and coroutines come second: they are found where they wait most of the time.

    Else what ``asyncio.run`` holds would bear the name of whichever coroutine happens to run now.
    """
    threads: dict[Waiting, int] = {}
    resumed: list[tuple[FrameType, str]] = []
    frame = stack = outermost = None
    frames = doors.current_frames()
    order = sorted(frames, key=lambda ident: ident != main_thread)
    for ident in order:
        if ident == agent_thread:
            continue
        stack = []
        frame = frames[ident]
        while frame is not None:
            if not names.file_of(frame.f_code).startswith((names.AGENT, names.BOOT)):
                stack.append(frame)
            frame = frame.f_back
        stack.reverse()
        outermost = None
        for frame in stack:
            if names.is_user_file(names.file_of(frame.f_code)):
                outermost = frame
                break
        if ident != main_thread:
            key = _thread_key(outermost) if outermost is not None else _waits_to_run(stack)
            threads[key] = threads.get(key, 0) + 1
        kind = "frame" if ident == main_thread else "thread"
        for user in (True, False):
            for frame in stack:
                if names.is_user_file(names.file_of(frame.f_code)) is not user:
                    continue
                if frame.f_code.co_flags & _RESUMABLE:
                    resumed.append((frame, kind))
                else:
                    _frame(walk, frame, kind)
                    walk.run()
    del frames, frame, stack, outermost
    return threads, resumed


def _last_traceback(walk: Walk) -> None:
    """After an unhandled exception, at exit: the frames it went through still hold their locals."""
    trace = getattr(sys, "last_traceback", None)
    frames: list[FrameType] = []
    while trace is not None and len(frames) < 100:
        frames.append(trace.tb_frame)
        trace = trace.tb_next
    for user in (True, False):
        for frame in frames:
            if names.is_user_file(names.file_of(frame.f_code)) is user:
                _frame(walk, frame, "frame")
                walk.run()


def _thread_key(frame: FrameType | None) -> Waiting:
    if frame is None:
        return ("?", None, None, None)
    return (*_definition(frame.f_code), None)


def _definition(code: CodeType) -> tuple[str, str, int]:
    return names.qualified_name_of(code), names.file_of(code), code.co_firstlineno


def _waits_to_run(stack: list[FrameType]) -> Waiting:
    """Of a thread that has not come to the user's code: a ``threading.Timer`` knows the function that it will call."""
    base = names.getattr_plain(sys.modules.get("threading"), "Thread")
    for frame in stack:
        if names.name_of(frame.f_code) != "run" or names.module_of_frame(frame) != "threading":
            continue
        for _, thread in reading.frame_locals(frame)[:1]:
            attributes = (reading.attributes_of(thread) if names.is_a(type(thread), base) else None) or {}
            function = attributes.get("function", attributes.get("_target"))
            code = names.getattr_code(function.__func__ if type(function) is types.MethodType else function)
            if code is not None and names.is_user_file(names.file_of(code)):
                return (*_definition(code), names.type_name(type(thread)))
    return _thread_key(stack[0] if stack else None)


def _frame(walk: Walk, frame: FrameType, kind: str) -> None:
    code = frame.f_code
    if names.name_of(code) == "<module>" or id(frame) in walk.seen:
        return
    walk.seen.add(id(frame))
    name, file, line = _definition(code)
    owner = (name, names.module_of_frame(frame), file, line)
    for variable, value in reading.frame_locals(frame):
        walk.root(kind, short(name) + "() " + variable, openers.LOCAL, value, names.named_by(variable, owner))


def short(qualname: str) -> str:
    """``make.<locals>.step`` is called ``step`` in paths; ``Trainer.fit`` keeps its class."""
    return qualname.rsplit("<locals>.", 1)[-1]


def _unreached(walk: Walk, suspended: list[Any]) -> None:
    """Generators and coroutines that nothing above led to; those of a kind that was reached are in its samples."""
    by_code: dict[int, tuple[CodeType, list[Any]]] = {}
    for obj in suspended:
        code = getattr(obj, "cr_code", None) or getattr(obj, "gi_code", None) or getattr(obj, "ag_code", None)
        if code is not None:
            by_code.setdefault(id(code), (code, []))[1].append(obj)
    for code, alike in by_code.values():
        if not any(id(obj) in walk.seen for obj in alike):
            for obj in alike:
                _suspended(walk, obj, code)
    walk.run()


def _suspended(walk: Walk, obj: Any, code: CodeType) -> None:
    name, file, line = _definition(code)
    named = (name, name, None, file, line, names.is_user_file(file))
    kind = "task" if type(obj) is types.CoroutineType else "generator"
    walk.root(kind, short(name) + "()", openers.REFERENCE, obj, named)


def _registries(walk: Walk, lengths: dict[str, int]) -> None:
    """Looked into at every snapshot: their members are few and large, and no user's name leads to them.

    Thoroughly once they have gained some: torch alone registers 180 finalizers, with 6,000 objects behind them (80 ms).
    """
    for module_name, owner, name in _REGISTRIES:
        cls = names.getattr_plain(sys.modules.get(module_name), owner)
        container: Any = names.namespace_of(cls).get(name) if type(cls) is type else None
        if id(type(container)) in CONTAINERS and id(container) not in walk.seen:
            named = (name, owner, module_name, names.module_file(module_name), None, False)
            walk.is_thorough = len(container) - lengths.setdefault(module_name, len(container)) >= REGISTRY_GROWTH
            walk.root("library", ".".join((module_name, owner, name)), openers.GLOBAL, container, named)
            walk.run()
            walk.is_thorough = False
