"""Where tasks wait that do not end: in which of the program's coroutines, and in which of those these call."""

from __future__ import annotations

from collections.abc import Sequence

from ..calls import Call
from .place import Place

_TASKS = ("_asyncio.Task", "asyncio.tasks.Task")
_COROUTINE = "coroutine"
_MOST_CALLS = 3


def waits_in(holder: Place, places: Sequence[Place]) -> list[Call]:
    """In what one of the members waits, outermost first, and where that begins; empty unless they are tasks that wait.

    A coroutine refers to what it waits for as long as it does. One that has ended refers to nothing.
    """
    if holder.member_type not in _TASKS:
        return []
    tasks = [one for one in places if one.type_name in _TASKS and one.node is not None]
    examples = [one for one in tasks if holder in (one.named_by, one.parent)]
    found: list[Call] = []
    at = max(examples, key=lambda one: float(one.deep_bytes[-1]), default=None)
    while at is not None and len(found) < _MOST_CALLS:
        at = next((one for one in at.children if one.type_name == _COROUTINE and one.deep_bytes[-1] > 0), None)
        if at is not None and at.code is not None:
            function, file, line = at.code
            found.append(Call(file, line, function))
    return found
