"""A file that is whole or not there: written under another name beside its place, then renamed. No package needed."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """A new name in the folder of ``path``: what is written there takes the place of ``path`` at the end, in one step.

    Where the block raises, or there is no such file at its end, ``path`` stays as it was. **Errors** OSError.
    """
    temporary = path.with_name(f".{path.name}.tmp-{os.urandom(8).hex()}")
    try:
        yield temporary
        os.replace(temporary, path)
    finally:
        with suppress(OSError):
            temporary.unlink()
