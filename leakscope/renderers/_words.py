"""What several renderers say alike: the verdict in a word, how the run ended, how much, and strings made harmless."""

from __future__ import annotations

from collections.abc import Sequence

from ..findings import Finding, RecordingFacts, Report, RuledOut, Skipped
from ..units import format_bytes, format_duration

VERDICTS = {True: "LEAKING", False: "NOT LEAKING", None: "CANNOT TELL"}


def printable(text: str) -> str:
    """A string of the job's on one line: control characters, lone surrogates and what turns a line round are shown."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode("ascii") for c in text)


def run_facts(recording: RecordingFacts) -> str:
    """``45.9 s, 3 processes, exit status 0``."""
    processes = "1 process" if recording.process_count == 1 else f"{recording.process_count} processes"
    return f"{format_duration(recording.duration_s)}, {processes}, {ended(recording)}"


def ended(recording: RecordingFacts) -> str:
    """``exit status 0``, ``ended by signal 9``."""
    if recording.ended == "exit" and recording.exit_code is not None:
        return f"exit status {recording.exit_code}"
    if recording.ended == "signal":
        return f"ended by signal {recording.signal}"
    return "killed for lack of memory" if recording.ended == "oom-killed" else "its end was not recorded"


def amount(finding: Finding) -> str:
    """``600 MiB, 20.1 GiB an hour, 128 KiB a step, 97% sure``."""
    figures = [format_bytes(finding.bytes)]
    if finding.wasted:
        figures.append("wasted once")
    if finding.bytes_per_hour:
        figures.append(f"{format_bytes(finding.bytes_per_hour)} an hour")
    if finding.bytes_per_step:
        figures.append(f"{format_bytes(finding.bytes_per_step)} a step")
    return ", ".join([*figures, f"{finding.confidence:.0%} sure"])


def by_reason(entries: Sequence[RuledOut | Skipped]) -> list[tuple[str, str]]:
    """(kinds, reason): what several kinds have in common is said once."""
    kinds: dict[str, dict[str, None]] = {}
    for one in entries:
        kinds.setdefault(one.reason, {})[one.kind] = None
    return [(", ".join(names), reason) for reason, names in kinds.items()]


def caveats(report: Report) -> list[str]:
    """What the recording itself could not see, in sentences."""
    lost = "the recording is not complete: what happened after its last row is not known"
    return [*report.recording.notes, *([] if report.recording.complete else [lost])]
