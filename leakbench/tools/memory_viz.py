"""torch's own viewer of memory snapshots: the largest bands where its plot is highest, by the user's innermost line."""

from __future__ import annotations

import pickle
import sys
from collections import Counter
from pathlib import Path
from typing import Any

from leakbench.answer import LINE, Answer

OFFERS = frozenset({LINE})  # a picture of what is held: whether that is too much, who looks decides
REQUIRES = ("torch",)
HOW = "`python -m torch.cuda._memory_viz trace_plot`; what is held at the peak, by the innermost frame outside of torch"


def reading(snapshot: Path, folder: Path) -> list[str]:
    page = str(folder / "page.html")
    return [sys.executable, "-m", "torch.cuda._memory_viz", "trace_plot", str(snapshot), "-o", page]


def answer(folder: Path, program: Path) -> Answer:
    told = pickle.loads((folder / "snapshot.pickle").read_bytes())
    held: dict[int, tuple[Any, int]] = {}  # frames and size of what is allocated, by address
    most, at_most = 0, dict(held)
    for event in (event for trace in told["device_traces"] for event in trace):
        if event["action"] == "alloc":
            held[event["addr"]] = event["frames"], event["size"]
        elif event["action"] == "free_completed":
            held.pop(event["addr"], None)
        now = sum(size for _, size in held.values())
        if now > most:
            most, at_most = now, dict(held)
    bands: Counter[tuple[str, int]] = Counter()
    for frames, size in at_most.values():
        own = [frame for frame in frames if "/torch/" not in frame["filename"]]
        if own:
            bands[own[0]["filename"], own[0]["line"]] += size
    return Answer(lines=tuple(place for place, _ in bands.most_common(10)))
