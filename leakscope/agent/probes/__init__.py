"""What a snapshot writes down, a file for each kind of rows: ``TABLE`` and ``rows(snapshot)``. A file here is found."""

from __future__ import annotations

import os

from ..interpreter import names

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from typing import Any, Protocol

    class Probe(Protocol):
        """One file of this folder."""

        TABLE: str

        def rows(self, snapshot: Any) -> Iterable[dict[str, Any]]: ...

    class Snapshot(Protocol):
        """What a probe may know of the snapshot."""

        number: int


def rows_of(asked: Iterable[Probe], snapshot: Any) -> Iterator[tuple[str, dict[str, Any]]]:
    """(table, row) of each. What one cannot tell must not cost what the others can."""
    for probe in asked:
        try:
            rows = [(probe.TABLE, dict(row, take=snapshot.number)) for row in probe.rows(snapshot)]
        except Exception as error:
            if names.is_foreign(error):
                raise
            text = f"{probe.TABLE}: {type(error).__name__}: {error!s}"
            rows = [("agent_notes", {"note": "failed", "text": text})]
        yield from rows


def found() -> list[Probe]:
    """The modules of this folder by name, each after those that it names in ``AFTER``."""
    files = sorted(name[:-3] for name in os.listdir(os.path.dirname(__file__)) if name.endswith(".py"))
    files.remove("__init__")
    package: Any = __import__("", globals(), None, files, 1)  # from . import each
    ordered: list[Probe] = []

    def add(probe: Probe) -> None:
        for name in getattr(probe, "AFTER", ()):
            add(getattr(package, name))
        if probe not in ordered:
            ordered.append(probe)

    for name in files:
        add(getattr(package, name))
    return ordered
