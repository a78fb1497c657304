"""Caches inside libraries that are known to grow, recognised by what only they show in a recording."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

import pandas as pd

from ..facts.case import Case
from ..facts.growth.processes import ProcessGrowth
from ..facts.tables import only, without_last
from ..facts.where.stacks import GrowthLine
from ..findings import Evidence
from ..units import FEWEST, MOST, format_bytes, format_count

_MOST_ALIKE = 0.7  # of the snapshots have an input of a shape seen before: shapes repeat
_LOADED, _LAST_IMMORTAL = re.compile(r"Python 3\.12\.(\d+)"), 4  # CPython 113993
_OWN_KERNELS = ("bfloat16", "float16")  # oneDNN also multiplies matrices of these types; MKL those of float32


@dataclass(frozen=True)
class Cache:
    """``leaves_free``: what it drops lies between what it keeps, so malloc cannot give it back."""

    name: str
    library: str
    evidence: Evidence
    remedy: Sequence[str]
    is_bounded: bool
    leaves_free: bool = False
    mechanism: str = "native-cache"


def known_cache(case: Case, process: ProcessGrowth, native_bytes: int, line: GrowthLine | None) -> Cache | None:
    """The cache that the growth fits, if the recording speaks for one."""
    named = _interned(case, process, line) or _arrow(case, process, native_bytes)
    if named is not None or (line is not None and line.library not in (None, "torch")):
        return named
    return kernel_cache(case, process)


def arrow_pool_bytes(case: Case, process: ProcessGrowth) -> float:
    """What Arrow's memory pool handed out more in the judged window; it may have an allocator of its own."""
    return case.gained(process, "native_cache_bytes") or 0.0


def _interned(case: Case, process: ProcessGrowth, line: GrowthLine | None) -> Cache | None:
    """Strings that the interpreter interned for good: most of the blocks that came into use are such."""
    strings, blocks = (case.gained(process, column) or 0.0 for column in ("interned_count", "allocated_blocks"))
    loaded = _LOADED.search(" ".join(process.rows("agent_notes")["text"].dropna().astype(str)))
    if strings < MOST * blocks or blocks <= 0 or loaded is None or int(loaded.group(1)) > _LAST_IMMORTAL:
        return None
    by = f" by {line.library}" if line is not None and line.library else ""
    text = f"the interpreter interned {format_count(strings)} more strings{by}, and {loaded.group()} frees none of them"
    remedy = [
        "run it on Python 3.12.5, 3.13 or later, or 3.11: in 3.12.0 to 3.12.4 an interned string stays until the "
        "process ends, and each new key of a dict that is decoded may be one"
    ]
    figures = {"interned_count": round(strings), "allocated_blocks": round(blocks)}
    library = line.library if line is not None and line.library else "python"
    name = "the interpreter's interned strings"
    return Cache(name, library, Evidence(text, figures), remedy, False, mechanism="interned-strings")


def _arrow(case: Case, process: ProcessGrowth, native_bytes: int) -> Cache | None:
    gained = arrow_pool_bytes(case, process)
    if gained < max(1.0, MOST * native_bytes):
        return None
    text = f"Arrow's memory pool allocated {format_bytes(gained)} more"
    remedy = ["drop Arrow tables and batches that are no longer needed, or write them out in smaller pieces"]
    return Cache("Arrow's memory pool", "pyarrow", Evidence(text, {"pool_bytes": round(gained)}), remedy, False)


def kernel_cache(case: Case, process: ProcessGrowth) -> Cache | None:
    """oneDNN's, where inputs of ever new shapes meet a model that it computes: it builds kernels for each shape."""
    takes = process.rows("takes")
    tensors = without_last(process.rows("tensors"), takes)
    inputs = only(
        tensors,
        tensors["tensor_owner"].isin(("batch", "user-held"))
        & tensors["moment"].ne("backward").fillna(True)
        & tensors["dtype"].fillna("").str.contains("float")
        & (tensors["device"] == "cpu")
        & tensors["shape"].notna(),
    )
    largest = inputs.sort_values("storage_bytes", kind="stable").groupby("take")["shape"].last()
    if len(largest) < FEWEST or largest.nunique() < _MOST_ALIKE * len(largest):
        return None
    if not _computed_by_onednn(process.rows("weights")):
        return None
    seen = {"takes": len(largest), "distinct_shapes": int(largest.nunique())}
    text = f"{len(largest)} snapshots saw inputs of {largest.nunique()} shapes, and oneDNN keeps kernels for each shape"
    remedy = ["set ONEDNN_PRIMITIVE_CACHE_CAPACITY (1,024 by default) to a few, or pad inputs to a few sizes"]
    return Cache("oneDNN's kernel cache", "torch", Evidence(text, seen), remedy, True, leaves_free=True)


def _computed_by_onednn(weights: pd.DataFrame) -> bool:
    """A convolution, by a weight of three dimensions or more, or a type that only oneDNN multiplies on a CPU."""
    weights = only(weights, weights["device"] == "cpu")
    is_convolution = weights["shape"].fillna("").str.count("x") >= 2
    return bool((is_convolution | weights["dtype"].isin(_OWN_KERNELS)).any())
