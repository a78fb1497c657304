"""The packages that the user's sources import: no part of Python, nor modules of the program's own."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Mapping

from .index import Index

STANDARD_LIBRARY: frozenset[str] = getattr(sys, "stdlib_module_names", frozenset()) or (
    # Python 3.9: what lies in its folder.
    frozenset(name.split(".")[0] for name in os.listdir(os.path.dirname(os.__file__))) | {*sys.builtin_module_names}
)
_SHARED_NAMES = frozenset(("azure", "google", "zope"))  # packages of many libraries: google.protobuf, google.cloud


def package_of(module: str) -> str:
    """The part of a module's name that tells whose it is."""
    first, *rest = module.split(".")
    return f"{first}.{rest[0]}" if first in _SHARED_NAMES and rest else first


def package_named(index: Index, file: str, text: str) -> str | None:
    """The package that a line of a file names; where it names none, the only one that the file imports."""
    by_name = _by_name(index, file)
    return _only((_named(by_name, text) or set(by_name.values())) - _own(index))


def package_in(index: Index, file: str, text: str) -> str | None:
    """The one package that a line of a file names itself."""
    return _only(_named(_by_name(index, file), text) - _own(index))


def _named(by_name: Mapping[tuple[str, str], str], text: str) -> set[str]:
    return {package for (_, name), package in by_name.items() if re.search(rf"\b{re.escape(name)}\b", text)}


def _only(packages: set[str]) -> str | None:
    return next(iter(packages)) if len(packages) == 1 else None


def _by_name(index: Index, file: str | None = None) -> dict[tuple[str, str], str]:
    """Whatever is no part of Python, by the file that imports it and its name there."""
    scopes = [scope for scope in index.scopes if file in (None, scope.source.file)]
    found = {(s.source.file, name): package_of(path) for s in scopes for name, path in s.imported}
    return {place: package for place, package in found.items() if package not in STANDARD_LIBRARY}


def _own(index: Index) -> set[str]:
    return {package_of(scope.source.module) for scope in index.scopes if scope.kind == "module"}
