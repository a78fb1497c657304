"""What hangs on a tensor in C++: its autograd graph, which no object counter sees. Runs at a safe point only.

``nodes_of`` asks torch about a few nodes, from which graph/reader/history.c learns where they have what; then it reads
all of them by itself. Where it does not find its way, ``Graphs`` asks torch.

Links are followed by ``next_functions`` (0.7 us a node). What a node saved for backward is read by ``_raw_saved_*``,
which runs no unpack hooks (``_saved_*`` would recompute checkpointed forwards), and only where no other thread can be
inside torch: the engine frees those buffers without the interpreter's lock, and reading them then crashes.

A long graph is sampled by age. Nodes are numbered in the order of their making, so the walk goes straight down to the
oldest, counts upwards from there, and extrapolates to the number of the newest when its share of the budget is used.

Looking leaves a trace. In torch 2.13 a node that Python has seen keeps its Python object for as long as it lives, and
torch frees such nodes one inside the other instead of in a row: 190 bytes of stack each, measured. A chain of 45,000
of them overflows 8 MiB and ends the job by a segmentation fault when it lets go of it. So only a part of the stack's
worth of them may exist at a time, from all snapshots together.
"""

from __future__ import annotations

import _thread
import ctypes
import resource
import types
from _heapq import heappop, heappush
from time import thread_time

from ..interpreter.names import mro_of, namespace_of
from ..interpreter.sampling import spread

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any

FREED_NODE_BYTES = 200  # of the stack
STACK_SHARE = 0.25  # the rest is for what the job itself does there, and for nodes that it looks at
USUAL_STACK_BYTES = 8 * 1024 * 1024
LEAST_STACK_BYTES = 2 * 1024 * 1024  # what glibc gives to threads where the limit is "unlimited"
MOST_ASKED_TENSORS, MOST_ASKED_NODES = 4, 24  # to find out where nodes have what
WRAPPED_AT = 16  # bytes of an object's head; behind that stands what torch wrapped
MAX_READ = 4000  # of one graph, whose saved tensors are read, 10 us each
MIN_NODES = 200  # fewer say nothing of the rest
_NO_NUMBER = 2**64 - 1  # of the nodes that stand for parameters: they are nobody's history


def is_node(cls: type) -> bool:
    """A class of graph nodes: torch makes one for each operation, and one for each function written in Python."""
    return any(type(namespace_of(base).get("next_functions")) is types.GetSetDescriptorType for base in mro_of(cls))


def most_seen() -> int:
    """How many nodes may have a Python object at a time: whichever thread lets go of them, its stack must do."""
    soft, _hard = resource.getrlimit(resource.RLIMIT_STACK)
    main = LEAST_STACK_BYTES if soft == resource.RLIM_INFINITY else soft
    own = _thread.stack_size()  # of threads; to ask is to set it back to the default
    if own:
        _thread.stack_size(own)
    smallest = min(main, own or main, USUAL_STACK_BYTES)
    return int(STACK_SHARE * smallest) // FREED_NODE_BYTES


def nodes_of(
    tensors: Sequence[Any], grad_fn_of: Callable[[Any], Any]
) -> tuple[list[tuple[int, int, int, int]], list[int], list[tuple[int, int]]]:
    """What torch says of a few nodes, for ``HeapGraph.find_histories``."""
    nodes: list[tuple[int, int, int, int]] = []
    following: list[int] = []
    known: list[tuple[int, int]] = []
    waiting: list[Any] = []
    seen: set[int] = set()
    for tensor in tensors[:MOST_ASKED_TENSORS]:
        grad_fn = grad_fn_of(tensor)
        if grad_fn is not None and _is_of_cpp(grad_fn):
            known.append((id(tensor), _behind(grad_fn)))
            waiting.append(grad_fn)
    for node in waiting:
        if _behind(node) in seen or len(nodes) == MOST_ASKED_NODES:
            continue
        others = [other for other, _ in node.next_functions]
        if not all(other is None or _is_of_cpp(other) for other in others):
            continue
        number = getattr(node, "_sequence_nr", None)
        if number is None:
            return [], [], []  # torch before 2.1: what tells nodes apart is not known
        seen.add(_behind(node))
        nodes.append((_behind(node), number(), len(following), len(others)))
        following += [0 if other is None else _behind(other) for other in others]
        waiting += [other for other in others if other is not None]
    return nodes, following, known


def _is_of_cpp(node: Any) -> bool:
    """Not one that was written in Python, which is an object of another kind."""
    return mro_of(type(node))[1:] == (object,)


def _behind(node: Any) -> int:
    return ctypes.c_uint64.from_address(id(node) + WRAPPED_AT).value


class Graphs:
    """The graphs of one snapshot. Nodes are shared between tensors and counted with the first that leads to them.

    ``known``: ids of the nodes that have a Python object already. To see these again changes nothing. ``known_count``:
    how many there are, where these are not all.
    """

    def __init__(
        self,
        reads_saved: bool,
        storages: dict[int, Any],
        storage_id: Callable[[Any], int],
        tensor_type: type,
        deadline: float,
        known: frozenset[int],
        known_count: int = 0,
    ) -> None:
        self.truncated = False
        self._known = known
        self._spare = most_seen() - max(len(known), known_count)
        # Or the first snapshots would leave none to those that come.
        self._for_later = max(0, min(self._spare // 2, self._spare - 2 * MIN_NODES))
        self._reads_saved = reads_saved
        self.owned = list(storages)
        self._storages = storages
        self._storage_id = storage_id
        self._tensor_type = tensor_type
        self._deadline = deadline
        # Address of a storage that only a graph keeps -> (bytes, dtype, device).
        self.saved: dict[int, tuple[int, Any, str]] = {}
        self.parts: set[int] = set()  # of which it keeps less than half: a batch that is a slice of all rows
        self._seen: dict[
            int, Any
        ] = {}  # id -> node: held until all have been followed, since a wrapper's id means nothing once it is gone
        self._saved_names: dict[type, list[str]] = {}
        # Each graph that was begun with has a number. Two that meet are one.
        self._number_of: dict[int, int] = {}  # id of a node -> number
        self._same: list[int] = []  # number -> one of the same graph, at last itself
        self.storages_of: list[dict[int, int]] = []  # number -> {address: bytes} of what was seen to be saved there
        self.cut_short: list[int] = []  # numbers of graphs that were not followed to their end
        self.objects_of: list[list[int]] = []  # number -> ids of its nodes that Python code knew before

    @property
    def spare(self) -> int:
        """How many more nodes may be seen in this snapshot."""
        return self._spare - self._for_later

    def left_s(self) -> float:
        """CPU time."""
        return max(0.0, self._deadline - thread_time())

    def is_spent(self) -> bool:
        """Ask before asking a tensor for its graph: that alone makes a Python object."""
        return self.spare < 2 * MIN_NODES or thread_time() > self._deadline

    def below(self, grad_fn: Any) -> tuple[int, int]:
        """(nodes, bytes of saved tensors) newly reached: one graph gets half of the rest."""
        seen = self._seen
        if id(grad_fn) in seen:
            return 0, 0
        least = self._for_later + self.spare // 2
        self._same.append(len(self._same))
        self.storages_of.append({})
        self.objects_of.append([])
        self._see(grad_fn)
        newest = oldest = self._number(grad_fn)
        heap = [(newest, 0, grad_fn)]
        walked: list[tuple[int, Any]] = []
        parameters = 0
        while heap and self._spare > least and (len(walked) & 255 or thread_time() < self._deadline):
            number, _, node = heappop(heap)
            walked.append((number, node))
            for following, _index in node.next_functions:
                if following is None:
                    continue
                if id(following) in seen:
                    self._meet(following)
                    continue
                number = self._number(following)
                self._see(following, is_shared=number == _NO_NUMBER)
                if number == _NO_NUMBER:
                    parameters += 1
                else:
                    heappush(heap, (number, len(seen), following))
        if not heap:
            return len(walked) + parameters, self._saved_by_all(walked)
        self.cut_short.append(len(self._same) - 1)
        reached, oldest = heap[0][0], min(number for number, _ in walked)
        below = [(number, node) for number, node in walked if number < reached]
        if len(below) < MIN_NODES:
            self.truncated = True  # still on the way down: all that is known is that there is more
            return len(walked) + len(heap) + parameters, self._saved_by_all(walked)
        # Whole is only what is below; of the rest one way was followed, which may keep more or less than most.
        scale = max(1.0, (newest - oldest) / float(reached - oldest))
        return max(len(walked), int(len(below) * scale)) + parameters, int(self._saved_by_all(below) * scale)

    def number(self, grad_fn: Any) -> int | None:
        """Of the graph below it, the same for all that share a part of it; None where it was not looked at."""
        number = self._number_of.get(id(grad_fn))
        return None if number is None else self.one_of(number)

    def one_of(self, number: int) -> int:
        while self._same[number] != number:
            number = self._same[number]
        return number

    def _meet(self, node: Any) -> None:
        number = self._number_of.get(id(node))
        if number is not None:
            self._same[self.one_of(len(self._same) - 1)] = self.one_of(number)

    def _see(self, node: Any, is_shared: bool = False) -> None:
        """``is_shared``: it stands for a parameter, which all graphs of a model have."""
        self._seen[id(node)] = node
        if not is_shared:
            self._number_of[id(node)] = len(self._same) - 1
        if id(node) not in self._known:
            self._spare -= 1
        elif not is_shared:
            self.objects_of[-1].append(id(node))

    def _saved_by_all(self, walked: list[tuple[int, Any]]) -> int:
        """From a sample: reading costs ten times what following a link does.

        Not each second or third: the graph of a training step is the same each time, and of an even number of nodes
        only those might be met that keep nothing.
        """
        if not self._reads_saved:
            return 0
        read = spread(walked, min(MAX_READ, len(walked)))
        total = 0
        for _number, node in read:
            total += self._saved_by(node)
        return total * len(walked) // max(len(read), 1)

    @staticmethod
    def _number(node: Any) -> int:
        """When the node was made; torch before 2.1 does not tell of nodes written in Python."""
        number = getattr(node, "_sequence_nr", None)
        return 0 if number is None else number()

    def _saved_by(self, node: Any) -> int:
        cls = type(node)
        names = self._saved_names.get(cls)
        if names is None:
            names = self._saved_names[cls] = [n for n in dir(cls) if n.startswith("_raw_saved_")]
        total = 0
        for name in names:
            try:
                packed = getattr(node, name)
            except RuntimeError:
                continue  # freed by backward
            for one in packed if type(packed) is tuple or type(packed) is list else (packed,):
                try:
                    tensor = one.data
                except (AttributeError, RuntimeError):
                    continue
                if type(tensor) is self._tensor_type:
                    total += self._storage_bytes(tensor)
        return total

    def _storage_bytes(self, tensor: Any) -> int:
        key = self._storage_id(tensor)
        known = self.saved.get(key)
        if known is not None:
            self.storages_of[-1][key] = known[0]
        if key in self._storages or tensor.device.type == "meta":
            return 0
        self._storages[key] = None
        size: int = tensor.untyped_storage().nbytes()
        self.saved[key] = (size, tensor.dtype, "cpu" if tensor.device.type == "cpu" else str(tensor.device))
        if 2 * tensor.numel() * tensor.element_size() < size:
            self.parts.add(key)
        self.storages_of[-1][key] = size
        return size
