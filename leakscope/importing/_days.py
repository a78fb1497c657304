"""Moments of tables that say a time of day each, or nothing, with or without a dated line of somebody's above them."""

from __future__ import annotations

from ._facts import DAY
from ._figures import moment
from ._source import Source

_DAY_S = 86400.0
_BACK_S = 43200.0  # a time of day so much earlier than the one before is of the next day


class Days:
    """``look_at`` each line outside tables; ``at_s`` is the moment of a table that begins."""

    def __init__(self, source: Source) -> None:
        self._source = source
        self._said: tuple[float, str] | None = None
        self._added_s = 0.0
        self.last: float | None = None

    def look_at(self, line: str) -> None:
        """Keep the moment that the line is, if it is one and little else."""
        text = line.strip(" \t-=#*[]:")
        if 8 <= len(text) <= 60 and (found := moment(text)) is not None:
            self._said = found

    def at_s(self, time_of_day: str | None = None) -> float | None:
        """None where nobody said when. The first moment of a file decides on which clock it is."""
        own = moment(time_of_day) if time_of_day else None
        found = self._said or own
        self._said = None
        if found is None:
            self._source.undated_tables += 1
            return None
        if self.last is None:
            self._source.clock = found[1]
        elif found[1] != self._source.clock:
            if own is None or own[1] != self._source.clock:
                self._source.undated_tables += 1
                return None
            found = own
        at_s = found[0] + (self._added_s if found[1] == DAY else 0.0)
        if found[1] == DAY and self.last is not None and at_s < self.last - _BACK_S:
            self._added_s += _DAY_S
            at_s += _DAY_S
        self.last = at_s
        return at_s
