"""Numbers of a large tensor, to find the same data in another form. Runs in the job.

They stand at the places where those copied of an array of numpy's do, and are read as they lie in memory.
"""

from __future__ import annotations

import ctypes
import math
import struct
import sys

from ..interpreter import names

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from .tensors import Storage

_ROW_BEGIN = 256  # numbers of a row that are compared with those of the next
_LEAST_ALIKE = 16
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
) -> tuple[list[tuple[int, list[float]]], float | None]:
    """(address of its first number, numbers of the first ``lines`` rows, then of as many spread over all) of columns;
    and the share of each row that the one before it has as well, further along, as windows of a series do.

    Empty for what cannot be read safely, has fewer rows, or lies in none of ``ranges`` (begin, end): these are memory
    of no file. The caller has torch functions disabled. **Cost** 0.3 ms.
    """
    try:
        return _columns_of(tensor, storage.dtype, storage.size, ranges, lines, across)
    except Exception as error:
        if names.is_foreign(error):
            raise
        return [], None


def _columns_of(
    tensor: Any, dtype: str, storage_bytes: int, ranges: Sequence[tuple[int, int]], lines: int, across: int
) -> tuple[list[tuple[int, list[float]]], float | None]:
    torch = sys.modules.get("torch")
    base = names.getattr_plain(torch, "Tensor")
    is_cow = names.getattr_plain(names.getattr_plain(torch, "_C"), "_is_cow_tensor")
    letter = _LETTERS.get(dtype)
    if letter is None or sys.byteorder != "little" or is_cow is None or type(tensor) is not base:
        return [], None
    is_strided = base.layout.__get__(tensor) is names.getattr_plain(torch, "strided")
    if not is_strided or is_cow(tensor) or base.is_neg(tensor) or base.device.__get__(tensor).type != "cpu":
        return [], None
    lengths, strides = list(base.size(tensor)), list(base.stride(tensor))
    rows = int(len(lengths) == 2 and lengths[1] > lengths[0])
    if not lengths or lengths[rows] < 2 * lines or not all(lengths):
        return [], None
    length, stride = lengths.pop(rows), strides.pop(rows)
    ats = [*range(lines), *(length // (lines + 1) * (number + 1) for number in range(lines))]
    places = _places(lengths, strides, across)
    size = base.element_size(tensor)
    last = ats[-1] * stride + max(places)
    address = base.data_ptr(tensor)
    if not address or (base.storage_offset(tensor) + last + 1) * size > storage_bytes:
        return [], None
    if not any(begin <= address and address + (last + 1) * size <= end for begin, end in ranges):
        return [], None
    elements = _memory_at(address, (last + 1) * size, _BUFFER_READ).cast(letter)
    found = []
    for place in places:
        numbers = [elements[at * stride + place] for at in ats]
        found.append((address + place * size, [_figure(number, dtype) for number in numbers]))
    is_dense = not rows and stride == math.prod(lengths)
    return found, _repeated_share(elements, stride, length) if is_dense else None


def _repeated_share(elements: Any, stride: int, row_count: int) -> float | None:
    """None: no row goes on where the one before it began, at two places."""
    begin, shifts = min(stride, _ROW_BEGIN), set()
    for row in (0, row_count // 2):
        one, following = (elements[at * stride : at * stride + begin].tolist() for at in (row, row + 1))
        differ = sum(a != b for a, b in zip(one, one[1:]))
        most = begin - _LEAST_ALIKE + 1 if differ >= _LEAST_ALIKE else 0
        shifts.add(next((shift for shift in range(1, most) if one[shift:] == following[:-shift]), 0))
    return 1.0 - shifts.pop() / float(stride) if len(shifts) == 1 and 0 not in shifts else None


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
