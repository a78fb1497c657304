"""Fragments of HTML that look like the notebook round them: no script, no colour, all escaped."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from markupsafe import Markup

from ..units import format_count
from ..words import printable


def recording_html(
    name: str,
    meta: Mapping[str, Any],
    ended: tuple[str, int | None, int | None],
    row_counts: Mapping[str, int],
    notes: Iterable[str],
) -> str:
    """What was recorded, and how many rows of what there are."""
    how, code, signal = ended
    end = {"exit": f"exit status {code}" if code is not None else "end not recorded", "signal": f"signal {signal}"}
    command = " ".join(map(str, meta.get("command") or ())) or "attached to a running process"
    facts = [command, str(meta.get("started_at") or ""), end.get(how, "end not recorded")]
    parts = [
        Markup("<b>{}</b> · <code>{}</code> · {} · {}").format(name, *map(_shown, facts)),
        _list(map(_shown, notes)),
        _folded(
            f"{len(row_counts)} tables, {format_count(sum(row_counts.values()))} rows",
            _table(("table", "rows"), [(table, format_count(count)) for table, count in row_counts.items()], right={1}),
        ),
        Markup("<small>.tables.NAME is a DataFrame; .describe() explains the columns, .report() the run</small>"),
    ]
    return str(Markup("<div>{}</div>").format(Markup("").join(parts)))


def growth_html(heading: str, columns: Sequence[str], rows: Sequence[Sequence[str]], lines: Sequence[str]) -> str:
    """What ``%%leakscope`` shows: a heading, a table whose figures stand at the right, and sentences."""
    table = _table(columns, rows, right=set(range(1, len(columns)))) if rows else Markup("")
    said = Markup("").join(Markup("<div>{}</div>").format(_shown(line)) for line in lines)
    return str(Markup("<div><b>{}</b>{}{}</div>").format(_shown(heading), table, said))


def _table(heads: Sequence[str], rows: Iterable[Sequence[str]], right: Iterable[int] = ()) -> Markup:
    def line(cells: Sequence[str], tag: str) -> Markup:
        places = [f"text-align:{'right' if at in right else 'left'}" for at in range(len(cells))]
        filled = [Markup("<{0} style='{1}'>{2}</{0}>").format(tag, *pair) for pair in zip(places, cells)]
        return Markup("<tr>{}</tr>").format(Markup("").join(filled))

    lines = [line(heads, "th")] if heads else []
    return Markup("<table>{}</table>").format(Markup("").join([*lines, *(line(row, "td") for row in rows)]))


def _folded(summary: str, inside: Markup) -> Markup:
    return Markup("<details><summary>{}</summary>{}</details>").format(summary, inside)


def _list(texts: Iterable[str]) -> Markup:
    texts = list(texts)
    if not texts:
        return Markup("")
    return Markup("<ul>{}</ul>").format(Markup("").join(Markup("<li>{}</li>").format(text) for text in texts))


def _shown(text: object) -> str:
    """A string of the job's as it may be shown: what is invisible, or turns a line round, is written out."""
    return printable(str(text))
