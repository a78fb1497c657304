"""What a person calls each object, out of the references that lead to it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from pathlib import PurePath
from typing import Any

import numpy as np

from ..code.index import tail
from .nodes import Node, lengths_of
from .place import CONTAINERS, GROUPS, MODULE_DICTS, NO_REFERENCE, OF_MODULES, OUTSIDE, Place, Reference

LEAST_CHILDREN = 8  # of one type, to be told together
MODULES = "sys.modules"  # the path of the dict that has all modules
_REPEATS = 4  # of one step in a path: more of it are dots
_NAMESPACES = ("_thread._local", "types.SimpleNamespace", "argparse.Namespace")
_STEPS_OF_LOCALS = 3
_MAIN = ("__main__", "__mp_main__")  # the second: in a process that multiprocessing spawned
RESULTS = "functools._lru_cache_wrapper"
OF_C = " of C code"
_ITEM = Reference("item")


class Names:
    """What a person calls each node, out of the references that lead to it."""

    def __init__(
        self, nodes: Mapping[int, Node], user_files: Mapping[Any, Any], user_modules: Mapping[Any, Any]
    ) -> None:
        """``user_files``: their texts; ``user_modules``: {name: file}."""
        self._nodes = nodes
        self._user_files = user_files
        self._user_modules = user_modules
        self._paths: dict[int, str] = {}

    def place(self, node: Node) -> Place:
        """As what is held by its newest reference; it hangs nowhere yet."""
        told, type_name = node.told, node.type_name
        is_namespace = told.edge_kind == "namespace"
        suffix = ".__dict__" if is_namespace else " (cell)" if node.is_cell else ""
        reference = self.reference(node)
        return Place(
            self.path(node.number) + suffix,
            type_name,
            replace(reference, edge_kind="namespace") if is_namespace else reference,
            node.retained,
            (node.retained > 0).astype(np.float64),
            lengths_of(node),
            has_length=type_name in CONTAINERS or bool(node.is_measured.any()),
            node=node.number,
            root_kind=told.root_kind or "",
            length_limit=self._limit(node),
            limits=self._limits(node),
            hits=told.hit_count,
            misses=told.miss_count,
            opaque=told.opaque is True,
            code=self._code(node),
            numbers=frozenset(node.numbers),
            has_parts=self._is_of_module(node),
        )

    def is_users(self, type_name: str) -> bool:
        return type_name.rpartition(".")[0] in self._user_modules

    def path(self, number: int) -> str:
        """``services.CACHE.entries``, ``main() history``: from a module or a frame down to the object."""
        way: list[int] = []  # up to what is named already, or to a root
        while number not in self._paths:
            way.append(number)
            self._paths[number] = "…"  # should they lead round in a circle
            node = self._nodes.get(number)
            number = 0 if node is None or number < GROUPS else node.told.path_node
        for one in reversed(way):
            node = self._nodes.get(one)
            self._paths[one] = "" if node is None or one < GROUPS else self._path(node)
        return self._paths[way[0] if way else number]

    def _path(self, node: Node) -> str:
        above = self._paths[node.told.path_node]
        name = node.name
        kind = node.told.edge_kind
        before = self._above(node)
        if before is None:  # a root
            if node.told.owner is not None:
                return f"{node.told.owner}()"
            return MODULES if node.told.root_kind == "module" else _short(node) + OF_C
        if kind == "namespace" and name is not None:  # of a module that is not in sys.modules: functions have them
            return self._module_name(self._module_of(before.told.owner_file) or above)
        if kind == "namespace" or before.is_cell:
            return above
        if node.told.type_name == "frame" and node.told.owner is not None and above.startswith("sys.last_"):
            return f"{node.told.owner}()"  # after an unhandled exception
        if kind in ("cell", "default"):
            return f"{above.removesuffix('.<tuple>')} {'closure' if kind == 'cell' else kind} {name}"
        if self._is_modules(before) and name is not None:
            return self._module_name(name)
        if kind == "local":  # of a generator that C code goes through there is no better name than its function's
            return f"{before.told.owner}() {name}" if OF_C in above and before.told.owner else f"{above} {name}"
        if kind == "attribute" or (kind == "key" and before.told.edge_kind == "namespace" and name is not None):
            return _longer(above, f".{name}")
        if kind == "key" and name is not None and (local := self._local(before)) is not None:
            return f"{self._paths[local.number]}.{name}"
        if kind == "key" and name is not None and self._is_of_module(before):
            return _longer(above[: -len(before.name or "") - 1], f".{name}")
        if kind == "key":
            return _longer(above, f"['{name}']" if name is not None else "[*]")
        if kind == "index":
            return _longer(above, f"[{name}]")
        return _longer(above, "[*]" if kind == "member" else f".<{_short(node)}>")

    def reference(self, node: Node) -> Reference:
        """The reference that holds it."""
        told, name = node.told, node.name
        kind = told.edge_kind
        before = self._above(node)
        if before is not None and before.is_cell and kind not in ("cell", "default"):
            return self.reference(before)
        if told.type_name == RESULTS and told.owner_file is not None:
            return self._of_function("cache", node, tail(told.owner or "function"))
        if before is not None and kind in ("cell", "default"):  # in a tuple of a function's
            return self._of_function(kind, self._above(before) or before, name)
        if before is None and told.root_kind == OUTSIDE and told.owner_file is not None:
            return self._of_function(
                "reference", node, (told.owner or "function").rpartition(".")[2]
            )  # given to C code
        if before is None or name is None or self._is_modules(before):
            return _ITEM if kind in ("key", "index", "member") else NO_REFERENCE
        if kind == "local":
            return self._of_function("local", before, name)
        if kind == "key" and self._is_of_module(before):  # ``model.part``, for who wrote it
            before = self._above(before) or before
            kind = "key" if before.told.edge_kind == "namespace" else "attribute"
        holder = before
        if before.told.edge_kind == "namespace" and kind == "key":
            holder = self._above(before) or before
        elif kind != "attribute":
            local = self._local(before) if kind == "key" else None
            if local is None:
                return _ITEM
            holder = local
        type_name = holder.told.type_name or ""
        if before.told.edge_kind == "namespace" and before.name is not None:
            module = self._module_of(holder.told.owner_file) or ""
            return self._of_module("global", name, self._module_name(module), module)
        if type_name == "module":
            return self._of_module("global", name, self._module_name(holder.name or ""), holder.name or "")
        if holder.told.owner is not None and holder.told.owner_file is None:  # a class
            module, _, owner = holder.told.owner.rpartition(".")
            return self._of_module("class-attribute", name, owner, module)
        if type_name in _NAMESPACES:  # whoever names the object names what is in it
            above = self.reference(holder)
            return replace(above, edge_kind="attribute", variable=name, owner=above.variable)
        module, _, owner = type_name.rpartition(".")
        return self._of_module("attribute", name, owner, module)

    def _of_module(self, kind: str, name: str, owner: str, module: str) -> Reference:
        file = self._user_modules.get(module)
        return Reference(kind, name, owner, module, file, None, file in self._user_files)

    def _of_function(self, kind: str, node: Node, name: str | None) -> Reference:
        """``node``: a function, or what was made of one."""
        told = node.told
        file, is_user = told.owner_file, told.owner_file in self._user_files
        return Reference(kind, name, told.owner, self._module_of(file), file, told.owner_line, is_user)

    def _local(self, node: Node) -> Node | None:
        """The ``threading.local`` whose dict of one thread this is."""
        above: Node | None = node
        for _ in range(_STEPS_OF_LOCALS):
            above = None if above is None else self._above(above)
            if above is not None and above.told.type_name == _NAMESPACES[0]:
                return above
        return None

    def _code(self, node: Node) -> tuple[str, str, int] | None:
        """(qualified name, file, first line) of what has code of its own: a frame, a coroutine, a function."""
        told = node.told
        if told.owner is None or told.owner_file is None:
            return None
        return told.owner, told.owner_file, told.owner_line or 1

    def _limit(self, node: Node) -> int | None:
        """How many members it may have; the dict of an lru_cache as many as that."""
        above = self._above(node)
        if node.told.length_limit is None and above is not None and above.told.type_name == RESULTS:
            return above.told.length_limit
        return node.told.length_limit

    def _limits(self, node: Node) -> str | None:
        """Numbers among the attributes of the object that has it as an attribute: one may be its limit."""
        above = self._above(node)
        for _ in range(2):  # a ``__dict__``, and whose it is
            if above is None or above.told.limits is not None:
                break
            above = self._above(above) if above.told.edge_kind == "namespace" else None
        return None if above is None else above.told.limits

    def _module_of(self, file: Any) -> str | None:
        return next((module for module, known in self._user_modules.items() if known == file), None)

    def _module_name(self, name: str) -> str:
        """That of its file, for the program's own, and for one to which a loader gave a name of its making."""
        file = PurePath(str(self._user_modules.get(name) or ""))
        is_file = bool(file.name) and file.name not in self._user_modules  # no notebook's cell
        is_made_up = name in _MAIN or name.endswith(f"_{file.stem}")  # a prefix and a digest of Airflow's
        return file.stem if is_file and is_made_up else name

    def _above(self, node: Node) -> Node | None:
        number = node.told.path_node
        return None if number < GROUPS else self._nodes.get(number)

    def _is_of_module(self, node: Node) -> bool:
        """Whether it is a dict in which a torch module keeps its parts."""
        return (
            node.name in MODULE_DICTS
            and node.told.type_name in CONTAINERS
            and not ((holder := self._holder(node)) is not None and self._is_plain(holder.type_name))
        )

    def _holder(self, node: Node) -> Node | None:
        """The object whose attribute it is."""
        above = self._above(node)
        return self._above(above) if above is not None and above.told.edge_kind == "namespace" else above

    def _is_plain(self, type_name: str) -> bool:
        """A class of the user's that derives from no other."""
        module, _, name = type_name.rpartition(".")
        text = self._user_files.get(self._user_modules.get(module))
        return isinstance(text, str) and bool(re.search(rf"^class {re.escape(name)}(\(\))?:", text, re.MULTILINE))

    def _is_modules(self, node: Node) -> bool:
        return node.told.path_node == OF_MODULES


def _longer(path: str, step: str) -> str:
    """``head.next…`` for any number of links."""
    if path.endswith(f"{step}…"):
        return path
    return f"{path[: -len(step) * (_REPEATS - 1)]}…" if path.endswith(step * _REPEATS) else path + step


def _short(node: Node) -> str:
    return node.type_name.rpartition(".")[2]
