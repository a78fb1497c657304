"""``leakscope fleet list``: rows of an index as a table, CSV or JSON."""

from __future__ import annotations

import io
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from rich import box
from rich.console import Console, RenderableType
from rich.table import Table
from rich.text import Text

from ..units import format_bytes, format_count, format_duration, per_clock
from ..words import printable
from .columns import COLUMNS, TYPES
from .index import read_index
from .rules import check_column, matching

_RATE = "growth_bytes_per_hour"
_SHOWN = (
    "job", "attempt", "rank", "node", "verdict", _RATE, "peak_bytes", "limit_bytes", "duration_s",
    "ended", "kill_count", "state", "url",
)  # fmt: skip
_UNITS = {column.name: column.unit for column in COLUMNS}
_WIDTH = 10_000  # the terminal breaks what is longer than it is wide; nothing is cut off
_ONLY_IF_ODD = {"state": "final", "ended": "exit", "kill_count": "0"}


def listed(
    path: Path,
    rules: Sequence[str] = (),
    *,
    sort: str = f"-{_RATE}",
    limit: int = 50,
    columns: Sequence[str] | None = None,
    format_name: str = "terminal",
) -> str:
    """The rows that fulfil the rules. **Errors** BadInput for a rule or column that there is not."""
    found = read_index(path)
    frame = found.frame()
    rules = [*rules, *([] if any(rule.startswith("state") for rule in rules) else ["state!=foreign"])]
    name = check_column(sort.lstrip("-"))
    frame = matching(frame, rules)
    if format_name == "terminal":  # what a run gained while it loaded is no rate, and belongs not above one that leaks
        frame = frame.assign(**{_RATE: frame[_RATE].mask(frame["leaking"].eq(False).fillna(False))})
    frame = frame.sort_values(
        [name, "url"], ascending=[not sort.startswith("-"), True], na_position="last", kind="stable"
    )
    chosen = None if columns is None else list(TYPES) if list(columns) == ["all"] else list(columns)
    for column in chosen or ():
        if column != "verdict":
            check_column(column)
    if format_name == "terminal":
        return _as_table(frame, chosen, limit)
    frame = frame[chosen or list(TYPES)]
    return as_csv(frame) if format_name == "csv" else _as_json(frame)


def as_csv(frame: pd.DataFrame, with_heads: bool = True) -> str:
    """With a line of heads; maps and lists as JSON."""
    plain = frame.copy()
    for name in plain.columns:
        if plain[name].dtype == object and any(isinstance(one, (list, tuple, dict, np.ndarray)) for one in plain[name]):
            plain[name] = [json.dumps(as_json_value(value), default=str) for value in plain[name]]
    text: str = plain.to_csv(index=False, header=with_heads, date_format="%Y-%m-%dT%H:%M:%SZ")
    return text


def _as_json(frame: pd.DataFrame) -> str:
    rows = [{name: as_json_value(value) for name, value in row.items()} for row in frame.to_dict("records")]
    return json.dumps({"schema": "leakscope.fleet-list/1", "recordings": rows}, indent=1) + "\n"


def as_json_value(value: Any) -> Any:
    """A cell as JSON has it."""
    if isinstance(value, pd.Timestamp):
        return value.strftime("%Y-%m-%dT%H:%M:%SZ")
    if isinstance(value, (list, tuple)) or hasattr(value, "tolist"):
        items = list(value) if isinstance(value, (list, tuple)) else value.tolist()
        if not isinstance(items, list):
            return items
        is_map = bool(items) and all(isinstance(item, tuple) and len(item) == 2 for item in items)
        return dict(items) if is_map else [as_json_value(item) for item in items]
    if isinstance(value, dict):
        return {key: as_json_value(one) for key, one in value.items()}
    return None if value is None or pd.isna(value) else value


def as_table(frame: pd.DataFrame) -> str:
    """Of any columns: the result of a query."""
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False)
    for name in frame.columns:
        is_figure = pd.api.types.is_numeric_dtype(frame[name])
        table.add_column(printable(str(name)), justify="right" if is_figure else "left", overflow="fold")
    for row in frame.to_dict("records"):
        table.add_row(*(Text(_query_cell(str(name), value)) for name, value in row.items()))
    return _printed(table)


def _query_cell(name: str, value: Any) -> str:
    """Sizes by the names of their columns, as everywhere: peak_bytes is 12.1 GiB."""
    plain = as_json_value(value)
    if plain is None:
        return ""
    if isinstance(plain, (int, float)) and not isinstance(plain, bool):
        is_size = "bytes" in name
        return format_bytes(plain) if is_size else f"{plain:,}" if isinstance(plain, int) else f"{plain:,.6g}"
    return printable(str(plain))


def _as_table(frame: pd.DataFrame, columns: Sequence[str] | None, limit: int) -> str:
    count = len(frame)
    part = frame if limit == 0 else frame.head(limit)
    top = _common_folder(list(part["url"]))
    rows: list[dict[str, Any]] = [{str(key): value for key, value in row.items()} for row in part.to_dict("records")]
    rows = [{**row, "verdict": _verdict(row), "url": row["url"][len(top) :]} for row in rows]
    names = columns or [
        name for name in _SHOWN
        if any(_cell(row, name) not in ("", _ONLY_IF_ODD.get(name)) for row in rows) or name in ("url", "verdict")
    ]  # fmt: skip
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False)
    clock, share = per_clock(max((row["duration_s"] or 0.0 for row in rows), default=0.0))
    rows = [{**row, _RATE: None if (rate := as_json_value(row[_RATE])) is None else rate * share} for row in rows]
    for name in names:
        is_figure = TYPES.get(name) in ("int", "float")
        heading = f"growth {clock}" if name == _RATE else _heading(name)
        table.add_column(
            heading, justify="right" if is_figure else "left", overflow="fold",
            no_wrap=True,
        )  # fmt: skip
    for row in rows:
        table.add_row(*(Text(_cell(row, name)) for name in names))
    rest = f"{len(rows):,} of {count:,} recordings; -n 0 lists all" if len(rows) < count else f"{count:,} recordings"
    return _printed(table, Text(f"{rest}, below {top}"))


def _printed(*parts: RenderableType) -> str:
    stream = io.StringIO()
    Console(file=stream, width=_WIDTH, color_system=None).print(*parts, sep="\n")
    return "\n".join(line.rstrip() for line in stream.getvalue().splitlines()) + "\n"


def _common_folder(urls: Sequence[str]) -> str:
    """With a slash at its end; empty where they have none."""
    found: list[str] = []
    for names in zip(*(url.split("/")[:-1] for url in urls)):
        if len(set(names)) > 1:
            break
        found.append(names[0])
    return "/".join([*found, ""])


def _heading(name: str) -> str:
    return {"url": "recording", "kill_count": "killed"}.get(
        name,
        name.replace("_bytes", "").replace("_s", "") if name in ("peak_bytes", "limit_bytes", "duration_s") else name,
    )


def _verdict(row: dict[str, Any]) -> str:
    if row["judged"] is not True:
        if as_json_value(row["killed"]):
            return "not judged, killed"
        return "not judged" if row["state"] in ("final", "checkpoint", "empty") else row["state"]
    words = {True: "LEAKING", False: "not leaking"}.get(as_json_value(row["leaking"]), "cannot tell")
    words = f"{words}, killed" if as_json_value(row["killed"]) else words
    as_of_s = as_json_value(row["as_of_s"])
    return words if as_of_s is None else f"{words} (provisional, as of {format_duration(as_of_s)})"


def _cell(row: dict[str, Any], name: str) -> str:
    value = as_json_value(row[name])
    if value is None:
        return ""
    unit = _UNITS.get(name, "")
    if unit.startswith("bytes") and isinstance(value, (int, float)):
        return format_bytes(value, signed=name.startswith("growth"))
    if unit == "s":
        return format_duration(value)
    if TYPES.get(name) == "int" and name not in ("rank", "attempt", "signal", "exit_code", "kill_count"):
        return format_count(value)
    return printable(str(value))
