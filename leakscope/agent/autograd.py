"""What hangs on a tensor in C++: its autograd graph, which no object counter sees. Runs at a safe point only.

Links are followed by ``next_functions`` (0.7 us a node). What a node saved for backward is read by ``_raw_saved_*``,
which runs no unpack hooks (``_saved_*`` would recompute checkpointed forwards), and only where no other thread can be
inside ``backward``: the engine frees those buffers without the interpreter's lock, and reading them then crashes.
"""

from time import perf_counter

NODE_BYTES = 520  # a C++ node with its edges, metadata and Python wrapper, measured on a GPT-2 graph
MAX_NODES = 12000  # per take; a longer graph is a lower bound
TYPE_NAME = "torch autograd graph"


class AutogradGraph(object):
    """Stands for the type of all graph nodes: a graph is one place in the walk, whatever operations it is made of."""


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

    def below(self, grad_fn):
        """(nodes, bytes of saved tensors on the host) of what is newly reached from ``grad_fn``."""
        seen = self._seen
        if id(grad_fn) in seen:
            return 0, 0
        seen[id(grad_fn)] = grad_fn
        stack = [grad_fn]
        nodes = saved = 0
        while stack:
            if len(seen) >= MAX_NODES or (not nodes & 255 and perf_counter() > self._deadline):
                self.truncated = True
                break
            node = stack.pop()
            nodes += 1
            if self._reads_saved:
                saved += self._saved_by(node)
            for following, _index in node.next_functions:
                if following is not None and id(following) not in seen:
                    seen[id(following)] = following
                    stack.append(following)
        return nodes, saved

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
