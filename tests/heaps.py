"""Rows of a heap as snapshots write them, from places as a report tells them: ``main() trainer.history``.

A place is a dict: its ``path``, what its name is (``edge_kind``, ``variable``, ``owner``, ``owner_module``,
``owner_file``, ``is_user``), its ``type_name``, ``deep_bytes`` and ``length``; ``runs``: other functions that run have
it as well. What lies between two places that are told is made up: a function, a module, an object that has an
attribute. A place with an ``object_count`` of two or more stands for objects that have no row of their own.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from leakscope.facts.heap.place import GRAPH_TYPE

Row = dict[str, Any]
_MODULES, _RUNNING, _OUTSIDE = 1, 2, 4
_LINKS = 18  # of a chain that are told
_STEP = re.compile(r"(.*?)(\[\*\]|\['[^']*'\]|\[\d+\]|\.[\w<>~]+| [\w<>]+)'*$", re.DOTALL)
_TENSORS = "retained_storage_bytes"


class Heap:
    """Numbers of objects over all snapshots of one process, and the modules of the user's that they name."""

    def __init__(self) -> None:
        self.user_modules: dict[str, str | None] = {}  # {name: file}
        self._numbers: dict[str, int] = {}

    def rows(self, places: list[Row]) -> Iterator[tuple[str, Row]]:
        """Of one snapshot, by table."""
        snapshot = _Snapshot(self, places)
        for place in places:
            snapshot.add(place)
        yield from snapshot.told()

    def number(self, path: str) -> int:
        return self._numbers.setdefault(path, 6 + len(self._numbers))


class _Snapshot:
    def __init__(self, heap: Heap, places: list[Row]) -> None:
        self._heap = heap
        self._places = {place["path"]: place for place in places}
        self._nodes: dict[str, Row] = {}
        self._children: list[Row] = []

    def told(self) -> Iterator[tuple[str, Row]]:
        for row in reversed(self._nodes.values()):
            for column in ("retained_bytes", "retained_device_bytes", _TENSORS):
                below = (one.get(column) or 0 for one in self._nodes.values() if one["path_node"] == row["node"])
                row[column] = row.get(column) or sum(below)
        yield from (("heap_nodes", row) for row in self._nodes.values())
        yield from (("heap_children", row) for row in self._children)
        roots = [row for row in self._nodes.values() if row["path_node"] < 6]
        total, devices = (sum(row[name] for row in roots) for name in ("retained_bytes", "retained_device_bytes"))
        graph = {"retained_bytes": total, "device_bytes": devices or None, "weighs_tensors": False}
        yield "heap_graphs", {"node_count": len(self._nodes), **graph}

    def add(self, place: Row) -> None:
        path, count = place["path"], place.get("object_count") or 1
        if place.get("is_user"):
            module = place.get("owner_module") or "__main__"
            self._heap.user_modules.setdefault(module, place.get("owner_file"))
        if place.get("root_kind") == "outside":
            self._add_outside(place, count)
        elif place.get("chained"):
            self._add_chain(place, count)
        elif place.get("type_name") == GRAPH_TYPE:  # told at the container, of all members together
            holder = self._places.get(self._above(place), {})
            while holder and (holder.get("object_count") or 1) >= 2:
                holder = self._places.get(self._above(holder), {})
            self._members(self._node(holder.get("path", "")), place, count)
        elif count >= 2 and not self._is_of_many(place):
            above = self._node(self._above(place))
            self._members(above, place, count)
            if (
                place.get("opaque")
                or place.get("edge_kind") == "attribute"
                or any(one.get("parent_path") == path for one in self._places.values())
            ):
                self._node(path)  # one of them is told
        else:
            above = self._node(path)
            if place.get("member_type") and not any(self._above(one) == path for one in self._places.values()):
                self._members(above, {**place, "type_name": place["member_type"]}, place.get("length") or 0)

    def _members(self, above: Row, place: Row, count: float) -> None:
        held, tensors = place.get("deep_bytes") or 0, place.get("tensor_deep_bytes") or 0
        of_all = {"object_count": round(count), "retained_bytes": held, "retained_storage_bytes": tensors}
        self._children.append({"node": above["node"], "type_name": place["type_name"], **of_all})

    def _is_of_many(self, place: Row) -> bool:
        """Below members, of which one is told for all."""
        above = self._places.get(place.get("parent_path") or self._split(place["path"])[0], {})
        return bool(above) and (above.get("object_count") or 1) >= 2

    def _add_outside(self, place: Row, count: float) -> None:
        bytes, kind = place.get("deep_bytes") or 0, place["type_name"]
        self._row("", 0, None, None, "")["node"] = _OUTSIDE
        self._children.append(
            {"node": _OUTSIDE, "type_name": kind, "object_count": round(count), "retained_bytes": bytes}
        )
        example = self._row(place["path"], _OUTSIDE, None, None, kind, place)
        if not kind.endswith(place["variable"]):  # of what it is made
            self._row(f"{place['path']}.of", example, "attribute", "of", f"__main__.{place['variable']}")

    def _add_chain(self, place: Row, count: float) -> None:
        above = self._node(self._above(place))
        above["length"] = count
        bytes, path = place.get("deep_bytes") or 0, self._above(place)
        for link in range(_LINKS):
            path = f"{path}.{place['variable']}"
            self._row(path, above, "attribute", place["variable"], above["type_name"])
            above = self._nodes[path]
            above["retained_bytes"] = round(bytes * (1 - link / 1000))

    def _above(self, place: Row) -> str:
        return place.get("parent_path") or self._split(place["path"])[0]

    def _split(self, path: str) -> tuple[str, str]:
        found = _STEP.fullmatch(path)
        return (found[1], found[2]) if found else ("", path)

    def _node(self, path: str, implied: str = "object") -> Row:
        """``implied``: the type of what nobody tells of."""
        if path in self._nodes:
            return self._nodes[path]
        place = self._places.get(path, {})
        kind, owner, module = place.get("edge_kind"), place.get("owner"), place.get("owner_module")
        before, step = self._split(path)
        kind = "local" if kind == "attribute" and step.startswith(" ") else kind
        above_path = place.get("parent_path") or before
        type_name = place.get("type_name") or implied
        name = place.get("variable") or step.strip("[]'. ")
        if path.endswith("()"):
            return self._row(path, _RUNNING, None, None, "frame", owner=path[:-2], owner_file=self._file_of(path))
        if type_name == "module" or (kind is None and re.fullmatch(r"\w+", path)):
            return self._row(path, self._modules(), "key", f"['{self._module(path)}']", "module")
        if kind == "global":
            above = self._node(above_path or (owner or module or "__main__"))
            kind = "attribute"
        elif kind in ("attribute", "class-attribute") or step.startswith("."):
            if place.get("is_user"):
                module, owner = module or "__main__", owner or "Job"
            implied = f"{module}.{owner}" if module and owner else owner or "object"
            above = self._node(above_path or module or "__main__", implied)
            kind = "attribute" if kind in (None, "attribute", "class-attribute") else kind
        elif kind == "local" or (kind is None and step.startswith(" ")):
            above, kind = self._node(above_path if above_path.endswith("()") else f"{owner or 'main'}()"), "local"
        elif kind in ("cell", "default"):
            function = self._node(above_path)
            function.update(owner=owner, owner_file=place.get("owner_file"))
            above = self._row(f"{above_path}.<tuple>", function, "item", None, "tuple")
        elif kind == "reference":
            above, kind, name = self._node(above_path), "item", None
        else:
            above = self._node(above_path)
            kind = "key" if step.startswith("['") else "index" if step[1:-1].isdigit() else "member"
            name = step if kind == "key" else None if kind == "member" else step[1:-1]
        return self._row(path, above, kind, name, type_name, place)

    def _modules(self) -> Row:
        return self._nodes.get("sys.modules") or self._row("sys.modules", _MODULES, None, None, "dict")

    def _module(self, shown: str) -> str:
        known = self._heap.user_modules
        return shown if shown in known or not known else next(iter(known)) if len(known) == 1 else shown

    def _file_of(self, path: str) -> str | None:
        own = (one for one in self._places.values() if one["path"].startswith(f"{path} ") and one.get("owner_file"))
        files = [one["owner_file"] for one in own if one.get("edge_kind") in ("local", None)]
        return files[0] if files else next(filter(None, self._heap.user_modules.values()), "/job/train.py")

    def _row(
        self, path: str, above: Row | int, kind: str | None, name: str | None, type_name: str, place: Row | None = None,
        **more: Any,
    ) -> Row:  # fmt: skip
        of, number = place or {}, above if isinstance(above, int) else above["node"]
        if of.get("edge_kind") == "cache":  # of the function that it is of
            more = {"owner": of["owner"], "owner_file": of["owner_file"], "owner_line": of.get("owner_line")} | more
        bytes, count = of.get("deep_bytes") or 0, of.get("object_count") or 1
        root = {0: "outside", _MODULES: "module", _RUNNING: "frame", _OUTSIDE: "outside"}.get(number)
        row = {
            "node": self._heap.number(path), "path_node": number,
            "dominator_node": _RUNNING if of.get("runs") else number,
            "root_kind": root or above["root_kind"], "type_name": type_name, "edge_kind": kind, "edge_name": name,
            "is_named": True, "shallow_bytes": of.get("shallow_bytes", 100),
            "retained_bytes": round(bytes / max(1, count)),
            "retained_device_bytes": of.get("device_bytes"),
            "length": of.get("length"), "length_limit": of.get("length_limit"), "limits": of.get("limits"),
            "hit_count": of.get("hit_count"), "miss_count": of.get("miss_count"),
            "opaque": of.get("opaque"), "child_count": 1, "reference_count": of.get("reference_count"),
            _TENSORS: of.get("tensor_deep_bytes"), "retained_unshown_bytes": of.get("unshown_bytes"), **more,
        }  # fmt: skip
        self._nodes[path] = row
        return row
