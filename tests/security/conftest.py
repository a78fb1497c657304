"""Places that the attacks need."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest


@pytest.fixture
def public() -> Iterator[Path]:
    """A folder as /tmp is: everybody may write to it, and remove what is theirs."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        folder.chmod(0o1777)
        yield folder


@pytest.fixture
def home(public: Path) -> Path:
    """Of the user who records, where everybody can come to its door."""
    folder = public / "home"
    folder.mkdir()
    return folder
