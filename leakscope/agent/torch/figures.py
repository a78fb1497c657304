"""Numbers of a large tensor, to find the same data in another form. Runs in the job.

They stand at the places where those copied of an array of numpy's do, and are read as they lie in memory.
"""

from __future__ import annotations

import ctypes
import struct
import sys

from ..interpreter import names

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from .tensors import Storage

_BUFFER_READ = 0x100  # PyBUF_READ
_LETTERS = {
    "float32": "f", "float64": "d", "float16": "H", "bfloat16": "H", "int64": "q", "int32": "i", "int16": "h",
    "int8": "b", "uint8": "B", "bool": "B",
}  # fmt: skip
_HALF, _SHORT, _SINGLE, _WORD = (struct.Struct(letter) for letter in "eHfI")

_memory_at = ctypes.PYFUNCTYPE(ctypes.py_object, ctypes.c_void_p, ctypes.c_ssize_t, ctypes.c_int)(
    ("PyMemoryView_FromMemory", ctypes.pythonapi)
)


def columns_of(
    tensor: Any, storage: Storage, ranges: Sequence[tuple[int, int]], lines: int, across: int
) -> list[tuple[int, list[float]]]:
    """(address of its first number, numbers of the first ``lines`` rows, then of as many spread over all) of columns.

    Empty for what cannot be read safely, has fewer rows, or lies in none of ``ranges`` (begin, end): these are memory
    of no file. The caller has torch functions disabled. **Cost** 0.3 ms.
    """
    try:
        return _columns_of(tensor, storage.dtype, storage.size, ranges, lines, across)
    except Exception as error:
        if names.is_foreign(error):
            raise
        return []


def _columns_of(
    tensor: Any, dtype: str, storage_bytes: int, ranges: Sequence[tuple[int, int]], lines: int, across: int
) -> list[tuple[int, list[float]]]:
    torch = sys.modules.get("torch")
    base = names.getattr_plain(torch, "Tensor")
    is_cow = names.getattr_plain(names.getattr_plain(torch, "_C"), "_is_cow_tensor")
    letter = _LETTERS.get(dtype)
    if letter is None or sys.byteorder != "little" or is_cow is None or type(tensor) is not base:
        return []
    is_strided = base.layout.__get__(tensor) is names.getattr_plain(torch, "strided")
    if not is_strided or is_cow(tensor) or base.is_neg(tensor) or base.device.__get__(tensor).type != "cpu":
        return []
    lengths, strides = list(base.size(tensor)), list(base.stride(tensor))
    rows = int(len(lengths) == 2 and lengths[1] > lengths[0])
    if not lengths or lengths[rows] < 2 * lines or not all(lengths):
        return []
    length, stride = lengths.pop(rows), strides.pop(rows)
    ats = [*range(lines), *(length // (lines + 1) * (number + 1) for number in range(lines))]
    places = _places(lengths, strides, across)
    size = base.element_size(tensor)
    last = ats[-1] * stride + max(places)
    address = base.data_ptr(tensor)
    if not address or (base.storage_offset(tensor) + last + 1) * size > storage_bytes:
        return []
    if not any(begin <= address and address + (last + 1) * size <= end for begin, end in ranges):
        return []
    elements = _memory_at(address, (last + 1) * size, _BUFFER_READ).cast(letter)
    found = []
    for place in places:
        numbers = [elements[at * stride + place] for at in ats]
        found.append((address + place * size, [_figure(number, dtype) for number in numbers]))
    return found


def _places(lengths: Sequence[int], strides: Sequence[int], across: int) -> list[int]:
    """Where in a row the numbers are that are read, counted in elements."""
    count = 1
    for length in lengths:
        count *= length
    places = []
    for number in range(min(count, across)):
        rest = number if count <= across else count * (2 * number + 1) // (2 * across)
        place = 0
        for length, stride in zip(reversed(lengths), reversed(strides)):
            rest, at = divmod(rest, length)
            place += at * stride
        places.append(place)
    return places


def _figure(number: Any, dtype: str) -> float:
    if dtype == "float16":
        (number,) = _HALF.unpack(_SHORT.pack(number))
    elif dtype == "bfloat16":  # the upper half of a float32
        (number,) = _SINGLE.unpack(_WORD.pack(number << 16))
    return float(number)
