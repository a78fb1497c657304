"""Every live tensor's storage once, and whose it is. Runs in the job, at a safe point, on the training thread.

Tensors, models and optimizers come from the sweep that reads the graph. Claims on a storage are made in this order, the
first wins: parameter, buffer, gradient, optimizer state (and the fp32 master weights only an optimizer knows), batch;
once the graph says who holds it: saved for backward, activation, held by the user. Only numbers and names outlive
``look``.

No dispatch: metadata is read with torch functions switched off, sizes from shapes, and the storage object is asked
only of views (asking makes a Python wrapper that lives as long as the storage).
"""

from __future__ import annotations

import ctypes
import sys
from time import perf_counter, thread_time

from ..interpreter import arrays, names, reading
from . import weights

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping
    from typing import Any

    from .remembered import Remembered, TensorPlaces

PARAMETER, BUFFER, GRADIENT, OPTIMIZER, MASTER = "parameter", "buffer", "gradient", "optimizer-state", "master-weight"
BATCH, SAVED, ACTIVATION, USER, OTHER = "batch", "saved-for-backward", "activation", "user-held", "other"
MOST_TENSORS = 20000  # above it some are looked at, which stand for the others
LARGE = 1024  # elements
TENSOR_S = 12e-6  # CPU time of one, looked at and tied, until it was measured
MOST_MODULES = 50000
FINGERPRINT_BYTES = 256 * 1024  # of a tensor that belongs to no model; those of models all get one
MOST_FINGERPRINTS = 4000
ROUND_S = (0.0, 3.0, 3.0, 15.0, 60.0, 300.0, 1800.0)  # between rounds of fingerprints; the last repeats
_WRAPPERS = ("module.", "_orig_mod.", "_fsdp_wrapped_module.", "_checkpoint_wrapped_module.")


class Storage:
    """One storage: ``owner`` is None while nobody claims it, ``root`` is the id of the model or optimizer it is in.

    ``factor``: how many it stands for, as long as nobody claims it. ``whole``: the id of a tensor that has all of it,
    and is no view.
    """

    __slots__ = (
        "factor",
        "size",
        "device",
        "dtype",
        "extents",
        "owner",
        "root",
        "name",
        "has_history",
        "trained",
        "print",
        "whole",
    )

    def __init__(self, size: int, device: str, dtype: str, extents: tuple[int, ...] | None) -> None:
        self.size = size
        self.device = device
        self.dtype = dtype
        self.extents = extents
        self.factor = 1
        self.owner: str | None = None
        self.root: int | None = None
        self.name: str | None = None
        self.print: bytes | None = None
        self.has_history = False
        self.trained = False
        self.whole: int | None = None

    @property
    def shape(self) -> str | None:
        """``64x3x224x224``."""
        return None if self.extents is None else "x".join(map(str, self.extents)) or "scalar"


class Inventory:
    """What the sweep found. ``storages`` maps the storage's address to its ``Storage``.

    ``roots``: {id: (type name, is it a model, its training flag)} of models that are part of no other model, and of
    optimizers; the graph says by which name each is held.
    """

    def __init__(self, types: frozenset[int], ends_s: float = float("inf")) -> None:
        self.types = types
        self._ends_s = ends_s
        self.is_cut_short = False  # of models or optimizers not all was asked
        self.by_tensor: dict[int, Storage] = {}
        self.storages: dict[int, Storage] = {}
        self.roots: dict[int, tuple[str, bool, Any]] = {}
        self.is_sampled = False
        self.asked_s = 0.0  # CPU time of what was asked of each tensor
        # The tensors that were looked at, and (root id, name, parameter, is trained): ``let_go`` empties both.
        self.tensors: list[Any] = []
        self.parameters: list[tuple[Any, ...]] = []
        self._binding = names.getattr_plain(sys.modules.get("torch"), "_C")
        self._tensor = names.getattr_plain(sys.modules.get("torch"), "Tensor")
        self._storage_id = names.getattr_plain(self._binding, "_storage_id")
        self._is_copy_on_write = names.getattr_plain(self._binding, "_is_cow_tensor")
        self._data_address = names.getattr_plain(self._binding, "_data_address")
        self._dtype_names: dict[int, str] = {}  # of a handful of objects that torch keeps for good

    def dtype_name(self, tensor: Any) -> str:
        """``float32``."""
        dtype = self._tensor.dtype.__get__(tensor)
        name = self._dtype_names.get(id(dtype))
        if name is None:
            name = self._dtype_names[id(dtype)] = dtype_name(dtype)
        return name

    @property
    def torch(self) -> tuple[Any, Any]:
        """(its compiled module, the class of tensors, whose descriptors are to be asked)."""
        return self._binding, self._tensor

    def address(self, tensor: Any) -> int:
        """What tells one storage from another. Lazy copies have storages of their own but the same memory."""
        address = self._storage_id(tensor)  # first: it raises for what has no storage
        if self._data_address is not None and self._is_copy_on_write is not None and self._is_copy_on_write(tensor):
            offset = self._tensor.storage_offset(tensor) * self._tensor.element_size(tensor)
            return -(self._data_address(tensor) - offset)  # reading the address copies nothing
        return address

    def is_empty(self, tensor: Any) -> bool:
        return self._data_address is not None and not self._data_address(tensor)

    def let_go(self) -> None:
        """Of the objects that were looked at."""
        self.tensors, self.parameters, self.by_tensor = [], [], {}

    def is_spent(self) -> bool:
        """Whether no time is left for models and optimizers."""
        self.is_cut_short = self.is_cut_short or thread_time() > self._ends_s
        return self.is_cut_short

    def bytes_on(self, host: bool) -> int:
        """Bytes on the host, or on all devices, of the storages seen."""
        total = 0
        for storage in self.storages.values():
            if (storage.device == "cpu") is host:
                total += storage.size * (storage.factor if storage.owner is None else 1)
        return total


def types_of(kind: str) -> frozenset[int]:
    """Ids of the types of torch that one is after ("Tensor", "Module", "Optimizer", "Iterator"), subclasses included.

    Good for as long as nobody has had the chance to let go of one of them.
    """
    torch = sys.modules.get("torch")
    module, name = {
        "Tensor": (torch, "Tensor"),
        "Module": (sys.modules.get("torch.nn.modules.module"), "Module"),
        "Optimizer": (sys.modules.get("torch.optim.optimizer"), "Optimizer"),
        "Iterator": (sys.modules.get("torch.utils.data.dataloader"), "_BaseDataLoaderIter"),
    }[kind]
    base = names.getattr_plain(module, name)
    if not names.is_a(type(base), type):  # also of a module that only bears the name
        return frozenset()
    found = {id(base)}
    queue = [base]
    while queue:
        for subclass in type.__subclasses__(queue.pop()):
            # A wrapper (DTensor, jagged) has no memory of its own; the tensors inside it are met by themselves.
            if id(subclass) not in found and "__torch_dispatch__" not in names.namespace_of(subclass):
                found.add(id(subclass))
                queue.append(subclass)
    return frozenset(found)


class Bounds:
    """Of one look: ``ends_s`` is the thread's CPU time at which no more is asked of models and optimizers."""

    def __init__(self, most_tensors: float = MOST_TENSORS, ends_s: float = float("inf")) -> None:
        self.most_tensors = most_tensors
        self.ends_s = ends_s


class Chosen:
    """Of so many live tensors those to look at, about as many as ``most``: the first ``whole`` stand for themselves,
    each of the rest for ``factor``.

    What has a history comes first, since nobody else can tell what that keeps, and what is large: one such tensor,
    taken for twenty, would be most of what there is. The others are drawn by their addresses, which are the same in
    each snapshot: every k-th of a list would be all of one kind where kinds take turns.
    """

    def __init__(self, tensors: list[Any], most: float) -> None:
        self.tensors, self.whole, self.factor = tensors, len(tensors), 1
        self.of_each_size: Iterable[Any] = tensors  # all of them, or where they are too many, some
        room = int(max(2.0, min(most, MOST_TENSORS)))
        if len(tensors) <= room:
            return
        first: list[tuple[int, Any]] = []
        others: list[Any] = []
        by_size: dict[int, list[Any]] = {}
        for tensor in tensors:
            count, has_history = _weight(tensor)
            if len(by_size) < _MOST_ASKED or count in by_size:
                alike = by_size.setdefault(count, [])
                if len(alike) < _OF_EACH_SIZE:
                    alike.append(tensor)
            if has_history or count >= LARGE:
                first.append((count, tensor))
            else:
                others.append(tensor)
        if len(first) > room // 2:
            first.sort(key=_count, reverse=True)
            others += [tensor for _, tensor in first[room // 2 :]]
            del first[room // 2 :]
        self.of_each_size = [tensor for alike in by_size.values() for tensor in alike]
        self.whole = len(first)
        self.factor = -(-len(others) // (room - len(first)))
        self.tensors = [tensor for _, tensor in first]
        self.tensors += [t for t in others if not (id(t) * _MIXES >> 32 & 0xFFFFFFFF) % self.factor]


_MIXES = 0x9E3779B97F4A7C15  # an odd number without a pattern: neighbours get far apart


def _weight(tensor: Any) -> tuple[int, bool]:
    """(its elements, whether it has a history). Torch functions are switched off."""
    base = sys.modules["torch"].Tensor
    try:
        return base.numel(tensor), base.requires_grad.__get__(tensor) and not base.is_leaf.__get__(tensor)
    except Exception as error:
        if names.is_foreign(error):
            raise
        return 0, False


def _count(weighed: tuple[int, Any]) -> int:
    return weighed[0]


def look(
    types: frozenset[int],
    tensors: list[Any],
    bounds: Bounds,
    modules: list[Any],
    optimizers: list[Any],
    batch_storages: Iterable[int],
    memory: Remembered,
    with_values: bool,
    with_gradients: bool = True,
) -> Inventory | None:
    """The inventory of these live objects; None where torch is too old to be asked safely.

    ``types``: ids of the tensor types, as ``types_of`` gives them.

    ``with_values``: fingerprints may be taken (they read elements: not off the training thread). ``with_gradients``: no
    other thread can be inside a backward pass, which replaces them without the interpreter's lock.
    """
    inventory = Inventory(types, bounds.ends_s)
    guard = names.getattr_plain(inventory._binding, "DisableTorchFunction")
    if inventory._storage_id is None or guard is None:
        return None
    with guard():
        chosen = Chosen(tensors, bounds.most_tensors)
        tensors = inventory.tensors = chosen.tensors
        inventory.is_sampled = chosen.factor > 1
        began_s = thread_time()
        for i, tensor in enumerate(tensors):
            _add(inventory, tensor, chosen.factor if i >= chosen.whole else 1)
        inventory.asked_s = thread_time() - began_s
        if known_layout(memory) is None:
            found = _memory_layout(inventory, chosen.of_each_size)
            if found is not None:
                memory.tensor_layout.put(found)
        owned = _claim_models(inventory, modules, with_gradients)
        _claim_optimizers(inventory, optimizers)
        for address in batch_storages:
            storage = inventory.storages.get(address)
            if storage is not None and storage.owner is None:
                storage.owner = BATCH
        if with_values and _is_round_due(inventory, memory):
            _fingerprint(inventory, owned, tensors)
        inventory.parameters = [entry for entry in owned if entry[1] is not None and entry[3] is not None]
    return inventory


def learn_layout(types: frozenset[int], tensors: Iterable[Any], memory: Remembered) -> bool:
    """From a few live ones, however many there are beside them. Returns whether their layout is known now.

    ``types``: ids of the tensor types.
    """
    inventory = Inventory(types)
    guard = names.getattr_plain(inventory._binding, "DisableTorchFunction")
    if inventory._storage_id is None or guard is None:
        return False
    with guard():
        found = _memory_layout(inventory, tensors)
    if found is not None:
        memory.tensor_layout.put(found)
    return found is not None


def known_layout(memory: Remembered) -> TensorPlaces | None:
    """As ``_memory_layout`` found it, here or in a parent that had loaded this very torch before it forked."""
    layout = memory.tensor_layout.get()
    base = _base_class(sys.modules.get("torch._C")) if layout is not None else None
    return layout if layout is not None and layout[0] == id(base) else None


def _base_class(binding: Any) -> Any:
    """What all tensors are of."""
    found = names.getattr_plain(binding, "TensorBase")
    return names.getattr_plain(binding, "_TensorBase") if found is None else found


def _memory_layout(inventory: Inventory, tensors: Iterable[Any]) -> TensorPlaces | None:
    """(address of the class that all tensors are of, offsets of: what is behind a tensor, in that its storage, in that
    the number of its bytes, and the device; of what is behind a tensor the number of its members, right before that of
    their type, or 0); None unless several tensors of other sizes say the same.

    So a reader in C can weigh tensors without asking torch.
    """
    binding = _base_class(inventory._binding)
    if binding is None:
        return None
    behind: Any = names.namespace_of(binding).get("_cdata")
    found: set[tuple[int, int, int]] = set()
    counts = set(range(0, 8 * _WORDS_OF_TENSOR, 8))
    sizes: dict[int, int] = {}  # of each storage
    seen: dict[int, int] = {}  # of so many members each
    for tensor in tensors if behind is not None else ():
        try:
            count = inventory._tensor.numel(tensor)
            if seen.get(count, 0) == _OF_EACH_SIZE or len(seen) == _MOST_ASKED:
                continue
            seen[count] = seen.get(count, 0) + 1
            implementation, storage = behind.__get__(tensor), inventory._storage_id(tensor)
            size = inventory._tensor.untyped_storage(tensor).nbytes()
            is_host = inventory._tensor.is_cpu.__get__(tensor)
            number = inventory._tensor.get_device(tensor)
            each = inventory._tensor.element_size(tensor)
        except Exception as error:
            if names.is_foreign(error):
                raise
            continue
        if size < _TOLD_APART or storage in sizes:
            continue
        places = (
            _places_of(implementation, id(tensor), names.basicsize_of(type(tensor)) // 8),
            _places_of(storage, implementation, _WORDS_LOOKED_AT),
            _places_of(size, storage, _WORDS_LOOKED_AT),
        )
        sizes[storage] = size
        ways = {
            (a, b, c)
            for a in places[0]
            for b in places[1]
            for c in places[2]
            if _is_on(storage + c - 8, is_host, number)
        }
        found = ways if len(sizes) == 1 else found & ways
        counts &= set(_places_of_count(implementation, count, each))
        if len(set(sizes.values())) == _ASKED:
            break
    if len(sizes) < 2 or len(found) != 1:
        return None
    if len(set(sizes.values())) == 1 and max(sizes.values()) < _TOLD_ALONE:
        return None
    (first, second, third) = found.pop()
    return id(binding), first, second, third, third - 8, counts.pop() if len(counts) == 1 else 0


def _places_of(word: int, address: int, count: int) -> list[int]:
    """Offsets at which it stands among so many words of memory."""
    words = arrays.of(ctypes.c_uint64, count).from_address(address)
    return [8 * at for at in range(count) if words[at] == word]


def _places_of_count(implementation: int, count: int, each: int) -> list[int]:
    """Offsets at which there are so many members, and then the number of a type of which each has these bytes."""
    places = _places_of(count, implementation, _WORDS_OF_TENSOR - 1)
    return [
        at for at in places if ctypes.c_uint16.from_address(implementation + at + 8).value in _NUMBERS.get(each, ())
    ]


def _is_on(address: int, is_host: bool, number: int) -> bool:
    """Whether this device stands there: its kind, 0 for the CPU, and its number, of which the CPU has none."""
    kind, numbered = ctypes.string_at(address, 2)
    return (kind == 0) is is_host and numbered == number & 0xFF


_MOST_ASKED, _ASKED, _OF_EACH_SIZE = 200, 4, 2  # sizes; sizes; tensors
_TOLD_APART, _TOLD_ALONE = 64, 4096  # bytes: fewer may stand anywhere by chance, and without another size to tell
_WORDS_LOOKED_AT = 12  # of what is behind a tensor, and of a storage, which both have more
_WORDS_OF_TENSOR = 21  # of what is behind a tensor: in torch 1.13 to 2.13 it has no fewer
_NUMBERS = {1: (0, 1, 11, 12, 13), 2: (2, 5, 15), 4: (3, 6, 8, 14), 8: (4, 7, 9), 16: (10,)}  # c10/core/ScalarType.h


def dtype_name(dtype: object) -> str:
    """``float32``: without the library's name."""
    return str(dtype).rsplit(".", 1)[-1]


def _add(inventory: Inventory, tensor: Any, factor: int = 1) -> Storage | None:
    """The ``Storage`` of a tensor; None for what has none (sparse, nested, meta)."""
    known = inventory.by_tensor.get(id(tensor))
    if known is not None:
        return known
    base = inventory._tensor
    try:
        address = inventory.address(tensor)
        storage = inventory.storages.get(address)
        is_view = base._is_view(tensor)
        if storage is None:
            device = "cpu" if base.is_cpu.__get__(tensor) else str(base.device.__get__(tensor))
            if device == "meta":
                return None
            size = base.numel(tensor) * base.element_size(tensor)
            if inventory.is_empty(tensor):
                size = 0  # FSDP resizes the storage of parameters that are not in use
            elif is_view:
                size = max(size, base.untyped_storage(tensor).nbytes())
            storage = Storage(size, device, inventory.dtype_name(tensor), base.size(tensor))
            storage.factor = factor
            inventory.storages[address] = storage
        if not is_view:
            storage.whole = id(tensor)
        if base.requires_grad.__get__(tensor):
            storage.trained = True
            if not base.is_leaf.__get__(tensor):
                storage.has_history = True
        inventory.by_tensor[id(tensor)] = storage
        return storage
    except Exception as error:
        if names.is_foreign(error):
            raise
        return None


def _inner(inventory: Inventory, tensor: Any) -> Any:
    """The tensor itself, or the local part of a DTensor; None for what is no plain tensor."""
    kind = type(tensor)
    if id(kind) in inventory.types:
        return tensor
    local = _attributes(tensor).get("_local_tensor")
    return local if id(type(local)) in inventory.types else None


def _claim(inventory: Inventory, tensor: Any, owner: str, root: int, name: str) -> Storage | None:
    tensor = _inner(inventory, tensor)
    if tensor is None:
        return None
    storage = _add(inventory, tensor)
    if storage is not None and storage.owner is None:
        storage.owner, storage.root, storage.name = owner, root, name
    return storage


# ---- models


def _attributes(obj: Any) -> dict[Any, Any]:
    return reading.attributes_of(obj) or {}


def _claim_models(inventory: Inventory, modules: list[Any], with_gradients: bool) -> list[tuple[Any, ...]]:
    """Parameters, then buffers, then gradients. Returns [(root id, name, tensor or None, is trained), …]."""
    inside: set[int] = set()
    for module in modules:
        if inventory.is_spent():
            return []
        inside.update(id(child) for _, child in _entries(_attributes(module), "_modules"))
    owned = []
    buffers = []
    for root in modules:
        if id(root) in inside:
            continue
        training = _attributes(root).get("training")
        inventory.roots[id(root)] = (names.type_name(type(root)), True, training)
        seen: set[int] = set()
        stack = [("", root)]
        while stack and len(seen) < MOST_MODULES and not inventory.is_spent():
            prefix, module = stack.pop()
            if id(module) in seen:
                continue
            seen.add(id(module))
            attributes = _attributes(module)
            for name, tensor in _entries(attributes, "_parameters"):
                owned.append((id(root), _plain(prefix + name), tensor, True))
            for name, tensor in _entries(attributes, "_buffers"):
                if tensor is not None:
                    buffers.append((id(root), _plain(prefix + name), tensor, None))
            for name, child in _entries(attributes, "_modules"):
                if child is not None:
                    stack.append((prefix + name + ".", child))
    base = inventory._tensor
    gradients = []
    for i, (root, name, tensor, _) in enumerate(owned):
        if tensor is None:
            continue
        if inventory.is_spent():
            break
        _claim(inventory, tensor, PARAMETER, root, name)
        try:
            trained = base.requires_grad.__get__(tensor)
            owned[i] = (root, name, tensor, trained)
            # A leaf's .grad is safe; it makes the Python wrapper of the gradient, about 100 bytes, that then stays.
            has_gradient = with_gradients and base.is_leaf.__get__(tensor)
            gradient = base.grad.__get__(tensor) if has_gradient else None
        except Exception:
            continue
        if gradient is not None:
            gradients.append((root, name, gradient))
    for root, name, tensor, _ in buffers:
        _claim(inventory, tensor, BUFFER, root, name)
    for root, name, gradient in gradients:
        _claim(inventory, gradient, GRADIENT, root, name)
    return owned + buffers


def _entries(attributes: dict[Any, Any], name: str) -> list[tuple[str, Any]]:
    """[(name, value), ...] of a dict that a module keeps."""
    entries = attributes.get(name)
    if not names.is_a(type(entries), dict):
        return []
    return [entry for entry in reading.pairs(entries) if type(entry[0]) is str]


def _plain(name: str) -> str:
    for wrapper in _WRAPPERS:
        name = name.replace(wrapper, "")
    return name


# ---- optimizers


def _claim_optimizers(inventory: Inventory, optimizers: list[Any]) -> None:
    for optimizer in optimizers:
        attributes = _attributes(optimizer)
        state, groups = attributes.get("state"), attributes.get("param_groups")
        root = id(optimizer)
        inventory.roots[root] = (names.type_name(type(optimizer)), False, None)
        if type(groups) is list:
            for group in reading.members(list, groups):
                parameters = group.get("params") if type(group) is dict else None
                for i, tensor in enumerate(reading.members(list, parameters) if type(parameters) is list else ()):
                    if inventory.is_spent():
                        return
                    _claim(inventory, tensor, MASTER, root, f"params[{i}]")
        if state is not None and names.is_a(type(state), dict):
            for i, entry in enumerate(reading.members(dict, state)):
                if inventory.is_spent():
                    return
                _claim_state(inventory, entry, root, f"state[{i}]", 3)


def _claim_state(inventory: Inventory, value: Any, root: int, name: str, depth: int) -> None:
    kind = type(value)
    if id(kind) in inventory.types or names.is_a(kind, inventory._tensor):
        _claim(inventory, value, OPTIMIZER, root, name)
    elif depth and kind is dict:
        for key, item in reading.pairs(value):
            _claim_state(inventory, item, root, f"{name}.{key}" if type(key) is str else name, depth - 1)
    elif depth and (kind is list or kind is tuple):
        for item in reading.members(kind, value):
            _claim_state(inventory, item, root, name, depth - 1)


# ---- fingerprints


_NO_WEIGHTS = frozenset((GRADIENT, OPTIMIZER, BATCH))


def _is_round_due(inventory: Inventory, memory: Remembered) -> bool:
    """Rounds become rarer, but large tensors that were not there before bring the next one forward, as does what is
    trained no more.
    """
    now = perf_counter()
    rounds = memory.fingerprint_rounds
    large = sum(s.size for s in inventory.storages.values() if s.owner in (None, PARAMETER) and s.size >= 1 << 20)
    trained = sum(s.size for s in inventory.storages.values() if s.owner == PARAMETER and s.trained)
    gap_s = ROUND_S[min(rounds, len(ROUND_S) - 1)]
    if rounds and (large > 1.2 * memory.fingerprinted_bytes or trained < memory.trained_bytes):
        gap_s = min(gap_s, ROUND_S[3])
    if not inventory.roots or (rounds and now - memory.fingerprinted_at < gap_s):
        return False
    memory.fingerprint_rounds = rounds + 1
    memory.fingerprinted_at = now
    memory.fingerprinted_bytes, memory.trained_bytes = large, trained
    return True


def _fingerprint(inventory: Inventory, owned: list[tuple[Any, ...]], tensors: list[Any]) -> None:
    """Of models' tensors, and of those that have as many elements as one of them: what could be a copy of it."""
    base = inventory._tensor
    models = [tensor for _root, _name, tensor, _trained in owned if tensor is not None]
    sizes = set()
    done: set[int] = set()
    on_device = []
    for group, is_model in ((models, True), (tensors, False)):
        for tensor in group:
            tensor = _inner(inventory, tensor)
            if len(done) >= MOST_FINGERPRINTS:
                break
            storage = None if tensor is None else _add(inventory, tensor)
            if storage is None or id(storage) in done or storage.owner in _NO_WEIGHTS:
                continue
            count = base.numel(tensor)
            if is_model:
                sizes.add(count)
            elif storage.size < FINGERPRINT_BYTES or count not in sizes:
                continue
            done.add(id(storage))
            if storage.device != "cpu":
                on_device.append((storage, tensor))
                continue
            try:
                storage.print = weights.fingerprint(tensor, storage.size)
            except Exception as error:
                if names.is_foreign(error):
                    raise
    prints = weights.fingerprints_on_device([tensor for _storage, tensor in on_device])
    for (storage, _tensor), found in zip(on_device, prints):
        storage.print = found


# ---- once the graph says who holds what


def settle_graphs(
    inventory: Inventory,
    saved: Mapping[int, tuple[int, Any, str]],
    held: Collection[int] = (),
    parts: Collection[int] = (),
) -> None:
    """``saved``: {address: (bytes, dtype or None, device)} of what graphs keep; ``held``: addresses a path leads to.

    ``parts``: of which graphs keep but a part: what somebody has the whole of, and nobody computed, is not theirs.
    """
    for address, (size, dtype, device) in saved.items():
        storage = inventory.storages.get(address)
        if storage is None:
            storage = inventory.storages[address] = Storage(
                size, device, dtype_name(dtype) if dtype is not None else "", None
            )
        if storage.owner is None:
            is_given = address in parts and storage.whole is not None and not storage.has_history
            storage.owner = USER if is_given else SAVED
    for address, storage in inventory.storages.items():
        if storage.owner is None:
            storage.owner = ACTIVATION if storage.has_history else USER if address in held else OTHER
