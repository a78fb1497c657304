"""Reports made to break a renderer: strings that are markup, commands or no text at all, and too much of everything."""

from __future__ import annotations

import dataclasses

from leakscope.findings import (
    BudgetRow,
    Evidence,
    Excerpt,
    GpuLine,
    LedgerRow,
    ProcessRow,
    Report,
    RuledOut,
    Skipped,
    Subject,
)

from .reports import FULL, RETAINED

STRINGS = [
    "a|b\\|c",
    "``` `x` ````",
    "<script>alert(1)</script><!-- </details>",
    "@octocat and a@b.de",
    "fixes #123, GH-7, me/repo#1, 0123456789abcdef0123456789abcdef01234567",
    "https://evil.example www.evil.example [click](https://evil.example) ![x](y)",
    "line\r\n::error::owned\x1b[31m\x00\ud800\ufffe\u202e]]>",
    "# heading",
    "- [ ] task",
    "1. first",
    "$x$ *a* __init__ ~~b~~ :tada: &lt;",
]


def full_of(strings: list[str], count: int = 1) -> Report:
    """A report whose every string is hostile, with ``count`` of each part per string."""
    text = " ".join(strings)
    subject = Subject(4242, *[text] * 8, line=3, function=text, module=text, library=text)
    many = strings * count
    finding = dataclasses.replace(
        RETAINED,
        title=text,
        subject=subject,
        evidence=[Evidence(one) for one in many],
        doubts=many,
        remedy=many,
    )
    return Report(
        recording=dataclasses.replace(FULL.recording, command=many, notes=many, started_at=text, complete=False),
        verdict=dataclasses.replace(FULL.verdict, headline=text, limit=text),
        ledger=[LedgerRow(one, one, 1, 2**60, 2**60, True) for one in many],
        findings=[finding] * count,
        ruled_out=[RuledOut(f"{one}{i}", f"{one}{i}") for i, one in enumerate(many)],
        skipped=[Skipped(f"{one}{i}", f"{one}{i}") for i, one in enumerate(many)],
        tensor_budget=[BudgetRow(one, one, one, one, 1) for one in many],
        gpu_lines=[GpuLine(one, one, one, one, one, 1, one, 1, 1, 1) for one in many],
        processes=[ProcessRow(one, one, 2, 1, 1.0, 1.0, 1, 1, 2, 1, 1, 0.0, 1.0) for one in many],
        excerpts=[Excerpt(text, 3, 1, many)],
    )
