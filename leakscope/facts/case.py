"""A case: one recording, and every fact that was found in it, each worked out once and when somebody asks.

Diagnoses and the report read facts here and nowhere else. A fact itself takes what it is made of as arguments, so that
data flows one way: recording, facts, diagnoses, report.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import TYPE_CHECKING, Any, TypeVar

from .accounts.gpu import DeviceUse, Oom, all_ooms, device_uses
from .accounts.ledger import ledger
from .accounts.limits import Forecast, Limit, forecast, limits, nearest
from .endings.kills import Kills, kills
from .endings.members import Member, members
from .growth.tree import TreeGrowth, tree_growth
from .processes.table import Process, processes
from .processes.teams import Team, teams
from .where.sources import sources_of

if TYPE_CHECKING:
    import pandas as pd

    from ..findings import LedgerRow
    from ..storage import Recording
    from .code.index import Source

_T = TypeVar("_T")


class Case:
    """What is known of one recording. **Units** bytes, and seconds since the recording began."""

    def __init__(self, recording: Recording) -> None:
        self.recording = recording
        self._answers: dict[object, Any] = {}

    def rows(self, table: str) -> pd.DataFrame:
        """All rows of a table, by process and time; those of one process: ``ProcessGrowth.rows``."""
        return self.recording.tables[table]

    @cached_property
    def growth(self) -> TreeGrowth:
        """Whether the tree of processes grows, and each process over its life."""
        return tree_growth(self.recording)

    @cached_property
    def processes(self) -> list[Process]:
        """Every process of the tree, by birth."""
        return processes(self.recording, self.growth)

    @cached_property
    def teams(self) -> list[Team]:
        """Loader workers, and other forks, by the parent they work for."""
        return teams(self.recording, self.growth, self.processes, self.sources)

    @cached_property
    def sources(self) -> list[Source]:
        """The user's modules as they were loaded."""
        return sources_of(self.recording)

    @cached_property
    def ledger(self) -> list[LedgerRow]:
        """Where the growth went: accounts of the judged window."""
        return ledger(self.growth)

    @cached_property
    def limits(self) -> list[Limit]:
        """Every limit that was sampled."""
        return limits(self.recording)

    @cached_property
    def nearest_limit(self) -> Limit | None:
        """Of the limits on all that the job holds, the one that left least room."""
        return nearest(self.limits)

    @cached_property
    def forecast(self) -> Forecast | None:
        """The limit that will be reached first; None where nothing grows towards one."""
        return forecast(self.limits, self.growth)

    @cached_property
    def members(self) -> list[Member]:
        """The processes as a kill is told by them."""
        return members(self.recording, self.processes)

    @cached_property
    def kills(self) -> Kills:
        """Which processes the OOM killer ended, and how sure that is."""
        return kills(self.recording, self.members)

    @cached_property
    def device_uses(self) -> list[DeviceUse]:
        """Figures of torch's allocator by process and GPU."""
        return device_uses(self.recording)

    @cached_property
    def gpu_ooms(self) -> list[Oom]:
        """Each time a GPU's memory ran out."""
        return all_ooms(self.recording)

    def once(self, find: Callable[..., _T], *arguments: Any) -> _T:
        """``find(case, *arguments)``, found once for each set of arguments (which have to be hashable)."""
        key = (find, arguments)
        if key not in self._answers:
            self._answers[key] = find(self, *arguments)
        answer: _T = self._answers[key]
        return answer
