"""Recordings of processes that ran already (``record -p``, ``--system``): the report says from where it looked."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from ..findings import RecordingFacts, Verdict

if TYPE_CHECKING:
    from ..storage import Recording


def facts(recording: Recording, known: RecordingFacts) -> RecordingFacts:
    """With one note for all processes in place of a guess for each why there is no view inside it."""
    text = _text(recording)
    if text is None:
        return known
    notes = [*map(str, recording.notes)] if not known.agent_count else known.notes
    return replace(known, notes=[text, *notes])


def verdict(recording: Recording, known: Verdict) -> Verdict:
    """With the same words in its headline."""
    text = _text(recording)
    return known if text is None else replace(known, headline=f"{known.headline} ({text[:1].upper()}{text[1:]}.)")


def _text(recording: Recording) -> str | None:
    if not recording.meta.get("attached"):
        return None
    if len(recording.tables["agent_notes"]):
        return "attached: seen from inside only since then"
    return "attached: seen from outside only"
