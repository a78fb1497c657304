"""A recording for other tools: traces, flame graphs, tables, metrics. One file a format, found by its file.

A format is a module without a leading underscore. One that makes a file has ``SUFFIX`` and ``chunks(case)``, which
yields the file's bytes piece by piece; one that makes a file for each table has ``write(frame, path)`` instead. The
docstring's first line is what the help says of it.
"""

from __future__ import annotations

import gzip
import importlib
import pkgutil
import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, BinaryIO, cast

from ..errors import BadInput
from ..facts.case import Case
from ..storage.atomic_replace import replacing

if TYPE_CHECKING:
    from ..storage import Recording

STDOUT = Path("-")
TRACE = "perfetto"
_TABLE = re.compile(r"[a-z][a-z0-9_]*")
_NO_EXTRA_BYTES = 0  # of gzip's header: the same recording gives the same bytes each time


def names() -> list[str]:
    """The formats, by their files."""
    return sorted(m.name for m in pkgutil.iter_modules(__path__) if not m.name.startswith("_"))


def module_of(name: str) -> ModuleType:
    return importlib.import_module(f".{name}", __name__)


def is_by_table(name: str) -> bool:
    """Whether it makes a folder with a file for each table."""
    return hasattr(module_of(name), "write")


def format_of(output: Path) -> str:
    """The format whose files end like this name. **Errors** BadInput."""
    suffixes = {module_of(name).SUFFIX: name for name in names() if not is_by_table(name)}
    plain = output.name.removesuffix(".gz")
    for suffix, name in suffixes.items():
        if plain.endswith(suffix.removesuffix(".gz")):
            return name
    raise BadInput(f"{output}: no format is known by that name: say it by -f, or end it in {', '.join(suffixes)}")


def default_output(recording: Recording, name: str) -> Path:
    """Beside the recording, with its name and the format's ending."""
    return recording.path.with_name(recording.path.stem + module_of(name).SUFFIX)


def export(recording: Recording, name: str, output: Path, *, beside: Path | None = None) -> None:
    """Write the recording to ``output`` in a format of one file; a name in ``.gz`` is packed, ``-`` is stdout.

    ``beside``: a trace of torch.profiler to write into the same file, on one clock. **Errors** BadInput, OSError.
    """
    if beside is not None and name != TRACE:
        raise BadInput(f"--with is for -f {TRACE}: a {name} file has no place for a trace")
    case, module = Case(recording), module_of(name)
    chunks: Iterator[bytes] = module.chunks(case, beside) if name == TRACE else module.chunks(case)
    first = next(chunks)  # what cannot be exported says so before there is a file
    with _opened(output, packed=module.SUFFIX.endswith(".gz")) as stream:
        stream.write(first)
        for chunk in chunks:
            stream.write(chunk)


def export_tables(recording: Recording, name: str, folder: Path) -> dict[str, int]:
    """Write each table that has rows to a file of its own in ``folder``; rows by file name. **Errors** OSError."""
    module = module_of(name)
    folder.mkdir(parents=True, exist_ok=True)
    written = {}
    for table in filter(_TABLE.fullmatch, recording.tables.written()):  # the name of a foreign table may lead anywhere
        frame = recording.tables[table]
        if len(frame):
            path = folder / (table + module.SUFFIX)
            module.write(frame.dropna(axis="columns", how="all"), path)
            written[path.name] = len(frame)
    return written


@contextmanager
def _opened(output: Path, packed: bool) -> Iterator[BinaryIO]:
    """A stream to write to; under the name itself there is a whole file, or none."""
    if output == STDOUT:
        with _packing(sys.stdout.buffer, packed) as stream:
            yield stream
        return
    with replacing(output) as path, open(path, "wb") as file, _packing(file, output.name.endswith(".gz")) as stream:
        yield stream


@contextmanager
def _packing(file: BinaryIO, packed: bool) -> Iterator[BinaryIO]:
    if not packed:
        yield file
        return
    with gzip.GzipFile("", "wb", 6, file, _NO_EXTRA_BYTES) as stream:
        yield cast(BinaryIO, stream)
