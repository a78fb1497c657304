"""A job as text for a terminal, Markdown, JSON (``leakscope.job/1``, ``leakscope.compare-jobs/1``), or as a page."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence

from ..comparing import WORDS
from ..errors import BadInput
from ..renderers.json import plain
from ..words import VERDICTS, in_cell, markdown_table, paragraphs, printable, text_width, wrapped
from . import _words as words
from ._comparing import JobComparison
from ._job import Cluster, JobReport

FORMATS = {"terminal": ".txt", "markdown": ".md", "json": ".json", "html": ".html"}  # with the suffix of each
SCHEMA, COMPARE_SCHEMA = "leakscope.job/1", "leakscope.compare-jobs/1"
_WIDEST_CELL = 44
_SHOWN = 6  # findings; all are in the JSON
_MOST_EVIDENCE = 3


def render(job: JobReport | JobComparison, format_name: str) -> str:
    """**Errors** BadInput for a format that is not one of FORMATS."""
    if format_name not in FORMATS:
        raise BadInput(f"there is no format {format_name!r} of a job: there are {', '.join(FORMATS)}")
    if format_name == "html":
        from ._page import compared_html, html  # jinja2 only for who wants a page

        return compared_html(job) if isinstance(job, JobComparison) else html(job)
    if format_name == "json":
        return _json(job)
    if isinstance(job, JobComparison):
        return _compared(job) if format_name == "terminal" else _compared_markdown(job)
    return _terminal(job) if format_name == "terminal" else _markdown(job)


def _json(job: JobReport | JobComparison) -> str:
    schema = COMPARE_SCHEMA if isinstance(job, JobComparison) else SCHEMA
    return json.dumps({"schema": schema, **plain(job)}, indent=1, ensure_ascii=False, allow_nan=False) + "\n"


def _terminal(job: JobReport) -> str:
    width = text_width()
    badge = VERDICTS[job.verdict.leaking] + ("  KILLED" if job.verdict.killed else "")
    ranks, more_ranks = words.shown_ranks(job)
    nodes, more_nodes = words.shown_nodes(job)
    head = [badge, *wrapped([job.verdict.headline], width), *wrapped([" ".join(job.command)], width)]
    table = [list(words.RANK_HEADS), *(words.rank_cells(job, row) for row in ranks)]
    parts = [
        [*head, *wrapped([words.facts(job)], width)],
        *(list(_finding(job, number, one, width)) for number, one in enumerate(job.clusters[:_SHOWN], 1)),
        wrapped([f"and {len(job.clusters) - _SHOWN} findings more (-f json has all)"], width)
        if len(job.clusters) > _SHOWN
        else [],
        [
            "Ranks",
            *_columns(table, width),
            *wrapped([words.others(job, more_ranks)], width, "  "),
        ],
        [
            "Nodes",
            *_columns([list(words.NODE_HEADS), *(words.node_cells(row) for row in nodes)], width),
            *wrapped([f"and {more_nodes} more, which gained less" if more_nodes else ""], width, "  "),
        ],
        _list("Clocks", words.clock_notes(job), width),
        _list("Left out", words.rest(job), width),
        _list("Not seen", job.notes[:_SHOWN], width),
    ]
    return paragraphs(parts)


def _finding(job: JobReport, number: int, cluster: Cluster, width: int) -> Iterator[str]:
    """What a person would do next stands before what speaks for it."""
    finding = cluster.finding
    yield from wrapped([f"{number}. {cluster.severity}: {cluster.title}"], width)
    yield from wrapped([f"on {words.cluster_ranks(job, cluster)}: {words.cluster_amount(cluster)}"], width, "   ")
    if place := _place(cluster):
        yield from wrapped([place], width, "   ")
    if cluster.excerpt is not None and finding.subject.line is not None:
        at = finding.subject.line - cluster.excerpt.first_line
        if 0 <= at < len(cluster.excerpt.lines):
            yield f"   > {finding.subject.line} {printable(cluster.excerpt.lines[at].strip())}"[:width]
    yield from wrapped([f"do: {line}" for line in finding.remedy[:1]], width, "   ")
    yield from wrapped(
        [f"· {one.text}" for one in finding.evidence[: _MOST_EVIDENCE if number == 1 else 1]], width, "   "
    )


def _place(cluster: Cluster) -> str:
    subject = cluster.finding.subject
    if not subject.file:
        return ""
    line = f":{subject.line}" if subject.line is not None else ""
    function = f" in {subject.function}" if subject.function else ""
    mark = f", fingerprint {cluster.fingerprint[:12]}" if cluster.fingerprint is not None else ""
    return f"{subject.file}{line}{function}{mark}"


def _compared(found: JobComparison) -> str:
    width = text_width()
    pairs, more = words.shown_pairs(found)
    table = [list(words.PAIR_HEADS), *(words.pair_cells(one) for one in pairs)]
    parts = [
        wrapped([f"{WORDS[found.verdict]}: {found.reason}."], width),
        [*_columns(table, width), *wrapped([f"and {more} more (-f json has all)" if more else ""], width, "  ")],
        wrapped(words.only(found), width, "  "),
    ]
    return paragraphs(parts)


def _list(heading: str, texts: Iterable[str], width: int) -> list[str]:
    lines = wrapped((f"· {text}" for text in texts), width, "  ")
    return [heading, *lines] if lines else []


def _columns(table: Sequence[Sequence[str]], width: int) -> list[str]:
    """A row a line; the last column takes what is left, and is cut."""
    rows = [[_short(printable(cell), _WIDEST_CELL) for cell in row] for row in table]
    widths = [max(map(len, column)) for column in zip(*rows)]
    room = max(12, width - sum(widths[:-1]) - 2 * len(widths))
    lines = []
    for row in rows:
        cells = [cell.ljust(size) for cell, size in zip(row[:-1], widths)]
        lines.append("  " + "  ".join([*cells, _short(row[-1], room)]).rstrip())
    return lines


def _short(text: str, most: int) -> str:
    return text if len(text) <= most else text[: most - 1] + "…"


def _markdown(job: JobReport) -> str:
    ranks, more_ranks = words.shown_ranks(job)
    nodes, more_nodes = words.shown_nodes(job)
    lines = [f"**{VERDICTS[job.verdict.leaking]}**: {in_cell(job.verdict.headline)}", "", in_cell(words.facts(job)), ""]
    for number, cluster in enumerate(job.clusters[:_SHOWN], 1):
        place = f" ({in_cell(_place(cluster))})" if _place(cluster) else ""
        on = f"on {words.cluster_ranks(job, cluster)}: {words.cluster_amount(cluster)}"
        lines.append(f"{number}. {cluster.severity}: {in_cell(cluster.title)}, {on}{place}")
    lines += ["", *_md_table(words.RANK_HEADS, [words.rank_cells(job, row) for row in ranks], more_ranks)]
    lines += ["", *_md_table(words.NODE_HEADS, [words.node_cells(row) for row in nodes], more_nodes)]
    notes = [f"- {in_cell(text)}" for text in [*words.clock_notes(job), *words.rest(job)]]
    return "\n".join([*lines, *(["", *notes] if notes else [])]) + "\n"


def _compared_markdown(found: JobComparison) -> str:
    pairs, more = words.shown_pairs(found)
    table = _md_table(words.PAIR_HEADS, [words.pair_cells(one) for one in pairs], more)
    closing = [f"- {text}" for text in words.only(found)]
    return "\n".join([f"**{WORDS[found.verdict]}**: {in_cell(found.reason)}.", "", *table, *closing]) + "\n"


def _md_table(heads: Sequence[str], rows: Sequence[Sequence[str]], more: int) -> list[str]:
    return [*markdown_table(heads, rows), *(["", f"and {more} more"] if more else [])]
