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

import gc
import os
import sys
import types
from collections import OrderedDict, defaultdict, deque
from itertools import islice
from time import perf_counter

from . import autograd

_mro_of = type.__dict__["__mro__"].__get__
_namespace_of = type.__dict__["__dict__"].__get__
_basicsize_of = type.__dict__["__basicsize__"].__get__
_flags_of = type.__dict__["__flags__"].__get__
_object_getattribute = object.__getattribute__
_getsizeof = sys.getsizeof
_getrefcount = sys.getrefcount
_MemberDescriptor = types.MemberDescriptorType
_HEAPTYPE = 1 << 9
_CO_OPTIMIZED = 1
_INLINE_ATTRIBUTES = sys.version_info >= (3, 11)

# Shared for ever or without contents worth counting: never opened, never counted.
_IGNORED = frozenset(
    (
        type(None), bool, type(Ellipsis), type(NotImplemented), types.CodeType, types.ModuleType,
        types.GetSetDescriptorType, types.MemberDescriptorType, types.WrapperDescriptorType,
        types.MethodDescriptorType, types.ClassMethodDescriptorType, types.MappingProxyType,
        type(sys.flags), type(sys.version_info),
    )
)  # fmt: skip
# Objects without references, counted as part of what holds them.
_ATOMS = frozenset((int, float, complex, str, bytes, range, slice))
_BIG_ATOM_BYTES = 4096  # from here on a named string has a line of its own
_EXACT_BUFFERS = {}  # types whose __sizeof__ says all: filled below
_GC_HEADER_BYTES = 16

# Root and edge kinds are those of schema.py, table holders.
ITEM, KEY, ATTRIBUTE, REFERENCE = "item", "key", "attribute", "reference"
LOCAL, GLOBAL, CLASS_ATTRIBUTE = "local", "global", "class-attribute"
CELL, DEFAULT, BASE, CACHE = "cell", "default", "base", "cache"

_IDENTIFIER_KEYS = 32  # a dict of at most so many string keys is a record: its keys are names
_VISIT_ALL = 256  # members of a container visited one by one
_SAMPLE = 128  # members sampled of a larger one
_SAMPLE_MIXED = 512  # the same of what a C object refers to: members of every kind
_SAMPLE_NESTED = 12  # the same inside a sampled member, and of what libraries hold
_RICH = (8000, 24000)  # visits after which a walk looks into fewer objects of each place
_LARGEST = 8  # of containers in a container, the largest are always looked at: growth may sit in one of them
_LARGEST_SCAN = 50000  # members among which the largest are searched (0.1 us each)
_SIZED = frozenset((list, dict, set, bytearray, deque, defaultdict, OrderedDict, str, bytes))


def type_name(cls):
    """``module.Qualified.name`` without running a metaclass; builtins without their module."""
    module = _namespace_of(cls).get("__module__")
    try:
        name = type.__getattribute__(cls, "__qualname__")
        if type(module) is not str:
            module = type.__getattribute__(cls, "__module__")
    except Exception:
        name = "?"
    if type(module) is not str or module == "builtins":
        return name
    if cls is autograd.AutogradGraph:
        return autograd.TYPE_NAME
    return module + "." + name


def frame_locals(frame):
    """[(name, value), …] of a frame without leaving a dict behind that pins them.

    Up to Python 3.12 ``f_locals`` of a function is a dict cached on the frame: values in it live until the frame ends
    (a tensor survives ``del``). It is emptied again unless the job itself holds or traces it.
    """
    names = frame.f_locals
    pairs = list(names.items())
    if (
        type(names) is dict
        and frame.f_code.co_flags & _CO_OPTIMIZED
        and frame.f_trace is None
        and _getrefcount(names) <= 3
    ):
        names.clear()
    return pairs


class Node(object):
    """All objects at one path. ``count`` and bytes are extrapolated; ``opened`` is the weight that was looked into."""

    __slots__ = (
        "parent", "label", "edge", "cls", "named", "count", "opened", "visits", "length", "length_limit", "own_bytes",
        "array_bytes", "tensor_bytes", "member", "opaque", "chained", "cut", "depth", "root", "deep", "deep_array",
        "deep_tensor", "scale", "factor",
    )  # fmt: skip

    def __init__(self, parent, label, edge, cls, root):
        self.parent = parent
        self.label = label
        self.edge = edge
        self.cls = cls
        self.root = root
        self.named = None  # (variable, owner, module, file, line, is_user) where the path itself says it
        self.count = 0.0
        self.opened = 0.0
        self.visits = 0
        self.length = None
        self.length_limit = None
        self.own_bytes = 0.0
        self.array_bytes = 0.0
        self.tensor_bytes = 0.0
        self.member = None
        self.opaque = False
        self.chained = False
        self.cut = False
        self.depth = 0 if parent is None else parent.depth + 1
        self.deep = self.deep_array = self.deep_tensor = 0.0
        self.scale = self.factor = 1.0

    def path(self):
        parts = []
        node = self
        while node is not None:
            parts.append(node.label)
            node = node.parent
        return "".join(reversed(parts))


class Walk(object):
    """One walk: feed it roots in order of preference, then ``finish(census)``.

    ``deadline`` (perf_counter seconds) cuts it: ``truncated`` is then True and the figures are lower bounds.
    """

    def __init__(self, deadline, with_tensors=True, reads_saved=False, expand_limit=500):
        self.nodes = []
        self.seen = set()
        self.truncated = False
        self.visited = 0
        self._deadline = deadline
        self._expand_limit = expand_limit
        self._index = {}
        self._queue = deque()
        self._openers = dict(_OPENERS)
        self._slots = {}
        self._samplings = 0
        self._storages = set()
        self._tensor_type = self._parameter_type = self._storage_id = None
        self._array_type = None
        self._divided = {}
        self._counted_by_references = _COUNTED_BY_REFERENCES | _ATOMS
        self._own_references = self._count_own_references()
        self._graphs = None
        self._find_array_libraries(with_tensors, reads_saved)

    def _count_own_references(self):
        """How many references to a member are ours in the middle of ``_push``: it differs between Python versions."""
        self._own_references = 0
        node = Node(None, "", ITEM, list, "")
        members = ["%d" % id(node)]
        size = _getsizeof(members[0])
        self.push_members(members, 1, node, 1000.0)
        return round(1000.0 * size / node.own_bytes) - 1

    def _find_array_libraries(self, with_tensors, reads_saved):
        numpy = sys.modules.get("numpy")
        array = getattr_plain(numpy, "ndarray")
        if type(array) is type:
            self._array_type = array
            self._counted_by_references |= {array}
        torch = sys.modules.get("torch")
        tensor = getattr_plain(torch, "Tensor")
        binding = getattr_plain(torch, "_C")
        if tensor is not None and binding is not None:
            if not with_tensors:  # off the training thread nothing of a tensor is read
                self._openers[tensor] = _open_nothing
                self._openers[getattr_plain(getattr_plain(torch, "nn"), "Parameter")] = _open_nothing
                return
            self._tensor_type = tensor
            self._counted_by_references |= {tensor}
            self._storage_id = getattr_plain(binding, "_storage_id")
            if self._storage_id is not None:
                self._graphs = autograd.Graphs(reads_saved, self._storages, self._storage_id, tensor, self._deadline)

    # ---- roots

    def root(self, kind, label, edge, obj, named):
        """Walk from ``obj`` under ``label``; what an earlier root reached keeps its earlier name."""
        self._push(obj, None, label, edge, 1.0, kind, named)

    def run(self):
        """Follow all that was pushed, breadth first."""
        queue = self._queue
        openers = self._openers
        deadline = self._deadline
        limit = self._limit_after(self.visited)
        count = 0
        while queue:
            obj, node, weight = queue.popleft()
            count += 1
            if not count & 255:
                if perf_counter() > deadline:
                    self.truncated = True
                    queue.clear()
                    break
                limit = self._limit_after(self.visited + count)
            if node.visits >= limit:
                node.cut = True
                continue
            node.visits += 1
            node.opened += weight
            cls = type(obj)
            opener = openers.get(cls)
            if opener is None:
                opener = openers[cls] = self._opener_for(cls)
            try:
                opener(self, obj, node, weight)
            except Exception as error:
                if is_foreign(error):
                    raise
                node.opaque = True  # a container that changed under us, a broken object: what is in it stays unseen
        self.visited += count

    def _limit_after(self, visited):
        """How many objects of a place are opened: fewer, the richer the heap turns out to be, so that all is seen."""
        limit = self._expand_limit
        for bound in _RICH:
            if visited > bound:
                limit //= 5
        return limit

    def _opener_for(self, cls):
        mro = _mro_of(cls)
        if self._array_type is not None and self._array_type in mro:
            return _open_array
        if self._tensor_type is not None and self._tensor_type in mro:
            return _open_tensor
        if type in mro:
            return _open_class
        if types.ModuleType in mro:
            return _open_nothing
        for base in mro:
            opener = _BASES.get(base)
            if opener is not None:
                return opener
        special = _BY_NAME.get(type_name(cls))
        if special is not None:
            return special
        return _open_c_instance if any(map(_is_written_in_c, mro[:-1])) else _open_instance

    # ---- the edge

    def _push(self, obj, parent, label, edge, weight, root=None, named=None):
        cls = type(obj)
        if cls in _IGNORED:
            return
        key = id(obj)
        seen = self.seen
        if key in seen:
            if weight > 1.0 and key in self._divided:
                self._meet_again(key, weight)
            return
        seen.add(key)
        references = 1
        if weight > 1.0 and cls in self._counted_by_references:
            # Held r times, each way by which a sample comes to an object stands for weight / r of its kind.
            references = max(1, _getrefcount(obj) - self._own_references)
            weight /= references
        if cls not in _ATOMS:
            node = self._node(parent, label, edge, cls, root, named)
            node.count += weight
            entry = [obj, node, weight]
            self._queue.append(entry)
            if references > 1:
                self._divided[key] = (references, entry, 0)
            return
        size = _getsizeof(obj)
        if parent is not None and (size < _BIG_ATOM_BYTES or edge is ITEM or edge is KEY):
            node = parent
        elif size < _BIG_ATOM_BYTES:
            return
        else:
            node = self._node(parent, label, edge, cls, root, named)
            node.count += weight
            node.opened += weight
        node.own_bytes += size * weight
        if references > 1:
            self._divided[key] = (references, [None, node, weight], size)

    def _meet_again(self, key, weight):
        """Another of the references among which the weight of an object was divided: its share is added."""
        references, entry, size = self._divided[key]
        share = weight / references
        node = entry[1]
        if entry[0] is None:
            node.own_bytes += size * share
            return
        node.count += share
        entry[2] += share  # in time if it still waits in the queue; else its place is scaled by count over opened

    def _node(self, parent, label, edge, cls, root, named):
        key = (parent, label, cls)
        node = self._index.get(key)
        if node is not None:
            return node
        if parent is not None:
            ancestor = parent
            for _ in range(4):
                if ancestor is None:
                    break
                if ancestor.cls is cls and ancestor.label == label and ancestor.parent is not None:
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

    def push_members(self, members, length, node, weight, edge=ITEM, label="[*]"):
        """Members of a container: all of a small one, a weighted sample of a large one. ``members`` may be a view."""
        if length <= (_VISIT_ALL if weight <= 1.0 and node.root != "library" else 2 * _SAMPLE_NESTED):
            sample = list(members)
            if sample:
                node.member = type(sample[-1])
            while sample:
                member = sample.pop()  # popped, so that a reference count says what the job holds, not what we hold
                self._push(member, node, label, edge, weight)
            return
        wanted = _SAMPLE if weight <= 1.0 and node.root != "library" else _SAMPLE_NESTED
        sample = _spread(members, length, wanted, self._next_phase())
        if weight <= 1.0 and length <= _LARGEST_SCAN and type(sample[0]) in _SIZED:
            kinds = set(map(type, members))
            if kinds <= _SIZED:
                sizes = sorted(zip(map(_getsizeof, members), range(length)), reverse=True)[:_LARGEST]
                if sizes[0][0] > 8 * sizes[-1][0]:
                    wanted_positions = {position for _size, position in sizes}
                    largest = [m for i, m in enumerate(members) if i in wanted_positions]
                    for member in largest:
                        self._push(member, node, label, edge, weight)
                    del largest, member
                    length -= len(wanted_positions)
        node.member = type(sample[len(sample) // 2])
        self._push_sample(sample, weight * length / len(sample), node, label, edge)

    def _next_phase(self):
        self._samplings += 1
        return self._samplings * _GOLDEN % 1.0

    def _push_sample(self, sample, weight, node, label, edge):
        while sample:
            member = sample.pop()
            self._push(member, node, label, edge, weight)

    # ---- the end

    def is_cut_short(self):
        return self.truncated or (self._graphs is not None and self._graphs.truncated)

    def finish(self, census):
        """Extrapolate and add up. ``census`` is {type: count of objects the collector tracks}."""
        nodes = self.nodes
        exact = defaultdict(float)  # objects really visited, and those that sampling stands for, by type
        estimated = defaultdict(float)
        cut_chains = []
        for node in nodes:
            if node.chained and node.cut:
                cut_chains.append(node)
            elif node.count > node.visits + 0.5:
                estimated[node.cls] += node.count
            else:
                exact[node.cls] += node.count
        for node in cut_chains:
            # The rest of a chain cannot be sampled, but the census knows how many there are.
            node.count = max(node.count, census.get(node.cls, 0) - exact[node.cls] - estimated[node.cls])
        for node in nodes:  # parents come before their children
            parent = node.parent
            scale = factor = 1.0
            if parent is not None:
                scale, factor = parent.scale, parent.factor
            node.count *= scale
            known = census.get(node.cls)
            if known is not None and node.cls not in self._counted_by_references and estimated[node.cls] > 0:
                # Objects shared by many members were met in the sample and multiplied: there are not more than exist.
                factor = min(factor, max(0.0, known - exact[node.cls]) / estimated[node.cls])
            node.factor = factor if node.count > node.visits + 0.5 else 1.0
            if node.opened > 0 and node.count > node.opened * scale:
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


def getattr_plain(module, name):
    """A module's global without its ``__getattr__``; None if the module or the name is not there."""
    if module is None:
        return None
    try:
        return _object_getattribute(module, "__dict__").get(name)
    except Exception:
        return None


_GOLDEN = 0.6180339887498949


def _spread(members, length, wanted, phase=0.0):
    """``wanted`` members, one from each of as many equal parts, the newest among them.

    Within its part a member is picked by the golden ratio: at even distances a container whose members alternate
    between kinds would show one kind only. ``phase`` (0 to 1) differs between containers: those that hold the same
    members must not show the same ones. Dicts and sets can only be iterated: 10 ns a member.
    """
    step = length / wanted
    positions = [int((i + (i * _GOLDEN + phase) % 1.0) * step) for i in range(wanted - 1)]
    positions.append(length - 1)
    if type(members) in (list, tuple):
        return [members[position] for position in positions]
    if length > 4000000:  # 40 ms of iteration: take both ends instead
        head = list(islice(members, wanted // 2))
        try:
            return head + list(islice(reversed(members), wanted // 2))
        except TypeError:
            return head
    sample = []
    iterator = iter(members)
    at = 0
    for position in positions:
        sample += islice(iterator, position - at, position - at + 1)
        at = position + 1
    return sample


# ---- how to open an object of each type: opener(walk, obj, node, weight)


def _open_nothing(walk, obj, node, weight):
    pass


def _open_sized(walk, obj, node, weight):
    node.own_bytes += _getsizeof(obj) * weight


def _open_buffer(walk, obj, node, weight):
    size = _getsizeof(obj) * weight
    node.own_bytes += size
    if type(obj) is not bytearray:
        node.array_bytes += size


def _open_text_buffer(walk, obj, node, weight):
    """io.StringIO: until it is read its text is a list of pieces in C that __sizeof__ does not know."""
    try:
        size = max(type(obj).tell(obj), _getsizeof(obj)) * weight
    except ValueError:
        return  # closed
    node.own_bytes += size
    node.array_bytes += size


def _add_length(node, length, weight):
    node.length = (node.length or 0.0) + length * weight


def _open_list(walk, obj, node, weight):
    length = list.__len__(obj)
    _add_length(node, length, weight)
    node.own_bytes += list.__sizeof__(obj) * weight
    if length:
        walk.push_members(obj if type(obj) is list else list.__getitem__(obj, slice(None)), length, node, weight)


def _open_tuple(walk, obj, node, weight):
    node.own_bytes += tuple.__sizeof__(obj) * weight
    length = tuple.__len__(obj)
    if length > 32:
        _add_length(node, length, weight)
    if length:
        walk.push_members(obj if type(obj) is tuple else tuple.__getitem__(obj, slice(None)), length, node, weight)


def _open_set(walk, obj, node, weight):
    base = set if set in _mro_of(type(obj)) else frozenset
    length = base.__len__(obj)
    _add_length(node, length, weight)
    node.own_bytes += base.__sizeof__(obj) * weight
    if length:
        walk.push_members(obj if type(obj) is base else base(base.__iter__(obj)), length, node, weight)


def _open_deque(walk, obj, node, weight):
    length = deque.__len__(obj)
    _add_length(node, length, weight)
    node.length_limit = deque.maxlen.__get__(obj)
    node.own_bytes += deque.__sizeof__(obj) * weight
    if length:
        walk.push_members(obj, length, node, weight)


def _open_dict(walk, obj, node, weight):
    length = dict.__len__(obj)
    _add_length(node, length, weight)
    node.own_bytes += dict.__sizeof__(obj) * weight
    if not length:
        return
    if length <= _IDENTIFIER_KEYS:
        pairs = list(dict.items(obj))
        node.member = type(pairs[0][1])
        while pairs:
            key, value = pairs.pop()
            if type(key) is str and key.isidentifier():
                walk._push(value, node, "['" + key + "']", ITEM, weight)
            else:
                walk._push(value, node, "[*]", ITEM, weight)
            walk._push(key, node, "<key>", KEY, weight)
        return
    walk.push_members(dict.values(obj), length, node, weight)
    member = node.member
    walk.push_members(dict.keys(obj), length, node, weight, KEY, "<key>")
    node.member = member


def _push_attributes(walk, pairs, node, weight):
    pairs.reverse()
    while pairs:  # popped: see push_members
        name, value = pairs.pop()
        if type(name) is str:
            walk._push(value, node, "." + name, ATTRIBUTE, weight)


def _slots_of(walk, cls):
    """[(name, descriptor), …] of the ``__slots__`` of a class and its bases."""
    slots = walk._slots.get(cls)
    if slots is None:
        slots = []
        for base in _mro_of(cls):
            if _flags_of(base) & _HEAPTYPE:
                namespace = _namespace_of(base)
                if "__slots__" in namespace:
                    slots += [(n, d) for n, d in list(namespace.items()) if type(d) is _MemberDescriptor]
        walk._slots[cls] = slots
    return slots


def _open_attributes(walk, obj, node, weight):
    """Instance dict and slots; False if there are neither."""
    cls = type(obj)
    found = False
    for name, descriptor in _slots_of(walk, cls):
        found = True
        try:
            value = descriptor.__get__(obj)
        except AttributeError:
            continue
        walk._push(value, node, "." + name, ATTRIBUTE, weight)
    try:
        attributes = _object_getattribute(obj, "__dict__")
    except Exception:
        return found
    if type(attributes) is not dict:
        return found
    if id(attributes) in walk.seen:
        return True  # a module's namespace, or shared with another object: it has its name already
    walk.seen.add(id(attributes))
    # From 3.11 attributes live in an array in the object until somebody asks for the dict, as we just did.
    node.own_bytes += (8 * len(attributes) + 16 if _INLINE_ATTRIBUTES else dict.__sizeof__(attributes)) * weight
    if len(attributes) > _VISIT_ALL:  # an object used as a dict: its attributes are members, not names
        _add_length(node, len(attributes), weight)
        walk.push_members(attributes.values(), len(attributes), node, weight, ATTRIBUTE, ".*")
    else:
        _push_attributes(walk, list(attributes.items()), node, weight)
    return True


def _open_instance(walk, obj, node, weight):
    """Of a class written in Python: attributes and slots are all there is."""
    node.own_bytes += (_basicsize_of(type(obj)) + _GC_HEADER_BYTES) * weight
    _open_attributes(walk, obj, node, weight)


def _open_c_instance(walk, obj, node, weight):
    """A class written in C is somewhere in its ancestry: what it holds the collector knows, without names."""
    cls = type(obj)
    node.own_bytes += (_basicsize_of(cls) + _GC_HEADER_BYTES) * weight
    if _is_extension(cls):
        node.opaque = True
    _open_attributes(walk, obj, node, weight)
    _open_by_collector(walk, obj, node, weight)


def _is_written_in_c(cls):
    return any(type(value) in _C_SLOTS for value in _namespace_of(cls).values())


_C_SLOTS = frozenset((types.WrapperDescriptorType, types.MethodDescriptorType, types.BuiltinFunctionType))


def _is_extension(cls):
    """Written in C: what it holds beside Python references cannot be seen."""
    for base in _mro_of(cls)[:-1]:
        if not _is_written_in_c(base):
            continue
        if type_name(base) in _FILLED_IN_C:
            return True
        file = module_file(_namespace_of(base).get("__module__"))
        if file is not None and file.endswith((".so", ".pyd")):
            return True
    return False


# Standard types that keep in C what they are given.
_FILLED_IN_C = frozenset(
    ("sqlite3.Connection", "sqlite3.Cursor", "_sqlite3.Connection", "pyexpat.xmlparser", "_pickle.Unpickler")
)


def _open_by_collector(walk, obj, node, weight):
    if not gc.is_tracked(obj):
        node.opaque = True
        size = _safe_size(obj)
        if size > _BIG_ATOM_BYTES:
            node.own_bytes += size * weight
        return
    referents = gc.get_referents(obj)
    if not any(type(r) not in _IGNORED and r is not type(obj) for r in referents):
        node.opaque = True
    length = len(referents)
    if length > _VISIT_ALL:
        _add_length(node, length, weight)
        wanted = _SAMPLE_MIXED if weight <= 1.0 else _SAMPLE_NESTED
        sample = _spread(referents, length, wanted, walk._next_phase())
        del referents[:]  # they would count as references of the job's
        walk._push_sample(sample, weight * length / len(sample), node, ".~", REFERENCE)
        return
    cls = type(obj)
    for referent in referents:
        if referent is not cls and id(referent) not in walk.seen:
            walk._push(referent, node, ".~", REFERENCE, weight)


def _safe_size(obj):
    """sys.getsizeof unless the type answers it in Python."""
    for base in _mro_of(type(obj)):
        method = _namespace_of(base).get("__sizeof__")
        if method is not None:
            return _getsizeof(obj) if type(method) is types.MethodDescriptorType else _basicsize_of(type(obj))
    return _basicsize_of(type(obj))


def _with_attributes(opener):
    def both(walk, obj, node, weight):
        opener(walk, obj, node, weight)
        _open_attributes(walk, obj, node, weight)

    return both


def _open_function(walk, obj, node, weight):
    if type(obj) is not types.FunctionType:
        return _open_by_collector(walk, obj, node, weight)
    code = obj.__code__
    if "<agent>" in code.co_filename:
        return
    named = (obj.__qualname__, obj.__module__, code.co_filename, code.co_firstlineno)
    cells = obj.__closure__
    if cells:
        for name, cell in zip(code.co_freevars, cells):
            try:
                value = cell.cell_contents
            except ValueError:
                continue
            walk.seen.add(id(cell))
            walk._push(value, node, " closure " + name, CELL, weight, None, _named(name, named))
    defaults = obj.__defaults__
    if defaults:
        names = code.co_varnames[: code.co_argcount][-len(defaults) :]
        for name, value in zip(names, defaults):
            walk._push(value, node, " default " + name, DEFAULT, weight, None, _named(name, named))
    keyword_defaults = obj.__kwdefaults__
    if keyword_defaults:
        for name, value in list(keyword_defaults.items()):
            walk._push(value, node, " default " + name, DEFAULT, weight, None, _named(name, named))
    attributes = obj.__dict__
    if attributes:
        _push_attributes(walk, list(attributes.items()), node, weight)


def _named(variable, owner):
    qualname, module, file, line = owner
    return (variable, qualname, module if type(module) is str else None, file, line, is_user_file(file))


def _open_class(walk, obj, node, weight):
    """A class's own namespace: shared by all instances, so a list in it is a holder like any other."""
    if not _flags_of(obj) & _HEAPTYPE:
        return
    namespace = _namespace_of(obj)
    module = namespace.get("__module__")
    file = module_file(module)
    if not is_user_module(module, file):
        return
    name = type.__getattribute__(obj, "__qualname__")
    for attribute, value in list(namespace.items()):
        kind = type(value)
        if kind in _IGNORED or kind in _ATOMS or attribute in _CLASS_MACHINERY:
            continue
        if kind is types.FunctionType and not any(
            (value.__closure__, value.__defaults__, value.__kwdefaults__, value.__dict__)
        ):
            continue  # most methods: nothing hangs on them
        walk._push(
            value, node, "." + attribute, CLASS_ATTRIBUTE, weight, None, (attribute, name, module, file, None, True)
        )


_CLASS_MACHINERY = frozenset(("__dict__", "__weakref__", "__doc__", "__module__", "__annotations__", "__slots__",
                              "__abstractmethods__", "_abc_impl", "__parameters__", "__orig_bases__"))  # fmt: skip


def _open_lru_cache(walk, obj, node, weight):
    info = type(obj).cache_info(obj)
    _add_length(node, info[3], weight)
    node.length_limit = info[2]
    attributes = obj.__dict__
    function = attributes.get("__wrapped__")
    code = getattr_code(function)
    if code is not None:
        node.named = (code.co_name, function.__qualname__, function.__module__, code.co_filename,
                      code.co_firstlineno, is_user_file(code.co_filename))  # fmt: skip
        node.edge = CACHE
        if not node.label.endswith("<lru_cache>"):
            node.label += ".<lru_cache>"
    if not info[3]:
        return
    for referent in gc.get_referents(obj):
        if type(referent) is dict and referent is not attributes and len(referent) == info[3]:
            walk.seen.add(id(referent))
            node.own_bytes += dict.__sizeof__(referent) * weight
            walk.push_members(referent.values(), len(referent), node, weight)
            member = node.member
            walk.push_members(referent.keys(), len(referent), node, weight, KEY, "<key>")
            node.member = member
            break


def getattr_code(function):
    return function.__code__ if type(function) is types.FunctionType else None


def _open_frame(walk, obj, node, weight):
    code = obj.f_code
    if code.co_name == "<module>":
        return
    name = getattr(code, "co_qualname", code.co_name)
    owner = (name, obj.f_globals.get("__name__"), code.co_filename, code.co_firstlineno)
    for variable, value in frame_locals(obj):
        walk._push(value, node, " " + variable, LOCAL, weight, None, _named(variable, owner))


def _open_suspended(attribute):
    """Generators and coroutines: their locals, if they are still to run."""

    def open_suspended(walk, obj, node, weight):
        frame = getattr(obj, attribute)  # C member of an exact type
        if frame is not None:
            node.own_bytes += 500 * weight
            _open_frame(walk, frame, node, weight)
        awaited = getattr(obj, _AWAITED[attribute], None)
        if awaited is not None:
            walk._push(awaited, node, " await ", REFERENCE, weight)

    return open_suspended


_AWAITED = {"gi_frame": "gi_yieldfrom", "cr_frame": "cr_await", "ag_frame": "ag_await"}


def _open_traceback(walk, obj, node, weight):
    node.own_bytes += 64 * weight
    depth = 0
    while obj is not None and depth < 50:
        frame = obj.tb_frame
        if id(frame) not in walk.seen and frame.f_code.co_name != "<module>":
            name = getattr(frame.f_code, "co_qualname", frame.f_code.co_name)
            walk._push(frame, node, " " + name + "()", REFERENCE, weight)
        obj = obj.tb_next
        depth += 1


def _open_exception(walk, obj, node, weight):
    node.own_bytes += (_basicsize_of(type(obj)) + _GC_HEADER_BYTES) * weight
    _open_attributes(walk, obj, node, weight)
    for label, part in (
        (".__traceback__", BaseException.__traceback__.__get__(obj)),
        (".__cause__", BaseException.__cause__.__get__(obj)),
        (".__context__", BaseException.__context__.__get__(obj)),
        (".args", BaseException.args.__get__(obj)),
    ):
        if part is not None:
            walk._push(part, node, label, ATTRIBUTE, weight)


def _open_memoryview(walk, obj, node, weight):
    try:
        walk._push(obj.obj, node, ".obj", BASE, weight)
    except ValueError:
        pass  # released


def _open_map(walk, obj, node, weight):
    """mmap.mmap: its length, resident or not."""
    try:
        size = len(obj) * weight
    except ValueError:
        return  # closed
    node.own_bytes += size
    node.array_bytes += size


def _open_array(walk, obj, node, weight):
    array = walk._array_type
    base = array.base.__get__(obj)
    node.own_bytes += 112 * weight
    if base is None:
        size = array.nbytes.__get__(obj) * weight
        node.own_bytes += size
        node.array_bytes += size
        if array.dtype.__get__(obj).hasobject:
            length = array.size.__get__(obj)
            _add_length(node, length, weight)
            flat = array.flat.__get__(obj)
            step = max(1, length // _SAMPLE)
            positions = range(0, length, step)
            for position in positions:
                walk._push(flat[position], node, "[*]", ITEM, weight * length / len(positions))
    else:
        walk._push(base, node, ".base", BASE, weight)
    if type(obj) is not array:
        _open_attributes(walk, obj, node, weight)


def _open_tensor(walk, obj, node, weight):
    """Storage once, whatever views there are; never data_ptr (materialises copies), never .grad of a non-leaf."""
    torch = sys.modules["torch"]
    node.own_bytes += 400 * weight  # Python wrapper, TensorImpl and StorageImpl
    guard = getattr_plain(torch._C, "DisableTorchFunctionSubclass")
    if guard is None or type(obj).__name__ in ("FakeTensor", "FunctionalTensor"):
        node.opaque = True
        return
    with guard():
        tensor = walk._tensor_type
        if obj.layout is not torch.strided or obj.device.type == "meta":
            node.opaque = True
            return
        storage = walk._storage_id(obj) if walk._storage_id is not None else id(obj)
        if storage not in walk._storages:
            walk._storages.add(storage)
            size = tensor.untyped_storage(obj).nbytes() * weight
            if obj.device.type == "cpu":
                node.own_bytes += size
                node.tensor_bytes += size
        if obj.is_leaf and obj.requires_grad:
            gradient = tensor.grad.__get__(obj)
            if gradient is not None:
                walk._push(gradient, node, ".grad", ATTRIBUTE, weight)
        elif obj.requires_grad and walk._graphs is not None:
            _open_graph(walk, tensor.grad_fn.__get__(obj), node, weight)
        if type(obj) is not tensor and _flags_of(type(obj)) & _HEAPTYPE:
            attributes = _object_getattribute(obj, "__dict__")
            if attributes:
                _push_attributes(walk, list(attributes.items()), node, weight)


def _open_graph(walk, grad_fn, node, weight):
    """The autograd graph of a tensor as one place below it: it is in C++, where no object counter looks."""
    if grad_fn is None:
        return
    nodes, saved_bytes = walk._graphs.below(grad_fn)
    if nodes:
        graph = walk._node(node, ".grad_fn", REFERENCE, autograd.AutogradGraph, None, None)
        graph.count += nodes * weight
        graph.opened += nodes * weight
        graph.visits += nodes
        graph.own_bytes += (nodes * autograd.NODE_BYTES + saved_bytes) * weight
        graph.tensor_bytes += saved_bytes * weight


def _open_image(walk, obj, node, weight):
    """PIL's pixel storage, which no Python object holds: 1 byte a pixel in one-band modes, else 4."""
    width, height = _object_getattribute(obj, "size")
    mode = _object_getattribute(obj, "mode")
    size = width * height * (1 if mode in ("1", "L", "P") else 4) * weight
    node.own_bytes += size
    node.array_bytes += size


def _open_arrow(walk, obj, node, weight):
    """pyarrow buffers, arrays and tables: C++ memory, by the library's own figure."""
    for name in ("get_total_buffer_size", "size"):
        for base in _mro_of(type(obj)):
            attribute = _namespace_of(base).get(name)
            if attribute is not None:
                figure = attribute.__get__(obj, type(obj))
                size = (figure() if callable(figure) else figure) * weight
                node.own_bytes += size
                node.array_bytes += size
                return
    node.opaque = True


def _open_thread_local(walk, obj, node, weight):
    """threading.local: one namespace a thread, all under the same names."""
    for referent in gc.get_referents(obj):
        if type(referent) is dict:
            for namespace in list(referent.values()):
                if type(namespace) is dict and id(namespace) not in walk.seen:
                    walk.seen.add(id(namespace))
                    _push_attributes(walk, list(namespace.items()), node, weight)


_BASES = {
    list: _with_attributes(_open_list),
    tuple: _with_attributes(_open_tuple),
    dict: _with_attributes(_open_dict),
    set: _with_attributes(_open_set),
    frozenset: _with_attributes(_open_set),
    deque: _with_attributes(_open_deque),
    BaseException: _open_exception,
    bytearray: _with_attributes(_open_buffer),
    str: _open_sized,
    bytes: _open_sized,
    int: _open_sized,
    float: _open_sized,
}
_OPENERS = {
    list: _open_list,
    tuple: _open_tuple,
    dict: _open_dict,
    OrderedDict: _open_dict,
    defaultdict: _open_dict,
    set: _open_set,
    frozenset: _open_set,
    deque: _open_deque,
    bytearray: _open_buffer,
    memoryview: _open_memoryview,
    types.FunctionType: _open_function,
    types.FrameType: _open_frame,
    types.TracebackType: _open_traceback,
    types.GeneratorType: _open_suspended("gi_frame"),
    types.CoroutineType: _open_suspended("cr_frame"),
    types.AsyncGeneratorType: _open_suspended("ag_frame"),
    type: _open_class,
}
_BY_NAME = {
    "functools._lru_cache_wrapper": _open_lru_cache,
    "_thread._local": _open_thread_local,
    "mmap.mmap": _open_map,
    "array.array": _open_buffer,
    "_io.BytesIO": _open_buffer,
    "_io.StringIO": _open_text_buffer,
    "ImagingCore": _open_image,
    "PIL._imaging.ImagingCore": _open_image,
}
_BY_NAME.update(
    ("pyarrow.lib." + name, _open_arrow)
    for name in ("Buffer", "ResizableBuffer", "ForeignBuffer", "Table", "RecordBatch", "ChunkedArray")
)
# Their reference count tells how many share one: nothing they hold points back at them as a rule. Instances do have
# back references (child.parent), so theirs are checked against the census instead.
_COUNTED_BY_REFERENCES = frozenset((list, tuple, dict, set, frozenset, deque, bytearray, OrderedDict, defaultdict))


# ---- whose code is it


_STDLIB = os.path.dirname(os.path.realpath(os.__file__)) + os.sep
_STDLIB_PLAIN = os.path.dirname(os.__file__) + os.sep
_AGENT = os.path.dirname(os.path.abspath(__file__)) + os.sep
_BOOT = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "boot") + os.sep
_user_files = {}


def is_user_file(file):
    """Not the standard library, site-packages, frozen or the agent. ``<string>`` and notebooks are the user's."""
    if type(file) is not str:
        return False
    known = _user_files.get(file)
    if known is None:
        known = _user_files[file] = not (
            file.startswith("<frozen")
            or file.startswith((_STDLIB, _STDLIB_PLAIN, _AGENT, _BOOT))
            or (os.sep + "site-packages" + os.sep) in file
            or (os.sep + "dist-packages" + os.sep) in file
            or file.startswith("<__array_function__")
            or file == "<attrs generated"
        )
    return known


_main_file = None


def module_file(module):
    """``__file__`` of a loaded module by name, or None. That of the script is remembered: it is gone at exit."""
    global _main_file
    if type(module) is not str:
        return None
    file = getattr_plain(sys.modules.get(module), "__file__")
    if type(file) is not str:
        return _main_file if module == "__main__" else None
    if module == "__main__":
        _main_file = file
    return file


def is_user_module(module, file):
    if module == "__main__":
        return file is None or is_user_file(file)
    return file is not None and is_user_file(file) and not file.endswith((".so", ".pyd"))


_OUR_ERRORS = frozenset(
    (AttributeError, IndexError, KeyError, LookupError, MemoryError, OSError, OverflowError, RecursionError,
     ReferenceError, RuntimeError, SystemError, TypeError, UnboundLocalError, ValueError)
)  # fmt: skip


def is_foreign(error):
    """Raised by a signal handler of the job that ran inside our code, not by our code: it must go on its way.

    Ours are plain errors from the frames of the agent and of what it calls. KeyboardInterrupt, and what
    ``PyThreadState_SetAsyncExc`` raises, have no frame of their own but are of other types.
    """
    if type(error) not in _OUR_ERRORS:
        return True
    trace = error.__traceback__
    foreign = False
    while trace is not None:
        foreign = not trace.tb_frame.f_code.co_filename.startswith((_AGENT, _BOOT, _STDLIB_PLAIN, "<frozen"))
        trace = trace.tb_next
    return foreign
