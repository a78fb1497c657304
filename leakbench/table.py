"""The figures of a run of the bench: as Markdown for the documentation, as a page for who ran it."""

from __future__ import annotations

import html
import json
import re
import statistics
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from .score import Score, Share, agreement, calibration, interval, levels, share, told_and_fitted

RESULTS = Path(__file__).with_name("results.json")
UNSEEN = Path(__file__).with_name("unseen.json")
SEALED = Path(__file__).with_name("sealed.json")
REPEATED = Path(__file__).with_name("repeated.json")
BUSY = Path(__file__).with_name("repeated-busy.json")
PEERS = Path(__file__).with_name("peers.json")


def _is_gone(removed: float | None) -> bool | None:
    return removed >= 0.9 if removed is not None else None


MEASURES: tuple[tuple[str, Callable[[Score], bool | None]], ...] = (
    ("leaky: kind of the first finding is right", lambda s: s.kind),
    ("leaky: it names the right variable", lambda s: s.name),
    ("leaky: it names the right line", lambda s: s.line),
    ("leaky: its advice mends the right mechanism", lambda s: s.advice),
    ("leaky: the edit that follows it removes 90% of the growth", lambda s: _is_gone(s.removed)),
    ("leaky: right verdict", lambda s: s.verdict if s.leaky else None),
    ("clean: a false alarm", lambda s: s.alarm),
    ("clean: right verdict (NOT LEAKING)", lambda s: None if s.leaky else s.verdict),
)
COLUMNS: tuple[tuple[str, Callable[[Score], bool | None]], ...] = (
    ("kind", lambda s: s.kind),
    ("holder", lambda s: s.name),
    ("holder in 3", lambda s: s.name_3),
    ("line", lambda s: s.line),
    ("line in 3", lambda s: s.line_3),
    ("its function", lambda s: s.function),
    ("verdict", lambda s: s.verdict),
    ("false alarms", lambda s: s.alarm),
)
_NOT_OFFERED = "not offered"
_STYLE = """
body { font: 15px/1.5 system-ui; margin: 2em auto; max-width: 75em; padding: 0 1em }
table { border-collapse: collapse; margin: 1em 0 }
td, th { border: 1px solid #bbb; padding: .2em .6em; text-align: left; vertical-align: top }
"""


class Table(NamedTuple):
    head: Sequence[str]
    rows: Sequence[Sequence[str]]


def write(scores: Sequence[Score], about: dict[str, Any], path: Path = RESULTS) -> None:
    rows = [{name: value for name, value in s._asdict().items() if value is not None} for s in scores]
    lines = ",\n".join(json.dumps(row) for row in rows)  # a run a line, so that two benches can be compared
    path.write_text(f'{{\n"about": {json.dumps(about)},\n"programs": [\n{lines}\n]\n}}\n', encoding="utf-8")


def read(path: Path) -> tuple[list[Score], dict[str, Any]]:
    results = json.loads(path.read_text(encoding="utf-8"))
    return [Score(**row) for row in results["programs"]], results["about"]


def added(scores: Sequence[Score], about: dict[str, Any], path: Path) -> tuple[list[Score], dict[str, Any]]:
    """A run of some tools in the place of what the committed run says of them. What they take is left out: that is
    told beside the program alone, of the same run.
    """
    before, of_all = read(path)
    programs, theirs = {s.program for s in before}, {s.tool for s in scores} - {"bare"}
    rows = [s for s in scores if s.program in programs and s.tool in theirs]
    rows = [s._replace(wall_s=None, cpu_s=None, peak_bytes=None) for s in rows]
    merged = {name: {**of_all[name], **about[name]} for name in ("versions", "how", "loads")}
    return [s for s in before if s.tool not in theirs] + rows, of_all | merged


def from_results(path: Path = RESULTS) -> str:
    """A section of the documentation, from the run whose figures are committed."""
    return markdown(*read(path))


def our_runs() -> dict[Path, list[Score]]:
    """What leakscope said in each committed run."""
    paths = (RESULTS, PEERS, UNSEEN, REPEATED, BUSY, SEALED)
    return {path: [s for s in read(path)[0] if s.tool == "leakscope"] for path in paths}


def how_sure() -> str:
    """A section of the documentation: how sure first findings were, and how often right, of all committed runs."""
    ours = our_runs()
    known = [s for path, scores in ours.items() for s in scores if path != SEALED]
    every = [s for scores in ours.values() for s in scores]
    rows = [
        (f"{one.told:.0%}", f"{one.fitted:.0%}", f"{one.low:.0%} to {one.high:.0%}", f"{one.count}")
        for one in levels(every)
    ]
    tables: list[str | Table] = [
        "All committed runs but the sealed:\n",
        _calibrated(known),
        "The sealed one, by which nothing is fixed:\n",
        _calibrated(ours[SEALED]),
    ]
    if rows:
        told, fitted = told_and_fitted(every)
        tables += [
            "How sure each level of ground makes alone, as it is told and as all these findings have it (by logistic"
            " regression). A test fails where a level leaves its interval:\n",
            Table(("told", "fitted", "95 times in a hundred", "findings"), rows),
            f"On programs to which they were not fitted, the fitted levels have a log loss of {fitted:.3f}; as they are"
            f" told it is {told:.3f}.\n",
        ]
    return "\n".join(map(_as_markdown, tables))


_RIGHT = ("right kind and name", "95 times in a hundred")


def _right(right: Share) -> tuple[str, str]:
    return str(right), "{:.0%} to {:.0%}".format(*interval(right))


def _calibrated(scores: Sequence[Score]) -> Table:
    bins = [(label, f"{mean:.0%}", *_right(right)) for label, mean, right in calibration(scores)]
    return Table(("confidence of the first finding", "on average", *_RIGHT), bins)


def markdown(scores: Sequence[Score], about: dict[str, Any]) -> str:
    return "\n".join(_as_markdown(section) for section in _sections(scores, about))


def page(scores: Sequence[Score], about: dict[str, Any]) -> str:
    """One file of HTML that stands alone."""
    body = "\n".join(_as_html(section) for section in _sections(scores, about))
    head = f"<meta charset=utf-8><title>Leakbench</title><style>{_STYLE}</style>"
    return f"<!doctype html><html lang=en>{head}<h1>Leakbench</h1>\n{body}</html>\n"


def _sections(scores: Sequence[Score], about: dict[str, Any]) -> list[str | Table]:
    names = list(dict.fromkeys(s.tool for s in scores))
    run = [s for s in scores if not s.not_run]
    programs = {s.program: s for s in run}.values()
    loads = sorted(about.get("loads", {}).values())
    load = f", load {' to '.join(f'{one:g}' for one in dict.fromkeys([loads[0], loads[-1]]))}" if loads else ""
    times = max((s.run for s in run), default=1)
    often = f", {times} times each" if times > 1 else ""
    late = (
        f" {about['not_begun']} more were not begun within {about['minutes']:g} minutes."
        if "not_begun" in about
        else ""
    )
    sections: list[str | Table] = [
        f"{len(programs)} programs, {sum(s.leaky for s in programs)} of them leaky,"
        f" {sum(s.torch for s in programs)} with PyTorch, run on {about['date']}, {about['at_once']} at once{often},"
        f" for {about['seconds']:g} s each and what they take to start: {about['machine']}{load},"
        f" Python {about['python']}, torch {about['torch']}.{late}\n"
    ]
    if len(names) > 1:
        sections += _side_by_side(scores, about, names)
    ours = [s for s in run if s.tool == "leakscope"]
    if ours:
        torch = [s for s in ours if s.torch]
        measured = [(name, share(ours, field), share(torch, field)) for name, field in MEASURES]
        measures = [(name, str(every), str(some)) for name, every, some in measured if every.of]
        sections.append(Table(("leakscope", "all", "with PyTorch"), measures))
        sections.append(_calibrated(ours))
        if (same := agreement(ours)).of:
            sections.append(f"Every run of a program gave the same answer in {same}.\n")
    for name in names:
        misses = Counter(
            (f"`{s.program}`", s.expected, s.said + _also_wrong(s)) for s in run if s.tool == name and not s.right
        )
        missed = [
            (*row[:2], f"{row[2]} ({count} of {times})" if times > 1 else row[2]) for row, count in misses.items()
        ]
        if missed:
            whose = "missed" if len(names) == 1 else f"missed by {name}"
            sections.append(Table((whose, "what is wrong with it", "what it says first"), missed))
    left_out = [f"- `{s.program}`{_by(s, names)}: {s.not_run}" for s in scores if s.not_run]
    if left_out:
        sections.append("Not judged:\n\n" + "\n".join(left_out) + "\n")
    return sections


def _side_by_side(scores: Sequence[Score], about: dict[str, Any], names: Sequence[str]) -> list[str | Table]:
    """Every tool in a row: what it was right about, and what it took beside the program alone."""
    bare = {(s.program, s.run): s for s in scores if s.tool == "bare" and not s.not_run}
    times = max((s.run for s in scores), default=1)
    rows, taken = [], []
    for name in names:
        run = [s for s in scores if s.tool == name and not s.not_run]
        if name != "bare":
            shares = [share(run, field) for _, field in COLUMNS]
            rows.append([name, *(str(one) if one.of else _NOT_OFFERED for one in shares)])
            if times > 1:
                rows[-1].append(str(agreement(run)))
        pairs = [(s, bare[s.program, s.run]) for s in run if s.wall_s is not None and (s.program, s.run) in bare]
        if pairs and name != "bare":
            taken.append([
                name,
                f"{statistics.median((s.wall_s or 0) - (b.wall_s or 0) for s, b in pairs):+.1f} s",
                f"{statistics.median((s.cpu_s or 0) - (b.cpu_s or 0) for s, b in pairs):+.1f} s",
                f"{statistics.median((s.peak_bytes or 0) / (b.peak_bytes or 1) for s, b in pairs):.2f} x",
            ])  # fmt: skip
    how = [
        [f"{name} {about['versions'].get(name, '')}".strip(), about["how"][name], f"{about['loads'].get(name, '')}"]
        for name in names
        if name != "bare"
    ]
    columns = [name for name, _ in COLUMNS] + ["every run the same"] * (times > 1)
    sections: list[str | Table] = [Table(("tool", *columns), rows)]
    if taken:
        sections.append(
            Table(("median beside the program alone", "time", "CPU time", "peak of the largest process"), taken)
        )
    return [*sections, Table(("tool", "how it was used", "load"), how)]


def _by(s: Score, names: Sequence[str]) -> str:
    return f" under {s.tool}" if len(names) > 1 else ""


def _also_wrong(s: Score) -> str:
    """What the first finding does not show."""
    return " (wrong verdict)" if s.verdict is False and s.kind is not False and not s.alarm else ""


def _as_markdown(section: str | Table) -> str:
    if isinstance(section, str):
        return section
    lines = [section.head, ["---"] * len(section.head), *section.rows]
    return "".join(f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in line)} |\n" for line in lines)


def _as_html(section: str | Table) -> str:
    if isinstance(section, str):
        return "".join(f"<p>{_code(line)}</p>" for line in section.splitlines() if line)
    cells = [
        [f"<th>{_code(cell)}</th>" for cell in section.head],
        *([f"<td>{_code(c)}</td>" for c in row] for row in section.rows),
    ]
    return "<table>" + "\n".join(f"<tr>{''.join(row)}</tr>" for row in cells) + "</table><p></p>"


def _code(text: str) -> str:
    return re.sub(r"`([^`]*)`", r"<code>\1</code>", html.escape(text))
