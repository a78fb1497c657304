"""Python threads by the outermost user function that they run, or wait to run (``text``: in what)."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    from . import Snapshot

TABLE = "threads"
NEEDS_WALK = True


def rows(snapshot: Snapshot) -> Iterator[dict[str, Any]]:
    for (function, file, line, waits), count in sorted(snapshot.threads.items(), key=lambda item: -item[1])[:50]:
        yield {"function": function, "owner_file": file, "owner_line": line, "object_count": count, "text": waits}
