"""A damaged or hostile recording, looked at in every way there is: the answer is a report or one line, nothing else."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from hypothesis import HealthCheck, Phase, settings

from leakscope import analyze
from leakscope.errors import LeakscopeError
from leakscope.findings import Report
from leakscope.renderers import names, render
from leakscope.storage import open_recording
from tests.builders import RecordingBuilder

# A look takes most of a second: few examples, the same each time, in every run of the tests; by hand as many as one
# likes. Nothing is made smaller when it fails: it would take minutes.
_ASKED = os.environ.get("LEAKSCOPE_FUZZ_EXAMPLES")
FUZZ = settings(
    max_examples=int(_ASKED or 3),
    derandomize=_ASKED is None,
    phases=[Phase.explicit, Phase.generate],
    deadline=None,
    database=None,
    suppress_health_check=list(HealthCheck),
)
KILLER_KINDS = {"oom-kill", "crash"}
_TRAINER, _WORKER = 100, 101
_COUNT, _EVERY_S = 24, 2.5


def steady(folder: Path, name: str = "run.parquet", **meta: Any) -> RecordingBuilder:
    """A run of a minute in which nothing grows and nobody dies, with something in most tables."""
    moments = range(_COUNT)
    builder = RecordingBuilder(folder, name, **meta).process(_TRAINER).process(_WORKER, role="dataloader-worker")
    builder.samples(_TRAINER, rss=[10**9 + 4096 * (i % 3) for i in moments], every_s=_EVERY_S)
    builder.samples(_WORKER, rss=[10**8 for _ in moments], every_s=_EVERY_S)
    builder.host(available=[8 * 10**9 for _ in moments], total=16 * 10**9, every_s=_EVERY_S)
    builder.cgroup(current=[2 * 10**9 for _ in moments], limit=4 * 10**9, every_s=_EVERY_S)
    builder.sentinels(_TRAINER, step=list(moments), none_refcount=[5000 for _ in moments], every_s=_EVERY_S)
    for number, at_s in enumerate((5.0, 20.0, 40.0, 55.0), 1):
        holder = {"path": "main() history", "variable": "history", "deep_bytes": 10**6, "reached_count": 100}
        builder.take(_TRAINER, number, at_s, holders=[holder], step=int(at_s))
    builder.source(_TRAINER, "train.py", "history = []\n").note(_TRAINER, 0.5, "loaded")
    return builder.mark(_TRAINER, 10.0, step=10, phase="train").ends()


def look(path: Path) -> Report | None:
    """Open, analyse, render in every format. None: it was refused, in one line that names the file."""
    try:
        report = analyze(open_recording(path))
    except LeakscopeError as error:
        line = str(error)
        assert line.isprintable() or not path.name.isprintable(), f"more than a line: {line!r}"
        return None
    for name in names():
        render(report, name).encode("utf-8")  # no half of a surrogate pair: it could not be written anywhere
    return report


def assert_nothing_invented(report: Report | None) -> None:
    """Of a run in which nothing happened, damage makes no leak and no kill."""
    if report is None:
        return
    assert report.verdict.leaking is not True, report.verdict.headline
    assert report.verdict.killed is not True, report.verdict.headline
    assert not KILLER_KINDS & {finding.kind for finding in report.findings}
