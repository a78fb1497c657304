"""Recordings of processes that ran already, or that kept us out: the report says from where it looked."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from ..facts import imported
from ..facts.case import Case
from ..facts.processes.inside import blind_spot, notes_of_agents
from ..facts.tables import cells
from ..findings import Finding, RecordingFacts, Verdict


def facts(case: Case, known: RecordingFacts) -> RecordingFacts:
    """With one note for all processes in place of a guess for each why there is no view inside it."""
    files, text = imported.shown_files(case.recording), _text(case)
    if text is None and not files:
        return known
    notes = known.notes if text is None or known.agent_count else [*map(str, case.recording.notes)]
    command = known.command or ([f"(imported from {files})"] if files else [])
    return replace(known, notes=[*([text] if text else []), *notes, *_told_of_files(case)], command=command)


def verdict(case: Case, known: Verdict, findings: Sequence[Finding]) -> Verdict:
    """With the same words in its headline; not where a finding names what only a look inside can show."""
    looked = any(finding.subject.path is not None for finding in findings)
    text = _text(case) or (_blind(case) if not looked else None)
    return known if text is None else replace(known, headline=f"{known.headline} ({text[:1].upper()}{text[1:]}.)")


def _blind(case: Case) -> str | None:
    growth = case.growth
    # Of processes that hardly grew the one matters that holds most.
    largest = max(growth.processes, key=lambda p: float(p.held_bytes[-1]), default=None)
    main = growth.main if growth.leaking else largest
    why = blind_spot(case.recording, main.pid if main is not None else None)
    return f"seen from outside only; {why}" if why is not None else None


def _told_of_files(case: Case) -> list[str]:
    """What the reader of each file had to say, and on which clock it was."""
    rows = case.rows("imports")
    if not len(rows):
        return []
    told = ((origin, "; ".join(filter(None, words))) for origin, *words in cells(rows, "origin", "clock", "text"))
    return [f"{origin}: {text}" for origin, text in told if text]


def _text(case: Case) -> str | None:
    if tools := imported.tools(case.recording):
        looks_inside = any(len(case.rows(table)) for table in ("takes", "gpu_snapshots"))
        return None if looks_inside else f"imported from {tools}: seen from outside only"
    if not case.recording.meta.get("attached"):
        return None
    if len(notes_of_agents(case.recording)):
        return "attached: seen from inside only since then"
    return "attached: seen from outside only"
