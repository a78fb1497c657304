"""``python -m tests.fleet.synthetic``: the fleet of ``leakscope fleet demo``, anew."""

from __future__ import annotations

import gzip
import json
from dataclasses import asdict, replace

from leakscope.fleet.demo import FLEET, SEED

from . import faults, plan, truth

NODES, GPUS, HOURS = 16, 8, 4.0


def made() -> bytes:
    """What lies in the package: the machines, and the runs with the number of theirs; packed."""
    fleet = plan.healthy(NODES, GPUS, SEED, HOURS)
    planted = faults.planted(fleet, SEED, faults.STANDARD)
    nodes = list({run.node.name: run.node for run in fleet.runs}.values())
    numbers = {node.name: number for number, node in enumerate(nodes)}
    usual = asdict(plan.Run("", [], replace(nodes[0], limit_bytes=0), 0.0, 0.0, 0.0, None, {}))
    runs = [
        {name: value for name, value in asdict(run).items() if name == "node" or value != usual.get(name)}
        | {"node": numbers[run.node.name], "gpu_peak_bytes": run.gpu_peak_bytes}
        for run in fleet.runs
    ]
    told = {"nodes": [asdict(node) for node in nodes], "runs": runs, "truth": truth(planted, SEED)}
    return gzip.compress(json.dumps(told).encode(), 9, mtime=0)


if __name__ == "__main__":
    FLEET.write_bytes(made())
