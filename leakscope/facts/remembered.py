"""What a dozen diagnoses ask, each of its own window: found once, and remembered as long as what it is found in."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import TYPE_CHECKING, Any, TypeVar
from weakref import WeakKeyDictionary

if TYPE_CHECKING:
    from typing_extensions import Concatenate, ParamSpec

    _P = ParamSpec("_P")
_Owner = TypeVar("_Owner")
_T = TypeVar("_T")


def remembered(find: Callable[Concatenate[_Owner, _P], _T]) -> Callable[Concatenate[_Owner, _P], _T]:
    """``find``, asked once for each first argument and others, all hashable. Answers are shared: do not change them."""
    known: WeakKeyDictionary[Any, dict[Any, Any]] = WeakKeyDictionary()

    @wraps(find)
    def found(owner: _Owner, /, *arguments: _P.args, **named: _P.kwargs) -> _T:
        answers, key = known.setdefault(owner, {}), (arguments, *named.items())
        if key not in answers:
            answers[key] = find(owner, *arguments, **named)
        answer: _T = answers[key]
        return answer

    return found
