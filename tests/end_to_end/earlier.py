"""How much earlier the kernel kills a program because it is recorded: ``python -m tests.end_to_end.earlier [RUNS]``.

A program that grows by a quarter of a MiB at a time writes down how often it did; what counts is how much it had when
it was killed, bare and recorded in turn, by the limit, and by whether the recorder is in the cgroup, too.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

from .cgroups import Cgroup
from .programs import LONGEST_S

MiB = 1 << 20
PIECE = MiB // 4
LIMITS_MIB = (450, 600)
GROWS = """
import mmap, sys, time
{imports}
with open(sys.argv[1], "r+b") as file:
    count = mmap.mmap(file.fileno(), 8)
held, pause = [], float(sys.argv[2])
def keep():
    held.append(b"x" * {piece})
    count[:] = len(held).to_bytes(8, "little")
while True:
    keep()
    time.sleep(pause)
"""
PROGRAMS = {"plain": "", "torch": "import torch"}


def had(cgroup: Cgroup, folder: Path, program: str, pause_s: float, how: str) -> int:
    """What a program had when it was killed, in bytes. ``how``: bare, outside or inside."""
    count = folder / "count"
    count.write_bytes(bytes(8))
    (folder / "grows.py").write_text(GROWS.format(imports=PROGRAMS[program], piece=PIECE))
    enter = ["sh", "-c", f'echo $$ > {cgroup.folder}/cgroup.procs; exec "$0" "$@"']
    job = [sys.executable, str(folder / "grows.py"), str(count), str(pause_s)]
    record = [sys.executable, "-m", "leakscope", "record", "-q", "-f", "-o", str(folder / "run.parquet"), "--"]
    words = {"bare": [*enter, *job], "outside": [*record, *enter, *job], "inside": [*enter, *record, *job]}[how]
    subprocess.run(words, timeout=LONGEST_S, capture_output=True, check=False)
    return int.from_bytes(count.read_bytes(), "little") * PIECE


def main(runs: int, limits_mib: tuple[int, ...] = LIMITS_MIB, pause_s: float = 0.005) -> None:
    cgroup = Cgroup.made(f"leakscope-earlier-{os.getpid()}")
    try:
        with tempfile.TemporaryDirectory() as name:
            for limit_mib in limits_mib:
                for program in PROGRAMS:
                    cgroup.limit(limit_mib * MiB)
                    seen: dict[str, list[int]] = {"bare": [], "outside": [], "inside": []}
                    for _ in range(runs):
                        for how, sizes in seen.items():
                            sizes.append(had(cgroup, Path(name), program, pause_s, how))
                    bare = statistics.median(seen["bare"])
                    for how, sizes in seen.items():
                        share = (bare - statistics.median(sizes)) / (limit_mib * MiB)
                        least, most = min(sizes) / MiB, max(sizes) / MiB
                        text = f"{limit_mib} MiB, {program}, {how}: {statistics.median(sizes) / MiB:.1f} MiB"
                        print(f"{text} ({least:.1f} to {most:.1f}): {share:.2%} of the limit earlier", flush=True)
    finally:
        cgroup.remove()


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 10)
