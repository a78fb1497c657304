"""Findings that a project knows of and accepts, with a reason: ``ignore`` of ``[tool.leakscope]`` in pyproject.toml.

What is ignored is shown as that and counted; the verdict stays what was measured. An entry ends on its day ``until``.
"""

from __future__ import annotations

import datetime
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

from .errors import BadInput
from .findings import Finding, Findings, Ignored, Report, stands_for_all
from .settings import FILE, of_project

_KEYS = ("holder", "fingerprint", "kind", "reason", "until")
_LEAST_FINGERPRINT = 8
_EXAMPLE = '{holder = "Cache.rows", reason = "bounded by the vocabulary", until = "2027-01-01"}'


@dataclass(frozen=True)
class Entry:
    """What one entry says. ``holder`` may have wildcards; ``until`` is the first day on which it counts no more."""

    reason: str
    holder: str | None = None
    fingerprint: str | None = None
    kind: str | None = None
    until: datetime.date | None = None

    def matches(self, finding: Finding) -> bool:
        if self.kind is not None and self.kind != finding.kind:
            return False
        if self.fingerprint is not None and not (finding.fingerprint or "").startswith(self.fingerprint.lower()):
            self._refuse_if_it_names_nothing(finding)
            return False
        return self.holder is None or any(fnmatchcase(name, self.holder) for name in _names(finding))

    def _refuse_if_it_names_nothing(self, finding: Finding) -> None:
        """**Errors** BadInput: it would ignore whatever grows next, too."""
        mark = (self.fingerprint or "").lower()
        if finding.fingerprint is None and stands_for_all(finding.kind).startswith(mark):
            raise BadInput(
                f"{FILE}: ignore of fingerprint {self.fingerprint}: it applies to all {finding.kind} of which nothing "
                "is known, also the next; name a holder"
            )


@dataclass(frozen=True)
class Ignores:
    """Entries that count today, and sentences about those that no longer do."""

    entries: Sequence[Entry] = ()
    notes: Sequence[str] = ()

    def reason_for(self, finding: Finding) -> Ignored | None:
        for entry in self.entries:
            if entry.matches(finding):
                return Ignored(finding, entry.reason, entry.until.isoformat() if entry.until is not None else None)
        return None


def read_ignores(folder: Path, today: datetime.date | None = None) -> Ignores:
    """Of the pyproject.toml in ``folder``. **Errors** BadInput names the entry that is wrong."""
    today = today or datetime.date.today()
    found = of_project(folder).get("ignore", [])
    if not isinstance(found, list):
        raise BadInput(f"{FILE}: ignore of [tool.leakscope] is not a list: write it like [{_EXAMPLE}]")
    entries = [_entry(one) for one in found]
    over = [entry for entry in entries if entry.until is not None and entry.until <= today]
    notes = [
        f"{FILE} ignored {entry.holder or entry.fingerprint} until {entry.until}: it counts again ({entry.reason})"
        for entry in over
    ]
    return Ignores([entry for entry in entries if entry not in over], notes)


def split(findings: Sequence[Finding], ignores: Ignores) -> tuple[list[Finding], list[Ignored]]:
    """Findings that count, and those that are ignored."""
    reasons = [ignores.reason_for(finding) for finding in findings]
    kept = [finding for finding, reason in zip(findings, reasons) if reason is None]
    return kept, [reason for reason in reasons if reason is not None]


def without_ignored(report: Report, ignores: Ignores) -> Report:
    """The report with the findings that are ignored among ``ignored``, and a word of it in the headline."""
    kept, ignored = split(report.findings, ignores)
    notes = [*report.recording.notes, *ignores.notes]
    verdict = replace(report.verdict, headline=headline(report.verdict.headline, ignored))
    recording = replace(report.recording, notes=notes)
    return replace(report, recording=recording, verdict=verdict, findings=Findings(kept), ignored=ignored)


def headline(text: str, ignored: Sequence[Ignored]) -> str:
    """With how many findings are ignored."""
    if not ignored:
        return text
    count = f"{len(ignored)} finding{' is' if len(ignored) == 1 else 's are'}"
    return f"{text} ({count} ignored by {FILE}.)"


def _names(finding: Finding) -> list[str]:
    """``Store.rows (list)``, ``Store.rows``, ``rows`` and ``store.rows`` are names of one holder."""
    subject = finding.subject
    names = [subject.holder, (subject.holder or "").partition(" (")[0], subject.variable, subject.path]
    return [name for name in names if name]


def _entry(found: Any) -> Entry:
    if not isinstance(found, Mapping):
        raise BadInput(f"{FILE}: an entry of ignore is not a table: write it like {_EXAMPLE}")
    if unknown := [name for name in found if name not in _KEYS]:
        raise BadInput(f"{FILE}: ignore has no {unknown[0]!r}: there are {', '.join(_KEYS)}")
    for name in ("holder", "fingerprint", "kind", "reason"):
        if name in found and not (isinstance(found[name], str) and found[name].strip()):
            raise BadInput(f"{FILE}: {name} of ignore is not a text: {found[name]!r}")
    if "holder" not in found and "fingerprint" not in found:
        raise BadInput(f"{FILE}: an entry of ignore needs a holder or a fingerprint: write it like {_EXAMPLE}")
    if "reason" not in found:
        raise BadInput(f"{FILE}: ignore of {found.get('holder') or found.get('fingerprint')} has no reason")
    fingerprint = found.get("fingerprint")
    if fingerprint is not None and len(fingerprint) < _LEAST_FINGERPRINT:
        raise BadInput(f"{FILE}: the fingerprint {fingerprint!r} is too short: {_LEAST_FINGERPRINT} characters or more")
    return Entry(found["reason"], found.get("holder"), fingerprint, found.get("kind"), _day(found.get("until")))


def _day(value: Any) -> datetime.date | None:
    """TOML has days of its own; a text is as good."""
    if value is None or (isinstance(value, datetime.date) and not isinstance(value, datetime.datetime)):
        return value
    try:
        return datetime.date.fromisoformat(str(value))
    except ValueError:
        raise BadInput(f"{FILE}: until of ignore is not a day: {value!r}, write it like 2027-01-01") from None
