"""A comparison as text for a terminal, Markdown for a pull request, JSON (``leakscope.compare/1``), or as a page."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterable, Iterator, Sequence

from ..errors import BadInput
from ..units import format_bytes
from ..words import columns, in_cell, markdown_table, paragraphs, text_width, wrapped
from ._comparison import GONE, ONLY_AFTER, ONLY_BEFORE, STILL, Comparison, FindingChange, History
from ._words import WORDS, closing, history_closing, history_headline, history_table, names, rows

FORMATS = {"terminal": ".txt", "markdown": ".md", "json": ".json", "html": ".html"}  # with the suffix of each
SCHEMA = "leakscope.compare/1"
HISTORY_SCHEMA = "leakscope.history/1"
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
    width = text_width()
    return paragraphs(
        (
            wrapped([f"{WORDS[comparison.verdict]}: {comparison.reason}."], width),
            columns([("", "before", "after"), *rows(comparison)], width),
            wrapped(_findings(comparison), width, "  "),
            wrapped(closing(comparison), width, "  "),
        )
    )


def _history(history: History) -> str:
    width = text_width()
    heads, rows = history_table(history)
    return paragraphs(
        (
            wrapped([f"{history_headline(history)}."], width),
            columns([heads, *rows], width),
            wrapped(_history_findings(history), width, "  "),
            wrapped(history_closing(history), width, "  "),
        )
    )


def _history_findings(history: History) -> Iterator[str]:
    """What each run found first, and what it no longer found."""
    for name, run in zip(names(history), history.runs):
        for change in [*run.gone, *run.new]:
            if change.severity != "note":
                yield f"{name}: {change.change} {change.what}{_amount(change)}{_place(change)}"


def _history_markdown(history: History) -> str:
    table = markdown_table(*history_table(history))
    return _in_markdown(f"**{in_cell(history_headline(history))}**.", table, _history_findings(history),
                        history_closing(history))  # fmt: skip


def _markdown(comparison: Comparison) -> str:
    head = f"**{WORDS[comparison.verdict]}**: {in_cell(comparison.reason)}."
    table = markdown_table(("", "before", "after"), rows(comparison))
    return _in_markdown(head, table, _findings(comparison), closing(comparison))


def _in_markdown(head: str, table: Sequence[str], findings: Iterable[str], closing: Iterable[str]) -> str:
    listed = [f"- {in_cell(line)}" for line in findings]
    return "\n".join([head, "", *table, "", *listed, *([""] if listed else []), *map(in_cell, closing)]) + "\n"


def _findings(comparison: Comparison) -> Iterator[str]:
    shown = [c for c in comparison.findings if c.severity != "note" or c.change == GONE]
    for change in shown[:_SHOWN]:
        word = f"{change.change}:" if change.change in (ONLY_BEFORE, ONLY_AFTER) else f"{change.change:<5}"
        yield f"{word} {change.what}{_amount(change)}{_place(change)}"
    if len(shown) > _SHOWN:
        yield f"and {len(shown) - _SHOWN} more (-f json has all)"


def _amount(change: FindingChange) -> str:
    if change.change == STILL:
        return f", {format_bytes(change.before_bytes or 0)} before, {format_bytes(change.after_bytes or 0)} after"
    amount = change.before_bytes or change.after_bytes
    return f", {format_bytes(amount)}" if amount else ""


def _place(change: FindingChange) -> str:
    if change.file is None:
        return ""
    return f" ({change.file}:{change.line})" if change.line is not None else f" ({change.file})"
