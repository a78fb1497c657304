"""The source lines that findings name, with a few round them, as the interpreter loaded them."""

from __future__ import annotations

from collections.abc import Sequence

from ..facts.case import Case
from ..facts.code.index import lines_of
from ..facts.tables import only
from ..findings import Excerpt, Finding

_AROUND = 3  # lines before and after: enough to recognise the place
_WIDEST = 300  # characters of a line: generated sources have lines of megabytes


def excerpts(case: Case, findings: Sequence[Finding]) -> list[Excerpt]:
    """One for each place that a finding names and whose source is in the recording."""
    rows = case.rows("sources")
    found = []
    places = dict.fromkeys((f.subject.file, f.subject.line) for f in findings)
    for file, line in places:
        if not file or not line:
            continue
        texts = only(rows, (rows["file"] == file) & rows["source_text"].notna())["source_text"]
        lines = lines_of(str(texts.iloc[-1])) if len(texts) else []
        if line <= len(lines):
            first = max(1, line - _AROUND)
            shown = [text[:_WIDEST] for text in lines[first - 1 : line + _AROUND]]
            found.append(Excerpt(file, line, first, shown))
    return found
