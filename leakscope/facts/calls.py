"""Calls: of a stack as recordings have it, the outermost first, ``file:line function`` a line; of a traceback."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple

MODULE = "<module>"
IMPORTING = "<frozen importlib"  # how files of the import system begin
_CALL = re.compile(r"(.+?):(\d+) (.*)")
_IDENTIFIER = re.compile(r"[\w.]+")
_COMPREHENSION = re.compile(r"(\.<locals>)?\.<(?!locals>|lambda>)\w+>$")
_LIBRARY = re.compile(r"(?:site|dist)-packages/([^/]+)")
_OURS = re.compile(r"(?:\.journal|/leakscope-run-\w+)/(?:agent|boot)/")
_NOT_USERS = re.compile(rf"/(?:site|dist)-packages/|/lib(?:64)?/python\d|{_OURS.pattern}|^<frozen|^<__array_f")


class Call(NamedTuple):
    """``line``: where it stands in the function, or where that begins."""

    file: str
    line: int
    function: str

    @property
    def name(self) -> str | None:
        """Without its class; None: the module itself."""
        return None if self.function == MODULE else self.function.rpartition(".")[2]

    @property
    def place(self) -> str:
        """``train.py:88``: without the folder."""
        return f"{self.file.rsplit('/', 1)[-1]}:{self.line}"

    @property
    def said(self) -> str:
        return f"{self.function}() ({self.place})"

    @property
    def is_user(self) -> bool:
        """Also no Cython: it names its files as they were called where it was built, whosever they are."""
        return _NOT_USERS.search(self.file) is None and not self.file.endswith((".pyx", ".pxi", ".pxd"))

    @property
    def library(self) -> str | None:
        """The installed package that the file belongs to."""
        found = _LIBRARY.search(self.file)
        if self.file.endswith(".pyx") and "." in self.function:
            return self.function.split(".", 1)[0]
        return found.group(1).removesuffix(".py") if found else None


def is_ours(file: str | None) -> bool:
    """Whether it is a file of the agent's."""
    return file is not None and _OURS.search(file) is not None


@lru_cache(maxsize=4096)
def calls_of(stack: str) -> tuple[Call, ...]:
    found = (_CALL.fullmatch(line) for line in stack.split("\n"))
    return tuple(Call(one[1], int(one[2]), one[3]) for one in found if one is not None)


def function_of(name: str) -> str:
    """``load`` for ``load.<locals>.<dictcomp>``: up to Python 3.11 a comprehension is a function."""
    return _COMPREHENSION.sub("", name)


def called_at(calls: Sequence[Call], file: str, line: int) -> Call | None:
    """What a line calls there, at its innermost."""
    at = max((i for i, call in enumerate(calls) if call[:2] == (file, line)), default=len(calls))
    return calls[at + 1] if at + 1 < len(calls) else None


def who_asked(calls: Sequence[Call], own: Call) -> str:
    """``DataFrame.merge of prepare()``: what the user's function called, if anything, and that function."""
    called, name = called_at(calls, own.file, own.line), function_of(own.function)
    name = f"{name}()" if _IDENTIFIER.fullmatch(name) else name
    return f"{called.function} of {name}" if called is not None else name
