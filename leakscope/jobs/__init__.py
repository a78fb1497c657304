"""Ranks as one job: the recordings of its ranks on one axis, with one verdict, and two jobs compared rank by rank.

``_recordings`` finds them and says whether they are of one job, ``_judging`` judges each rank by itself, ``_clocks``
brings their clocks in line, ``_merging`` and ``_verdict`` put them together; ``_render`` and ``_page`` write it down.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from ..engines import map_over
from ..facts.processes.ranks import named_ranks as named
from ..ignoring import Ignores
from ._clocks import Started, clocks
from ._comparing import JobComparison, RankComparison, compare_jobs
from ._job import Account, Cluster, JobReport, JobVerdict, NodeRow, RankRow
from ._judging import JudgedRecording, judge
from ._merging import Part, axis, clusters, node_rows, rank_rows, shifted
from ._recordings import Candidate, of_one_job, ranks_of, recordings_in
from ._render import FORMATS, render
from ._verdict import verdict

__all__ = [
    "FORMATS",
    "Account",
    "Cluster",
    "JobComparison",
    "JobReport",
    "JobVerdict",
    "NodeRow",
    "RankComparison",
    "RankRow",
    "compare_jobs",
    "ranks_of",
    "recordings_in",
    "render",
    "report_job",
    "without_ignored",
]

_FIGURES = re.compile(r"\d[\d.,]*")
_LARGEST_WORLD = 1_000_000  # ranks: what a footer says is not to be believed beyond


def report_job(paths: Sequence[Path], workers: int | None = None) -> JobReport:
    """The whole answer to the recordings of one job: files, or folders with files.

    ``workers``: processes of this computer that read them; as many as it has cores by default. **Errors** BadInput
    where they are not of one job, UnreadableRecording where none can be read.
    """
    found = of_one_job(recordings_in(paths))
    judged = list(map_over(_judge, found.candidates, workers=workers))
    parts = _parts(found.candidates, judged)
    time_s = axis(parts)
    start_s = time_s[0] if time_s else 0.0
    ranks = rank_rows(parts, time_s, start_s)
    first = min(found.candidates, key=lambda one: one.started_at)
    world_size = _world_size(found.candidates)
    return JobReport(
        job=next((str(job) for one in found.candidates if (job := one.belongs.get("job"))), None),
        command=found.candidates[0].command,
        started_at=first.started_at,
        world_size=world_size,
        duration_s=round(time_s[-1] - start_s, 3) if time_s else 0.0,
        verdict=verdict(parts, dict(found.unreadable), world_size),
        ranks=ranks,
        nodes=node_rows(parts, judged),
        clusters=clusters(parts),
        time_s=shifted(time_s, start_s),
        rest=found.rest,
        notes=_notes(judged),
    )


def without_ignored(job: JobReport, ignores: Ignores) -> JobReport:
    """Without the findings that the project accepts, which are counted; the verdict stays what was measured."""
    kept = [one for one in job.clusters if ignores.reason_for(one.finding) is None]
    count = len(job.clusters) - len(kept)
    if not count:
        return replace(job, notes=[*job.notes, *ignores.notes])
    said = f"{count} finding{' is' if count == 1 else 's are'} ignored by pyproject.toml: --all-findings shows all"
    return replace(job, clusters=kept, notes=[*job.notes, *ignores.notes, said])


def _judge(candidate: Candidate) -> JudgedRecording:
    return judge(candidate.path, candidate.ranks)


def _parts(candidates: Sequence[Candidate], judged: Sequence[JudgedRecording]) -> list[Part]:
    """Each rank with the clock of its recording; of a recording with several ranks the events of the first count."""
    started = [
        Started(one.machine, one.start_mono_ns, one.start_unix_ns, max((r.events for r in own.ranks), key=len))
        for one, own in zip(candidates, judged)
    ]
    return [
        Part(rank, one, clock) for one, own, clock in zip(candidates, judged, clocks(started)) for rank in own.ranks
    ]


def _world_size(candidates: Sequence[Candidate]) -> int | None:
    """As the environment said; None where nobody wrote it down."""
    sizes = [size for one in candidates if isinstance(size := one.belongs.get("world_size"), int)]
    return max((size for size in sizes if 0 < size <= _LARGEST_WORLD), default=None)


def _notes(judged: Sequence[JudgedRecording]) -> list[str]:
    """What the recordings could not see: a sentence for those that differ in figures only, with the ranks it is of."""
    first: dict[str, str] = {}
    said: dict[str, set[int]] = {}
    for one in judged:
        for rank in one.ranks:
            recording = rank.report.recording
            lost = [] if recording.complete else ["the recording is not complete"]
            for note in [*recording.notes, *lost]:
                alike = _FIGURES.sub("N", note)
                first.setdefault(alike, note)
                said.setdefault(alike, set()).add(rank.rank)
    return [f"{named(sorted(ranks))}: {first[alike]}" for alike, ranks in said.items()]
