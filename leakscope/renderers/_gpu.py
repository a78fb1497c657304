"""Memory of GPUs by line, in words and figures that all renderers share."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ..findings import GpuLine
from ..units import format_bytes, format_count

SNAPSHOT_MOMENTS = {"snapshot-peak": "at the peak", "snapshot": "at the snapshot"}
LINE_COLUMNS = ("line", "what for", "count", "at the peak", "at the snapshot")
_MOST = 10
_SHOWN_PARTS = 2  # of a path: its folders are in the JSON
_MOST_DEVICES = 4


def largest_lines(lines: Sequence[GpuLine]) -> Iterator[tuple[str, list[GpuLine]]]:
    """(heading, lines) of each device, those first that held most."""
    devices = list(dict.fromkeys((line.process, line.device) for line in lines))
    for process, device in devices[:_MOST_DEVICES]:
        own = [line for line in lines if (line.process, line.device) == (process, device)]
        yield f"What lines allocated on {device} of {process}", own[:_MOST]


def line_cells(line: GpuLine) -> tuple[str, str, str, str, str]:
    """The cells of LINE_COLUMNS."""
    short = "/".join(line.place.rsplit("/", _SHOWN_PARTS)[-_SHOWN_PARTS:])
    where = f"{short} {line.function}()" if line.function else short
    sizes = format_bytes(line.peak_bytes), format_bytes(line.end_bytes)
    return (where, line.account, format_count(line.count), *sizes)
