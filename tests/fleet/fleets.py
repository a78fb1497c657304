"""Small synthetic fleets for tests: as rows of an index in memory, or as recordings in a folder."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

from leakscope.fleet import report
from leakscope.fleet.columns import TYPES
from leakscope.fleet.population import Population
from leakscope.fleet.rows import row_of
from leakscope.storage.catalogue import Catalogue, catalogue
from tests.fleet import scoring, synthetic
from tests.fleet.synthetic import faults, plan

RUNS = [{"number": 1, "at": "2026-11-25T10:00:00+00:00", "urls": ["/runs"], "read": 1, "new": 1, "gone": 0}]


def planted(seed: int, kinds: Sequence[str] | int, nodes: int = 16, hours: float = 8.0):
    """(fleet, faults)"""
    fleet = plan.healthy(nodes, 8, seed, hours)
    return fleet, faults.planted(fleet, seed, kinds)


def indexed(fleet: plan.Fleet, seed: int, first_index: int = 1, runs: Sequence[dict] = RUNS) -> Catalogue:
    """What an index of its recordings has, without writing them."""
    rows = []
    for run in fleet.runs:
        said = synthetic.footer_of(run, interval_s=60, processes=2, seed=seed)
        place = {"url": f"/runs/{run.path}", "first_index": first_index, "read_index": first_index, "stamp": ""}
        cut = {"state": "unreadable", "judged": False, "problem": "truncated"}
        rows.append(place | ({**row_of(said), "state": said["state"]} if said is not None else cut))
    return catalogue(TYPES, [rows], {"format_version": 1, "runs": list(runs)})


def scored(seed: int, kinds: Sequence[str] | int, nodes: int = 16) -> scoring.Score:
    fleet, truth = planted(seed, kinds, nodes)
    found = indexed(fleet, seed)
    urls = list(Population(found).frame["url"])
    return scoring.score(report.report_of(found).claims, urls, [asdict(fault) for fault in truth])


def written(folder: Path, seed: int, kinds: Sequence[str] | int, nodes: int = 4, hours: float = 1.0):
    """The recordings themselves, few samples each; returns (fleet, faults)."""
    fleet, truth = planted(seed, kinds, nodes, hours)
    fleet.runs = [run for run in fleet.runs if run.job in fleet.training]
    synthetic.write(fleet.runs, truth, folder, processes=2, seed=seed, most_samples=4)
    return fleet, truth
