"""The kernel's table of tasks: its header names the columns, which differ by version, and vendors mix them."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import NamedTuple

from .events import Task

_HEADER = re.compile(r"\[\s*pid\s*\]\s+uid\s+tgid\b")
_KNOWN = (
    *("pid", "uid", "tgid", "total_vm", "rss_anon", "rss_file", "rss_shmem", "rss", "nr_ptes", "nr_pmds"),
    *("pgtables_bytes", "swapents", "cpu", "oom_score_adj", "oom_adj", "name"),
)
_KNOWN_COLUMN = re.compile("|".join(_KNOWN))
_ROW = re.compile(r"\[\s*(\d+)\]\s+(\d+)\s+(\d+)\s+(\d+)\s+(\d+)(?=\s|$)(.*)")


class Row(NamedTuple):
    task: Task
    is_whole: bool  # False: wrapped over lines, so a number may have been torn in two


def header(text: str, more: Iterable[str]) -> tuple[str, ...] | None:
    """Names of the columns, or () for a header that is cut; None where this is no header."""
    if not _HEADER.match(text):
        return None
    if text.endswith("name"):
        return tuple(re.sub(r"[\[\]]", " ", text).split())
    whole = re.sub(r"[\[\]\s]", "", text)
    for line, _ in zip(more, range(3)):
        whole += re.sub(r"\s", "", line)
        if whole.endswith("name"):
            columns = tuple(_KNOWN_COLUMN.findall(whole))
            return columns if "".join(columns) == whole else ()
    return ()


def row(text: str, more: Iterable[str], columns: tuple[str, ...]) -> Row | None:
    """One task. Without the columns only the first five are known, which are the same in every kernel."""
    match = _ROW.match(text)
    if match is None:
        return None
    values: dict[str, object] = dict(zip(("pid", "uid", "tgid", "total_vm", "rss"), map(int, match.groups()[:5])))
    numbers = columns[5:-1]
    parts = match[6].split(None, len(numbers))
    is_whole = True
    if columns and (len(parts) <= len(numbers)):
        is_whole = False
        for line, _ in zip(more, range(2)):
            parts = " ".join([*parts, line]).split(None, len(numbers))
            if len(parts) > len(numbers):
                break
    elif not columns:
        is_whole = len(parts) > 0
    try:
        values.update(zip(numbers, map(int, parts[: len(numbers)])))
    except ValueError:
        is_whole = False
    name = parts[len(numbers)].strip() if columns and len(parts) > len(numbers) else None
    if columns and name is not None:
        values["name"] = name
    return Row(_task(values, name), is_whole)


def _task(values: dict[str, object], name: str | None) -> Task:
    def number(column: str) -> int | None:
        value = values.get(column)
        return value if isinstance(value, int) else None

    pid, uid, tgid, total_vm, rss = (number(column) or 0 for column in ("pid", "uid", "tgid", "total_vm", "rss"))
    rss_anon, swapents, adj = number("rss_anon"), number("swapents"), number("oom_score_adj")
    return Task(pid, uid, tgid, total_vm, rss, rss_anon, swapents, adj, name, values)
