"""How to open an object of each type: ``opener(walk, obj, node, weight)`` pushes what it refers to. Runs in the job.

No foreign code runs: attributes are read from ``__dict__`` and slots by the descriptors of ``object`` and ``type``, and
what is not known here is opened with ``gc.get_referents``, which calls only what the collector itself calls.
"""

from __future__ import annotations

import ctypes
import gc
import sys
import types
from _collections import OrderedDict, defaultdict, deque

from .. import libraries
from ..interpreter import reading
from ..interpreter.names import (
    ByClass,
    basicsize_of,
    file_of,
    getattr_code,
    ids_of,
    is_written_in_c,
    module_file,
    module_of_frame,
    mro_of,
    name_of,
    named_by,
    names_of,
    namespace_of,
    qualified_name_of,
    safe_size,
    text_of,
    type_name,
)
from ..interpreter.reading import KEYS
from .sampling import BIG_ATOM_BYTES, IDENTIFIER_KEYS, SAMPLE, SAMPLE_MIXED, SAMPLE_NESTED, VISIT_ALL, spread

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from types import FrameType, TracebackType
    from typing import Any

    from .walk import Node, Walk

    Opener = Callable[[Walk, Any, Node, float], None]

GC_HEADER_BYTES = 16
STATE_DICT = 4096  # tensors in a dict that are all looked at
MANY = 1000  # members of a container that may be a data set
MANY_ENTRIES = 50000  # of a traceback that are counted one by one
TRACEBACK_BYTES = 64
_INLINE_ATTRIBUTES = sys.version_info >= (3, 11)
_getsizeof = sys.getsizeof
_tb_frame = types.TracebackType.tb_frame.__get__
_f_back = types.FrameType.f_back.__get__
_traceback_of, _cause_of, _context_of, _args_of = (
    BaseException.__dict__[name].__get__ for name in ("__traceback__", "__cause__", "__context__", "args")
)

# Shared for ever or without contents worth counting: never opened, never counted.
IGNORED = ids_of(
    type(None), bool, type(Ellipsis), type(NotImplemented), types.ModuleType,
    types.GetSetDescriptorType, types.MemberDescriptorType, types.WrapperDescriptorType,
    types.MethodDescriptorType, types.ClassMethodDescriptorType, types.MappingProxyType,
    type(sys.flags), type(sys.version_info),
)  # fmt: skip
# Objects without references, counted as part of what holds them.
ATOMS = ids_of(int, float, complex, str, bytes, range, slice)

# Root and edge kinds are those of schema.py, table holders.
ITEM, KEY, ATTRIBUTE, REFERENCE = "item", "key", "attribute", "reference"
LOCAL, GLOBAL, CLASS_ATTRIBUTE = "local", "global", "class-attribute"
CELL, DEFAULT, BASE, CACHE = "cell", "default", "base", "cache"


def open_nothing(walk: Walk, obj: Any, node: Node, weight: float) -> None:
    pass


def open_sized(walk: Walk, obj: Any, node: Node, weight: float) -> None:
    node.own_bytes += safe_size(obj) * weight


def open_buffer(walk: Walk, obj: Any, node: Node, weight: float) -> None:
    size = safe_size(obj) * weight
    node.own_bytes += size
    if type(obj) is not bytearray:
        node.array_bytes += size


def open_text_buffer(walk: Walk, obj: Any, node: Node, weight: float) -> None:
    """io.StringIO: until it is read its text is a list of pieces in C that __sizeof__ does not know."""
    try:
        size = max(type(obj).tell(obj), _getsizeof(obj)) * weight
    except ValueError:
        return  # closed
    node.own_bytes += size
    node.array_bytes += size


def _add_length(walk: Walk, obj: Any, node: Node, length: int, weight: float) -> None:
    node.length = (node.length or 0.0) + length * weight
    if length >= MANY and weight <= 1.0:
        walk.large[node] = obj


def open_list(walk: Walk, obj: Any, node: Node, weight: float) -> None:
    length = list.__len__(obj)
    _add_length(walk, obj, node, length, weight)
    node.own_bytes += list.__sizeof__(obj) * weight
    if length:
        walk.push_members(list, obj, length, node, weight)


def open_tuple(walk: Walk, obj: Any, node: Node, weight: float) -> None:
    node.own_bytes += tuple.__sizeof__(obj) * weight
    length = tuple.__len__(obj)
    if length > 32:
        _add_length(walk, obj, node, length, weight)
    if length:
        walk.push_members(tuple, obj, length, node, weight)


def open_set(walk: Walk, obj: Any, node: Node, weight: float) -> None:
    base = reading.base_of(type(obj))
    length = base.__len__(obj)
    _add_length(walk, obj, node, length, weight)
    node.own_bytes += base.__sizeof__(obj) * weight
    if length:
        walk.push_members(base, obj, length, node, weight)


def open_deque(walk: Walk, obj: Any, node: Node, weight: float) -> None:
    length = deque.__len__(obj)
    _add_length(walk, obj, node, length, weight)
    node.length_limit = deque.maxlen.__get__(obj)
    node.own_bytes += deque.__sizeof__(obj) * weight
    if length:
        walk.push_members(deque, obj, length, node, weight)


def open_dict(walk: Walk, obj: Any, node: Node, weight: float) -> None:
    length = dict.__len__(obj)
    _add_length(walk, obj, node, length, weight)
    node.own_bytes += dict.__sizeof__(obj) * weight
    if not length:
        return
    if length <= IDENTIFIER_KEYS:
        pairs = reading.pairs(obj)
        node.member = type(pairs[0][1]) if pairs else None
        while pairs:
            key, value = pairs.pop()
            if type(key) is str and key.isidentifier():
                walk.push(value, node, "['" + key + "']", ITEM, weight)
            else:
                walk.push(value, node, "[*]", ITEM, weight)
            walk.push(key, node, "<key>", KEY, weight)
        return
    first = type(next(reading.iterator(dict, obj), None))
    if length <= STATE_DICT and weight <= 1.0 and first is walk.tensor_type:
        # A state dict: each of its tensors may be a copy of another's.
        walk.push_sample(reading.members(dict, obj), weight, node, "[*]", ITEM)
        node.member = walk.tensor_type
        return
    _push_pairs(walk, obj, length, node, weight)


def _push_pairs(walk: Walk, obj: Any, length: int, node: Node, weight: float) -> None:
    walk.push_members(dict, obj, length, node, weight)
    member = node.member
    walk.push_members(KEYS, obj, length, node, weight, KEY, "<key>")
    node.member = member


def push_attributes(walk: Walk, pairs: list[tuple[Any, Any]], node: Node, weight: float) -> None:
    pairs.reverse()
    while pairs:  # popped: see push_members
        name, value = pairs.pop()
        if type(name) is str:
            walk.push(value, node, "." + name, ATTRIBUTE, weight)


def open_attributes(walk: Walk, obj: Any, node: Node, weight: float) -> bool:
    """Instance dict and slots; False if there are neither."""
    attributes = walk.attributes(type(obj))
    for name, descriptor in attributes.slots:
        try:
            value = descriptor.__get__(obj)
        except AttributeError:
            continue
        walk.push(value, node, f".{name}", ATTRIBUTE, weight)
    namespace = attributes.dict_of(obj)
    if namespace is None:
        return bool(attributes.slots)
    if id(namespace) in walk.seen:
        return True  # a module's namespace, or shared with another object: it has its name already
    walk.seen.add(id(namespace))
    length = len(namespace)
    # From 3.11 attributes live in an array in the object until somebody asks for the dict, as we just did.
    node.own_bytes += (8 * length + 16 if _INLINE_ATTRIBUTES else dict.__sizeof__(namespace)) * weight
    if length > VISIT_ALL:  # an object used as a dict: its attributes are members, not names
        _add_length(walk, obj, node, length, weight)
        walk.push_members(dict, namespace, length, node, weight, ATTRIBUTE, ".*")
    else:
        push_attributes(walk, reading.pairs(namespace), node, weight)
    return True


def open_instance(walk: Walk, obj: Any, node: Node, weight: float) -> None:
    """Of a class written in Python: attributes and slots are all there is."""
    node.own_bytes += (basicsize_of(type(obj)) + GC_HEADER_BYTES) * weight
    open_attributes(walk, obj, node, weight)


def open_c_instance(walk: Walk, obj: Any, node: Node, weight: float) -> None:
    """A class written in C is somewhere in its ancestry: what it holds the collector knows, without names."""
    cls = type(obj)
    node.own_bytes += (basicsize_of(cls) + GC_HEADER_BYTES) * weight
    if _is_extension(cls):
        node.opaque = True
    open_attributes(walk, obj, node, weight)
    open_by_collector(walk, obj, node, weight)


def _is_extension(cls: type) -> bool:
    """Written in C: what it holds beside Python references cannot be seen."""
    for base in mro_of(cls)[:-1]:
        if not is_written_in_c(base):
            continue
        if type_name(base) in _FILLED_IN_C:
            return True
        file = module_file(namespace_of(base).get("__module__"))
        if file is not None and file.endswith((".so", ".pyd")):
            return True
    return False


_FILLED_IN_C = libraries.names_of(libraries.FILLED_IN_C)


def open_by_collector(walk: Walk, obj: Any, node: Node, weight: float) -> None:
    if not gc.is_tracked(obj):
        node.opaque = True
        size = safe_size(obj)
        if size > BIG_ATOM_BYTES:
            node.own_bytes += size * weight
        return
    referents = gc.get_referents(obj)
    if not any(id(type(r)) not in IGNORED and r is not type(obj) for r in referents):
        node.opaque = True
    length = len(referents)
    if length > VISIT_ALL:
        _add_length(walk, obj, node, length, weight)
        wanted = SAMPLE_MIXED if weight <= 1.0 else SAMPLE_NESTED
        sample = spread(referents, wanted, walk.next_phase())
        del referents[:]  # they would count as references of the job's
        walk.push_sample(sample, weight * length / len(sample), node, ".~", REFERENCE)
        return
    cls = type(obj)
    for referent in referents:
        if referent is not cls and id(referent) not in walk.seen:
            walk.push(referent, node, ".~", REFERENCE, weight)


def _with_attributes(opener: Opener) -> Opener:
    def both(walk: Walk, obj: Any, node: Node, weight: float) -> None:
        opener(walk, obj, node, weight)
        open_attributes(walk, obj, node, weight)

    return both


def open_lru_cache(walk: Walk, obj: Any, node: Node, weight: float) -> None:
    results = reading.results_of(obj)
    length = 0 if results is None else dict.__len__(results)
    _add_length(walk, obj, node, length, weight)
    node.length_limit = reading.most_results(obj)
    attributes = reading.attributes_of(obj) or {}
    function = attributes.get("__wrapped__")
    code = getattr_code(function)
    if code is not None:
        node.named = named_by(name_of(code), names_of(function))
        node.edge = CACHE
        if not node.label.endswith("<lru_cache>"):
            node.label += ".<lru_cache>"
    if length:
        walk.seen.add(id(results))
        node.own_bytes += dict.__sizeof__(results) * weight
        _push_pairs(walk, results, length, node, weight)


def open_frame(walk: Walk, obj: Any, node: Node, weight: float) -> None:
    code = obj.f_code
    if name_of(code) == "<module>":
        return
    owner = (qualified_name_of(code), module_of_frame(obj), file_of(code), code.co_firstlineno)
    node.own_bytes += _getsizeof(obj) * weight
    pairs = reading.frame_locals(obj)
    while pairs:  # popped: see push_members
        variable, value = pairs.pop()
        walk.push(value, node, " " + variable, LOCAL, weight, None, named_by(variable, owner))
    # A function that has returned is kept, with its locals, by the one it called whose frame an exception keeps.
    _push_frame(walk, _f_back, obj, node, weight)


def _push_frame(walk: Walk, frame_of: Callable[[Any], FrameType | None], obj: Any, node: Node, weight: float) -> None:
    """A frame that something else than its running keeps: what runs now is a root of its own, named better there."""
    frame = frame_of(obj)  # read here: a caller's reference would count as one of the job's
    if frame is not None and id(frame) not in walk.running and name_of(frame.f_code) != "<module>":
        name = qualified_name_of(frame.f_code).rsplit("<locals>.", 1)[-1]
        walk.push(frame, node, " " + name + "()", REFERENCE, weight)


def open_suspended(attribute: str) -> Opener:
    """Generators and coroutines: their locals, if they are still to run."""

    def open_suspended(walk: Walk, obj: Any, node: Node, weight: float) -> None:
        frame = getattr(obj, attribute)  # C member of an exact type
        if frame is None:
            return
        open_frame(walk, frame, node, weight)
        awaited = reading.awaited_by(obj, frame)
        if awaited is not None:
            walk.push(awaited, node, " await ", REFERENCE, weight)

    return open_suspended


def open_traceback(walk: Walk, obj: Any, node: Node, weight: float) -> None:
    """Where an exception went through. One that is raised again and again gets ever longer, and keeps every frame.

    Its first entry is ``node``, all the others one place below it, whose frames are sampled. The chain is counted to
    its end, or as far as MANY_ENTRIES: the census knows the rest. **Cost** 0.1 us an entry.
    """
    node.own_bytes += TRACEBACK_BYTES * weight
    _push_frame(walk, _tb_frame, obj, node, weight)
    seen = walk.seen
    entries: list[TracebackType] = []
    entry = obj.tb_next
    while entry is not None and len(entries) < MANY_ENTRIES and id(entry) not in seen:
        seen.add(id(entry))
        entries.append(entry)
        entry = entry.tb_next
    if not entries:
        return
    length = len(entries)
    rest = walk.node_at(node, ".tb_next", REFERENCE, types.TracebackType, None, None)
    sample = entries if length <= VISIT_ALL else spread(entries, SAMPLE, walk.next_phase())
    rest.count += length * weight
    rest.opened += length * weight
    rest.visits += length
    rest.own_bytes += TRACEBACK_BYTES * length * weight
    if length == MANY_ENTRIES and weight <= 1.0:
        rest.chained = rest.linked = rest.cut = True
    for entry in sample:
        _push_frame(walk, _tb_frame, entry, rest, weight * length / len(sample))


def open_exception(walk: Walk, obj: Any, node: Node, weight: float) -> None:
    node.own_bytes += (basicsize_of(type(obj)) + GC_HEADER_BYTES) * weight
    open_attributes(walk, obj, node, weight)
    for label, part in (
        (".__traceback__", _traceback_of(obj)),
        (".__cause__", _cause_of(obj)),
        (".__context__", _context_of(obj)),
        (".args", _args_of(obj)),
    ):
        if part is not None:  # no attribute of the user's: whoever holds the exception gives it its name
            walk.push(part, node, label, REFERENCE, weight)


def open_memoryview(walk: Walk, obj: Any, node: Node, weight: float) -> None:
    try:
        walk.push(obj.obj, node, ".obj", BASE, weight)
    except ValueError:
        pass  # released


def open_map(walk: Walk, obj: Any, node: Node, weight: float) -> None:
    """mmap.mmap: its length, resident or not."""
    try:
        size = len(obj) * weight
    except ValueError:
        return  # closed
    node.own_bytes += size
    node.array_bytes += size


def open_array(walk: Walk, obj: Any, node: Node, weight: float) -> None:
    array = walk.array_type
    base = array.base.__get__(obj)
    node.own_bytes += 112 * weight
    if base is None:
        size = array.nbytes.__get__(obj) * weight
        node.own_bytes += size
        node.array_bytes += size
        if weight <= 1.0 and array.size.__get__(obj) >= MANY:
            walk.large[node] = obj
        if array.dtype.__get__(obj).hasobject:
            length = array.size.__get__(obj)
            _add_length(walk, obj, node, length, weight)
            step = max(1, length // SAMPLE)
            positions = range(0, length, step)
            if array.dtype.__get__(obj).kind == "O":
                for position in positions:
                    found = reading.items_of_array(array, obj, (position,))
                    if found:  # popped: the list would count as a reference of the job's
                        walk.push(found.pop(), node, "[*]", ITEM, weight * length / len(positions))
    else:
        walk.push(base, node, ".base", BASE, weight)
    if type(obj) is not array:
        open_attributes(walk, obj, node, weight)


def open_image(walk: Walk, obj: Any, node: Node, weight: float) -> None:
    """PIL's pixel storage, which no Python object holds: 1 byte a pixel in one-band modes, else 4."""
    width, height = type(obj).size.__get__(obj)
    mode = type(obj).mode.__get__(obj)
    size = width * height * (1 if mode in ("1", "L", "P") else 4) * weight
    node.own_bytes += size
    node.array_bytes += size


def open_canvas(walk: Walk, obj: Any, node: Node, weight: float) -> None:
    """The pixels that matplotlib has drawn on, 4 bytes each, in C++."""
    open_instance(walk, obj, node, weight)
    attributes = reading.attributes_of(obj) or {}
    width: Any = attributes.get("width")
    height: Any = attributes.get("height")
    if all(kind is int or kind is float for kind in (type(width), type(height))):
        size = int(width) * int(height) * 4 * weight
        node.own_bytes += size
        node.array_bytes += size


def open_arrow(walk: Walk, obj: Any, node: Node, weight: float) -> None:
    """pyarrow buffers, arrays and tables: C++ memory, by the library's own figure."""
    if not _is_filled(obj):
        node.opaque = True
        return
    for name in ("get_total_buffer_size", "size"):
        for base in mro_of(type(obj)):
            attribute = namespace_of(base).get(name)
            if attribute is not None:
                figure = attribute.__get__(obj, type(obj))
                size = (figure() if callable(figure) else figure) * weight
                node.own_bytes += size
                node.array_bytes += size
                walk.large[node] = obj
                return
    node.opaque = True


def _is_filled(obj: Any) -> bool:
    """Whether more is in it than ``__new__`` makes: one that never saw its ``__init__`` would end the process."""
    cls: Any = type(obj)
    empty = _empty.get(cls)
    if empty is None:
        empty = cls.__new__(cls)
        _empty.set(cls, empty)
    words = list(zip(_words(cls, obj), _words(cls, empty)))
    del words[_weakrefs_at(cls) // _WORD_BYTES]  # or that of the count of references: neither says anything
    return all(word for word, none in words if none) and any(word for word, none in words[2:] if not none)


def _words(cls: type, obj: Any) -> Any:
    return (ctypes.c_size_t * (basicsize_of(cls) // _WORD_BYTES)).from_address(id(obj))


def open_thread_local(walk: Walk, obj: Any, node: Node, weight: float) -> None:
    """threading.local: one namespace a thread, all under the same names."""
    for referent in gc.get_referents(obj):
        if type(referent) is dict:
            for namespace in reading.members(dict, referent):
                if type(namespace) is dict and id(namespace) not in walk.seen:
                    walk.seen.add(id(namespace))
                    push_attributes(walk, reading.pairs(namespace), node, weight)


def open_context_variable(walk: Walk, obj: Any, node: Node, weight: float) -> None:
    """Its value in the thread that is looked into from within; those of tasks are in their contexts."""
    value = type(obj).get(obj, None)
    walk.push(value, node, ".get()", REFERENCE, weight)


def open_context(walk: Walk, obj: Any, node: Node, weight: float) -> None:
    """What ``contextvars`` keeps for a task or callback."""
    for variable, value in list(type(obj).items(obj)):
        walk.push(value, node, f"[{text_of(variable.name)}]", REFERENCE, weight)


_empty = ByClass()
_weakrefs_at = type.__dict__["__weakrefoffset__"].__get__
_WORD_BYTES = ctypes.sizeof(ctypes.c_size_t)
_BASES = {
    list: _with_attributes(open_list),
    tuple: _with_attributes(open_tuple),
    dict: _with_attributes(open_dict),
    set: _with_attributes(open_set),
    frozenset: _with_attributes(open_set),
    deque: _with_attributes(open_deque),
    BaseException: open_exception,
    bytearray: _with_attributes(open_buffer),
    str: open_sized,
    bytes: open_sized,
    int: open_sized,
    float: open_sized,
}
BASES = {id(cls): opener for cls, opener in _BASES.items()}
OPENERS = [
    (list, open_list),
    (tuple, open_tuple),
    (dict, open_dict),
    (OrderedDict, open_dict),
    (defaultdict, open_dict),
    (set, open_set),
    (frozenset, open_set),
    (deque, open_deque),
    (bytearray, open_buffer),
    (memoryview, open_memoryview),
    (types.FrameType, open_frame),
    (types.TracebackType, open_traceback),
    (types.GeneratorType, open_suspended("gi_frame")),
    (types.CoroutineType, open_suspended("cr_frame")),
    (types.AsyncGeneratorType, open_suspended("ag_frame")),
]
BY_NAME = {  # types of C, which are not known before their module is imported
    "functools._lru_cache_wrapper": open_lru_cache,
    "_contextvars.ContextVar": open_context_variable,
    "_contextvars.Context": open_context,
    "ContextVar": open_context_variable,  # as Python 3.10 and before name it
    "Context": open_context,
    "_thread._local": open_thread_local,
    "mmap.mmap": open_map,
    "array.array": open_buffer,
    "_io.BytesIO": open_buffer,
    "_io.StringIO": open_text_buffer,
    "ImagingCore": open_image,
    "PIL._imaging.ImagingCore": open_image,
}
BY_NAME.update(
    ("pyarrow.lib." + name, open_arrow)
    for name in ("Buffer", "ResizableBuffer", "ForeignBuffer", "Table", "RecordBatch", "ChunkedArray")
)
BY_NAME_IN_PYTHON = {"matplotlib.backends.backend_agg.RendererAgg": open_canvas}
# Their reference count tells how many share one: nothing they hold points back at them as a rule. Instances do have
# back references (child.parent), so theirs are checked against the census instead.
COUNTED_BY_REFERENCES = ids_of(
    list, tuple, dict, set, frozenset, deque, bytearray, OrderedDict, defaultdict, types.FrameType
)
