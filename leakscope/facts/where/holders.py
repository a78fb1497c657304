"""What a person calls the place that holds memory, and the lines of the source that add to it."""

from __future__ import annotations

import re
from collections.abc import Sequence

from ...units import FULL, MOST
from ..code.adding import Line, Source, adding_lines, find_calls_given, lines_by_key, removing_lines
from ..heap.owners import calls_at_the_end, user_place, weighs_in_members
from ..heap.place import OUTSIDE, Place
from ..subject import Definition, Held
from .libraries import CALLABLES, filled_by, made_at
from .manager_proxies import named_by_proxy

NAMESPACE = "global variables"  # of a module
KNOWN_ADDER, _SURE_ADDER = 0.7, FULL  # scores of lines
OUT = "IPython's Out (results of cells)"
_RESULT = re.compile(r"_\d+")


def are_results_of_cells(place: Place) -> bool:
    """Most in it are variables ``_1``, ``_2``, ``_3``, in which IPython keeps what cells return, as in ``Out``."""
    results = (child for child in place.children if _RESULT.fullmatch(str(child.reference.variable)))
    gained = sum(child.growth_bytes for child in results if child.reference.edge_kind == "global")
    return place.reference.edge_kind == "namespace" and gained >= MOST * place.growth_bytes > 0


def holder_name(place: Place) -> str:
    """How a person says it: ``Trainer.history (list)``, ``main() rows (list)``, ``services.CACHE (dict)``."""
    if are_results_of_cells(place):
        return OUT
    if place.reference.edge_kind == "namespace" and place.root_kind == "module":
        return f"{NAMESPACE} of {place.path.removesuffix('.__dict__')}"
    variable, owner, edge = place.reference.variable, place.reference.owner, place.reference.edge_kind
    kind = place.type_name.rsplit(".", 1)[-1]
    if variable is None:
        owner = _owner_beyond_registry(place)
        return f"{owner} ({kind})" if owner is not None else f"{place.path} ({kind})"
    short = owner.rsplit("<locals>.", 1)[-1] if owner is not None else ""
    if _is_of_c(place):
        return f"What C code holds of {variable}"
    if edge == "cache":
        return f"{short}() (lru_cache)"
    if edge == "local":
        return f"{short}() {variable} ({kind})"
    if edge == "cell":
        return f"closure variable {variable} of {short}() ({kind})"
    if edge == "default":
        return f"default argument {variable} of {short}() ({kind})"
    return f"{short}.{variable} ({kind})" if short else f"{variable} ({kind})"


def _is_of_c(place: Place) -> bool:
    """Held by C code alone, and no variable of a generator that it goes through."""
    return place.root_kind == OUTSIDE and place.reference.edge_kind != "local"


def defined_at(named: Place) -> Definition:
    """Where the owner of its name stands."""
    return Definition(named.reference.owner_file, named.reference.owner_line)


def about(named: Place, place: Place) -> Held:
    """What a subject says of a holder: its name, and the path and type of what grew."""
    return {
        "holder": holder_name(named),
        "variable": named.reference.variable,
        "path": place.said,
        "type": place.type_name,
        "module": named.reference.owner_module,
    }


def _owner_beyond_registry(place: Place) -> str | None:
    """The class of the nearest object that has it, where only a registry of finalizers leads there."""
    owner: str | None = None
    at: Place | None = place.parent
    while at is not None and not calls_at_the_end(at):
        is_object = "." in at.type_name and not at.type_name.startswith("collections.")
        owner = at.type_name.rsplit(".", 1)[-1] if is_object and owner is None else owner
        at = at.parent or at.named_by
    return owner if at is not None else None


def named_in(sources: Sequence[Source], place: Place) -> tuple[Place, list[Line]]:
    """The user's name for what holds a place, and the lines that add to it.

    An attribute that the user's code gave to a library's object (a hook's ``module.features``) is such a name where a
    line adds to it: ``KNOWN_ADDER`` is that of one on an object of unknown class. Not where one adds to the
    object itself: from ``_SURE_ADDER``, which ``append`` has and ``register_hook`` has not.
    """
    if _is_of_c(place):
        name = str(place.reference.variable)
        given = find_calls_given(sources, function=name) if place.type_name in CALLABLES else []
        return place, given or find_calls_given(sources, methods_of=name)  # a method has the name of its object's class
    proxy = named_by_proxy(sources, place)
    if proxy is not None:
        return proxy
    named = user_place(place)
    lines = _adding_to(sources, named, place)
    filled = filled_by(sources, place)
    if filled is not None:
        table, filling = filled
        known = {(line.file, line.line) for line in lines if line.kind == "adds"}
        return (named if filling[0][:2] in known else table), filling
    inner: Place | None = place
    while inner is not None and inner is not named and not _best_adds(lines, _SURE_ADDER):
        if inner.reference.edge_kind == "attribute":
            given = _adding_to(sources, inner, place)
            if _best_adds(given, KNOWN_ADDER):
                return inner, given
        inner = inner.parent
    by_key = _adding_by_key(sources, named, place)
    if by_key:
        return named, [*by_key, *(line for line in lines if line not in by_key)]
    made = made_at(sources, named, place)
    if made is not None and not _best_adds(lines, KNOWN_ADDER):  # what is done once fills nothing
        attribute, line = made
        return attribute, [line, *lines]
    if not place.is_user and not _best_adds(lines, _SURE_ADDER):
        lines = [*_storing_in_members(sources, place), *lines]
    return named, lines


def removed_at(sources: Sequence[Source], named: Place, place: Place) -> list[Line]:
    """The lines that remove from what grows at or below a place that has the user's name."""
    return removing_lines(sources, named.as_holder(key_in(named, place)))


def _storing_in_members(sources: Sequence[Source], place: Place) -> list[Line]:
    """Where the program puts into each member of a library's container what weighs in it, by the key it has there.

    The library makes the members as it is called, and a call of it is all that the program does to the container.
    """
    below = weighs_in_members(place)
    key = _key_of(below, below.parent) if below is not None and below.parent is not None else None
    return lines_by_key(sources, key, stores=True) if key is not None else []


def _adding_by_key(sources: Sequence[Source], named: Place, place: Place) -> list[Line]:
    """Where the program gave a library's object a container by a key, the lines that add to what has that key.

    ``session.info["audit"]``: a line that adds to the session itself does not fill that, and in a callback of the
    library the session is an argument that nobody in the program passes.
    """
    above = place.parent
    key = _key_of(place, above) if above is not None and place is not named and not above.is_user else None
    return lines_by_key(sources, key) if key is not None else []


def _adding_to(sources: Sequence[Source], place: Place, kept_in: Place) -> list[Line]:
    """``kept_in``: the place at or below it whose members multiply."""
    return adding_lines(sources, place.as_holder(key_in(place, kept_in)))


def _best_adds(lines: Sequence[Line], min_score: float) -> bool:
    return bool(lines) and lines[0].kind == "adds" and lines[0].score >= min_score


def key_in(place: Place, kept_in: Place) -> str | None:
    """``samples`` of ``progress['samples']``: the member of a record that grows, where it is one of several."""
    below: Place | None = kept_in
    while below is not None and below.parent is not place:
        below = below.parent
    if below is None:
        below = max(place.children, key=lambda c: c.growth_bytes, default=None)
        if below is None or below.growth_bytes < MOST * place.growth_bytes:
            return None
    return _key_of(below, place)


def _key_of(below: Place, above: Place) -> str | None:
    """``samples``, if that is by which one holds the other."""
    label = below.path[len(above.path) :]
    return label[2:-2] if label.startswith("['") and label.endswith("']") else None
