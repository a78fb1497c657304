"""The user's modules as they were loaded, out of the recording."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .index import Source

if TYPE_CHECKING:
    from ...storage import Recording


def sources_of(recording: Recording) -> list[Source]:
    """Each file once."""
    rows = recording.tables["sources"]
    seen: dict[str, Source] = {}
    for module, file, text in zip(rows["module"], rows["file"], rows["source_text"]):
        if isinstance(file, str) and isinstance(text, str) and file not in seen:
            seen[file] = Source(module if isinstance(module, str) else "", file, text)
    return list(seen.values())
