"""The formats by their files, and which one a file is of."""

from __future__ import annotations

import importlib
import pkgutil
from functools import lru_cache
from pathlib import Path
from types import ModuleType

from ..errors import BadInput, UnreadableInput
from . import _refused
from ._facts import NotThisFormat
from ._source import Source

_KERNEL = Path("/proc/kmsg")  # a regular file that never ends


@lru_cache(maxsize=1)
def names() -> tuple[str, ...]:
    """Name of every format: its file's, with hyphens."""
    folder = str(Path(__file__).parent)
    found = [m.name for m in pkgutil.iter_modules([folder]) if not m.name.startswith("_")]
    return tuple(sorted(name.replace("_", "-") for name in found if hasattr(_module(name), "sniff")))


def module_of(name: str) -> ModuleType:
    return _module(name.replace("-", "_"))


def summary(name: str) -> str:
    """The first line of its docstring."""
    return (module_of(name).__doc__ or "").strip().split("\n")[0]


def of_file(path: Path, form: str | None) -> str:
    """The format of a file. **Errors** BadInput, UnreadableInput."""
    _check(path)
    if form is not None:
        if form not in names():
            raise BadInput(f"--from {form}: there is no such format (there are {', '.join(names())})")
        return form
    found = _sniffed(path)
    if len(found) == 1:
        return found[0]
    if found:
        raise BadInput(f"{path} may be {' or '.join(found)}: say which with --from")
    if (reason := _refused.why(Source(path).head())) is not None:
        raise UnreadableInput(f"{path} {reason}")
    raise UnreadableInput(
        f"{path} is of no format that can be imported: name one with --from ({', '.join(names())}), if it is one"
    )


def maybe_of_file(path: Path) -> str | None:
    """The format of one of many files: None where no importer knows it."""
    try:
        found = _sniffed(path)
    except UnreadableInput:
        return None
    return found[0] if found else None


def _module(name: str) -> ModuleType:
    return importlib.import_module(f"{__package__}.{name}")


def _sniffed(path: Path) -> list[str]:
    try:
        head = Source(path).head()
    except OSError as error:
        raise UnreadableInput(f"{path} cannot be read: {error.strerror or error}") from None
    except NotThisFormat as error:
        raise UnreadableInput(f"{path} {error}") from None
    if not head:
        raise UnreadableInput(f"{path} is empty (0 bytes): the tool wrote nothing, or the copy failed")
    found = [name for name in names() if module_of(name).sniff(head, path.name)]
    sure = [name for name in found if not getattr(module_of(name), "YIELDS", False)]
    return sure or found


def _check(path: Path) -> None:
    if not path.exists():
        raise UnreadableInput(f"there is no file {path}: check the name")
    if path.resolve() == _KERNEL:
        raise UnreadableInput(f"{path} waits for what the kernel will say: write its log down (dmesg > kernel.log)")
    if not path.is_file():
        raise UnreadableInput(f"{path} is not a regular file: name a file, or a folder of them")
