"""Where things lie in this Python's memory: what reader.c is told. Runs in the job.

Each figure is one that CPython has kept for years or one that was looked for; all of them are tried on objects whose
contents are known. What does not fit is 0, and is not read; without the first ones there is no reader at all.
"""

from __future__ import annotations

import ctypes
import gc
import sys
import types
from _collections import OrderedDict, deque
from _functools import _lru_cache_wrapper
from _io import BufferedRandom, BufferedReader, BufferedWriter, BytesIO, StringIO

from ..interpreter import arrays, collector, files, names

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from types import FrameType
    from typing import Any

_own: Any = type.__dict__
_itemsize_of, _dictoffset_of = _own["__itemsize__"].__get__, _own["__dictoffset__"].__get__
_name_of = _own["__name__"].__get__
_WORD = ctypes.c_uint64
_BYTES = 8
# Known by their addresses: whoever likes may call a class ``generator``, and Cython does.
_TYPES: dict[str, type] = {
    "type": type, "dict": dict, "list": list, "tuple": tuple, "text": str, "bytes": bytes, "integer": int, "set": set,
    "frozen_set": frozenset, "byte_array": bytearray, "deque": deque, "ordered_dict": OrderedDict, "bytes_io": BytesIO,
    "string_io": StringIO, "buffered_reader": BufferedReader, "buffered_writer": BufferedWriter,
    "buffered_random": BufferedRandom, "generator": types.GeneratorType, "coroutine": types.CoroutineType,
    "async_generator": types.AsyncGeneratorType, "module": types.ModuleType, "code": types.CodeType,
    "frame": types.FrameType, "function": types.FunctionType, "traceback": types.TracebackType,
}  # fmt: skip
_FUNCTIONS = (
    "PyDict_Next", "PyList_Append", "PyInterpreterState_Main", "PyInterpreterState_ThreadHead", "PyThreadState_Next",
    "PyThreadState_Get", "PyFrame_GetLineNumber", "PyCode_Addr2Line", "PySys_GetObject",
)  # fmt: skip
_SCANNED_WORDS = 64  # of a thread's state
_TYPE_BYTES = 344 + 56  # of what every type has, up to 3.8: no class has its name before
_INSTRUCTION = 56  # in a frame, since 3.11: the address of the one that runs
_LIMITS = (123456, 654321)
_ASKED = ((61, 83), (97, 53))  # hits and misses of caches
_BUFFERS = (12_345, 54_321)  # bytes, of no file
_CLEARED = 4  # the state of a generator that came to its end
_NAMES_OF_CODE = 96  # of all variables in one tuple, since 3.11
_TUPLE_ITEMS = 24 if sys.version_info < (3, 14) else 32  # before them, since 3.14, what the tuple was last hashed to
_OF_A_THREAD, _OF_A_GENERATOR = 0, 1  # who owns a frame
_TAGS = 3  # in the last bits of what a frame refers to, since 3.14: who counts the reference


class Layout(ctypes.Structure):
    """``struct layout`` of reader/layout.h."""

    _fields_ = [
        (name, _WORD)
        for name in (
            "version", *_TYPES, *_FUNCTIONS, "generations", "frozen", "text_bytes", "wide_text_bytes",
            "tuple_items", "thread_frame",
            "thread_indirect", "frame_slots", "frame_code", "frame_before", "frame_locals", "frame_function",
            "frame_globals", "frame_owner", "frame_at", "code_begin",
            "code_names", "code_file", "code_name", "code_line", "function_code", "function_globals",
            "function_defaults", "function_closure", "code_arguments", "results", "results_limit", "results_dict",
            "deque_limit", "results_hits", "results_misses", "frame_back", "generator_frame", "generator_state",
            "heap_type_name", "heap_type_keys",
            "stream_text", "buffer_bytes", "python_deallocate", "tensor_base", "tensor_storage", "storage_bytes",
            "storage_device", "tensor_count", "is_collecting", "any_lookup",
        )
    ]  # fmt: skip


def refusal() -> str | None:
    """Why this Python cannot be read, for a note; None: it can, as far as can be told before."""
    if sys.implementation.name != "cpython":
        return f"this is {sys.implementation.name}"
    if not (3, 8) <= sys.version_info[:2] <= (3, 14):
        return "Python %d.%d is not known" % sys.version_info[:2]
    if hasattr(sys, "getobjects"):
        return "this Python keeps a list of all objects"
    if "t" in sys.abiflags:
        return "this Python is a free-threaded build"
    if ctypes.sizeof(ctypes.c_void_p) != _BYTES or sys.byteorder != "little":
        return "this is no 64-bit machine with the least byte first"
    if object.__basicsize__ != 16 or tuple.__basicsize__ != _TUPLE_ITEMS:
        return "objects of this Python begin otherwise"
    return None


def find() -> Layout | None:
    """None where types do not lie where they do in every Python that this is for."""
    if not all(map(_is_type, (*_TYPES.values(), _Known))):
        return None
    layout = Layout(version=sys.hexversion >> 16)
    for name, cls in _TYPES.items():
        setattr(layout, name, id(cls))
    for name in _FUNCTIONS:
        function: Any = ctypes.pythonapi[name]
        setattr(layout, name, ctypes.cast(function, ctypes.c_void_p).value)
    layout.text_bytes = _after(b"leakscope knows this", "leakscope knows this")
    layout.wide_text_bytes = _after(b"leakscope knows thi\xdf", "leakscope knows thi\xdf")
    layout.tuple_items = _TUPLE_ITEMS
    layout.heap_type_name = _find_name()
    layout.python_deallocate = _word(id(_Known) + 48)
    is_made_alike = layout.python_deallocate == _word(id(_Other) + 48) != _word(id(deque) + 48)
    if not layout.text_bytes or not layout.wide_text_bytes or not layout.heap_type_name or not is_made_alike:
        return None
    known = (layout,)
    if _word(id(known) + _TUPLE_ITEMS) != id(layout):
        return None
    layout.generations, layout.frozen = collector.generations() or 0, collector.frozen()
    layout.is_collecting = collector.going_on() or 0
    _find_frames(layout)
    _find_code(layout)
    _find_limits(layout)
    layout.stream_text = _find_text_of_stream()
    layout.buffer_bytes = _find_buffer()
    layout.heap_type_keys = _find_keys(layout.heap_type_name)
    if sys.version_info < (3, 11):
        layout.any_lookup = _find_lookup()
    return layout


def variables() -> tuple[int, int]:
    """Where Python's own variables lie in memory: (begin, end); (0, 0) where unclear. **Cost** 1 ms."""
    try:
        at = ctypes.addressof(ctypes.c_char.in_dll(ctypes.pythonapi, "_PyRuntime"))
        with open("/proc/self/maps", "rb", opener=files.open_high) as stream:
            lines = stream.read().splitlines()
    except (OSError, ValueError):
        return 0, 0
    first = last = 0
    for line in lines:
        parts = line.split(None, 5)
        begin, end = (int(part, 16) for part in parts[0].split(b"-"))
        if parts[1][:2] != b"rw" or parts[-1] == b"[heap]":
            continue
        if begin != last:
            if first <= at < last:
                break
            first = begin
        last = end
    return (first, last) if first <= at < last else (0, 0)


def _word(address: int) -> int:
    return _WORD.from_address(address).value


def _is_type(cls: type) -> bool:
    """Whether what ``type`` says of it stands where reader.c reads it."""
    at = id(cls)
    name = ctypes.c_char_p.from_address(at + 24).value
    said = (names.basicsize_of(cls), names.flags_of(cls), _itemsize_of(cls))
    return (
        name is not None
        and name.decode("utf-8", "replace").rpartition(".")[2] == names.qualname_of(cls)
        and (_word(at + 32), _word(at + 168), _word(at + 40)) == said
        and ctypes.c_ssize_t.from_address(at + 288).value == _dictoffset_of(cls)
        and _word(at + 256) == id(names.mro_of(cls)[1])
        and _word(at + 344) == id(names.mro_of(cls))
    )


def _after(data: bytes, text: str) -> int:
    """How many bytes of a string come before its characters."""
    return max(0, ctypes.string_at(id(text), str.__sizeof__(text)).find(data))


class _Known:
    """Made to find names of attributes."""

    def __init__(self) -> None:
        self.leakscope_one: object = 1
        self.leakscope_two: object = 2


class _Other(Exception):
    """Made by Python code as well, of another kind."""


def _find_name() -> int:
    """Where a class that Python code made has its name; two words behind it is its qualified name."""
    words = arrays.of(_WORD, names.basicsize_of(type) // _BYTES).from_address(id(_Known))
    name, qualified = id(_name_of(_Known)), id(names.qualname_of(_Known))
    for at in range(_TYPE_BYTES // _BYTES, len(words) - 2):
        if (words[at], words[at + 2]) == (name, qualified):
            return at * _BYTES
    return 0


def _find_lookup() -> int:
    """Up to 3.10: what dicts with keys of any type have, and dicts with strings alone have not."""
    numbers, texts = {1: 2}, {"one": 2}
    any_lookup, other = (_word(_word(id(one) + 32) + 16) for one in (numbers, texts))
    return any_lookup if any_lookup != other and _word(_word(id({2.5: 1}) + 32) + 16) == any_lookup else 0


def _find_keys(name: int) -> int:
    """Where a class has the names that its instances share. Three words behind its own name."""
    known = _Known()
    keys = _word(id(_Known) + name + 3 * _BYTES)
    if keys and not keys % _BYTES:
        if sys.version_info >= (3, 11):
            first, each = keys + 32 + (1 << ctypes.c_uint8.from_address(keys + 9).value), 2 * _BYTES
        else:
            first, each = keys + 40 + min(_word(keys + 8), 64) + _BYTES, 3 * _BYTES  # the hash comes first
        if [_word(first), _word(first + each)] == [id(sys.intern("leakscope_one")), id(sys.intern("leakscope_two"))]:
            return name + 3 * _BYTES
    del known
    return 0


def _find_frames(layout: Layout) -> None:
    """Where the frames that run are, and their variables."""
    frame = sys._getframe()
    try:
        state = ctypes.pythonapi["PyThreadState_Get"]
        state.restype = ctypes.c_void_p
        words = arrays.of(_WORD, _SCANNED_WORDS).from_address(state())
        found = 0
        if sys.version_info < (3, 11):
            for at in range(_SCANNED_WORDS):
                if words[at] == id(frame):
                    found = at * _BYTES
                    break
            layout.frame_back, layout.frame_code = 24, 32
            layout.frame_slots = types.FrameType.__basicsize__ - _BYTES
            if _word(id(frame) + 24) == id(frame.f_back) and _names_are_right(frame.f_code):
                layout.thread_frame = found  # nothing of frames is read without it
            return
        here = _word(id(frame) + 24)
        if sys.version_info >= (3, 13):
            for at in range(_SCANNED_WORDS):
                if words[at] == here:
                    found = at * _BYTES
                    break
        else:
            layout.thread_indirect = 9 if sys.version_info < (3, 12) else 1
            # What is called to look must be C code: a function of Python's would be the frame that runs.
            if _WORD.from_address(words[7] + layout.thread_indirect - 1).value == here:
                found = 56
        if sys.version_info < (3, 12):
            code, before, function, global_names, local_names = 32, 48, 0, 8, 24
        else:
            code, before, function, global_names, local_names = 0, 8, 16, 24, 40
        layout.frame_code, layout.frame_before, layout.frame_function = code, before, function
        layout.frame_globals, layout.frame_locals = global_names, local_names
        layout.code_names = _NAMES_OF_CODE
        # Its first variable is the layout.
        for slot in range(7, 16):
            if _reference(here + slot * _BYTES) == id(layout):
                layout.frame_slots = slot * _BYTES
                break
        if sys.version_info >= (3, 12):
            layout.frame_owner = layout.frame_slots - (6 if sys.version_info >= (3, 14) else 2)
        is_right = (
            _reference(here + code) == id(frame.f_code)
            and _word(here + global_names) == id(frame.f_globals)
            and _word(id(frame.f_code) + _NAMES_OF_CODE + 0) != 0
            and layout.frame_slots
            and _all_names(frame) == frame.f_code.co_varnames
            and _reference(here + function) == id(_find_frames)
        )
        if not is_right:
            return
        _find_lines(layout, here, frame)
        _find_generators(layout)
        if layout.frame_owner and not (layout.generator_frame and _is_owner(layout, here, _OF_A_THREAD)):
            return
        if sys.version_info >= (3, 11, 2):  # before, a frame that is being cleared could still be seen
            layout.thread_frame = found
    finally:
        del frame  # it refers to itself, and to those that called: all their variables


def _find_lines(layout: Layout, here: int, frame: FrameType) -> None:
    """Which instruction of a frame runs, and with that its line."""
    begin = names.basicsize_of(types.CodeType)
    line_of: Any = ctypes.pythonapi["PyCode_Addr2Line"]
    line_of.argtypes = (ctypes.py_object, ctypes.c_int)
    at = _word(here + _INSTRUCTION) - id(frame.f_code) - begin
    if 0 <= at < len(frame.f_code.co_code) and line_of(frame.f_code, at) == frame.f_lineno:
        layout.frame_at, layout.code_begin = _INSTRUCTION, begin


def _reference(at: int) -> int:
    """What the frame of a function refers to there."""
    word = _word(at)
    return word & ~_TAGS if sys.version_info >= (3, 14) else word


def _is_owner(layout: Layout, frame: int, owner: int) -> bool:
    return ctypes.c_int8.from_address(frame + layout.frame_owner).value == owner


def _find_generators(layout: Layout) -> None:
    """Since 3.11 the frame is a part of it; right before is a byte that says how far it is."""
    waiting: Any = (one for one in "")
    frame = _word(id(waiting.gi_frame) + 24) - id(waiting)
    if layout.frame_owner and not _is_owner(layout, id(waiting) + frame, _OF_A_GENERATOR):
        return
    state = ctypes.c_int8.from_address(id(waiting) + frame - 5)
    before = state.value
    for _ in waiting:
        pass
    if before < 0 and state.value == _CLEARED:
        layout.generator_frame, layout.generator_state = frame, frame - 5


def _find_text_of_stream() -> int:
    """Of one that was only written to: up to 3.11 in parts, which are joined when they are many; since 3.14 apart."""
    stream = StringIO()
    for text in ("leakscope", "knows this"):
        stream.write(text)
    at, cls = (64, list) if sys.version_info < (3, 12) else (56, str)
    parts = _word(id(stream) + at)
    is_known = ctypes.c_int.from_address(id(stream) + 48).value == 2 and _word(id(stream) + 32) == 19
    if parts and sys.version_info >= (3, 14):
        parts = _word(parts)
    return at if is_known and parts and _word(parts + 8) == id(cls) else 0


def _find_buffer() -> int:
    """In files: all three kinds are one structure."""
    kinds: Any = (BufferedReader, BufferedWriter, BufferedRandom)
    places = {_place_of(_BUFFERS, [kind(BytesIO(), size) for size in _BUFFERS]) for kind in kinds}
    return places.pop() if len(places) == 1 else 0


def _find_code(layout: Layout) -> None:
    """Where code objects say what they are of, and functions what their code is."""
    code: Any = find.__code__
    at = id(code)
    file, name, line = (104, 112, 40) if sys.version_info < (3, 11) else (112, 128, 68)
    line = 72 if sys.version_info[:2] == (3, 11) else line
    said = code.co_name if sys.version_info < (3, 11) else code.co_qualname
    has_texts = (_word(at + file), _word(at + name)) == (id(code.co_filename), id(said))
    if has_texts and ctypes.c_int.from_address(at + line).value == code.co_firstlineno:
        layout.code_file, layout.code_name, layout.code_line = file, name, line
    of_function, defaults, closure = (16, 32, 48) if sys.version_info < (3, 11) else (48, 56, 72)
    if _word(id(find) + of_function) == at:
        layout.function_code = of_function
    of_globals = 24 if sys.version_info < (3, 11) else 16
    if _word(id(find) + of_globals) == id(find.__globals__):
        layout.function_globals = of_globals

    def known(one: object = 1) -> object:
        return layout if one else None

    if _word(id(known) + defaults) == id(known.__defaults__):
        layout.function_defaults = defaults
    if _word(id(known) + closure) == id(known.__closure__):
        layout.function_closure = closure
    codes: Any = (code, known.__code__, _Known.__init__.__code__, _same_places.__code__)
    counted = [_same_places(one, one.co_argcount, names.basicsize_of(types.CodeType) // 8 * 8, 4) for one in codes]
    places = set.intersection(*counted)
    if len(places) == 1:
        layout.code_arguments = places.pop()


def _find_limits(layout: Layout) -> None:
    """Where containers say how many members they may have."""
    layout.results = id(_lru_cache_wrapper)
    for name, made in (
        ("results_limit", [_lru_cache_wrapper(len, limit, False, max) for limit in _LIMITS]),
        ("deque_limit", [deque((), limit) for limit in _LIMITS]),
    ):
        setattr(layout, name, _place_of(_LIMITS, made))
    asked = [_asked(hits, misses) for hits, misses in _ASKED]
    layout.results_hits = _place_of([hits for hits, _ in _ASKED], asked)
    layout.results_misses = _place_of([misses for _, misses in _ASKED], asked)
    of_results = _lru_cache_wrapper(len, _LIMITS[0], False, max)
    found = [one for one in gc.get_referents(of_results) if type(one) is dict]
    if len(found) == 1:
        layout.results_dict = _place_of([id(found[0])], [of_results])


def _asked(hits: int, misses: int) -> object:
    """A cache that was asked so often for what it had, and for what it had not."""
    cache = _lru_cache_wrapper(abs, _LIMITS[0], False, max)
    for number in [*range(misses), *[0] * hits]:
        cache(number)
    return cache


def _place_of(numbers: Sequence[int], made: Sequence[object]) -> int:
    """Where each of these objects has its number, in a word of its own; 0 where that is not one place in all."""
    found = [_same_places(one, n, names.basicsize_of(type(one)), _BYTES) for one, n in zip(made, numbers)]
    places = set.intersection(*found)
    return places.pop() if len(places) == 1 else 0


def _same_places(one: object, number: int, end: int, bytes: int) -> set[int]:
    """Offsets at which a number of so many bytes stands in the memory of an object."""
    memory = ctypes.string_at(id(one), end)
    wanted = number.to_bytes(bytes, sys.byteorder)
    return {at for at in range(16, end, bytes) if memory[at : at + bytes] == wanted}


def _all_names(frame: FrameType) -> Any:
    """The tuple behind a code object that nothing shows; without closures it says what co_varnames does."""
    return ctypes.cast(_word(id(frame.f_code) + _NAMES_OF_CODE), ctypes.py_object).value


def _names_are_right(code: types.CodeType) -> bool:
    """Up to 3.10."""
    at = id(code)
    said = (id(code.co_varnames), id(code.co_freevars), id(code.co_cellvars))
    return (_word(at + 72), _word(at + 80), _word(at + 88)) == said
