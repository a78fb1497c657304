"""Is called when a module has been imported, and puts functions of ours in the place of some of its. Runs in the job.

A finder that finds nothing lets modules be found as ever, and has us called when their code has run. What was imported
while somebody watched is found later, by the agent's thread. What is put into modules are functions of Python, which a
tracer, profiler or debugger would see: as soon as one is set they are taken out again, and put back when it is gone.
"""

from __future__ import annotations

import sys
from _functools import partial

from ..interpreter import doors, names, reading

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any


_IMPORT_SYSTEM = ("importlib._bootstrap", "_frozen_importlib")  # its name until somebody imports importlib
# As the import system calls it; finders of libraries ask all others, with two arguments or by name.
_FIND_SPEC = ((1, "fullname"), (1, "path", None), (1, "target", None))


class Finder:
    """Stands first on ``sys.meta_path``; no function of Python."""

    def __init__(self, find: Callable[..., Any]) -> None:
        self.find_spec = find


class Hooks:
    """``callbacks``: {module name: function}, called once with this object and the module."""

    def __init__(self, callbacks: Mapping[str, Callable[[Hooks, Any], None]]) -> None:
        self._waiting = dict(callbacks)
        self._put: list[tuple[Any, str, Any, Any]] = []  # [[owner, name, original, ours], ...]
        self._is_in_place = True
        self._finder = Finder(doors.asking(self._find, _FIND_SPEC))

    def start(self) -> None:
        """Those already loaded are called now, the others when they come."""
        self.tick()
        sys.meta_path.insert(0, self._finder)

    def _find(self) -> Any:
        """What a finder answers: nothing, or what the others do, where the module is waited for."""
        try:
            return self._answer(sys._getframe().f_back)
        except Exception as error:
            if names.is_foreign(error):
                raise
            return None  # what another finder raised, it raises again when it is asked next

    def _answer(self, frame: Any) -> Any:
        """``frame``: the import system's. What it asks for does not get through the door. Another finder gets none."""
        if names.module_of_frame(frame) not in _IMPORT_SYSTEM:
            return None
        asked = dict(reading.frame_locals(frame))
        frame = None
        name = asked.get("name")
        if type(name) is not str or name not in self._waiting:
            return None
        for finder in list(sys.meta_path):
            find = None if finder is self._finder else getattr(finder, "find_spec", None)
            spec = None if find is None else find(name, asked.get("path"), asked.get("target"))
            if spec is not None:
                self._be_called(name, spec)
                return spec
        return None

    def _be_called(self, name: str, spec: Any) -> None:
        loader = spec.loader
        original = getattr(loader, "exec_module", None)
        if original is not None:
            try:
                loader.exec_module = doors.followed(
                    original, partial(self._imported, name), first=(partial(delattr, loader, "exec_module"),)
                )
            except Exception:
                pass  # a loader that takes no attributes: the agent's thread will find the module

    def _imported(self, name: str) -> bool:
        """Inside the import statement of the job, under its lock: it may only register things."""
        module = sys.modules.get(name)
        callback = self._waiting.pop(name, None)
        if module is not None and callback is not None:
            try:
                callback(self, module)
            except Exception:
                pass  # another version of it: then without
        if not self._waiting:
            self._remove_finder()
        return True

    def _remove_finder(self) -> None:
        try:
            sys.meta_path.remove(self._finder)
        except ValueError:
            pass

    def tick(self) -> None:
        """**Cost** 5 us."""
        if not doors.is_unwatched():
            self._take_out()
            return
        self._put_back()
        for name in list(self._waiting):
            module = sys.modules.get(name)
            if module is not None and not _is_being_imported(module):
                self._imported(name)

    def replace(self, owner: Any, name: str, original: Any, ours: Any) -> None:
        """``ours`` in the place of a module's or class's attribute, as long as nobody watches; None: nothing is."""
        if ours is None:
            return
        self._put.append((owner, name, original, ours))
        setattr(owner, name, ours)

    def give_back(self, owner: Any, name: str) -> bool:
        """The original for good, in ``replace``'s words; whether something of ours stood for it."""
        for entry in self._put:
            if entry[0] is owner and entry[1] == name:
                self._put.remove(entry)
                if _own(owner, name) is entry[3]:
                    setattr(owner, name, entry[2])
                return True
        return False

    def _take_out(self) -> None:
        if self._is_in_place:
            self._is_in_place = False
            for owner, name, original, ours in self._put:
                if _own(owner, name) is ours:
                    setattr(owner, name, original)

    def _put_back(self) -> None:
        if not self._is_in_place:
            self._is_in_place = True
            for owner, name, original, ours in self._put:
                if _own(owner, name) is original:
                    setattr(owner, name, ours)


def _own(owner: Any, name: str) -> Any:
    namespace = names.namespace_of(owner) if names.is_a(type(owner), type) else names.namespace_of_module(owner)
    return (namespace or {}).get(name)


def _is_being_imported(module: Any) -> bool:
    spec = names.getattr_plain(module, "__spec__")
    return spec is not None and (reading.attributes_of(spec) or {}).get("_initializing") is True
