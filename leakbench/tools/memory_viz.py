"""torch's own viewer of memory snapshots: the largest bands of its plot at the end, by the user's innermost line."""

from __future__ import annotations

import pickle
import sys
from collections import Counter
from pathlib import Path

from leakbench.answer import LINE, Answer

OFFERS = frozenset({LINE})  # a picture of what is held: whether that is too much, who looks decides
REQUIRES = ("torch",)
HOW = "`python -m torch.cuda._memory_viz trace_plot`; what is held at the end, by the innermost frame outside of torch"


def reading(snapshot: Path, folder: Path) -> list[str]:
    page = str(folder / "page.html")
    return [sys.executable, "-m", "torch.cuda._memory_viz", "trace_plot", str(snapshot), "-o", page]


def answer(folder: Path, program: Path) -> Answer:
    held: Counter[tuple[str, int]] = Counter()
    told = pickle.loads((folder / "snapshot.pickle").read_bytes())
    for block in (block for segment in told["segments"] for block in segment["blocks"]):
        frames = [frame for frame in block.get("frames", ()) if "/torch/" not in frame["filename"]]
        if block["state"] == "active_allocated" and frames:
            held[frames[0]["filename"], frames[0]["line"]] += block["size"]
    return Answer(lines=tuple(place for place, _ in held.most_common(10)))
