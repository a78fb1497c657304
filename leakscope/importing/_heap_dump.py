"""All objects of a process as a heap dump lists them, and the rows of one snapshot that come of it.

A dump says which objects there are, how large each is and to whom it refers. Who alone keeps whom alive, and by which
names, is worked out here, as the agent does it in the process itself: see docs/development/heap-graph.md.
"""

from __future__ import annotations

import re
import zlib
from array import array
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np

from ._dominators import Ints, dominators, retained
from ._facts import Fact, NotThisFormat
from ._figures import whole
from ._source import Source

MOST_OBJECTS = 2_000_000  # 100 bytes each, and 24 a reference
MOST_REFERENCES = 12_000_000
_LEAST_BYTES = 64 * 1024  # that an object retains, to be written down; as the agent has it
_MOST_NODES = 500
_LEAST_CHILDREN, _MOST_TYPES = 8, 3  # to be told by type, of what one object dominates
_MOST_TYPES_COUNTED = 2000
_GROUPS = ("", "module", "thread", "recorder", "outside", "unreached")
_MODULES, _THREADS, _OUTSIDE = 1, 2, 4
_IS_TEXT = re.compile(r"[A-Za-z_][\w.]{0,79}|/[^\n]{1,300}\.py")  # names, and files of modules
_OF_LIBRARIES = re.compile(r"site-packages|dist-packages|/lib/python3|^<")
_PID = re.compile(r"pid[-_.]?(\d{1,7})(?!\d)")
_CLASSES = ("type", "ABCMeta", "EnumMeta", "EnumType")
_VALUE_OF_KEY = -1  # the label of a dict's value: its name is the key before it
_FRAME = 1 << 62  # numbers of frames, which have no address in a dump


class _Frame(NamedTuple):
    thread: str
    depth: int
    function: str
    file: str
    line: int
    locals: dict[str, int]


def pid_of(source: Source) -> int:
    """A dump does not say of which process it is: its name may, as ``heap-pid1234.pyheap``."""
    match = _PID.search(source.path.name)
    pid = whole(match[1]) if match else None
    if pid is None:
        return source.unnamed(source.name, comm="python")
    source.knows(pid, comm="python")
    return pid


class HeapDump:
    """``add`` each object, its references between ``refers`` and the next; then ``facts``."""

    def __init__(self) -> None:
        self.addresses = array("Q")
        self._types = array("i")
        self._sizes = array("q")
        self._starts = array("i", [0])
        self._to = array("Q")
        self._labels = array("i")
        self._type_keys: dict[str | int, int] = {}
        self._names: dict[str, int] = {"": 0}
        self._texts: dict[int, str] = {}
        self._frames: list[_Frame] = []

    def add(self, address: int, type_key: str | int, own_bytes: int) -> None:
        """An object, whose references follow. ``type_key``: name of its type, or the address, named by ``facts``.

        **Errors** NotThisFormat for more objects than memory is for.
        """
        if len(self.addresses) >= MOST_OBJECTS:
            raise NotThisFormat(f"has more than {MOST_OBJECTS:,} objects: dump the process sooner")
        if self.addresses:
            self._starts.append(len(self._to))
        self.addresses.append(address)
        self._types.append(self._type_keys.setdefault(type_key, len(self._type_keys)))
        self._sizes.append(min(own_bytes, 1 << 48))

    def refers(self, address: int, name: str = "", *, is_value: bool = False) -> None:
        """Of the object that was added last. ``name``: of an attribute. ``is_value``: of the key just before it."""
        if len(self._to) >= MOST_REFERENCES:
            raise NotThisFormat(f"has more than {MOST_REFERENCES:,} references: dump the process sooner")
        self._to.append(address)
        self._labels.append(_VALUE_OF_KEY if is_value else self._names.setdefault(name, len(self._names)))

    def says(self, text: str) -> None:
        """What the string that was added last says, if it may be a name or a file."""
        if _IS_TEXT.fullmatch(text):
            self._texts[len(self.addresses) - 1] = text

    def runs(self, thread: str, depth: int, function: str, file: str, line: int, locals: dict[str, int]) -> None:
        """A call that went on. Of a module its variables are its globals."""
        self._frames.append(_Frame(thread, depth, function, file, line, {} if function == "<module>" else locals))

    def facts(
        self, source: Source, at_s: float, type_names: Mapping[int, str] = MappingProxyType({})
    ) -> Iterator[Fact]:
        """The snapshot, as rows. ``type_names``: by address. **Errors** NotThisFormat for one without modules."""
        if not self.addresses:
            raise NotThisFormat("has no object in it: the dump was cut off, or is of another tool")
        self._starts.append(len(self._to))
        graph = _Graph(self, type_names)
        pid = pid_of(source)
        source.addresses = frozenset(graph.addresses_of("module"))
        if graph.program:
            source.knows(pid, cmdline=f"python {graph.program}")
            source.meta["command"] = ["python", graph.program]
        for table, row in graph.rows():
            yield Fact(table, at_s, {"pid": pid, **row})


class _Graph:
    """The dump with groups of roots before its objects: nodes 0 to 5, then frames, then objects."""

    def __init__(self, dump: HeapDump, type_names: Mapping[int, str]) -> None:
        self._dump = dump
        self._frames = dump._frames
        self._first = len(_GROUPS) + len(self._frames)  # the first object
        self._addresses = np.asarray(dump.addresses, dtype=np.uint64)
        self.count = self._first + len(self._addresses)
        self._by_address = np.argsort(self._addresses, kind="stable")
        self._sorted = self._addresses[self._by_address]
        self._texts = {at + self._first: text for at, text in dump._texts.items()}
        self._names = list(dump._names)
        self._own_bytes = np.concatenate((np.zeros(self._first, dtype=np.int64), np.asarray(dump._sizes)))
        self._types = [type_names.get(k, "object") if isinstance(k, int) else k for k in dump._type_keys]
        self._type_of = np.concatenate((np.full(self._first, -1, np.int64), np.asarray(dump._types)))
        self._starts, self._targets, self._labels = self._references()
        self._name_types()
        self.table = self._table_of_modules()
        self._path = self._ways()
        self._with_roots()
        self.dominator, order = dominators(self._starts, self._targets, self.count)
        self.retained = np.asarray(retained(self.dominator, order, self._own_bytes), dtype=np.int64)
        self._children = np.bincount(np.asarray(self.dominator)[1:], minlength=self.count)

    def addresses_of(self, type_name: str) -> list[int]:
        return [int(a) for a in self._addresses[self._type_of[self._first :] == self._type_number(type_name)]]

    def rows(self) -> Iterator[tuple[str, dict[str, Any]]]:
        outside = self.retained[_OUTSIDE]
        total = int(self._own_bytes.sum())
        objects = self.count - self._first
        yield (
            "takes",
            {"take": 1, "reason": "user", "gc_object_count": objects, "truncated": False, "python_bytes": total},
        )
        yield (
            "heap_graphs",
            {"take": 1, "node_count": objects, "edge_count": len(self._dump._to), "is_sampled": False,
             "retained_bytes": total, "outside_bytes": int(outside), "outside_count": self._below_outside(),
             "unreached_count": 0, "unreached_bytes": 0},
        )  # fmt: skip
        chosen = self._chosen()
        for node in chosen:
            yield "heap_nodes", self._row(node)
        yield from self._children_rows(chosen)
        counts = Counter(self._type_of[self._first :].tolist())
        sizes = np.bincount(self._type_of[self._first :], weights=self._own_bytes[self._first :])
        for number, count in counts.most_common(_MOST_TYPES_COUNTED):
            columns = {"object_count": count, "reached_count": count, "shallow_bytes": int(sizes[number])}
            yield "object_types", {"take": 1, "type_name": self._types[number], **columns}
        yield from self._sources()

    def _references(self) -> tuple[array[int], array[int], array[int]]:
        """References by number of node; those to objects that are not in the dump are left out."""
        dump = self._dump
        nodes, known = self._nodes_at(np.asarray(dump._to, dtype=np.uint64))
        starts = np.asarray(dump._starts, dtype=np.int64)
        kept = np.concatenate(([0], np.cumsum(known)))[starts]
        # The key of a value that is not in the dump may be missing, too: a label of its own, not by what is before it.
        labels = np.asarray(dump._labels, dtype=np.int32).copy()
        values = np.flatnonzero(labels == _VALUE_OF_KEY)
        labels[values] = -2 - np.where(known[values - 1], nodes[values - 1], 0)
        of_frames = [node for frame in self._frames for node in self._locals(frame)]
        lengths = [len(list(self._locals(frame))) for frame in self._frames]
        before = np.concatenate(([0], np.zeros(len(_GROUPS), np.int64), np.cumsum(lengths)))
        return (
            _ints(np.concatenate((before, kept[1:] + len(of_frames)))),
            _ints(np.concatenate((np.asarray(of_frames, np.int64), nodes[known]))),
            _ints(np.concatenate((np.zeros(len(of_frames), np.int64), labels[known]))),
        )

    def _nodes_at(self, addresses: Any) -> tuple[Ints, Any]:
        at = np.minimum(np.searchsorted(self._sorted, addresses), len(self._sorted) - 1)
        return self._by_address[at] + self._first, self._sorted[at] == addresses

    def _locals(self, frame: _Frame) -> Iterator[int]:
        nodes, known = self._nodes_at(np.asarray(list(frame.locals.values()), dtype=np.uint64))
        yield from (int(node) for node in nodes[known])

    def _name_types(self) -> None:
        """With their modules, where the dump has the classes; types of one name are one."""
        names = [self._qualified(key, name) for key, name in zip(self._dump._type_keys, self._types)]
        self._numbers = {name: at for at, name in enumerate(dict.fromkeys(names))}
        now = np.asarray([*(self._numbers[name] for name in names), -1])  # frames have -1, which is the last
        self._types, self._type_of = list(self._numbers), now[self._type_of]

    def _qualified(self, key: str | int, name: str) -> str:
        if isinstance(key, str):
            return name
        (node,), (is_known,) = self._nodes_at(np.asarray([key], dtype=np.uint64))
        namespace = self._namespace(int(node)) if is_known else 0
        module = self._said(namespace, "__module__")
        return f"{module}.{self._said(namespace, '__qualname__') or name}" if module not in (None, "builtins") else name

    def _type_number(self, name: str) -> int:
        return self._numbers.get(name, -2)

    def _type_name(self, node: int) -> str:
        return self._types[self._type_of[node]] if node >= self._first else "frame"

    def _out(self, node: int) -> Iterator[tuple[int, int]]:
        """(whom it refers to, label)."""
        for at in range(self._starts[node], self._starts[node + 1]):
            yield self._targets[at], self._labels[at]

    def _table_of_modules(self) -> int:
        """sys.modules: the dict that has most modules as values, among them ``sys`` by its name."""
        module = self._type_number("module")
        best, most = 0, 0
        for node in np.flatnonzero(self._type_of == self._type_number("dict")).tolist():
            keys = [self._texts.get(-2 - label) for to, label in self._out(node) if self._type_of[to] == module]
            if len(keys) > most and ("sys" in keys or not any(keys)):
                best, most = node, len(keys)
        if not best:
            raise NotThisFormat("has no table of modules in it (sys.modules): it is no dump of a whole process")
        return best

    def _modules(self) -> Iterator[tuple[str, int, int]]:
        """(name, module, its namespace)."""
        module = self._type_number("module")
        for to, label in self._out(self.table):
            if self._type_of[to] == module and label <= -2:
                yield self._texts.get(-2 - label, ""), to, self._namespace(to)

    def _namespace(self, node: int) -> int:
        """The dict of its attributes; 0: it has none."""
        dicts = [to for to, label in self._out(node) if self._type_name(to) == "dict" and label == 0]
        named = (d for d in dicts if any(-2 - label in self._texts for _, label in self._out(d) if label <= -2))
        return next(named, dicts[0] if dicts else 0)

    def _ways(self) -> array[int]:
        """The node before each on the shortest way from a name. Modules go before frames."""
        path = array("i", bytes(4 * self.count))
        is_seen = array("b", bytes(self.count))
        level: list[int] = []

        def comes(node: int, before: int) -> None:
            if not is_seen[node]:
                is_seen[node], path[node] = 1, before
                level.append(node)

        for group in range(len(_GROUPS)):
            is_seen[group] = 1
        comes(self.table, _MODULES)
        modules = list(self._modules())
        for _, module, _ in modules:
            comes(module, self.table)
        for _, module, namespace in modules:
            if namespace:
                comes(namespace, module)
        for node in range(len(_GROUPS), self._first):
            comes(node, _THREADS)
        self._follow(level, comes)
        # What no name leads to: those that nobody refers to, then what is left, which are cycles.
        self._outside: list[int] = []
        left = [node for node in range(self._first, self.count) if not is_seen[node]]
        held = {to for node in left for to, _ in self._out(node) if to != node}
        for node in [*(n for n in left if n not in held), *left]:
            if not is_seen[node]:
                self._outside.append(node)
                level.clear()
                comes(node, _OUTSIDE)
                self._follow(level, comes)
        return path

    def _follow(self, level: list[int], comes: Any) -> None:
        for node in level:  # which grows
            for to, _ in self._out(node):
                comes(to, node)

    def _with_roots(self) -> None:
        """References from the groups of roots, before all others."""
        of_groups: list[list[int]] = [[] for _ in _GROUPS]
        of_groups[0] = list(range(1, len(_GROUPS)))
        of_groups[_MODULES] = [self.table]
        of_groups[_THREADS] = list(range(len(_GROUPS), self._first))
        of_groups[_OUTSIDE] = self._outside
        added = [to for group in of_groups for to in group]
        lengths = np.cumsum([0, *map(len, of_groups)])
        rest = np.asarray(self._starts[len(_GROUPS) + 1 :], dtype=np.int64) + len(added)
        self._starts = _ints(np.concatenate((lengths, rest)))
        self._targets = array("i", added) + self._targets
        self._labels = array("i", bytes(4 * len(added))) + self._labels

    def _below_outside(self) -> int:
        path = self._path
        is_outside = array("b", bytes(self.count))
        is_outside[_OUTSIDE] = 1
        # A way is as long as its level: nodes before it are known once their own are.
        for node in self._by_way():
            is_outside[node] = is_outside[path[node]]
        return sum(is_outside) - 1

    def _by_way(self) -> Iterator[int]:
        """Every node after the one before it on its way."""
        below: defaultdict[int, list[int]] = defaultdict(list)
        for node in range(len(_GROUPS), self.count):
            below[self._path[node]].append(node)
        level = [node for group in range(len(_GROUPS)) for node in below[group]]
        for node in level:  # which grows
            yield node
            level += below.get(node, ())

    def _chosen(self) -> list[int]:
        """Groups, modules with their namespaces, those that retain most, and all on the ways to them; roots first."""
        by_size = np.argsort(-self.retained[self._first :], kind="stable")[:_MOST_NODES] + self._first
        wanted = [int(node) for node in by_size if self.retained[node] >= _LEAST_BYTES]
        wanted += [node for _, module, namespace in self._modules() for node in (module, namespace) if node]
        wanted += range(len(_GROUPS), self._first)
        chosen: dict[int, None] = dict.fromkeys(range(len(_GROUPS)))

        def choose(node: int) -> None:
            way = [node]
            while way:
                at = way[-1]
                missing = [n for n in (self._path[at], self.dominator[at]) if n not in chosen and n not in way]
                if missing and at not in chosen:
                    way.append(missing[0])
                else:
                    chosen.setdefault(way.pop())

        for node in wanted:
            choose(node)
        return list(chosen)

    def _row(self, node: int) -> dict[str, Any]:
        is_group = node < len(_GROUPS)
        kind, name, owner = (None, None, None) if is_group else self._edge(node)
        row: dict[str, Any] = {
            "take": 1, "node": self._number(node), "root_kind": self._root_kind(node),
            "path_node": self._number(self._path[node]) if node else None,
            "dominator_node": self._number(self.dominator[node]) if node else None,
            "type_name": None if is_group else self._type_name(node), "edge_kind": kind, "edge_name": name,
            "owner": owner, "is_named": True, "opaque": False, "shallow_bytes": int(self._own_bytes[node]),
            "retained_bytes": int(self.retained[node]), "child_count": int(self._children[node]),
        }  # fmt: skip
        if len(_GROUPS) <= node < self._first:
            frame = self._frames[node - len(_GROUPS)]
            row |= {"owner": frame.function, "owner_file": frame.file, "owner_line": frame.line}
        elif not is_group and self._type_name(node) in ("dict", "list", "set", "tuple", "frozenset"):
            length = self._starts[node + 1] - self._starts[node]
            row["length"] = length // 2 if self._type_name(node) == "dict" else length
        return row

    def _number(self, node: int) -> int:
        """A number that a node keeps in all dumps of a process: by its address, or by what a frame is of."""
        if node < len(_GROUPS):
            return node
        if node < self._first:
            frame = self._frames[node - len(_GROUPS)]
            return _FRAME + zlib.crc32(f"{frame.thread}\n{frame.depth}\n{frame.file}\n{frame.function}".encode())
        return int(self._addresses[node - self._first])

    def _root_kind(self, node: int) -> str | None:
        while node >= self._first:
            node = self._path[node]
        if node >= len(_GROUPS):
            return "frame" if self._frames[node - len(_GROUPS)].thread == "MainThread" else "thread"
        return _GROUPS[node] or None

    def _edge(self, node: int) -> tuple[str | None, str | None, str | None]:
        """(kind of the reference by which it is held, name, name of the class that it is)."""
        above = self._path[node]
        owner = self._class_name(node) if self._type_name(node) in _CLASSES else None
        if above < len(_GROUPS):
            return None, None, owner
        if above < self._first:
            locals = self._frames[above - len(_GROUPS)].locals
            address = self._number(node)
            return "local", next((name for name, value in locals.items() if value == address), None), owner
        labels = [label for to, label in self._out(above) if to == node]
        of = self._type_name(above)
        if of == "dict":
            texts = [self._texts[-2 - label] for label in labels if -2 - label in self._texts]
            return ("key", f"['{texts[0]}']", owner) if texts else ("item", None, owner)
        if of in ("list", "tuple"):
            return "index", str(next(at for at, (to, _) in enumerate(self._out(above)) if to == node)), owner
        if of in ("set", "frozenset"):
            return "member", None, owner
        name = next((self._names[label] for label in labels if label > 0), None)
        if name is None and self._namespace(above) == node:
            return "namespace", None, owner
        return ("attribute", name, owner) if name is not None else (None, None, owner)

    @property
    def program(self) -> str | None:
        """The file of ``__main__``."""
        return next((self._said(space, "__file__") for name, _, space in self._modules() if name == "__main__"), None)

    def _class_name(self, node: int) -> str | None:
        return self._said(self._namespace(node), "__qualname__") or self._said(self._namespace(node), "__name__")

    def _said(self, namespace: int, key: str) -> str | None:
        """The text at a key of a dict."""
        for to, label in self._out(namespace) if namespace else ():
            if label <= -2 and self._texts.get(-2 - label) == key:
                return self._texts.get(to)
        return None

    def _children_rows(self, chosen: Sequence[int]) -> Iterator[tuple[str, dict[str, Any]]]:
        of = {node for node in chosen if self._children[node] >= _LEAST_CHILDREN}
        counts: defaultdict[int, Counter[int]] = defaultdict(Counter)
        sizes: defaultdict[int, Counter[int]] = defaultdict(Counter)
        for node in range(self._first, self.count):
            above = self.dominator[node]
            if above in of:
                number = int(self._type_of[node])
                counts[above][number] += 1
                sizes[above][number] += int(self.retained[node])
        for above, by_type in sizes.items():
            for number, bytes in by_type.most_common(_MOST_TYPES):
                columns = {"object_count": counts[above][number], "retained_bytes": bytes}
                yield (
                    "heap_children",
                    {"take": 1, "node": self._number(above), "type_name": self._types[number], **columns},
                )

    def _sources(self) -> Iterator[tuple[str, dict[str, Any]]]:
        """Files of the user's modules, without their text."""
        for name, _, namespace in self._modules():
            file = self._said(namespace, "__file__")
            if file is not None and not _OF_LIBRARIES.search(file):
                yield "sources", {"module": name, "file": file}


def _ints(values: Any) -> array[int]:
    return array("i", np.asarray(values).astype(np.int32).tobytes())
