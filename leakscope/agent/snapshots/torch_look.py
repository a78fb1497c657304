"""What only torch can say of its objects, beside the graph of the heap. Runs in the job, at a safe point.

The collector is not told that a parameter has a gradient, nor that a tensor keeps all that was calculated for it. Torch
says so, on its own thread, and the graph gets it as ties. Numbers are all that remains: addresses of storages, models
and optimizers, of which the graph then says who holds them.
"""

from __future__ import annotations

import os
import sys
from time import thread_time

from ..graph import sketch
from ..graph.heap_graph import anonymous_ranges
from ..graph.structures import AUTOGRAD, DEVICE, OBJECT, STORAGE
from ..interpreter import census, doors, names
from ..interpreter.sampling import spread
from ..torch import autograd, figures, frameworks, gradients, loaders, tensors
from ..torch import rows as torch_rows
from . import pause

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
    from typing import Any, Dict, Tuple

    from ..graph.heap_graph import Call, HeapGraph
    from ..torch.remembered import Remembered, TensorPlaces
    from ..torch.tensors import Storage
    from .pause import Pauses

    Row = Tuple[str, Dict[str, Any]]
    Tie = Tuple[int, int, int, int, int]

TYPES = ("Tensor", "Module", "Optimizer", "Iterator")
TENSOR = "torch.Tensor"
MOST_NOTES = 4  # of frameworks
MOST_LARGE = 16  # storages of which the name, and what is in them, is looked up
MOST_PLACES, LEAST_PLACE_BYTES = 12, 256 * 1024  # of users' tensors
MEANINGFUL = 1000  # tensors: what a look at fewer cost tells nothing of one at many
MOST_LOOKS = 1000  # at graphs of tensors of one shape
_MANY = 1 << 24  # graphs that were looked at have smaller numbers
_REST = 8 * _MANY - 7  # stands for the address of what is behind all that were not followed to the end
_ITS_STORAGE = 2  # to a graph's token: stands for the address of what is saved there and was not read
_UNOWNED = (None, tensors.USER)


def is_loaded() -> bool:
    return "torch" in sys.modules


# Where threads of Python wait: files of the standard library, and of some the function that waits there, since in
# others of it what the thread is for is called, which may be torch itself.
WAITING = {
    "threading.py": ("wait", "acquire", "_wait_for_tstate_lock"), "thread.py": ("_worker",), "queue.py": (),
    "queues.py": (), "selectors.py": (), "socket.py": (), "subprocess.py": (), "connection.py": (),
    "synchronize.py": (),
}  # fmt: skip
# Threads of torch's own that know nothing of autograd: one copies batches, one reads what compile workers say.
_PINS = os.path.join("torch", "utils", "data", "_utils", "pin_memory.py")
_COMPILES = os.sep + os.path.join("torch", "_inductor", "compile_worker") + os.sep


def others_wait(running: Mapping[int, Sequence[Call]]) -> bool:
    """Whether no other thread can be inside torch, which lets go of the GIL there: its nodes hold still then.

    ``running``: what threads other than this one run, innermost first; there may be more than there was room for.
    """
    return len(running) + 1 >= len(_threads()) and all(_waits(calls[0]) for calls in running.values())


def _waits(call: Call) -> bool:
    file, function = call[0], call[3].rpartition(".")[2]  # since 3.11 with the class before it
    if file.startswith((names.AGENT, names.BOOT)) or file.endswith(_PINS) or _COMPILES in file:
        return True
    functions = WAITING.get(os.path.basename(file))
    is_standard = file.startswith((names.STDLIB, names.STDLIB_PLAIN)) and "site-packages" not in file
    return is_standard and functions is not None and (not functions or function in functions)


def no_other_threads(main_thread: int, agent_thread: int | None) -> bool:
    """Of Python's."""
    return not [ident for ident in _threads() if ident not in (main_thread, agent_thread)]


def _threads() -> list[int]:
    """Asked in one call: of their frames, and what these hold, nothing is ours while they go on."""
    return next(map(list, iter(doors.current_frames, None)))


class Look:
    """One look. ``ties``, ``marks`` and ``row_count`` are for ``HeapGraph.add``; afterwards it makes rows.

    ``follow_s``: CPU time for which autograd graphs are followed at most. ``most_tensors``: so many are asked at most,
    whatever the pause allows. ``learns_only``: it is to ask a few tensors where they have their memory (``learn``), and
    no more.
    """

    def __init__(
        self,
        memory: Remembered,
        batch_storages: Iterable[int],
        pauses: Pauses,
        follow_s: float,
        *,
        most_tensors: float = float("inf"),
        learns_only: bool = False,
    ) -> None:
        self.learns_only = learns_only
        self._most_tensors = most_tensors
        self._memory = memory
        self._pauses = pauses
        self._follow_s = follow_s
        self._batch_storages = batch_storages
        self._kinds = {name: tensors.types_of(name) for name in TYPES}
        self._states = frameworks.types()
        self._own = frozenset(self._states).union(*self._kinds.values())
        self._is_node = autograd.is_node if self._kinds["Tensor"] else None
        self._inventory: tensors.Inventory | None = None
        self._known_storages: Collection[int] = ()
        self._unseen = 0  # graphs that were not looked at
        self._holds_still = self._reads_gradients = False
        self._saved: dict[int, tuple[int, Any, str]] = {}  # dtype None: not known
        self._roots: list[int] = []
        self._nodes: dict[int, int | None] = {}  # of each of these, in the graph
        self._storages: list[int] = []
        self._wholes: list[tuple[int, int]] = []  # (a tensor, its storage) of large ones that nobody claims
        self._sketches: dict[int, dict[str, Any]] = {}  # of such storages: columns of data_forms
        self._rows: list[Row] = []
        self.ties: list[Tie] = []
        self.integers: dict[int, tuple[int, int]] = {}  # of sketch.rows_of_copy
        self.is_cut_short = False
        self.left_out = 0  # tensors that were not looked at

    @property
    def wanted(self) -> set[int]:
        """Addresses of the types whose objects ``read`` is to be given."""
        return census.chosen_by(self._is_node, self._own)

    @property
    def marks(self) -> list[int]:
        return [*self._roots, *(tensor for tensor, _ in self._wholes), *self._storages]

    @property
    def row_count(self) -> int:
        return len(self._roots) + len(self._wholes)

    @property
    def weighs_tensors(self) -> bool:
        """Whether each storage of a tensor has a tie that says its bytes."""
        return self._inventory is not None and not self._inventory.is_sampled

    def read(self, swept: Any, graph: HeapGraph | None, *, holds_still: bool, is_after_step: bool) -> None:
        """``swept``: what ``graph.read`` has just returned, or a census, where there is no graph.

        ``holds_still``: no other thread can be inside torch (``others_wait``).
        """
        try:
            self._holds_still = holds_still
            self._read(swept, graph, is_after_step)
        except Exception as error:
            if names.is_foreign(error):
                raise
            self._inventory, self.ties, self._roots, self._storages, self._wholes = None, [], [], [], []
            text = f"torch: {type(error).__name__}: {error!s}"
            self._rows = [("agent_notes", {"note": "failed", "text": text})]

    def _read(self, swept: Any, graph: HeapGraph | None, is_after_step: bool) -> None:
        ends_s = self._pauses.following_ends(self._follow_s)
        picked, node_count = census.picked_of(swept, self._is_node)
        by_type: dict[int, list[Any]] = {}
        for obj in picked:
            by_type.setdefault(id(type(obj)), []).append(obj)
        del picked
        states = _of_types(by_type, self._states)
        self._rows += [("marks", {"text": text}) for text in frameworks.look(states, self._states)[:MOST_NOTES]]
        if not self._kinds["Tensor"]:
            return
        alike = {name: _of_types(by_type, kinds) for name, kinds in self._kinds.items()}
        nodes = frozenset(id(obj) for kind, objects in by_type.items() if kind not in self._own for obj in objects)
        del by_type, states
        if len(alike["Module"]) > tensors.MOST_MODULES:
            alike["Module"] = []
        # Of the optimizer that has just stepped nobody else computes gradients.
        self._reads_gradients = self._holds_still or (is_after_step and len(alike["Optimizer"]) == 1)
        most, asking_ends_s = self._pauses.bounds_of_tensors(self._memory.tensor_s or tensors.TENSOR_S)
        bounds = tensors.Bounds(min(most, self._most_tensors), asking_ends_s)
        inventory = tensors.look(
            self._kinds["Tensor"], alike["Tensor"], bounds, alike["Module"], alike["Optimizer"],
            self._batch_storages, self._memory, with_values=True, with_gradients=self._reads_gradients,
        )  # fmt: skip
        self._rows += [("loaders", row) for row in loaders.look(alike["Iterator"])]
        if inventory is None:
            return
        looked_at = len(inventory.tensors)
        try:
            if is_after_step and self._reads_gradients:
                self._rows += [("gradients", row) for row in gradients.look(inventory.parameters)]
            owned = dict.fromkeys(a for a, s in inventory.storages.items() if s.owner is not None)
            binding, base = inventory.torch
            graphs = autograd.Graphs(self._holds_still, owned, binding._storage_id, base, ends_s, nodes, node_count)
            with binding.DisableTorchFunction():
                self._look_at_large(inventory)
            if graph is not None:
                with binding.DisableTorchFunction():
                    self._tie(inventory, inventory.tensors, graph, graphs)
        finally:
            inventory.let_go()
        if looked_at >= MEANINGFUL:
            self._memory.tensor_s = pause.SAFETY * inventory.asked_s / looked_at
        self.left_out = len(alike["Tensor"]) - looked_at
        self.is_cut_short = graphs.truncated or self.left_out > 0 or inventory.is_cut_short
        self._inventory = inventory
        self._roots = list(inventory.roots)
        self._storages = [
            address for address, storage in inventory.storages.items()
            if address > 0 and (storage.owner in _UNOWNED or storage.print is not None)
        ]  # fmt: skip

    def learn(self, swept: Any) -> TensorPlaces | None:
        """Where a tensor's memory is (``HeapGraph.weigh_tensors``), as tensors tell that a part of the graph has; None:
        they do not, or it was known before. ``swept``: as for ``read``.
        """
        if tensors.known_layout(self._memory) is not None:
            return None
        try:
            found = [obj for obj in swept[1] if id(type(obj)) in self._kinds["Tensor"]]
            is_known = tensors.learn_layout(self._kinds["Tensor"], found, self._memory)
        except Exception as error:
            if names.is_foreign(error):
                raise
            return None
        return tensors.known_layout(self._memory) if is_known else None

    def follow_part(self, swept: Any, graph: HeapGraph) -> None:
        """What autograd keeps for the tensors that a part of the graph has, read where it lies: of these torch is
        asked no more than where that is. ``swept``: as for ``read``. While no other thread can be inside torch.
        """
        known = [obj for obj in swept[1] if id(type(obj)) in self._kinds["Tensor"]]
        memory = self._memory
        if not known or not graph.weighs_tensors:
            return
        try:
            if memory.history_places is None and memory.history_tries:
                memory.history_places = self._find_histories(known, graph)
            if memory.history_places is None:
                return
            tokens = [(id(tensor), _token(number)) for number, tensor in enumerate(known)]
            left_s = max(0.0, self._pauses.following_ends(self._follow_s) - thread_time())
            found = graph.histories(memory.history_places, tokens, (), left_s)
            if found is None:
                memory.history_places = None
            else:
                graph.add([(token, token + _ITS_STORAGE, size, STORAGE, 0) for token, size in found.rest.items()])
        except Exception as error:
            if names.is_foreign(error):
                raise

    def _find_histories(self, known: Sequence[Any], graph: HeapGraph) -> tuple[int, ...] | None:
        binding, base = tensors.Inventory(self._kinds["Tensor"]).torch
        asked: list[Any] = []
        with binding.DisableTorchFunction():
            for tensor in spread(known, min(len(known), MOST_LOOKS)):
                if base.requires_grad.__get__(tensor) and not base.is_leaf.__get__(tensor):
                    asked.append(tensor)
                if len(asked) == autograd.MOST_ASKED_TENSORS:
                    break
            if not asked:
                return None
            self._memory.history_tries -= 1
            return graph.find_histories(*autograd.nodes_of(asked, base.grad_fn.__get__))

    def _look_at_large(self, inventory: tensors.Inventory) -> None:
        """Which tensor is the name of a large storage that may be a user's, and a sketch of what is in it."""
        large = {
            storage.whole: address
            for address, storage in inventory.storages.items()
            if address > 0 and storage.owner is None and storage.whole and storage.size >= sketch.LEAST_BYTES
        }
        largest = sorted(large.items(), key=lambda one: -inventory.storages[one[1]].size)[:MOST_LARGE]
        if not largest:
            return
        # Pages of a mapped file would be read in, or be gone where the file has become shorter.
        ranges = anonymous_ranges()
        self._wholes = [(tensor, address) for tensor, address in largest if tensor is not None]
        wanted = dict(self._wholes)
        for tensor in inventory.tensors:
            address = wanted.get(id(tensor))
            if address is None:
                continue
            storage = inventory.storages[address]
            columns, repeated = figures.columns_of(tensor, storage, ranges, sketch.LINES, sketch.ACROSS)
            if columns:
                form = dict(sketch.form_of_figures(columns), repeated_share=repeated)
                self._sketches[address] = dict(form, row_count=max(inventory.torch[1].size(tensor)[:2]))

    # ---- what the collector is not told

    def _tie(
        self, inventory: tensors.Inventory, live: Sequence[Any], graph: HeapGraph, graphs: autograd.Graphs
    ) -> None:
        base = inventory.torch[1]
        self._known_storages = frozenset(inventory.storages)  # what has a tensor that Python knows is told there
        with_history: list[Any] = []
        began_s = thread_time()
        for tensor in live:
            try:
                self._note_integers(inventory, tensor)
                if not graph.weighs_tensors:
                    self._tie_storage(inventory, tensor)
                if base.requires_grad.__get__(tensor):
                    if base.is_leaf.__get__(tensor):
                        self._tie_gradient(inventory, tensor)
                    else:
                        with_history.append(tensor)
            except Exception as error:
                if names.is_foreign(error):
                    raise
        inventory.asked_s += thread_time() - began_s
        referred = graph.referred([id(tensor) for tensor in with_history])
        by_shape: dict[Any, list[Any]] = {}
        for tensor, is_referred in zip(with_history, referred):
            if is_referred:
                shape = (*base.size(tensor), inventory.dtype_name(tensor))
                by_shape.setdefault(shape, []).append(tensor)
        if not self._tie_all(inventory, graph, graphs, by_shape):
            self._tie_some(
                base, graphs, by_shape, [id(t) for t, is_known in zip(with_history, referred) if not is_known]
            )

    def _tie_all(
        self, inventory: tensors.Inventory, graph: HeapGraph, graphs: autograd.Graphs, by_shape: dict[object, list[Any]]
    ) -> bool:
        """Graphs as they lie in memory, without asking torch; False where nobody knows how, or they may change."""
        base, memory = inventory.torch[1], self._memory
        known = [tensor for alike in by_shape.values() for tensor in alike]
        if not known:
            return True
        if not self._holds_still:
            return False
        if memory.history_places is None and memory.history_tries and graph.weighs_tensors and not graphs.is_spent():
            memory.history_tries -= 1
            memory.history_places = graph.find_histories(*autograd.nodes_of(known, base.grad_fn.__get__))
        if memory.history_places is None:
            return False
        tokens = {id(tensor): _token(number) for number, tensor in enumerate(known)}
        found = graph.histories(memory.history_places, [*tokens.items()], graphs.owned, graphs.left_s())
        if found is None:
            memory.history_places = None
            return False
        on_device = sum(size for _, size, device in found.saved if _device(device) != "cpu")
        is_on = DEVICE if on_device > sum(size for _, size, _ in found.saved) // 2 else STORAGE
        for shape, alike in by_shape.items():
            seen = [found.of[id(tensor)] for tensor in alike if id(tensor) in found.of]
            if seen:
                memory.graphs.note(shape, len(seen), sum(n for n, _ in seen), sum(size for _, size in seen), is_on)
        for shape, alike in by_shape.items():
            self._tie_as_usual(shape, [tensor for tensor in alike if id(tensor) not in found.of])
        self.ties += [(token, token + _ITS_STORAGE, size, is_on, 0) for token, size in found.rest.items()]
        self._saved = {address: (size, None, _device(device)) for address, size, device in found.saved}
        graphs.truncated = found.is_cut_short
        return True

    def _tie_some(
        self, base: Any, graphs: autograd.Graphs, by_shape: dict[object, list[Any]], others: Sequence[int]
    ) -> None:
        """Graphs as torch tells of them, of so many as may be asked for."""
        rest = []
        for number, (shape, alike) in enumerate(by_shape.items()):
            looked_at = self._tie_graphs(base, graphs, shape, alike, graphs.spare // (len(by_shape) - number))
            rest.append((shape, [tensor for tensor in alike if id(tensor) not in looked_at]))
        for shape, unseen in rest:
            self._tie_as_usual(shape, unseen)
        # What Python code does not refer to is kept by the rest of a graph that was not followed to its end.
        cut_short = {graphs.one_of(number) for number in graphs.cut_short}
        self.ties += [(_token(number), _REST, 0, AUTOGRAD, 0) for number in cut_short]
        self.ties += [(_REST, tensor, 0, OBJECT, 0) for tensor in others if cut_short]
        for number in range(len(graphs.storages_of)):
            token = _token(graphs.one_of(number))
            self.ties += [(token, at, size, _where(graphs, at), 0) for at, size in graphs.storages_of[number].items()]
            self.ties += [(token, known, 0, OBJECT, 0) for known in graphs.objects_of[number]]
        self._saved = graphs.saved

    def _note_integers(self, inventory: tensors.Inventory, tensor: Any) -> None:
        base = inventory.torch[1]
        if type(tensor) is base and inventory.dtype_name(tensor) in sketch.INTEGER_TYPES:
            size = base.size(tensor)
            self.integers[id(tensor)] = len(size), size[-1] if size else 0

    def _tie_storage(self, inventory: tensors.Inventory, tensor: Any) -> None:
        address = inventory.address(tensor)
        storage = inventory.storages.get(address)
        if storage is not None and address > 0:
            kind = STORAGE if storage.device == "cpu" else DEVICE
            self.ties.append((id(tensor), address, storage.size, kind, 0))

    def _tie_gradient(self, inventory: tensors.Inventory, tensor: Any) -> None:
        """Of a leaf: safe to ask for. That makes the Python object of the gradient, 100 bytes, which then stays."""
        base = inventory.torch[1]
        gradient = base.grad.__get__(tensor) if self._reads_gradients else None
        if gradient is None:
            return
        self.ties.append((id(tensor), id(gradient), 0, OBJECT, 0))
        address = inventory.address(gradient)
        if address > 0:
            size = base.numel(gradient) * base.element_size(gradient)
            kind = STORAGE if base.is_cpu.__get__(gradient) else DEVICE
            self.ties.append((id(tensor), address, size, kind, 0))

    def _tie_graphs(
        self, base: Any, graphs: autograd.Graphs, shape: object, alike: Sequence[Any], most_nodes: int
    ) -> set[int]:
        """The graphs of tensors of one shape, ``most_nodes`` of them at most. Returns ids of the tensors looked at."""
        looked_at: set[int] = set()
        operations = saved_bytes = 0
        is_on = STORAGE
        least_spare = graphs.spare - most_nodes
        for tensor in spread(alike, min(len(alike), MOST_LOOKS)):
            if graphs.is_spent() or (looked_at and graphs.spare < least_spare):
                graphs.truncated = True
                break
            looked_at.add(id(tensor))
            grad_fn = base.grad_fn.__get__(tensor)
            if grad_fn is None:
                continue
            count, size = graphs.below(grad_fn)
            number = graphs.number(grad_fn)
            if number is None:
                continue
            seen = graphs.storages_of[-1] if count else {}
            unseen = max(0, size - sum(seen.values()))
            # Of what was not read, the part that no tensor in Python stands for: the others are told by these.
            apart = sum(size for address, size in seen.items() if address not in self._known_storages)
            unseen = unseen * apart // max(1, sum(seen.values()))
            on_device = sum(size for address, size in seen.items() if _where(graphs, address) == DEVICE)
            is_on = DEVICE if on_device > sum(seen.values()) // 2 else STORAGE
            self._tie_graph(tensor, _token(number), count, unseen, is_on)
            operations, saved_bytes = operations + count, saved_bytes + apart + unseen
        if looked_at:
            self._memory.graphs.note(shape, len(looked_at), operations, saved_bytes, is_on)
        return looked_at

    def _tie_as_usual(self, shape: object, unseen: Sequence[Any]) -> None:
        """Graphs that were not looked at: each has what those of its shape have."""
        usual = self._memory.graphs.usual(shape)
        if usual is None:
            return
        for tensor in unseen:
            self._unseen += 1
            self._tie_graph(tensor, _token(_MANY + self._unseen), *usual)

    def _tie_graph(self, tensor: Any, token: int, operations: int, unseen_bytes: int, is_on: int) -> None:
        """``unseen_bytes``: of saved tensors whose storages are not known. ``is_on``: where most are, as in a tie."""
        self.ties.append((id(tensor), token, 0, AUTOGRAD, operations))
        if unseen_bytes > 0:
            self.ties.append((token, token + _ITS_STORAGE, unseen_bytes, is_on, 0))

    # ---- afterwards

    def rows(self, marks: Sequence[tuple[int | None, bool]]) -> Iterator[Row]:
        """(table, row) of each. ``marks``: what the graph found of them."""
        yield from self._named(self._rows, marks)
        inventory = self._inventory
        if inventory is None:
            return
        held = dict(zip(self._storages, marks[self.row_count :]))
        of_wholes = zip(self._wholes, marks[len(self._roots) : self.row_count])
        named = {address: mark[0] for (_, address), mark in of_wholes if mark[1]}
        held.update({address: (node, True) for address, node in named.items() if address in held})
        tensors.settle_graphs(inventory, self._saved, {address for address, mark in held.items() if mark[1]})
        yield from (("tensors", row) for row in torch_rows.budget(inventory, "take"))
        yield from (("tensors", row) for row in _places(inventory, held))
        yield from (("weights", row) for row in self._weights(inventory, held, marks))
        for address, form in self._sketches.items():
            storage = inventory.storages[address]
            if storage.owner is tensors.USER and named.get(address) is not None:
                yield "data_forms", dict(form, node=named[address], type_name=TENSOR, deep_bytes=storage.size)

    def bytes_on(self, host: bool) -> int | None:
        """None: there may be some, and nobody looked."""
        inventory = self._inventory
        if inventory is None:
            return None
        saved = (size for at, (size, _, device) in self._saved.items() if at not in inventory.storages
                 and (device == "cpu") is host)  # fmt: skip
        return inventory.bytes_on(host) + sum(saved)

    def _named(self, rows: Iterable[Row], marks: Sequence[tuple[int | None, bool]]) -> Iterator[Row]:
        for table, row in rows:
            root = row.get("weight_set")
            yield table, dict(row, **self._set_of(root, marks)) if type(root) is int else row

    def _set_of(self, root: int, marks: Sequence[tuple[int | None, bool]]) -> dict[str, Any]:
        """A model or optimizer by its number in the graph; by its type where nothing leads to it."""
        assert self._inventory is not None
        if not self._nodes:
            self._nodes = {one: mark[0] for one, mark in zip(self._roots, marks)}
        node = self._nodes.get(root)
        name = self._inventory.roots[root][0].rsplit(".", 1)[-1]
        return {"node": node, "weight_set": name if node is None else None}

    def _weights(
        self, inventory: tensors.Inventory, held: dict[int, tuple[int | None, bool]], marks: Sequence[Any]
    ) -> Iterator[dict[str, Any]]:
        for address, storage in inventory.storages.items():
            if storage.print is None:
                continue
            own = {"node": held.get(address, (None, False))[0]}
            if storage.root is not None:
                own = dict(self._set_of(storage.root, marks), is_training=inventory.roots[storage.root][2])
            yield dict(torch_rows.weights_row(address, storage, storage.print), **own)


def _where(graphs: autograd.Graphs, address: int) -> int:
    """What a tie to a storage that a graph saved leads to."""
    return STORAGE if graphs.saved[address][2] == "cpu" else DEVICE


def _of_types(by_type: dict[int, list[Any]], kinds: Iterable[int]) -> list[Any]:
    return [obj for kind in kinds for obj in by_type.get(kind, ())]


def _device(word: int) -> str:
    """Of a kind that torch numbers, 0 for the CPU and 1 for CUDA, and above 8 bits which of them."""
    kind, number = word & 0xFF, word >> 8
    return "cpu" if kind == 0 else f"cuda:{number}" if kind == 1 else f"device-{kind}:{number}"


def _token(number: int) -> int:
    """Stands for the address of a graph: no object has one like it."""
    return 8 * number + 1


def _places(inventory: tensors.Inventory, held: dict[int, tuple[int | None, bool]]) -> Iterator[dict[str, Any]]:
    """The largest places of users' tensors, by the number of the object that holds them."""
    places: dict[Any, list[Any]] = {}
    for address, (node, _) in held.items():
        storage: Storage = inventory.storages[address]
        if storage.owner is not tensors.USER or node is None:
            continue
        place = places.setdefault((node, storage.device, storage.dtype), [node, storage, 0, 0])
        place[2] += storage.factor
        place[3] += storage.size * storage.factor
        if storage.size > place[1].size:
            place[1] = storage
    largest = sorted(places.values(), key=lambda place: -place[3])[:MOST_PLACES]
    for node, storage, count, size in largest:
        if size >= LEAST_PLACE_BYTES:
            yield dict(torch_rows.storages_row(tensors.USER, storage, count, size, "take"), node=node)
