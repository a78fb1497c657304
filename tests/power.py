"""``python -m tests.power`` (``make power``): which leak is seen when, and how often a clean series is called a leak.

Series are made, seeded, and judged alone, as a recording's memory is before any snapshot is asked; the tables go into
docs/development/power.md.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np

from leakscope.facts.series.arithmetic import Floats
from leakscope.facts.series.trend import CANNOT_TELL, GROWING, judge
from tests.analyzers import curves

PAGE = Path(__file__).parent.parent / "docs" / "development" / "power.md"
BEGIN, END = "<!-- begin power -->\n", "<!-- end power -->\n"
MiB, GiB = 1 << 20, 1 << 30
RATES_MIB = (0.5, 2, 10, 50)  # a minute
LENGTHS_S = (60, 300, 1200, 3600)
NOISE_MIB = (0.2, 5, 50)
LEVELS = {"200 MiB": 200 * MiB, "6 GiB": 6 * GiB, "64 GiB": 64 * GiB}
ONSETS = (0.0, 0.5, 0.75)
SEEDS = range(10)
CLEAN_SEEDS = range(100)


def sampled_s(lasted_s: float) -> Floats:
    """When a recorder samples: four times a second at first, less often later."""
    return np.concatenate([np.arange(0, min(lasted_s, 60), 0.25), np.arange(60, lasted_s, 2.0)])


def leak(rate_mib: float, lasted_s: float, noise_mib: float, level: float, onset: float, seed: int) -> str:
    """The verdict on a process that loads for a tenth of the run and leaks from ``onset`` (a share of it) on."""
    rng = np.random.default_rng(seed)
    t = sampled_s(lasted_s)
    loaded = level * np.clip(t / (0.1 * lasted_s), 0.02, 1)
    comes_and_goes = noise_mib * MiB * (rng.random(t.size) < 0.3) + rng.normal(0, 0.05 * noise_mib * MiB, t.size)
    leaked = rate_mib * MiB / 60 * np.clip(t - max(onset, 0.1) * lasted_s, 0, None)
    return judge(t, loaded + comes_and_goes + leaked).verdict


def power() -> Iterator[list[str]]:
    """Rows: of ten series each, how many are called growing."""
    for rate in RATES_MIB:
        for noise in NOISE_MIB:
            cells = []
            for lasted in LENGTHS_S:
                found = [leak(rate, lasted, noise, LEVELS["6 GiB"], 0.0, seed) for seed in SEEDS]
                cells.append(_share(found))
            yield [f"{rate:g} MiB a minute", f"{noise:g} MiB", *cells]


def levels() -> Iterator[list[str]]:
    for name, level in LEVELS.items():
        found = [[leak(2, lasted, 5, level, 0.0, seed) for seed in SEEDS] for lasted in LENGTHS_S]
        yield [name, *map(_share, found)]


def onsets() -> Iterator[list[str]]:
    for onset in ONSETS:
        found = [[leak(10, lasted, 5, LEVELS["6 GiB"], onset, seed) for seed in SEEDS] for lasted in LENGTHS_S]
        yield [f"after {onset:.0%} of the run" if onset else "from its start", *map(_share, found)]


def false_alarms() -> Iterator[list[str]]:
    """Rows: of a hundred clean series of each shape and length, how many are called growing, and how many undecided."""
    for shape in (*curves.RESIDENT_INNOCENTS, curves.driftless_walk(0.9)):
        cells = []
        for lasted in (None, 300.0, 1200.0):
            found = [judge(*_seen(shape, seed, lasted)).verdict for seed in CLEAN_SEEDS]
            cells.append(f"{found.count(GROWING)} ({found.count(CANNOT_TELL)})")
        yield [_name(shape), *cells]


def _seen(shape: curves.Shape, seed: int, lasted_s: float | None) -> tuple[Floats, Floats]:
    t, y = curves.sampled(shape, seed, lasted_s)
    if lasted_s is None:
        return t, y
    use = np.unique(np.searchsorted(t, sampled_s(lasted_s)[: t.size]).clip(max=t.size - 1))
    return t[use], y[use]


def _name(shape: curves.Shape) -> str:
    return "driftless walk" if shape.__name__ == "shape" else shape.__name__.replace("_", " ")


def _share(found: list[str]) -> str:
    return f"{found.count(GROWING)} of {len(found)}"


def _table(head: list[str], rows: Iterator[list[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "".join(f"| {' | '.join(cells)} |\n" for cells in lines)


def section() -> str:
    lengths = [f"{lasted // 60} min" for lasted in LENGTHS_S]
    return "\n".join(
        [
            "Of ten series each, so many are called growing. Of the process 6 GiB are loaded in the first tenth of\n"
            "the run; what comes and goes with each step is in the second column.\n",
            _table(["leak", "comes and goes", *lengths], power()),
            "What a process holds plays no part (2 MiB a minute, 5 MiB that come and go):\n",
            _table(["holds", *lengths], levels()),
            "A leak may begin late (10 MiB a minute, 5 MiB that come and go):\n",
            _table(["leaks", *lengths], onsets()),
            "Of a hundred clean series of each shape, so many are called growing; in brackets, of how many nobody can\n"
            "tell:\n",
            _table(["shape", "15 to 60 s", "5 min", "20 min"], false_alarms()),
        ]
    )


def main() -> None:
    text = PAGE.read_text(encoding="utf-8")
    before, _, rest = text.partition(BEGIN)
    _, _, after = rest.partition(END)
    PAGE.write_text(f"{before}{BEGIN}\n{section()}\n{END}{after}", encoding="utf-8")
    print(section())


if __name__ == "__main__":
    main()
