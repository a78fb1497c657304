"""What the end of a run will need is asked for before it begins: then a person is there, and nothing is lost yet.

Looked for, and not imported: libraries of stores and trackers are large, and are loaded by the helpers that use them.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING

from ..addresses import LIBRARY_OF_STORE, is_url, scheme_of, without_credentials
from ..errors import BadInput, to_install
from ..options import RecordOptions
from . import finalizing

if TYPE_CHECKING:
    import socket

_PUSHING = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "pushing")
_PACKAGE = re.compile(r'^PACKAGE = "(\w+)"$', re.MULTILINE)
_OTLP = {
    "opentelemetry.sdk": "opentelemetry-sdk",
    "opentelemetry.exporter.otlp.proto.http": "opentelemetry-exporter-otlp-proto-http",
}
_ANSWERING = ("numpy",)
_WITHOUT_LIBRARY = ("file", "local", "memory")
_ASK_STORE = "from leakscope.storage.remote import main; main()"


def check(options: RecordOptions) -> None:
    """**Errors** BadInput, with what to install, where something that these options need is not there."""
    if options.output is not None and is_url(options.output):
        _check_store(options.output)
    for target in options.log_to:
        _check_tracker(target.partition(":")[0])
    if options.otlp is not None:
        _need("--otlp", {package: name for name, package in _OTLP.items()})


def listener(options: RecordOptions, known: Mapping[str, str | int]) -> socket.socket | None:
    """What ``--metrics`` is served at; None: nothing is, or another rank of the job has it. **Errors** BadInput."""
    if options.metrics is None:
        return None
    from ..endpoints import listen, parse_address

    try:
        return listen(parse_address(options.metrics))
    except BadInput:
        if int(known.get("world_size", 1)) > 1:  # all have the same command, and one of a machine can have the port
            return None
        raise


def unanswered(options: RecordOptions) -> str | None:
    """Why there will be no verdict at the end, where something is not installed that this leakscope needs for it."""
    if not options.summary or not finalizing.can_answer():
        return None
    missing = [name for name in _ANSWERING if not finalizing.has(name)]
    return f"no verdict at the end without what is not installed: pip install {' '.join(missing)}" if missing else None


def _check_store(url: str) -> None:
    library = LIBRARY_OF_STORE.get(scheme_of(url))
    needed = ("pyarrow", "fsspec", *([library] if library else []))
    _need(f"--output {without_credentials(url)}", dict(zip(needed, needed)))
    if library is None and scheme_of(url) not in _WITHOUT_LIBRARY:  # fsspec knows what others need
        with suppress(OSError):
            if said := finalizing.ask(_ASK_STORE, url):
                raise BadInput(f"--output {said.splitlines()[-1]}")


def _check_tracker(name: str) -> None:
    if not os.path.isdir(_PUSHING):
        raise BadInput("--log-to is not part of this installation, which only records")
    package = _trackers().get(name)
    if package is None:
        raise BadInput(f"--log-to: {name!r} is no tracker that is known: there are {', '.join(sorted(_trackers()))}")
    if not finalizing.has(package):
        raise BadInput(f"--log-to: {package} is not installed here: {to_install(name)}")


def _trackers() -> dict[str, str]:
    """The package of each, as its file says it: to import that would take a second."""
    return dict(_packages())


def _packages() -> Iterator[tuple[str, str]]:
    for file in os.listdir(_PUSHING):
        name, suffix = os.path.splitext(file)
        if suffix == ".py" and not name.startswith("_"):
            with open(os.path.join(_PUSHING, file), encoding="utf-8") as stream:
                if found := _PACKAGE.search(stream.read()):
                    yield name, found[1]


def _need(option: str, modules: Mapping[str, str]) -> None:
    """``modules``: by the package to install."""
    missing = [package for package, module in modules.items() if not finalizing.has(module)]
    if missing:
        raise BadInput(f"{option} needs what is not installed here: pip install {' '.join(missing)}")
