"""Caches inside libraries that are known to grow, recognised by what only they show in a recording."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from ..findings import Evidence
from ..units import format_bytes
from ._growth import ProcessGrowth, TreeGrowth, rows_of, without_last
from ._growth_stacks import GrowthLine

if TYPE_CHECKING:
    from ..storage import Recording

_LEAST_TAKES = 3  # fewer shapes are no sign of anything
_MOST_ALIKE = 0.7  # of the inventories have a batch of a shape seen before: shapes repeat


@dataclass(frozen=True)
class Cache:
    name: str
    library: str
    evidence: Evidence
    remedy: Sequence[str]
    is_bounded: bool


def known_cache(
    recording: Recording, growth: TreeGrowth, process: ProcessGrowth, native_bytes: int, line: GrowthLine | None
) -> Cache | None:
    """The cache that the growth fits, if the recording speaks for one."""
    return _arrow(recording, growth, process, native_bytes) or _onednn(recording, process, line) or _tokenizers(line)


def _arrow(recording: Recording, growth: TreeGrowth, process: ProcessGrowth, native_bytes: int) -> Cache | None:
    rows = rows_of(recording.tables["sentinels"], process)
    rows = rows[rows["native_cache_bytes"].notna()]
    if len(rows) < 2:
        return None
    time_s, held = (rows[column].to_numpy(dtype=np.float64) for column in ("time_s", "native_cache_bytes"))
    start, end = (float(np.interp(at, time_s, held)) for at in (growth.start_s, growth.end_s))
    if end - start < 0.5 * native_bytes:
        return None
    text = f"Arrow's memory pool says it handed out {format_bytes(end - start)} more"
    remedy = ["drop Arrow tables and batches that are no longer needed, or write them out in smaller pieces"]
    return Cache("Arrow's memory pool", "pyarrow", Evidence(text, {"pool_bytes": round(end - start)}), remedy, False)


def _onednn(recording: Recording, process: ProcessGrowth, line: GrowthLine | None) -> Cache | None:
    """On a CPU torch keeps compiled kernels for each input shape: ever new shapes fill that cache."""
    tensors = rows_of(recording.tables["tensors"], process)
    takes = rows_of(recording.tables["takes"], process)
    batches = without_last(tensors, takes)
    batches = batches[(batches["tensor_owner"] == "batch") & (batches["device"] == "cpu") & batches["shape"].notna()]
    shapes = batches.groupby("take")["shape"].agg(lambda values: max(map(str, values), key=len))
    if len(shapes) < _LEAST_TAKES or shapes.nunique() < _MOST_ALIKE * len(shapes):
        return None
    if line is not None and line.library not in (None, "torch"):
        return None
    seen = {"inventories": len(shapes), "distinct_shapes": int(shapes.nunique())}
    text = (
        f"{len(shapes)} inventories saw batches of {shapes.nunique()} shapes, and oneDNN keeps kernels for each shape"
    )
    remedy = ["set ONEDNN_PRIMITIVE_CACHE_CAPACITY (1,024 by default) to a few, or pad inputs to a few sizes"]
    return Cache("oneDNN's kernel cache", "torch", Evidence(text, seen), remedy, True)


def _tokenizers(line: GrowthLine | None) -> Cache | None:
    if line is None or line.library != "tokenizers":
        return None
    text = "the tokenizers library keeps the pieces of words it has seen, up to a limit for each model"
    return Cache("the tokenizer's cache", "tokenizers", Evidence(text), [], True)
