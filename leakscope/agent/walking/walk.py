"""Walk the heap from its named roots and estimate what is held along each path. Runs in the job, at a safe point.

The result is a tree of *nodes*. A node stands for all objects found at one path (``main() trainer.history[*]``),
so that two walks can be compared path by path. Three rules keep the cost independent of how much has leaked:

- members of a large container are sampled and extrapolated, never all visited;
- of the objects at one node only the first ``expand_limit`` are opened, the others are counted;
- a chain (``node.next.next`` …) is one node, extrapolated by the census when it is cut short.

Each object belongs to the first path that reaches it; roots are walked one after the other, users' before libraries',
so names do not depend on which function happens to run.

No foreign code runs: types are tested by identity, attributes are read from ``__dict__`` and slots by the descriptors
of ``object`` and ``type``, and other objects are opened with ``gc.get_referents``, which calls only what the collector
itself calls. **Cost** about 1.2 us an object visited (Python 3.11).
"""

from __future__ import annotations

import sys
import types
from _collections import deque
from time import thread_time

from ..interpreter import reading
from ..interpreter.names import (
    ByClass,
    getattr_plain,
    is_a,
    is_foreign,
    is_made_in_c,
    is_written_in_c,
    mro_of,
    type_name,
)
from . import class_openers, openers
from .openers import ATOMS, IGNORED, ITEM, KEY
from .sampling import (
    BIG_ATOM_BYTES,
    GOLDEN,
    LARGEST,
    LARGEST_SCAN,
    RICH,
    SAMPLE,
    SAMPLE_NESTED,
    SIZED,
    VISIT_ALL,
    picked,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Iterable
    from typing import Any

    from ..interpreter.names import Named
    from .openers import Opener

_getsizeof = sys.getsizeof
_getrefcount = sys.getrefcount


class Node:
    """All objects at one path. ``count`` and bytes are extrapolated; ``opened`` is the weight that was looked into."""

    __slots__ = (
        "parent", "label", "edge", "cls", "named", "count", "opened", "visits", "length", "length_limit", "own_bytes",
        "array_bytes", "tensor_bytes", "member", "opaque", "chained", "cut", "depth", "root", "deep", "deep_array",
        "deep_tensor", "scale", "factor", "linked",
    )  # fmt: skip

    def __init__(self, parent: Node | None, label: str, edge: str, cls: type, root: str | None) -> None:
        self.parent = parent
        self.label = label
        self.edge = edge
        self.cls = cls
        self.root = root
        self.named: Named | None = None  # (variable, owner, module, file, line, is_user) where the path itself says it
        self.count = 0.0
        self.opened = 0.0
        self.visits = 0
        self.length: float | None = None
        self.length_limit: int | None = None
        self.own_bytes = 0.0
        self.array_bytes = 0.0
        self.tensor_bytes = 0.0
        self.member: type | None = None
        self.opaque = False
        self.chained = False
        self.linked = False  # chained with nothing in between
        self.cut = False
        self.depth: int = 0 if parent is None else parent.depth + 1
        self.deep = self.deep_array = self.deep_tensor = 0.0
        self.scale = self.factor = 1.0

    def path(self) -> str:
        parts = []
        node: Node | None = self
        while node is not None:
            parts.append(node.label)
            node = node.parent
        return "".join(reversed(parts))


class Walk:
    """One walk: feed it roots in order of preference, then ``finish(census)``.

    ``deadline`` (thread_time seconds) cuts it: ``truncated`` is then True and the figures are lower bounds.
    ``landmarks``: ids of objects whose nodes are wanted afterwards. ``tensors`` (``tensor_openers.Tensors``) reads what
    torch made; None: nothing of a tensor is read, since this is not the training thread.
    """

    def __init__(
        self, deadline: float, tensors: Any = None, expand_limit: int = 500, landmarks: Iterable[int] = ()
    ) -> None:
        self.nodes: list[Node] = []
        self.seen: set[int] = set()
        self.truncated = False
        self.visited = 0
        self.deadline = deadline
        self._expand_limit = expand_limit
        self._index: dict[tuple[Node | None, str, int], Node] = {}
        self._queue: deque[list[Any]] = deque()
        self._openers = {id(cls): opener for cls, opener in openers.OPENERS + class_openers.OPENERS}
        self._classes: list[type] = []  # whose openers are known: a class that is gone gives its id to another
        self._attributes: dict[int, reading.Attributes] = {}
        self._samplings = 0
        self.is_thorough = False  # also with what libraries hold
        self.held: frozenset[int] = frozenset()  # ids of what a list of the taker's refers to meanwhile
        self.running: Collection[int] = (
            frozenset()
        )  # ids of the frames that run: roots of their own, whoever else refers to them
        self.storages: dict[
            int, Node | None
        ] = {}  # address -> node of the tensor that led there first; None from an autograd graph
        self.landmarks = dict.fromkeys(landmarks)  # id of an object that somebody wants to find -> its node
        self.tensor_type: type | None = None
        self._use_count: Any = None
        self.tensors: Any = None  # what was given, where torch is loaded
        self.array_type: Any = None
        self.large: dict[
            Node, Any
        ] = {}  # node -> container of many members: for the probe that looks for copies of data
        self._divided: dict[int, tuple[int, list[Any], int]] = {}
        self.factors: dict[tuple[str, str], float] = {}  # (path, type): of a walk with a census, for one without
        self._counted_by_references = openers.COUNTED_BY_REFERENCES | ATOMS
        self._own_references = self._count_own_references()
        self._find_array_libraries(tensors)

    def _count_own_references(self) -> int:
        """How many references to a member are ours in the middle of ``push``: it differs between Python versions."""
        self._own_references = 0
        node = Node(None, "", ITEM, list, "")
        members = ["%d" % id(node)]
        size = _getsizeof(members[0])
        self.push_members(list, members, 1, node, 1000.0)
        return round(1000.0 * size / node.own_bytes) - 1

    def _find_array_libraries(self, tensors: Any) -> None:
        numpy = sys.modules.get("numpy")
        array = getattr_plain(numpy, "ndarray")
        if type(array) is type and is_made_in_c(array):
            self.array_type = array
            self._counted_by_references |= {id(array)}
        torch = sys.modules.get("torch")
        tensor = getattr_plain(torch, "Tensor")
        binding = getattr_plain(torch, "_C")
        if tensor is not None and binding is not None:
            if tensors is None:
                self._openers[id(tensor)] = openers.open_nothing
                self._openers[id(getattr_plain(getattr_plain(torch, "nn"), "Parameter"))] = openers.open_nothing
                return
            self.tensor_type = tensor
            self._counted_by_references |= {id(tensor)}
            tensors.begin(tensor, binding, self.storages, self.deadline)
            self.tensors, self._use_count = tensors, tensors.use_count

    # ---- roots

    def root(self, kind: str, label: str, edge: str, obj: Any, named: Named | None) -> None:
        """Walk from ``obj`` under ``label``; what an earlier root reached keeps its earlier name."""
        self.push(obj, None, label, edge, 1.0, kind, named)

    def run(self) -> None:
        """Follow all that was pushed, breadth first."""
        queue = self._queue
        openers = self._openers
        landmarks = self.landmarks
        deadline = self.deadline
        limit = self._limit_after(self.visited)
        count = 0
        while queue:
            obj, node, weight = queue.popleft()
            count += 1
            if not count & 255:
                if thread_time() > deadline:
                    self.truncated = True
                    queue.clear()
                    break
                limit = self._limit_after(self.visited + count)
            if node.visits >= limit:
                node.cut = True
                continue
            node.visits += 1
            node.opened += weight
            if id(obj) in landmarks:
                landmarks[id(obj)] = node
            cls = type(obj)
            opener = openers.get(id(cls))
            if opener is None:
                opener = openers[id(cls)] = self._opener_for(cls)
                self._classes.append(cls)
            try:
                opener(self, obj, node, weight)
            except Exception as error:
                if is_foreign(error):
                    raise
                node.opaque = True  # a container that changed under us, a broken object: what is in it stays unseen
        self.visited += count

    def _limit_after(self, visited: int) -> int:
        """How many objects of a place are opened: fewer, the richer the heap turns out to be, so that all is seen."""
        limit = self._expand_limit
        for bound in RICH:
            if visited > bound:
                limit //= 5
        return limit

    def _opener_for(self, cls: type) -> Opener:
        if self.array_type is not None and is_a(cls, self.array_type):
            return openers.open_array
        if self.tensor_type is not None and is_a(cls, self.tensor_type):
            return self.tensors.open_tensor
        if is_a(cls, type):
            return class_openers.open_class
        if is_a(cls, types.ModuleType):
            return openers.open_nothing
        mro = mro_of(cls)
        for base in mro:
            opener = openers.BASES.get(id(base))
            if opener is not None:
                return opener
        name = type_name(cls)
        special = (openers.BY_NAME if is_made_in_c(cls) else openers.BY_NAME_IN_PYTHON).get(name)
        if special is not None:
            return special
        if name.startswith("_leakscope_agent."):
            return openers.open_nothing  # ourselves, reached by our hook on the stack
        if self.tensors is not None and self.tensors.is_graph_node(cls):
            return self.tensors.open_graph_node
        return openers.open_c_instance if any(map(is_written_in_c, mro[:-1])) else openers.open_instance

    # ---- the edge

    def push(
        self,
        obj: Any,
        parent: Node | None,
        label: str,
        edge: str,
        weight: float,
        root: str | None = None,
        named: Named | None = None,
    ) -> None:
        cls = type(obj)
        if id(cls) in IGNORED:
            return
        key = id(obj)
        seen = self.seen
        if key in seen:
            if weight > 1.0 and key in self._divided:
                self._meet_again(key, weight)
            return
        seen.add(key)
        references = 1
        if weight > 1.0 and id(cls) in self._counted_by_references:
            # Held r times, each way by which a sample comes to an object stands for weight / r of its kind.
            references = max(1, _getrefcount(obj) - self._own_references - (key in self.held))
            if references > 1 and cls is self.tensor_type and self._use_count is not None and self._use_count(obj) > 1:
                references -= 1
            weight /= references
        if id(cls) not in ATOMS:
            node = self.node_at(parent, label, edge, cls, root, named)
            node.count += weight
            entry = [obj, node, weight]
            self._queue.append(entry)
            if references > 1:
                self._divided[key] = (references, entry, 0)
            return
        size = _getsizeof(obj)
        if parent is not None and (size < BIG_ATOM_BYTES or edge is ITEM or edge is KEY):
            node = parent
        elif size < BIG_ATOM_BYTES:
            return
        else:
            node = self.node_at(parent, label, edge, cls, root, named)
            node.count += weight
            node.opened += weight
        node.own_bytes += size * weight
        if references > 1:
            self._divided[key] = (references, [None, node, weight], size)

    def _meet_again(self, key: int, weight: float) -> None:
        """Another of the references among which the weight of an object was divided: its share is added."""
        references, entry, size = self._divided[key]
        share = weight / references
        node = entry[1]
        if entry[0] is None:
            node.own_bytes += size * share
            return
        node.count += share
        entry[2] += share  # in time if it still waits in the queue; else its place is scaled by count over opened

    def attributes(self, cls: type) -> reading.Attributes:
        """How those of its objects are read."""
        found = self._attributes.get(id(cls))
        if found is None:
            found = self._attributes[id(cls)] = reading.Attributes(cls)
        return found

    def existing(self, parent: Node, label: str, cls: type) -> Node | None:
        """The place if anything was found there; None."""
        return self._index.get((parent, label, id(cls)))

    def node_at(
        self, parent: Node | None, label: str, edge: str, cls: type, root: str | None, named: Named | None
    ) -> Node:
        key = (parent, label, id(cls))  # the node holds the class
        node = self._index.get(key)
        if node is not None:
            return node
        if parent is not None:
            ancestor: Node | None = parent
            for distance in range(4):
                if ancestor is None:
                    break
                if ancestor.cls is cls and ancestor.label == label and ancestor.parent is not None:
                    ancestor.linked = ancestor.linked or not distance
                    ancestor.chained = True  # node.next.next, node.children[*].children[*]: one line, not one each
                    self._index[key] = ancestor
                    return ancestor
                ancestor = ancestor.parent
            root = parent.root
        node = Node(parent, label, edge, cls, root)
        node.named = named
        self._index[key] = node
        self.nodes.append(node)
        return node

    def push_members(
        self, base: Any, obj: Any, length: int, node: Node, weight: float, edge: str = ITEM, label: str = "[*]"
    ) -> None:
        """Members of a container (``reading.members``): all of a small one, a weighted sample of others."""
        is_nested = weight > 1.0 or (node.root == "library" and not self.is_thorough)
        if length <= (2 * SAMPLE_NESTED if is_nested else VISIT_ALL):
            sample = reading.members(base, obj)
            if sample:
                node.member = type(sample[-1])
                self.push_sample(sample, weight, node, label, edge)
            return
        sample = picked(base, obj, length, SAMPLE_NESTED if is_nested else SAMPLE, self.next_phase())
        if not sample:
            return
        if weight <= 1.0 and length <= LARGEST_SCAN and id(type(sample[0])) in SIZED:
            length -= self._push_largest(base, obj, node, weight, edge, label)
        node.member = type(sample[len(sample) // 2])
        self.push_sample(sample, weight * length / len(sample), node, label, edge)

    def _push_largest(self, base: Any, obj: Any, node: Node, weight: float, edge: str, label: str) -> int:
        """The largest, where all members are containers or texts; returns how many."""
        everything = reading.members(base, obj)
        if not everything or not all(map(SIZED.__contains__, map(id, map(type, everything)))):
            return 0
        sizes = sorted(zip(map(_getsizeof, everything), range(len(everything))), reverse=True)[:LARGEST]
        if sizes[0][0] <= 8 * sizes[-1][0]:
            return 0
        largest = [everything[position] for _size, position in sizes]
        del everything  # it refers to each of them, and what is held twice weighs half
        self.push_sample(largest, weight, node, label, edge)
        return len(sizes)

    def next_phase(self) -> float:
        self._samplings += 1
        return self._samplings * GOLDEN % 1.0

    def push_sample(self, sample: list[Any], weight: float, node: Node, label: str, edge: str) -> None:
        while sample:  # popped, so that a reference count says what the job holds, not what we hold
            member = sample.pop()
            self.push(member, node, label, edge, weight)

    # ---- the end

    def is_cut_short(self) -> bool:
        return self.truncated or (self.tensors is not None and self.tensors.is_cut_short())

    def finish(self, census: ByClass) -> None:
        """Extrapolate and add up. ``census``: how many objects of each class the collector tracks."""
        nodes = self.nodes
        exact, estimated = ByClass(), ByClass()  # objects really visited, and those that sampling stands for
        cut_chains = []
        for node in nodes:
            if node.chained and node.cut:
                cut_chains.append(node)
            elif node.count > node.visits + 0.5:
                estimated.add(node.cls, node.count)
            else:
                exact.add(node.cls, node.count)
        chains = self._weigh_cut_chains(cut_chains, census, exact, estimated)
        for node in nodes:  # parents come before their children
            parent = node.parent
            scale = factor = 1.0
            if parent is not None:
                scale, factor = parent.scale, parent.factor
            node.count *= scale
            known = census.get(node.cls)
            sampled = estimated.get(node.cls, 0.0)
            if known is not None and id(node.cls) not in self._counted_by_references and sampled > 0:
                # Objects shared by many members were met in the sample and multiplied: there are not more than exist.
                factor = min(factor, max(0.0, known - exact.get(node.cls, 0.0)) / sampled)
            elif self.factors:
                factor = min(factor, self.factors.get((node.path(), type_name(node.cls)), 1.0))
            node.factor = factor if node.count > node.visits + 0.5 else 1.0
            if node in chains:
                node.count, node.factor = chains[node], 1.0
                scale = node.count / node.opened
            elif node.opened > 0 and node.count > node.opened * scale:
                scale = node.count / node.opened
            node.scale = scale
            node.count *= node.factor
            scale *= node.factor
            node.own_bytes *= scale
            node.array_bytes *= scale
            node.tensor_bytes *= scale
            if node.length is not None:
                node.length *= scale
            node.deep, node.deep_array, node.deep_tensor = node.own_bytes, node.array_bytes, node.tensor_bytes
        for node in reversed(nodes):
            parent = node.parent
            if parent is not None:
                parent.deep += node.deep
                parent.deep_array += node.deep_array
                parent.deep_tensor += node.deep_tensor

    def reached(self) -> ByClass:
        """How many objects of each class the nodes stand for."""
        counts = ByClass()
        for node in self.nodes:
            counts.add(node.cls, node.count)
        return counts

    def _weigh_cut_chains(
        self, cut_chains: list[Node], census: ByClass, exact: ByClass, estimated: ByClass
    ) -> dict[Node, float]:
        """{node: count} of the chains whose class the census tells apart; they count as ``exact`` from then on.

        The rest of a chain cannot be sampled, but it is known how many there are. That may be less than sampling says:
        where each of many members leads to the next, all are one chain, and sampled members stand for what is in it.
        """
        sampled, rest, chains = ByClass(), ByClass(), {}
        for node in cut_chains:
            sampled.add(node.cls, node.count)
            known = exact.get(node.cls, 0.0) + estimated.get(node.cls, 0.0)
            rest.set(node.cls, census.get(node.cls, 0) - known)
        for node in cut_chains:
            if node.cls in census and id(node.cls) not in self._counted_by_references:
                share = node.count / sampled.get(node.cls)
                chains[node] = max(float(node.visits), rest.get(node.cls) * share)
                exact.add(node.cls, chains[node])
            elif node.linked:  # not a dict in an object in a dict (torch modules): most dicts are elsewhere
                node.count = max(node.count, rest.get(node.cls))
        return chains
