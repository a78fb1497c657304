"""Values of labels, kept few: each new one is a new series that a server keeps for weeks."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Iterator
from typing import Generic, TypeVar

_LONGEST = 200
_Key = TypeVar("_Key")


def shortened(text: str) -> str:
    """A label of a length that can be read, whole characters that can be written."""
    clean = text.encode("utf-8", "replace").decode("utf-8")
    return clean if len(clean) <= _LONGEST else f"{clean[: _LONGEST - 1]}…"


class Names(Generic[_Key]):
    """Lets names through that were let through before, and new ones at a rate: so many at once, then one an hour."""

    def __init__(self, at_once: int, per_hour: float) -> None:
        self._known: OrderedDict[_Key, None] = OrderedDict()
        self._at_once, self._per_hour = at_once, per_hour
        self._left, self._asked_s = float(at_once), 0.0

    def admitted(self, names: Iterable[_Key], now_s: float) -> Iterator[_Key]:
        """Those of ``names``, the most important first, that may have a series at ``now_s``."""
        gained = max(0.0, now_s - self._asked_s) / 3600.0 * self._per_hour
        self._left, self._asked_s = min(float(self._at_once), self._left + gained), now_s
        for name in names:
            if name not in self._known:
                if self._left < 1.0:
                    continue
                self._left -= 1.0
                self._known[name] = None
                if len(self._known) > 4 * self._at_once:
                    self._known.popitem(last=False)
            self._known.move_to_end(name)
            yield name
