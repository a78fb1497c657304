"""What the tests of importing share: the files of fixtures/, and a recording made of some."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from leakscope.importing import import_files
from leakscope.storage import Recording, open_recording

FIXTURES = Path(__file__).parents[2] / "fixtures/imports"


def imported(folder: Path, *files: Path | str, **options: Any) -> Recording:
    """The recording of these files; a name is one of fixtures/imports."""
    paths = [FIXTURES / file if isinstance(file, str) else file for file in files]
    return open_recording(import_files(paths, folder / "run.parquet", force=True, **options).path)


def written(folder: Path, name: str, *lines: str) -> Path:
    path = folder / name
    path.write_text("\n".join([*lines, ""]), encoding="utf-8")
    return path


def raw(folder: Path, name: str, content: bytes) -> Path:
    path = folder / name
    path.write_bytes(content)
    return path
