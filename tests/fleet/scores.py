"""``python -m tests.fleet.scores``: how well reports of synthetic fleets do, over many seeds; fleet.md shows it.

The seeds are none that thresholds were chosen on. Footers are made and read as an index does, without writing files.
"""

from __future__ import annotations

import json
import sys
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from tests.fleet.fleets import scored

RESULTS = Path(__file__).with_name("scores.json")
SETS: tuple[tuple[str, Sequence[int], Sequence[str] | int, int], ...] = (
    ("24 nodes, 7 faults", range(9001, 9021), 7, 24),
    ("64 nodes, 12 faults", range(9101, 9106), 12, 64),
    ("24 nodes, healthy", range(9201, 9211), [], 24),
)


def measure() -> list[dict]:
    found = []
    for name, seeds, kinds, nodes in SETS:
        total: Counter[str] = Counter()
        missed, invented = [], []
        for seed in seeds:
            score = scored(seed, kinds, nodes)
            total.update(found=len(score.found), described=len(score.described), missed=len(score.missed),
                         invented=len(score.invented))  # fmt: skip
            missed += [f"{seed}: {one}" for one in score.missed]
            invented += [f"{seed}: {one}" for one in score.invented]
            print(name, seed, dict(total), file=sys.stderr, flush=True)
        found.append({"set": name, "fleets": len(seeds), **total, "missed_faults": missed, "invented_claims": invented})
    return found


def as_markdown(results: Sequence[dict]) -> str:
    lines = [
        "| fleets | faults | found | named in words | invented | recall | precision |",
        "|---|---|---|---|---|---|---|",
    ]
    for one in results:
        found, missed, invented = (one.get(key, 0) for key in ("found", "missed", "invented"))
        share = [f"{found / of:.1%}" if of else "" for of in (found + missed, found + invented)]
        lines.append(
            f"| {one['fleets']} of {one['set']} | {found + missed} | {found} | {one.get('described', 0)} | {invented} "
            f"| {share[0]} | {share[1] if found else ''} |"
        )
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    results = measure()
    RESULTS.write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")
    print(as_markdown(results))
