"""TensorBoard: an event file in a folder below the job's own, so that its curves stand beside the job's.

`tensorboard:FOLDER`, else TENSORBOARD_LOGDIR or `runs`; the folder `leakscope` in it is ours. The page lies beside the
event file. The step of each point is the second of the run.
"""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import Any

from ._tracker import PREFIX, About, Outcome, Point

PACKAGE = "tensorboard"
_FOLDER = "leakscope"


class _Run:
    def __init__(self, folder: Path) -> None:
        from tensorboard.summary.writer.event_file_writer import EventFileWriter

        self._folder, self._last = folder, Point(0.0, 0.0, {})
        self._writer = EventFileWriter(str(folder))

    def log(self, point: Point) -> None:
        from tensorboard.compat.proto.summary_pb2 import Summary

        self._last = point
        self._add([Summary.Value(tag=name, simple_value=value) for name, value in point.figures.items()])

    def alert(self, title: str, text: str) -> None:
        """It sends none: a text at that moment."""
        self._text("alert", text)

    def finish(self, outcome: Outcome) -> str:
        if outcome.alarm is not None:
            self.alert("", outcome.alarm)
        rows = "\n".join(f"| {name} | {value} |" for name, value in outcome.summary.items())
        self._text("summary", f"| figure | value |\n| --- | --- |\n{rows}")
        self._text("report", outcome.text)
        self._writer.close()
        shutil.copyfile(outcome.page, self._folder / outcome.page.name)
        return str(self._folder)

    def _text(self, name: str, text: str) -> None:
        from tensorboard.compat.proto import summary_pb2, tensor_pb2, tensor_shape_pb2, types_pb2

        shape = tensor_shape_pb2.TensorShapeProto(dim=[tensor_shape_pb2.TensorShapeProto.Dim(size=1)])
        tensor = tensor_pb2.TensorProto(dtype=types_pb2.DT_STRING, string_val=[text.encode()], tensor_shape=shape)
        plugin = summary_pb2.SummaryMetadata.PluginData(plugin_name="text")
        metadata = summary_pb2.SummaryMetadata(plugin_data=plugin)
        self._add([summary_pb2.Summary.Value(tag=PREFIX + name, metadata=metadata, tensor=tensor)])

    def _add(self, values: list[Any]) -> None:
        from tensorboard.compat.proto.event_pb2 import Event
        from tensorboard.compat.proto.summary_pb2 import Summary

        step = round(self._last.time_s)
        self._writer.add_event(Event(wall_time=self._last.unix_s, step=step, summary=Summary(value=values)))
        self._writer.flush()


def begin(place: str | None, about: About) -> _Run:
    """A new event file. **Errors** OSError."""
    return _Run(Path(place or os.environ.get("TENSORBOARD_LOGDIR") or "runs", _FOLDER, about.name))
