"""The figures of a run of the bench as Markdown, for docs/leakbench.md and for who ran it."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from .score import Score, calibration, share

RESULTS = Path(__file__).with_name("results.json")
UNSEEN = Path(__file__).with_name("unseen.json")

MEASURES = (
    ("leaky: kind of the first finding is right", lambda s: s.kind),
    ("leaky: it names the right variable", lambda s: s.name),
    ("leaky: it names the right line", lambda s: s.line),
    ("leaky: its advice mends the right mechanism", lambda s: s.advice),
    ("leaky: right verdict", lambda s: s.verdict if s.leaky else None),
    ("clean: a false alarm", lambda s: s.alarm),
    ("clean: right verdict (NOT LEAKING)", lambda s: None if s.leaky else s.verdict),
)


def write(scores: Sequence[Score], about: dict[str, Any], path: Path = RESULTS) -> None:
    rows = [{name: value for name, value in s._asdict().items() if value is not None} for s in scores]
    lines = ",\n".join(json.dumps(row) for row in rows)  # a program a line, so that two runs can be compared
    path.write_text(f'{{\n"about": {json.dumps(about)},\n"programs": [\n{lines}\n]\n}}\n', encoding="utf-8")


def from_results(path: Path = RESULTS) -> str:
    """A section of docs/leakbench.md, from the run whose figures are committed."""
    results = json.loads(path.read_text(encoding="utf-8"))
    return markdown([Score(**row) for row in results["programs"]], results["about"])


def markdown(scores: Sequence[Score], about: dict[str, Any]) -> str:
    run = [s for s in scores if not s.not_run]
    torch = [s for s in run if s.torch]
    minutes = sum(s.duration_s or 0.0 for s in run) / about["at_once"] / 60
    sections = [
        f"{len(run)} programs, {sum(s.leaky for s in run)} of them leaky, {len(torch)} with PyTorch, recorded on"
        f" {about['date']}, {about['at_once']} at once, for {about['seconds']:g} s each and what they take to start"
        f" ({minutes:.0f} minutes in all): {about['machine']}, Python {about['python']}, torch {about['torch']}.\n",
        _table(
            ("", "all", "with PyTorch"),
            [
                (name, str(share(run, field)), str(share(torch, field)))
                for name, field in MEASURES
                if share(run, field).of
            ],
        ),
        _table(
            ("confidence of the first finding", "on average", "right kind and name"),
            [(label, f"{mean:.0%}", str(right)) for label, mean, right in calibration(run)],
        ),
    ]
    missed = [(f"`{s.program}`", _cell(s.expected), _cell(s.said + _also_wrong(s))) for s in run if not s.right]
    if missed:
        sections.append(_table(("missed", "what is wrong with it", "what the report says first"), missed))
    left_out = [f"- `{s.program}`: {s.not_run}" for s in scores if s.not_run]
    if left_out:
        sections.append("Not judged:\n\n" + "\n".join(left_out) + "\n")
    return "\n".join(sections)


def _also_wrong(s: Score) -> str:
    """What the first finding does not show."""
    return " (wrong verdict)" if s.verdict is False and s.kind is not False and not s.alarm else ""


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)
