"""``python -m leakscope.fleet.synthetic FOLDER``: write a fleet with planted faults; truth.json names them."""

from __future__ import annotations

import argparse
from pathlib import Path

from . import faults, plan, writing


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m leakscope.fleet.synthetic",
        description="Write recordings of a fleet that never was, with planted faults. FOLDER/truth.json names them.",
        epilog="Kinds of faults: " + ", ".join(faults.FAULTS) + ".",
    )
    parser.add_argument("folder", type=Path, metavar="FOLDER")
    parser.add_argument("--nodes", type=int, default=512, help="nodes (default 512)")
    parser.add_argument("--gpus", type=int, default=8, help="GPUs of a node, each with a rank (default 8)")
    parser.add_argument("--hours", type=float, default=24.0, help="time all attempts of a job take (default 24)")
    parser.add_argument("--interval", type=float, default=10.0, metavar="S", help="between samples (default 10 s)")
    parser.add_argument("--processes", type=int, default=10, help="processes of a rank (default 10)")
    parser.add_argument("--most-samples", type=int, metavar="N", help="of each process: small recordings, same footers")
    parser.add_argument("--seed", type=int, default=1, help="the same seed, the same fleet (default 1)")
    parser.add_argument(
        "--faults", default=",".join(faults.STANDARD), metavar="KINDS",
        help="kinds parted by commas, or a number: so many drawn by the seed (default: seven)",
    )  # fmt: skip
    parser.add_argument("--workers", type=int, help="processes that write (default: one a core)")
    options = parser.parse_args()
    kinds = int(options.faults) if options.faults.isdigit() else [k for k in options.faults.split(",") if k]
    unknown = [kind for kind in kinds if kind not in faults.FAULTS] if isinstance(kinds, list) else []
    if unknown or options.nodes < 4 or options.gpus < 1:
        parser.error(f"no fault is called {unknown[0]}" if unknown else "a fleet has 4 nodes or more")
    fleet = plan.healthy(options.nodes, options.gpus, options.seed, options.hours)
    planted = faults.planted(fleet, options.seed, kinds)
    writing.write(
        fleet.runs, planted, options.folder, interval_s=options.interval, processes=options.processes,
        seed=options.seed, most_samples=options.most_samples, workers=options.workers,
    )  # fmt: skip
    print(f"{options.folder}: {len(fleet.runs):,} recordings, {len(planted)} faults:")
    for fault in planted:
        print(f"  {fault.says} ({len(fault.paths):,} recordings)")


if __name__ == "__main__":
    main()
