"""A comparison as text for a terminal, Markdown for a pull request, JSON (``leakscope.compare/1``), or as a page."""

from __future__ import annotations

import dataclasses
import json
import shutil
import textwrap
from collections.abc import Iterable, Iterator, Sequence

from ..errors import BadInput
from ..units import format_bytes
from ..words import in_markdown, printable
from ._comparison import GONE, STILL, Comparison, FindingChange, History
from ._words import WORDS, closing, history_closing, history_headline, history_table, names, rows

FORMATS = {"terminal": ".txt", "markdown": ".md", "json": ".json", "html": ".html"}  # with the suffix of each
SCHEMA = "leakscope.compare/1"
HISTORY_SCHEMA = "leakscope.history/1"
_WIDEST = 110  # longer lines are hard to read
_SHOWN = 8  # findings; all are in the JSON


def render(comparison: Comparison | History, format_name: str) -> str:
    """**Errors** BadInput for a format that is not one of FORMATS."""
    if format_name not in FORMATS:
        raise BadInput(f"there is no format {format_name!r}: there are {', '.join(FORMATS)}")
    if format_name == "html":
        from ._page import history_html, html  # jinja2 only for who wants a page

        return history_html(comparison) if isinstance(comparison, History) else html(comparison)
    if isinstance(comparison, History):
        return {"terminal": _history, "markdown": _history_markdown, "json": _history_json}[format_name](comparison)
    return {"terminal": _terminal, "markdown": _markdown, "json": _json}[format_name](comparison)


def render_cell(comparison: Comparison) -> str:
    """The page without a script, as a box for a cell of a notebook."""
    from ._page import html_cell

    return html_cell(comparison)


def _json(comparison: Comparison) -> str:
    values = {"schema": SCHEMA, **dataclasses.asdict(dataclasses.replace(comparison, overlay=None))}
    del values["overlay"]
    return _written(values)


def _history_json(history: History) -> str:
    values = {"schema": HISTORY_SCHEMA, **dataclasses.asdict(dataclasses.replace(history, curves=()))}
    del values["curves"]
    return _written(values)


def _written(values: object) -> str:
    text = json.dumps(values, indent=2, ensure_ascii=False, allow_nan=False)
    return text.encode("utf-8", "replace").decode("utf-8") + "\n"  # a file name that is no text has lone surrogates


def _terminal(comparison: Comparison) -> str:
    width = min(_WIDEST, shutil.get_terminal_size((_WIDEST, 24)).columns)
    parts = [
        _wrapped([f"{WORDS[comparison.verdict]}: {comparison.reason}."], width, ""),
        _side_by_side([[printable(cell) for cell in row] for row in rows(comparison)], width),
        _wrapped(_findings(comparison), width, "  "),
        _wrapped(closing(comparison), width, "  "),
    ]
    return "\n\n".join("\n".join(lines) for lines in parts if lines) + "\n"


def _wrapped(texts: Iterable[str], width: int, indent: str) -> list[str]:
    """Paths are not cut in two: somebody will want to copy them."""
    wrapper = textwrap.TextWrapper(width - len(indent) - 2, break_long_words=False, break_on_hyphens=False)
    found = []
    for text in texts:
        lines = wrapper.wrap(printable(text))
        found += [f"{indent}{'  ' if number else ''}{line}" for number, line in enumerate(lines)]
    return found


def _side_by_side(table: Sequence[Sequence[str]], width: int) -> list[str]:
    """Three columns, or where they are too wide each figure on a line of its own."""
    table = [("", "before", "after"), *table]
    widths = [max(len(row[i]) for row in table) for i in range(3)]
    if 2 + sum(widths) + 2 * 2 <= width:
        return [("  " + "  ".join(cell.ljust(size) for cell, size in zip(row, widths))).rstrip() for row in table]
    return [line for name, one, two in table[1:] for line in (f"  {name}", f"    before  {one}", f"    after   {two}")]


def _history(history: History) -> str:
    width = min(_WIDEST, shutil.get_terminal_size((_WIDEST, 24)).columns)
    heads, rows = history_table(history)
    table = [heads, *([printable(cell) for cell in row] for row in rows)]
    parts = [
        _wrapped([f"{history_headline(history)}."], width, ""),
        _columns(table, width),
        _wrapped(_history_findings(history), width, "  "),
        _wrapped(history_closing(history), width, "  "),
    ]
    return "\n\n".join("\n".join(lines) for lines in parts if lines) + "\n"


def _columns(table: Sequence[Sequence[str]], width: int) -> list[str]:
    """A row a line, or where that is too wide each figure on a line of its own."""
    widths = [max(map(len, column)) for column in zip(*table)]
    if sum(widths) + 2 * len(widths) <= width:
        return [("  " + "  ".join(cell.ljust(size) for cell, size in zip(row, widths))).rstrip() for row in table]
    heads, *rows = table
    broad = max(map(len, heads))
    return [
        line
        for row in rows
        for line in (
            f"  {row[0]}",
            *(f"    {head.ljust(broad)}  {cell}" for head, cell in zip(heads[1:], row[1:]) if cell),
        )
    ]


def _history_findings(history: History) -> Iterator[str]:
    """What each run found first, and what it no longer found."""
    for name, run in zip(names(history), history.runs):
        for change in [*run.gone, *run.new]:
            if change.severity != "note":
                yield f"{name}: {change.change} {change.what}{_amount(change)}{_place(change)}"


def _history_markdown(history: History) -> str:
    heads, rows = history_table(history)
    lines = [f"**{_escaped(history_headline(history))}**.", "", f"| {' | '.join(heads)} |", "|---" * len(heads) + "|"]
    lines += [f"| {' | '.join(map(_escaped, row))} |" for row in rows]
    findings = [f"- {_escaped(line)}" for line in _history_findings(history)]
    lines += ["", *findings, ""] if findings else [""]
    return "\n".join([*lines, *(_escaped(line) for line in history_closing(history))]) + "\n"


def _markdown(comparison: Comparison) -> str:
    lines = [f"**{WORDS[comparison.verdict]}**: {_escaped(comparison.reason)}.", "", "| | before | after |"]
    lines += ["|---|---|---|", *(f"| {' | '.join(map(_escaped, row))} |" for row in rows(comparison)), ""]
    findings = [f"- {_escaped(line)}" for line in _findings(comparison)]
    lines += [*findings, ""] if findings else []
    return "\n".join([*lines, *(_escaped(line) for line in closing(comparison))]) + "\n"


def _escaped(text: str) -> str:
    """Names of variables and files are not markup; in a table a pipe is none of its own."""
    return in_markdown(printable(text)).replace("|", "\\|")


def _findings(comparison: Comparison) -> Iterator[str]:
    shown = [c for c in comparison.findings if c.severity != "note" or c.change == GONE]
    for change in shown[:_SHOWN]:
        yield f"{change.change:<5} {change.what}{_amount(change)}{_place(change)}"
    if len(shown) > _SHOWN:
        yield f"and {len(shown) - _SHOWN} more (-f json has all)"


def _amount(change: FindingChange) -> str:
    if change.change == STILL:
        return f", {format_bytes(change.before_bytes or 0)} before, {format_bytes(change.after_bytes or 0)} after"
    amount = change.before_bytes if change.change == GONE else change.after_bytes
    return f", {format_bytes(amount)}" if amount else ""


def _place(change: FindingChange) -> str:
    if change.file is None:
        return ""
    return f" ({change.file}:{change.line})" if change.line is not None else f" ({change.file})"
