"""What hangs on a tensor in C++: its autograd graph, which no object counter sees. Runs at a safe point only.

Links are followed by ``next_functions`` (0.7 us a node). What a node saved for backward is read by ``_raw_saved_*``,
which runs no unpack hooks (``_saved_*`` would recompute checkpointed forwards), and only where no other thread can be
inside ``backward``: the engine frees those buffers without the interpreter's lock, and reading them then crashes.

A long graph is sampled by age. Nodes are numbered in the order of their making, so the walk goes straight down to the
oldest, counts upwards from there, and extrapolates to the number of the newest when its share of the budget is used.
"""

import types
from heapq import heappop, heappush
from time import thread_time

mro_of = type.__dict__["__mro__"].__get__
namespace_of = type.__dict__["__dict__"].__get__

NODE_BYTES = 520  # a C++ node with its edges, metadata and Python wrapper, measured on a GPT-2 graph
MAX_NODES = 40000  # followed per take, 2 us each: at most half of what is left of them for one tensor
MAX_READ = 4000  # of one graph, whose saved tensors are read, 10 us each
MIN_NODES = 200  # fewer say nothing of the rest
_NO_NUMBER = 2**64 - 1  # of the nodes that stand for parameters: they are nobody's history
TYPE_NAME = "torch autograd graph"


class AutogradGraph(object):
    """Stands for the type of all graph nodes: a graph is one place in the walk, whatever operations it is made of."""


def is_node(cls):
    """A class of graph nodes: torch makes one for each operation, and one for each function written in Python."""
    return any(type(namespace_of(base).get("next_functions")) is types.GetSetDescriptorType for base in mro_of(cls))


class Graphs(object):
    """The graphs of one walk. Nodes are shared between tensors and counted with the first that leads to them."""

    def __init__(self, reads_saved, storages, storage_id, tensor_type, deadline):
        self.truncated = False
        self._reads_saved = reads_saved
        self._storages = storages
        self._storage_id = storage_id
        self._tensor_type = tensor_type
        self._deadline = deadline
        self.saved = {}  # address of a storage that only a graph keeps -> (bytes, dtype)
        self._seen = {}  # id -> node: held until the walk is over, since a wrapper's id means nothing once it is gone
        self._saved_names = {}
        self.roots = {}  # place -> tensors whose graphs were looked into there

    def below(self, grad_fn):
        """(nodes, bytes of saved tensors on the host) newly reached from ``grad_fn``; None: out of budget."""
        seen = self._seen
        if id(grad_fn) in seen:
            return 0, 0
        allowed = (MAX_NODES - len(seen)) // 2
        if allowed < MIN_NODES or thread_time() > self._deadline:
            return None
        seen[id(grad_fn)] = grad_fn
        newest = oldest = self._number(grad_fn)
        heap = [(newest, 0, grad_fn)]
        walked = []
        parameters = 0
        while heap and len(walked) < allowed and (len(walked) & 255 or thread_time() < self._deadline):
            number, _, node = heappop(heap)
            walked.append((number, node))
            for following, _index in node.next_functions:
                if following is not None and id(following) not in seen:
                    seen[id(following)] = following
                    number = self._number(following)
                    if number == _NO_NUMBER:
                        parameters += 1
                    else:
                        heappush(heap, (number, len(seen), following))
        saved = self._saved_by_all(walked) if self._reads_saved else 0
        if not heap:
            return len(walked) + parameters, saved
        reached, oldest = heap[0][0], min(number for number, _ in walked)
        below = sum(1 for number, _ in walked if number < reached)
        if below < MIN_NODES:
            self.truncated = True  # still on the way down: all that is known is that there is more
            return len(walked) + parameters, saved
        scale = max(1.0, below * (newest - oldest) / float(reached - oldest) / len(walked))
        return int(len(walked) * scale) + parameters, int(saved * scale)

    def _saved_by_all(self, walked):
        """From a sample: reading costs ten times what following a link does."""
        step = max(1, len(walked) // MAX_READ)
        read = walked[::step]
        total = 0
        for _number, node in read:
            total += self._saved_by(node)
        return total * len(walked) // max(len(read), 1)

    @staticmethod
    def _number(node):
        """When the node was made; torch before 2.1 does not tell of nodes written in Python."""
        number = getattr(node, "_sequence_nr", None)
        return 0 if number is None else number()

    def _saved_by(self, node):
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
            for one in packed if type(packed) in (tuple, list) else (packed,):
                try:
                    tensor = one.data
                except (AttributeError, RuntimeError):
                    continue
                if type(tensor) is self._tensor_type:
                    total += self._storage_bytes(tensor)
        return total

    def _storage_bytes(self, tensor):
        key = self._storage_id(tensor)
        if key in self._storages or tensor.device.type != "cpu":
            return 0
        self._storages[key] = None
        size = tensor.untyped_storage().nbytes()
        self.saved[key] = (size, tensor.dtype)
        return size
