"""Objects of the user's classes that ``gc.freeze()`` hides and that no path from a root reached.

They are in no list that Python shows. But each instance of a Python class refers to its class, so the references to a
class count its instances, frozen or not.
"""

from __future__ import annotations

import sys

from ..interpreter import names

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    from . import Snapshot

TABLE = "orphans"
NEEDS_WALK = True

LEAST_FROZEN = 1000  # below it nothing worth a look is hidden
LEAST_UNREACHED = 300
MOST_CLASSES = 2000
MOST_ROWS = 10


def rows(snapshot: Snapshot) -> Iterator[dict[str, Any]]:
    """Those of most instances. **Cost** 1 us a global of the user's modules, and nothing while little is frozen."""
    if (snapshot.frozen_count or 0) < LEAST_FROZEN or not snapshot.is_swept or snapshot.walk.is_cut_short():
        return
    hidden = []
    for cls in _user_classes():
        count = sys.getrefcount(cls)
        reached = int(snapshot.reached.get(cls, 0))
        # More than the census lists: the others are frozen. A class has a few references besides, not hundreds.
        if count - max(reached, snapshot.census.get(cls, 0)) >= LEAST_UNREACHED:
            hidden.append((count - reached, count, reached, cls))
    hidden.sort(key=lambda found: -found[0])
    for _, count, reached, cls in hidden[:MOST_ROWS]:
        file, line = names.definition(cls)
        yield {
            "type_name": names.type_name(cls),
            "object_count": count,
            "reached_count": reached,
            "orphan_verdict": "frozen",
            "owner_file": file,
            "owner_line": line,
        }


def _user_classes() -> list[type]:
    found = []
    for name, namespace, _ in names.user_namespaces():
        for value in list(namespace.values()):
            if names.is_a(type(value), type) and names.module_of(value) == name:
                found.append(value)
                if len(found) >= MOST_CLASSES:
                    return found
    return found
