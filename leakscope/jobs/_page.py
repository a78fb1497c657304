"""A job as one page, of the same make as the report's: the verdict, each rank over time, findings, ranks, nodes."""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Sequence

from ..comparing import BETTER, WORDS, WORSE
from ..pages import heat, plots
from ..pages.charts import Chart
from ..pages.page import page
from ..units import format_bytes
from ..words import numbered
from . import _words as words
from ._comparing import JobComparison
from ._job import Cluster, JobReport, RankRow

_TONES = {True: "bad", False: "good", None: "unsure", BETTER: "good", WORSE: "bad"}
_BADGES = {True: "Leaking", False: "Not leaking", None: "Cannot tell"}
_FEW = 8  # ranks, each with a line of its own
_ODD = 5  # lines of single ranks beside those of all the others
_ROW = 16, 40, 480  # height of a row, least and most of all, in pixels
_MOST_FINDINGS, _MOST_CHANGES = 12, 32


def html(job: JobReport) -> str:
    """A whole HTML document. The same job gives the same bytes each time."""
    plot = _curves(job)
    ranks, more = words.shown_ranks(job)
    shown = {row.rank for row in ranks}
    nodes, more_nodes = words.shown_nodes(job)
    return page(
        "job.html",
        ((), {"plots": {"ranks": plots.data(plot)} if plot is not None else {}}),
        ((), {}),
        job=job,
        tone=_TONES[job.verdict.leaking],
        word=_BADGES[job.verdict.leaking],
        facts=words.facts(job),
        figures=list(_figures(job)),
        heat=_heat(job),
        heat_height=min(_ROW[2], max(_ROW[1], _ROW[0] * len(job.ranks))),
        clocks=list(words.clock_notes(job)),
        drawn=plots.drawn(plot) if plot is not None else None,
        clusters=[
            (one, words.cluster_ranks(job, one), words.cluster_amount(one), _excerpts(one))
            for one in job.clusters[:_MOST_FINDINGS]
        ],
        rank_heads=words.RANK_HEADS,
        rank_rows=[words.rank_cells(job, row) for row in ranks],
        rest_rows=[words.rank_cells(job, row) for row in job.ranks if row.rank not in shown] if more else [],
        nodes=[(row, words.node_cells(row), row.ledger) for row in nodes],
        more_nodes=more_nodes,
        notes=[*words.rest(job), *job.notes],
    )


def compared_html(found: JobComparison) -> str:
    """The page that compares two jobs."""
    return page(
        "jobs.html",
        ((), {}),
        ((), {}),
        found=found,
        tone=_TONES.get(found.verdict, "unsure"),
        word=WORDS[found.verdict],
        heads=words.PAIR_HEADS,
        rows=[words.pair_cells(one) for one in found.ranks],
        only=list(words.only(found)),
        changed=[(one.rank, one.comparison) for one in found.ranks if one.comparison.findings][:_MOST_CHANGES],
    )


def _figures(job: JobReport) -> Iterator[tuple[str, str]]:
    told = job.verdict
    pairs = [
        ("Leaking ranks", told.leaking_ranks),
        ("Steady ranks", told.steady_ranks),
        ("Unclear ranks", told.unclear_ranks),
        ("Killed ranks", told.killed_ranks),
    ]
    yield from ((name, str(len(ranks))) for name, ranks in pairs if ranks)
    yield "Growth of all", format_bytes(sum(row.growth_bytes for row in job.ranks), signed=True)
    yield "Highest peak", format_bytes(max(row.peak_bytes for row in job.ranks))


def _heat(job: JobReport) -> Chart | None:
    rows = [row for row in job.ranks if any(value is not None for value in row.value_bytes)]
    if not rows:
        return None
    names = [f"rank {row.rank}" for row in rows]
    return heat.heat_map("Memory of each rank", names, job.time_s, [row.value_bytes for row in rows])


def _curves(job: JobReport) -> plots.Plot | None:
    """Few ranks each by itself; of many the lowest, the middle and the highest, and the odd ones."""
    rows = [row for row in job.ranks if any(value is not None for value in row.value_bytes)]
    if not rows:
        return None
    if len(rows) <= _FEW:
        return plots.Plot("Memory of each rank, as lines", [_curve(job, row, n) for n, row in enumerate(rows)])
    single = sorted((row for row in rows if _is_odd(row)), key=lambda row: -row.growth_bytes)[:_ODD]
    others = [row for row in rows if row not in single] if len(rows) - len(single) >= _FEW // 2 else rows
    columns = [[v for v in at if v is not None] for at in zip(*(row.value_bytes for row in others))]
    columns = [column if 2 * len(column) > len(others) else [] for column in columns]  # else it is of who ended last
    bands: list[tuple[str, Sequence[float | None], int]] = [
        ("highest of the others", [max(c) if c else None for c in columns], 1),
        ("middle of the others", [round(statistics.median(c)) if c else None for c in columns], 0),
        ("lowest of the others", [min(c) if c else None for c in columns], 1),
    ]
    band = [plots.Curve(name, plots.colour(0), job.time_s, values, dash) for name, values, dash in bands]
    title = f"The odd ranks, and the range of the other {len(others)}"
    return plots.Plot(title, [*band, *(_curve(job, row, n + 1) for n, row in enumerate(single))])


def _is_odd(row: RankRow) -> bool:
    return row.leaking is True or row.killed or row.odd is not None


def _curve(job: JobReport, row: RankRow, number: int) -> plots.Curve:
    return plots.Curve(f"rank {row.rank}", plots.colour(number), job.time_s, row.value_bytes, plots.dash(number // 2))


def _excerpts(cluster: Cluster) -> dict[tuple[str, int], list[tuple[int, str, bool]]]:
    excerpt = cluster.excerpt
    return {(excerpt.file, excerpt.line): numbered(excerpt)} if excerpt is not None else {}
