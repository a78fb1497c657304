"""Whole numbers of any length, seven bits a byte, the lowest first: as thrift and protocol buffers write them."""

from __future__ import annotations

_MOST_BITS = 35  # of a length; more is damage


def varint(value: int) -> bytes:
    """A negative one as its 64 bits."""
    value &= (1 << 64) - 1
    said = bytearray()
    while value > 0x7F:
        said.append(value & 0x7F | 0x80)
        value >>= 7
    said.append(value)
    return bytes(said)


def text_at(data: bytes, at: int) -> tuple[bytes, int]:
    """A text that begins with its length, and where it ends. **Errors** ValueError where it is not whole."""
    length = shift = 0
    while at < len(data) and shift < _MOST_BITS:
        byte = data[at]
        at += 1
        length |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80 and at + length <= len(data):
            return data[at : at + length], at + length
        if byte < 0x80:
            break
    raise ValueError("a text is not whole")
