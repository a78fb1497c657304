"""What reports on the files of others have to say; ``python -m tests.importing.judging`` writes it anew.

Each of fixtures/imports and fixtures/snapshots stands in ``judged.json`` with the part of its report that a user acts
on, as golden recordings have it: look through the differences before you commit them.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tests.golden import expected, judge

from .devices import SNAPSHOTS
from .files import FIXTURES, imported

JUDGED = Path(__file__).with_name("judged.json")
_NO_FILES = (".py", ".md")
_DUMPS = ("heap-1.jsonl.gz", "heap-2.jsonl.gz")  # of one process


def cases() -> dict[str, list[Path]]:
    """{name: the files of one import}."""
    alone = [path for path in (*FIXTURES.iterdir(), *SNAPSHOTS.iterdir()) if path.suffix not in _NO_FILES]
    found = {path.name: [path] for path in sorted(alone) if path.name not in _DUMPS}
    return {**found, "heaps": [FIXTURES / name for name in _DUMPS]}


def expectation_of(files: list[Path], folder: Path) -> dict[str, Any]:
    return expected.expectation(judge(imported(folder, *files).path))


def told() -> dict[str, Any]:
    found: dict[str, Any] = json.loads(JUDGED.read_text(encoding="utf-8"))
    return found


def _lines() -> Iterator[str]:
    for name, files in cases().items():
        with tempfile.TemporaryDirectory() as folder:
            yield f"  {json.dumps(name)}: {json.dumps(expectation_of(files, Path(folder)))}"


if __name__ == "__main__":
    JUDGED.write_text("{\n" + ",\n".join(_lines()) + "\n}\n", encoding="utf-8")
