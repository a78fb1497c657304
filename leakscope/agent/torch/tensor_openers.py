"""How to open a tensor and what hangs on it in C++: storage, gradient, hooks, autograd graph. Runs in the job.

On the training thread only. Nothing of the user's runs: torch functions are switched off, and attributes are read by
the descriptors of torch's own base class, since a subclass may have put properties over them.
"""

from __future__ import annotations

import sys
from _collections import OrderedDict

from ..interpreter import reading
from ..interpreter.names import HEAPTYPE, basicsize_of, flags_of, getattr_plain, mro_of, namespace_of, type_name
from ..walking.openers import ATTRIBUTE, GC_HEADER_BYTES, REFERENCE, open_attributes, push_attributes
from . import autograd

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from ..walking.walk import Node, Walk

_HOOKS = ("_backward_hooks", "_post_accumulate_grad_hooks")  # the second since torch 2.1


class Tensors:
    """Reads tensors and graphs for one walk, which is given it. ``reads_saved``: also what graphs saved for backward.

    ``graph_nodes``: ids of the autograd graph nodes that Python knows.
    """

    def __init__(self, reads_saved: bool = False, graph_nodes: frozenset[int] = frozenset()) -> None:
        self._reads_saved = reads_saved
        self._graph_nodes = graph_nodes
        self.type: Any = None
        self.storage_id: Any = None
        self.use_count: Any = None
        self.graphs: autograd.Graphs | None = None
        self.hooks: list[tuple[str, Any]] = []
        self.open_tensor = open_tensor
        self.open_graph_node = open_graph_node

    def begin(self, tensor: Any, binding: Any, storages: dict[int, Any], deadline: float) -> None:
        """``tensor``: torch's class; ``binding``: its compiled module."""
        self.type = tensor
        self.hooks = hooks_of(tensor)
        self.storage_id = getattr_plain(binding, "_storage_id")
        self.use_count = _use_count(binding)
        if self.storage_id is not None:
            self.graphs = autograd.Graphs(
                self._reads_saved, storages, self.storage_id, tensor, deadline, self._graph_nodes
            )

    def is_graph_node(self, cls: type) -> bool:
        return self.graphs is not None and autograd.is_node(cls)

    def saved(self) -> dict[int, tuple[int, Any]]:
        """{address: (bytes, dtype)} of storages that only graphs keep."""
        return {} if self.graphs is None else self.graphs.saved

    def is_cut_short(self) -> bool:
        return self.graphs is not None and self.graphs.truncated


def open_tensor(walk: Walk, obj: Any, node: Node, weight: float) -> None:
    """Storage once, whatever views there are; never data_ptr (materialises copies), never .grad of a non-leaf."""
    torch, tensors = sys.modules["torch"], walk.tensors
    node.own_bytes += 400 * weight  # Python wrapper, TensorImpl and StorageImpl
    guard = getattr_plain(torch._C, "DisableTorchFunction")
    if guard is None or tensors.storage_id is None or type_name(type(obj)).endswith(("FakeTensor", "FunctionalTensor")):
        node.opaque = True
        return
    with guard():
        tensor = tensors.type  # its own descriptors: a subclass may have put properties over them
        device = tensor.device.__get__(obj).type
        if tensor.layout.__get__(obj) is not torch.strided or device == "meta":
            node.opaque = True
            return
        if device == "cpu":
            size = _storage_bytes(walk, tensor, obj, node, weight)
            node.own_bytes += size
            node.tensor_bytes += size
        has_history = tensor.requires_grad.__get__(obj)
        if has_history:
            _push_hooks(walk, obj, node, weight)
        if has_history and tensor.is_leaf.__get__(obj):
            gradient = tensor.grad.__get__(obj)
            if gradient is not None:
                walk.push(gradient, node, ".grad", ATTRIBUTE, weight)
        elif has_history and tensors.graphs is not None:
            open_graph(walk, tensor.grad_fn.__get__, obj, node, weight)
        if type(obj) is not tensor and flags_of(type(obj)) & HEAPTYPE:
            attributes = walk.attributes(type(obj)).dict_of(obj)
            if attributes:
                push_attributes(walk, reading.pairs(attributes), node, weight)


def hooks_of(tensor: Any) -> list[tuple[str, Any]]:
    """[(name, descriptor), …]: where a tensor keeps the hooks registered on it, in C and not in its ``__dict__``."""
    bases = mro_of(tensor)
    return [(name, namespace_of(base)[name]) for base in bases for name in _HOOKS if name in namespace_of(base)]


def _push_hooks(walk: Walk, obj: Any, node: Node, weight: float) -> None:
    for name, descriptor in walk.tensors.hooks:
        hooks = descriptor.__get__(obj)
        if type(hooks) is OrderedDict and OrderedDict.__len__(hooks):
            walk.push(hooks, node, "." + name, ATTRIBUTE, weight)


def _storage_bytes(walk: Walk, tensor: Any, obj: Any, node: Node, weight: float) -> float:
    """What this tensor adds: its storage once, or its share of one that several tensors of a sample lead to."""
    storage = walk.tensors.storage_id(obj)
    if storage in walk.storages:
        return 0
    size = tensor.untyped_storage(obj).nbytes()
    if weight > 1.0:
        users = getattr_plain(sys.modules["torch"]._C, "_storage_Use_Count")
        if users is not None:
            # Less the Python wrapper that we have just made, and less the tensor that a view keeps in C++.
            count = users(storage) - 1 - bool(tensor._is_view(obj))
            if count > 1:
                return size * weight / count  # and the others' shares when the walk comes to them
    walk.storages[storage] = node
    return size * weight


def open_graph(walk: Walk, grad_fn_of: Callable[[Any], Any], obj: Any, node: Node, weight: float) -> None:
    """The autograd graph of a tensor as one place below it: it is in C++, where no object counter looks."""
    graphs = walk.tensors.graphs
    graph: Any = walk.existing(node, ".grad_fn", autograd.AutogradGraph)
    roots, looks = graphs.roots.get(graph, (0, 0))
    if graphs.is_spent() or looks >= autograd.MAX_ROOTS:
        if roots:  # one more like those before it: places are scaled by count over opened
            graph.count += graph.opened / roots * weight
        else:
            graphs.truncated = True
        return
    grad_fn = grad_fn_of(obj)
    nodes, saved_bytes = (0, 0) if grad_fn is None else graphs.below(grad_fn)
    if not nodes:
        return
    graph = walk.node_at(node, ".grad_fn", REFERENCE, autograd.AutogradGraph, None, None)
    graphs.roots[graph] = roots + weight, looks + 1
    graph.count += nodes * weight
    graph.opened += nodes * weight
    graph.visits += nodes
    graph.own_bytes += (nodes * autograd.NODE_BYTES + saved_bytes) * weight
    graph.tensor_bytes += saved_bytes * weight


def open_graph_node(walk: Walk, obj: Any, node: Node, weight: float) -> None:
    """A node that Python holds itself: a stored ``loss.grad_fn``, the ``ctx`` of a custom function put by."""
    node.own_bytes += (basicsize_of(type(obj)) + GC_HEADER_BYTES) * weight
    open_attributes(walk, obj, node, weight)
    if walk.tensors.graphs is not None:
        open_graph(walk, _itself, obj, node, weight)


def _itself(obj: Any) -> Any:
    return obj


def _use_count(binding: Any) -> Any:
    """Where torch holds a reference to the Python object of each tensor that C++ uses too (since 2.10): how to ask."""
    version = getattr_plain(sys.modules.get("torch.version"), "__version__")
    try:
        if tuple(map(int, str.split(version, ".")[:2])) < (2, 10):
            return None
        return namespace_of(getattr_plain(binding, "TensorBase"))["_use_count"]
    except (TypeError, ValueError, KeyError):
        return None
