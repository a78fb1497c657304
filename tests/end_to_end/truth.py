"""A report held against what is true of its program: what ``truth.json`` says."""

from __future__ import annotations

from typing import Any

from .programs import Place, Program, named


def told_wrong(program: Program, report: dict[str, Any]) -> str:
    """What the report gets wrong; empty if nothing."""
    verdict, findings = report["verdict"], report["findings"]
    if not program.places:
        return verdict["headline"] if is_accused(report) or verdict["leaking"] is not False else ""
    # What a finding says besides, of the same object, is as good as a finding of its own.
    findings = [{**finding, "kind": kind} for finding in findings for kind in (finding["kind"], *finding["also"])]
    first = findings[: len(program.places)]
    # Of two leaks of like size either may come first.
    pairs = zip(first, _in_like_order(first, program))
    found = sorted((named(finding, place, program.path) for finding, place in pairs), key=repr)  # some names are None
    if program.grows not in (None, verdict["leaking"] is True) or found != sorted(program.places, key=repr):
        return f"{verdict['headline']} Found {found}, not {program.places}"
    if program.grows and sum(finding["bytes"] for finding in first) < 0.5 * verdict["growth_bytes"]:
        return f"{verdict['headline']} The findings explain less than half of it"
    return ""


def is_accused(report: dict[str, Any]) -> bool:
    """More than a note was found."""
    return any(finding["severity"] != "note" for finding in report["findings"])


def _in_like_order(findings: list[dict[str, Any]], program: Program) -> list[Place]:
    """The program's places, those first that the findings name first."""
    order = [finding["subject"]["variable"] for finding in findings]
    return sorted(program.places, key=lambda p: order.index(p.variable) if p.variable in order else len(order))
