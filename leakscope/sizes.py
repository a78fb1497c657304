"""Sizes as people write them: 5MB is 10**6 bytes times five, 5MiB and, as for docker and systemd, 5M are 2**20."""

from __future__ import annotations

import re

from .errors import BadInput

_UNITS: dict[str, int] = {"": 1, "b": 1, **{f"{p}b": 1000**n for n, p in enumerate("kmgt", 1)}}
_UNITS |= {f"{p}ib": 1024**n for n, p in enumerate("kmgt", 1)}
_UNITS |= {p: 1024**n for n, p in enumerate("kmgt", 1)}
_SIZE = re.compile(r"\s*([0-9]+(?:\.[0-9]+)?|\.[0-9]+)\s*([a-z]*)\s*", re.IGNORECASE)


def parse_bytes(text: str) -> float:
    """Bytes from ``4GB``, ``512MiB``, ``20k`` or a bare number. **Errors** BadInput."""
    match = _SIZE.fullmatch(text)
    if match is None or match[2].lower() not in _UNITS:
        raise BadInput(f"{text!r} is not a size: write it like 500KB, 5MB or 4GiB")
    return float(match[1]) * _UNITS[match[2].lower()]
