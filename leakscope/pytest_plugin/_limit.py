"""The arguments of the mark."""

from __future__ import annotations

import inspect
import unittest
from typing import Any, NamedTuple

import pytest

from ..errors import BadInput
from ..units import parse_bytes

_LEAST_REPEATS = 3  # with fewer, one cache that fills cannot be told from what happens each time


class Limit(NamedTuple):
    """``text`` is the size as it was written."""

    text: str
    bytes: float
    warmups: int
    repeats: int


def parse_limit(item: pytest.Item, mark: pytest.Mark) -> Limit:
    """**Errors** BadInput, with what is wrong and how to write it."""
    if not isinstance(item, pytest.Function) or issubclass(item.cls or object, unittest.TestCase):
        raise BadInput("only test functions and methods of plain classes can be run again, not unittest's")

    def limit_growth(size: Any, warmups: Any = 2, repeats: Any = 5) -> Limit:
        bytes_ = parse_bytes(str(size))
        for name, value, least in (("warmups", warmups, 1), ("repeats", repeats, _LEAST_REPEATS)):
            if type(value) is not int or value < least:
                raise BadInput(f"{name}={value!r}: it must be a whole number of {least} or more")
        return Limit(str(size), bytes_, warmups, repeats)

    try:
        inspect.signature(limit_growth).bind(*mark.args, **mark.kwargs)
    except TypeError as error:
        raise BadInput(f'{error}: write it like limit_growth("5MB", warmups=2, repeats=5)') from None
    return limit_growth(*mark.args, **mark.kwargs)
