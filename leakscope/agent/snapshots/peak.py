"""What a training step holds at its peak: the tensors as the backward pass begins, once. Runs in the job.

At the end of a step the activations are gone. ``torch.autograd.backward`` is looked up at each ``Tensor.backward``: it
is replaced for one call between the second and the fourth step, when optimizer state exists and memory has settled.
"""

from __future__ import annotations

import sys
from time import thread_time

from ..interpreter import census, collector, doors, names, quiet
from ..torch import autograd, tensors
from ..torch.remembered import Remembered
from ..torch.rows import budget

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from typing import Any

    from ..torch.tensors import Inventory

FIRST_STEP, LAST_STEP = 2, 4
PAUSE_S = 0.1


class Peak:
    """``look`` is called once, inside a call of backward, on the thread that makes it."""

    def __init__(self, look: Callable[[], None]) -> None:
        self._look = look
        self._original = None
        self._is_done = False

    def stepped(self, step: int | None) -> None:
        if self._is_done or step is None or step < FIRST_STEP:
            return
        module: Any = sys.modules.get("torch.autograd")
        if self._original is None and module is not None and step < LAST_STEP:
            self._original = names.getattr_plain(module, "backward")
            if doors.is_unwatched():
                self._replacement = self._make(self._original)
                module.backward = self._replacement
            else:
                self._is_done = True
        elif step >= LAST_STEP:
            self._restore()

    def _make(self, original: Any) -> Any:
        def backward(*args: Any, **kwargs: Any) -> Any:
            if not self._is_done:
                hidden = quiet.hide()
                try:
                    self._restore()
                    self._look()
                finally:
                    quiet.show(hidden)
            return original(*args, **kwargs)

        quiet.keep_out(backward)
        return backward

    def _restore(self) -> None:
        self._is_done = True
        module: Any = sys.modules.get("torch.autograd")
        if self._original is not None and names.getattr_plain(module, "backward") is self._replacement:
            module.backward = self._original
        self._original = self._replacement = None


def rows(batch_storages: Iterable[int] = ()) -> list[dict[str, Any]]:
    """Rows of table ``tensors`` as of now, without the graph: who holds a user's tensor is the snapshots' business."""
    kinds = {name: tensors.types_of(name) for name in ("Tensor", "Module", "Optimizer")}
    with collector.HeldBack():
        wanted = frozenset().union(*kinds.values())
        _counts, picked = census.sweep(wanted, autograd.is_node)
        graph_nodes = frozenset(id(obj) for obj in picked if id(type(obj)) not in wanted)
        alike = {name: [obj for obj in picked if id(type(obj)) in kind] for name, kind in kinds.items()}
        del picked
        inventory = tensors.look(
            kinds["Tensor"],
            alike["Tensor"],
            tensors.Bounds(),
            alike["Module"],
            alike["Optimizer"],
            batch_storages,
            Remembered(),
            with_values=False,
        )
        if inventory is None:
            return []
        inventory.let_go()
        graphs = _graphs(alike["Tensor"], inventory, graph_nodes)
        tensors.settle_graphs(inventory, graphs.saved, parts=graphs.parts)
        return list(budget(inventory, "backward"))


def _graphs(live: Iterable[Any], inventory: Inventory, graph_nodes: frozenset[int]) -> autograd.Graphs:
    """Those of the live tensors, with what they saved for backward."""
    torch = sys.modules["torch"]
    base = torch.Tensor
    known = dict.fromkeys(a for a, s in inventory.storages.items() if s.owner is not None)
    graphs = autograd.Graphs(True, known, torch._C._storage_id, base, thread_time() + PAUSE_S, graph_nodes)
    with torch._C.DisableTorchFunction():
        for tensor in live:
            if graphs.is_spent():
                break
            try:
                if base.requires_grad.__get__(tensor) and not base.is_leaf.__get__(tensor):
                    graphs.below(base.grad_fn.__get__(tensor))
            except Exception as error:
                if names.is_foreign(error):
                    raise
    return graphs
