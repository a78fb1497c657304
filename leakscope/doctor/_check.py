"""What a check says, and how the groups read files and run programs."""

from __future__ import annotations

import subprocess
from collections.abc import Mapping, Sequence
from typing import NamedTuple

_PATIENCE_S = 10.0  # for a program that is asked; a journal of gigabytes answers the last lines at once


class Check(NamedTuple):
    """One kind of evidence. ``state`` is ok, limited or missing; ``remedy`` None: nothing can or need be done."""

    name: str
    state: str
    text: str
    remedy: str | None = None


def ok(name: str, text: str) -> Check:
    return Check(name, "ok", text)


def limited(name: str, text: str, remedy: str | None = None) -> Check:
    return Check(name, "limited", text, remedy)


def missing(name: str, text: str, remedy: str | None = None) -> Check:
    return Check(name, "missing", text, remedy)


def answer_of(command: Sequence[str], environ: Mapping[str, str] | None = None) -> tuple[str, str] | None:
    """What a program writes to stdout and stderr; None if it is not there or does not answer."""
    try:
        done = subprocess.run(
            command, env=environ, stdin=subprocess.DEVNULL, capture_output=True, timeout=_PATIENCE_S, check=False
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return done.stdout.decode("utf-8", "replace"), done.stderr.decode("utf-8", "replace")
