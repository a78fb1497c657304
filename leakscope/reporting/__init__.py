"""From a recording to a report: the findings of the diagnoses, and what stands round them.

Data flows one way: recording, facts, diagnoses, report, text. The files here make the parts of a report that are no
finding: its head (``head``), the timeline, its steps laid over each other, GPUs, the heap by holder, the source lines
that findings name.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from .. import analyzers
from ..evidence import experiments
from ..evidence.edits import edit_of
from ..evidence.retained import agreed
from ..facts.accounts import tensors
from ..facts.case import Case
from ..facts.growth.processes import rounds_of
from ..facts.processes import table
from ..findings import Excerpt, Finding, Findings, Report, Timeline, Verdict, fingerprint_of, in_order
from ..storage import Recording, thinned
from . import attach_mode, devices, excerpts, footer, gpu, head, heap_view, laps, timeline
from .merging import folded


def analyze(
    recording: Recording,
    only: Collection[str] | None = None,
    thresholds: Mapping[str, Any] | None = None,
    horizon_s: float | None = None,
) -> Report:
    """The whole answer to one recording.

    ``only`` limits the report to these kinds; ``thresholds`` replaces keyword arguments of the diagnoses by name
    (each takes those it knows); growth that does not matter within ``horizon_s`` is no leak (None: a day). **Errors**
    BadInput for a kind or a threshold that does not exist.
    """
    return report_of(Case(recording, horizon_s), only, thresholds)


class Judged:
    """A report whose timeline can be looked at more closely, also of a recording that is too long to be held whole.

    The case may be of a part of its rows (``storage.thinned``), ``whole`` has every one.
    """

    def __init__(self, whole: Recording) -> None:
        self._case, self._whole = Case(whole), whole
        self.report = report_of(self._case)

    @property
    def has_more(self) -> bool:
        """Whether a part of the timeline has more moments than the whole shows of it."""
        drawn = self.report.timeline
        return drawn is not None and len(drawn.time_s) < rounds_of(self._case.growth.processes).size

    def window(self, start_s: float, end_s: float) -> Timeline | None:
        """The timeline between two moments, from as many samples as the whole; None without two of them."""
        drawn = self.report.timeline
        part = thinned(self._whole, time_s=(start_s, end_s))
        return timeline.window(self._case, part, drawn) if drawn is not None else None


@dataclass(frozen=True)
class Answer:
    """The part of a report that a person reads first, and what the footer of the recording keeps of it.

    ``as_of_s``: how far the recording went, where it still goes on.
    """

    verdict: Verdict
    findings: list[Finding]
    excerpts: list[Excerpt]
    footer: dict[str, Any]
    as_of_s: float | None = None


def answer_of(recording: Recording) -> Answer:
    """The same verdict and findings as in the report, without what is there to look at."""
    case = Case(recording)
    findings = _marked(case, analyzers.diagnose(case).findings)
    verdict = attach_mode.verdict(case, head.verdict(case, findings), findings)
    as_of_s = head.duration(case) if recording.meta.get("state") == "live" else None
    told = footer.footer(case, verdict, findings, as_of_s)
    return Answer(verdict, findings, excerpts.excerpts(case, findings), told, as_of_s)


def _marked(case: Case, findings: Sequence[Finding]) -> Findings:
    """In their order, one about each object, with its fingerprint."""
    cwd = case.recording.meta.get("cwd")
    folder = cwd if isinstance(cwd, str) and cwd.startswith("/") else None
    return Findings(
        replace(finding, fingerprint=fingerprint_of(finding, folder), edit=edit_of(case, finding))
        for finding in folded(in_order(findings))
    )


def report_of(case: Case, only: Collection[str] | None = None, thresholds: Mapping[str, Any] | None = None) -> Report:
    """Like ``analyze``, for callers that already have a case."""
    results = analyzers.diagnose(case, only, thresholds)
    findings = _marked(case, results.findings)
    found = {kind for finding in findings for kind in (finding.kind, *finding.also)}
    tried = (r for r in experiments.ruled_out(case) if r.kind not in found and (not only or r.kind in only))
    drawn = timeline.timeline(case)
    verdict = attach_mode.verdict(case, head.verdict(case, findings), findings)
    return Report(
        recording=replace(attach_mode.facts(case, head.facts(case)), peak=case.peak),
        verdict=verdict,
        bill=case.bills,
        ledger=case.ledger,
        findings=findings,
        ruled_out=sorted(
            [*(agreed(one, findings) for one in results.ruled_out), *tried], key=lambda r: (r.kind, r.reason)
        ),
        skipped=[skip for skip in results.skipped if not only or skip.kind in only],
        tensor_budget=[*tensors.tensor_budget(case.recording, case.growth), *gpu.budget(case)],
        gpu_lines=gpu.lines(case),
        processes=table.process_rows(case.processes, case.growth),
        timeline=replace(drawn, outlook=timeline.outlook(case, verdict, drawn)) if drawn is not None else None,
        laps=laps.laps(case),
        devices=devices.devices(case),
        heap=heap_view.heap_views(case),
        excerpts=excerpts.excerpts(case, findings),
    )
