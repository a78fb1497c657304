"""The allocators and settings that a recording is replayed under: glibc's, and others where they are installed."""

from __future__ import annotations

import os
import platform
from dataclasses import dataclass, field, replace
from glob import glob
from typing import NamedTuple

_FOLDERS = (
    f"/usr/lib/{platform.machine()}-linux-gnu", "/usr/lib64", "/usr/lib", "/usr/local/lib", "/usr/local/lib64",
    "/opt/*/lib",
)  # fmt: skip
AS_RECORDED = "now"


@dataclass(frozen=True)
class Variant:
    """``name`` is what to set or to preload; ``library``: None where it is glibc's malloc.

    ``is_missing``: it is not installed here. ``decays``: it gives memory back after a while, so time has to pass.
    """

    name: str
    environment: dict[str, str] = field(default_factory=dict)
    library: str | None = None
    is_trimmed: bool = False
    is_missing: bool = False
    decays: tuple[Decay, ...] = ()


class Decay(NamedTuple):
    """After how long memory goes back, by an allocator's own default, and how to say so in the environment."""

    ms: int
    name: str
    text: str = "{}"


class _Other(NamedTuple):
    name: str
    pattern: str
    decays: tuple[Decay, ...] = ()


_OTHERS = (
    _Other("jemalloc", "libjemalloc.so*", (Decay(10_000, "MALLOC_CONF", "dirty_decay_ms:{}"),)),
    _Other(
        "mimalloc",
        "libmimalloc.so*",
        (
            Decay(25, "MIMALLOC_DECOMMIT_DELAY"),
            Decay(500, "MIMALLOC_SEGMENT_DECOMMIT_DELAY"),
            Decay(10, "MIMALLOC_PURGE_DELAY"),
        ),
    ),
    _Other("tcmalloc", "libtcmalloc_minimal.so*"),
)


def variants(serving: Variant, like_it: dict[str, str], lasting: dict[str, str]) -> list[Variant]:
    """``like_it``: settings of glibc's malloc with which a replay is like what was recorded. ``lasting``: those of them
    that hold where a threshold is set, too."""
    others = [_other(one) for one in _OTHERS]
    return [
        *([] if serving.library is None else [Variant("glibc's malloc")]),
        Variant("MALLOC_ARENA_MAX=2", {**like_it, "MALLOC_ARENA_MAX": "2"}),
        Variant("malloc_trim(0)", like_it, is_trimmed=True),
        Variant("MALLOC_MMAP_THRESHOLD_=131072", {**lasting, "MALLOC_MMAP_THRESHOLD_": "131072"}),
        *(one for one in others if one.library is None or one.library != serving.library),
    ]


def _other(one: _Other) -> Variant:
    found = sorted(path for folder in _FOLDERS for path in glob(os.path.join(folder, one.pattern)))
    if not found:
        return Variant(one.name, is_missing=True)
    library = os.path.realpath(found[0])
    return Variant(one.name, {"LD_PRELOAD": library}, library, decays=one.decays)


def served_by(library: str | None) -> Variant:
    """What served the job: ``library`` in place of libc's malloc, by its file's name; None: libc's."""
    if library is None:
        return Variant(AS_RECORDED)
    other = next(
        (one for one in _OTHERS if library.startswith(one.pattern.split(".")[0].replace("_minimal", ""))), None
    )
    found = _other(other) if other is not None else Variant(library, is_missing=True)
    return replace(found, name=AS_RECORDED)
