"""The function of the program's that a library keeps things for, since a decorator of the library's wraps it.

``tf.function``, ``jax.jit`` and their like keep what they make of a function for each new kind of arguments. Of a
method they are found below its class, which holds nothing itself: the method and its calls are what to look at.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from dataclasses import replace

from ..code.adding import CREATES, Holder, Line, Source, adding_lines, line_at
from ..code.imports import STANDARD_LIBRARY, package_in, package_of
from ..code.index import Index, Scope, index_of
from ..heap.place import Place

WRAPPED = "wrapped"  # as the kind of an edge: none that a snapshot knows


def wrapped_in(sources: Sequence[Source], named: Place, place: Place) -> tuple[Place, list[Line]] | None:
    """The method under its name, and the lines that call it, before that of the decorator.

    ``named``: the class below which ``place`` grows. None: it is no class, or not just one of its methods is wrapped by
    the library that the place is of.
    """
    package = package_of(place.type_name)
    if named.type_name != "type" or named is place or "." not in place.type_name or package in STANDARD_LIBRARY:
        return None
    class_name = named.reference.variable or ""
    index = index_of(sources, class_name, named.reference.owner_file)
    found = list(_wrapped(index, class_name, package))
    if len(found) != 1:
        return None
    method, decorator = found[0]
    source = method.source
    holder = Holder(method.name, method.qualname, source.module, source.file, "generator")
    calls = adding_lines(sources, holder)
    reference = replace(
        named.reference,
        variable=method.name,
        owner=class_name,
        owner_module=source.module,
        owner_file=source.file,
        edge_kind=WRAPPED,
    )
    of_package, inside = place, place.parent
    while inside is not None and inside is not named:
        of_package = inside if package_of(inside.type_name) == package else of_package
        inside = inside.parent
    wrapper = named.known_as(reference, f"{named.path}.{method.name}", of_package.type_name)
    return wrapper, [*calls, line_at(index, method, decorator, CREATES, 0.3)]


def _wrapped(index: Index, class_name: str, package: str) -> Iterator[tuple[Scope, ast.expr]]:
    for scope in index.scopes:
        if scope.kind != "function" or scope.within is None or scope.within.name != class_name:
            continue
        for decorator in getattr(scope.node, "decorator_list", ()):
            if package_in(index, scope.source.file, ast.unparse(decorator)) == package:
                yield scope, decorator
