"""A recording that is followed, without one: its figures do not come from a file."""

from __future__ import annotations

from typing import Any

from leakscope.metering.following import Following
from leakscope.metering.readings import Reading
from tests.metering.scenes import growing


class Told(Following):
    """One whose figures do not come from a file."""

    def __init__(self) -> None:
        self._run = growing()
        self._readings = self._run.readings
        self.is_late = False

    is_over: Any = False
    descriptor: Any = None

    @property
    def is_behind(self) -> bool:
        return self.is_late

    def seconds_to_look(self, period_s: float) -> float:
        return 1.0

    def readings(self) -> list[Reading]:
        return self._run.told()

    def look(self) -> None:
        pass

    def close(self) -> None:
        pass
