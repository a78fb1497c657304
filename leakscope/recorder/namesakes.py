"""Other programs that are called leakscope: one stands on the package index under that name. Runs in the recorder.

Installed into one environment, two overwrite each other's command and modules; on one PATH the first one answers.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Mapping
from contextlib import suppress

_OWN_SCRIPT = "leakscope-python"  # beside every command of ours
_OWN_MAIN = b"from leakscope.__main__ import"
_HEAD_BYTES = 4096
_METADATA = (".dist-info", ".egg-info")


def found(environ: Mapping[str, str] = os.environ, folders: list[str] | None = None) -> str | None:
    """One line about the first other one, and what to do; None: there is none. **Cost** 0.2 ms."""
    for name in distributions(sys.path if folders is None else folders):
        return (
            f"another package named leakscope is installed in the same environment ({name}): it overwrites this "
            "command and these modules; pip uninstall leakscope, then install leakscope-recorder again"
        )
    for path in commands(environ):
        return f"{path} is another program named leakscope: this one is {sys.executable} -m leakscope"
    return None


def distributions(folders: list[str]) -> Iterator[str]:
    """``leakscope-0.2.0`` in a folder of modules: ours are called leakscope-recorder and leakscope-record."""
    for folder in folders:
        with suppress(OSError), os.scandir(folder or ".") as entries:
            for entry in entries:
                if entry.name.startswith("leakscope-") and entry.name.endswith(_METADATA):
                    yield entry.name.rpartition(".")[0]


def commands(environ: Mapping[str, str]) -> Iterator[str]:
    """Scripts on PATH that are called leakscope, and are not ours."""
    for folder in dict.fromkeys(environ.get("PATH", "").split(os.pathsep)):
        path = os.path.join(folder, "leakscope")
        if not folder or not os.access(path, os.X_OK) or os.path.exists(os.path.join(folder, _OWN_SCRIPT)):
            continue
        with suppress(OSError), open(path, "rb") as stream:
            head = stream.read(_HEAD_BYTES)
            if head.startswith(b"#!") and b"PK\x03\x04" not in head and _OWN_MAIN not in head:
                yield path
