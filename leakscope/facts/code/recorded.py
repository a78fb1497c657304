"""The user's modules as they were loaded, out of the recording."""

from __future__ import annotations

from ...storage import Recording, Rows
from .index import Source


def sources_of(recording: Recording, table: str = "sources") -> list[Source]:
    """Each file once. ``table``: library_sources has modules of libraries, of which an object has grown."""
    return sources_in(recording.rows[table])


def sources_in(rows: Rows) -> list[Source]:
    """Of the rows of such a table."""
    seen: dict[str, Source] = {}
    for module, file, text in zip(rows["module"], rows["file"], rows["source_text"]):
        if isinstance(file, str) and isinstance(text, str) and file not in seen:
            seen[file] = Source(module if isinstance(module, str) else "", file, text)
    return list(seen.values())
