"""The recordings that a report is about, as columns to compute with, and the attributes by which they may differ."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any

import numpy as np
import pandas as pd

from ..storage.catalogue import Catalogue
from .claims import shortened
from .columns import FINDING
from .explaining import Attribute, attribute

_NAMES = (
    "job", "namespace", "attempt", "commit", "gpu_driver", "gpu_name", "limit_bytes", "local_rank", "node", "rank",
    "pod", "container", "restart_count", "leakscope_version", "command", "scheduler",
)  # fmt: skip
_ORDERED = ("attempt", "restart_count")
_MOST_LABELS = 20
_FACTS = ("job", "attempt", "commit", "rank", "node", "pod", "gpu_driver", "gpu_name")


class Population:
    """``frame`` has one row a recording, in order; masks are arrays of truth values over its rows."""

    def __init__(self, found: Catalogue) -> None:
        frame = found.frame()
        keep = (frame["state"] != "foreign").to_numpy(dtype=bool)
        self.frame = frame[keep].reset_index(drop=True)
        self.said = found.said
        self.size = len(self.frame)
        self._labels = self.frame["labels"].map(lambda pairs: dict(pairs) if pairs is not None else {})
        self.attributes = self._attributes()

    def only(self, keep: Any) -> Population:
        """The part for which a mask is true."""
        part = object.__new__(Population)
        part.frame = self.frame[keep].reset_index(drop=True)
        part.said, part.size = self.said, len(part.frame)
        part._labels = self._labels[keep].reset_index(drop=True)
        part.attributes = part._attributes()
        return part

    def truth(self, name: str, value: bool = True) -> Any:
        """A mask of where a column is ``value``, and not null."""
        found = (self.frame[name] == value).fillna(False)
        return found.to_numpy(dtype=bool)

    def number(self, name: str) -> Any:
        """A column as floats, NaN for null."""
        return self.frame[name].astype("Float64").to_numpy(dtype=float, na_value=np.nan)

    @property
    def longest_s(self) -> float:
        """How long the longest run was recorded: all rates are told by one clock."""
        return float(np.nanmax(self.number("duration_s"), initial=0.0))

    @property
    def killed(self) -> Any:
        """Recordings in which a process was killed for lack of memory, whoever says so: the verdict or a counter."""
        by_ending = (self.frame["ended"] == "oom-killed").fillna(False).to_numpy(dtype=bool)
        return self.truth("killed") | by_ending | (self.number("kill_count") > 0)

    @property
    def is_provisional(self) -> Any:
        """Whose verdict is of a look while they ran."""
        return self.truth("judged") & self.frame["as_of_s"].notna().to_numpy(dtype=bool)

    @property
    def judged(self) -> Any:
        return self.truth("judged") & self.frame["leaking"].notna().to_numpy(dtype=bool)

    @property
    def last_index(self) -> int:
        return int(self.said["runs"][-1]["number"])

    @property
    def is_new(self) -> Any:
        """Recordings that the last index run saw first; none where it was the only one."""
        first = self.number("first_index")
        return (first == self.last_index) & (len(self.said["runs"]) > 1)

    @cached_property
    def findings(self) -> pd.DataFrame:
        """One row a finding: ``row`` is the recording's position, and the columns of a finding.

        ``likeness``: the same for those that are about the same. Where nothing is named, of one command alone.
        """
        rows, found = [], []
        for row, own in enumerate(self.frame["findings"]):
            for one in own if own is not None else ():
                rows.append(row)
                found.append(one)
        frame = pd.DataFrame(found, columns=[column.name for column in FINDING])
        numbers = np.array(rows, dtype=np.int64)
        frame.insert(0, "row", numbers)
        commands = self.frame["command"].iloc[numbers].fillna("").to_numpy(dtype=object)
        nameless = [f"{kind} of {command}" for kind, command in zip(frame["kind"], commands)]
        frame["likeness"] = frame["fingerprint"].where(frame["fingerprint"].notna(), nameless)
        return frame

    def facts(self, rows: Any) -> dict[str, str]:
        """What these rows have, shortened: ``{"job": "pretrain-7b", "rank": "0-7"}``."""
        part = self.frame.iloc[rows]
        found = {}
        for name in _FACTS:
            values = part[name].dropna().unique()
            if len(values):
                found[name] = shortened(values)
        return found

    def order_of_commits(self) -> list[str]:
        """By when each was recorded first."""
        first = self.frame.dropna(subset=["commit"]).groupby("commit", sort=False)["started_at"].min()
        return [str(commit) for commit in first.sort_values(kind="stable").index]

    def _attributes(self) -> list[Attribute]:
        found = []
        for name in _NAMES:
            column = self.frame[name]
            if name == "commit":
                found.append(attribute(name, column, self.order_of_commits()))
            elif name in _ORDERED:
                found.append(attribute(name, column, sorted(column.dropna().unique())))
            else:
                found.append(attribute(name, column))
        names = sorted({name for labels in self._labels for name in labels})[:_MOST_LABELS]
        found += [attribute(f"label_{name}", self._labels.map(_getter(name))) for name in names]
        return [one for one in found if len(one.values) > 1 or (len(one.values) == 1 and (one.codes < 0).any())]


def _getter(name: str) -> Any:
    return lambda labels: labels.get(name)


def as_mask(size: int, rows: Sequence[int] | Any) -> Any:
    mask = np.zeros(size, dtype=bool)
    mask[np.asarray(rows, dtype=np.int64)] = True
    return mask


def median(values: Any) -> float:
    found = values[~np.isnan(values)]
    return float(np.median(found)) if len(found) else float("nan")


def first_of(rows: pd.DataFrame) -> Mapping[str, Any]:
    """The finding that stands for many alike: the surest."""
    sure = rows["confidence"].fillna(0.0).astype(float).to_numpy()
    return {str(name): value for name, value in rows.iloc[int(sure.argmax())].items()}
