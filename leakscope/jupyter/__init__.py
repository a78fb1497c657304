"""For a notebook: charts of a recording, its heap as tables, and the magics ``%%leakscope`` and ``%leakscope``."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from ..errors import BadInput
from ..findings import LEVEL, PEAK
from ._bill import bill_frame
from ._heap import Heap
from ._html import recording_html

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from ._charts import Chart


__all__ = ["Heap", "Plots", "add_magics", "bill_frame", "recording_html"]


def add_magics(ipython: Any, open_recording: Callable[[str], Any]) -> None:
    """``%%leakscope`` and ``%leakscope``; ``open_recording`` makes what ``%leakscope stop`` shows."""
    from ._cell import register

    register(ipython, open_recording)


class Plots:
    """The charts of one recording, as its page has them: each shows itself, and ``save`` writes it to a file.

    With ``ax``, axes of matplotlib's, a chart is drawn there instead, and these are returned.
    """

    def __init__(self, recording: Any) -> None:
        """``recording``: an ``api.Recording``, whose room stands on this one."""
        self._recording = recording

    def __repr__(self) -> str:
        names = [name for name in vars(Plots) if not name.startswith("_")]
        return f"<plots of {self._recording.path}: {', '.join(names)}>"

    def timeline(self, *, ax: Axes | None = None) -> Any:
        """Memory of the process tree over the run, by account first."""
        return self._timeline("account", ax)

    def processes(self, *, ax: Axes | None = None) -> Any:
        """Memory of the process tree over the run, by process first: who takes how much, and when."""
        return self._timeline("process", ax)

    def ledger(self, *, ax: Axes | None = None) -> Any:
        """Where the growth went."""
        from . import _charts

        return _shown(_charts.of_ledger(self._recording.report().ledger), ax)

    def bill(self, *, moment: str = PEAK, ax: Axes | None = None) -> Any:
        """What all memory was, ``"peak"`` or ``"level"``: each holder of yours, and the rest by account."""
        from . import _charts

        if moment not in (LEVEL, PEAK):
            raise BadInput(f"moment {moment!r}: a bill is of the {LEVEL} or the {PEAK}")
        return _shown(_charts.of_bill(self._recording.report(), moment), ax)

    def holders(self, *, process: str | None = None, ax: Axes | None = None) -> Any:
        """What the largest holders held at each snapshot: in the process with the most, or in the one of this name."""
        title, nothing = "What the largest holders held", "There are no two snapshots to compare."
        return self._chart(f"holders-{self._heap_number(process)}", title, nothing, ax)

    def heap(self, *, process: str | None = None, ax: Axes | None = None) -> Any:
        """All memory of that process as nested boxes, by who holds it."""
        from . import _charts

        number = self._heap_number(process)
        report = self._recording.report()
        view = report.heap[number] if number is not None else None
        return _shown(_charts.of_heap(view, report.verdict.step_unit), ax)

    def laps(self, *, ax: Axes | None = None) -> Any:
        """What the job does again and again, such as epochs, laid over each other."""
        return self._chart("laps", "Laps laid over each other", "Nothing was done again and again.", ax)

    def devices(self, number: int = 0, *, ax: Axes | None = None) -> Any:
        """Memory of one GPU: allocated, reserved, and the moments at which an allocation failed."""
        return self._chart(f"device-{number}", "Memory of a GPU", "No GPU of that number was seen.", ax)

    def tensors(self, *, pid: int | None = None, ax: Axes | None = None) -> Any:
        """Live tensors by owner, in one process."""
        from . import _charts

        plot = _charts.tensors_plot(self._recording, pid)
        return _shown(_charts.of_plot(plot, "Live tensors, by owner", "No snapshot saw a tensor."), ax)

    def _timeline(self, by: str, ax: Axes | None) -> Any:
        from . import _charts

        plot = _charts.first_divided_by(self._recording.report().plots.get("timeline"), by)
        nothing = "Fewer than two samples of memory were recorded."
        return _shown(_charts.of_plot(plot, "Memory of the process tree", nothing), ax)

    def _chart(self, key: str, title: str, nothing: str, ax: Axes | None) -> Any:
        from . import _charts

        return _shown(_charts.of_plot(self._recording.report().plots.get(key), title, nothing), ax)

    def _heap_number(self, process: str | None) -> int | None:
        """The first is the largest."""
        names = [view.process for view in self._recording.report().heap]
        if process is not None and process not in names:
            raise BadInput(f"process {process!r}: the heap of {', '.join(names) or 'none'} is known")
        return (0 if process is None else names.index(process)) if names else None


def _shown(chart: Chart, ax: Axes | None) -> Any:
    return chart if ax is None else chart.to_axes(ax)
