"""Recordings that were made of other tools' files: which they are, and what such files cannot say."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from ..storage import Recording

_SHOWN = 3


def files(recording: Recording) -> list[str]:
    """Names of the files, in the order in which they were named; none: it was recorded."""
    return [str(one.get("file")) for one in _imports(recording)]


def tools(recording: Recording, last: str = "and") -> str:
    """``mprof``, or ``mprof and kernel-log``; empty for one that was recorded."""
    return _listed(dict.fromkeys(str(one.get("format")) for one in _imports(recording)), last)


def shown_files(recording: Recording) -> str:
    names = files(recording)
    more = [f"{len(names) - _SHOWN} more files"] if len(names) > _SHOWN else []
    return _listed([*names[:_SHOWN], *more])


def why_not(recording: Recording) -> str:
    """Why something is not known, to go on after a colon; empty for a recording that was recorded."""
    said = dict.fromkeys(f"{one.get('format')} {one.get('lacks')}" for one in _imports(recording))
    if not said:
        return ""
    return next(iter(said)) if len(said) == 1 else f"neither {tools(recording, 'nor')} says it"


def _imports(recording: Recording) -> list[dict[str, Any]]:
    found = recording.meta.get("imports")
    return [one for one in found if isinstance(one, dict)] if isinstance(found, list) else []


def _listed(words: Iterable[str], last: str = "and") -> str:
    *others, end = [*words] or [""]
    return f"{', '.join(others)} {last} {end}" if others else end
