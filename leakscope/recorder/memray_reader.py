"""Reads one file of memray's and prints what was kept, largest first, as JSON lines.

Run by the recorder as a script, with the interpreter of the job that wrote the file: memray is installed there.
"""

from __future__ import annotations

import json
import sys

MOST = 40
MOST_FRAMES = 40


def main(path: str) -> None:
    import memray

    reader = memray.FileReader(path)
    kept = sorted(reader.get_leaked_allocation_records(merge_threads=True), key=lambda record: -record.size)
    for record in kept[:MOST]:
        try:
            frames = record.hybrid_stack_trace(max_stacks=MOST_FRAMES)
            python = record.stack_trace(max_stacks=MOST_FRAMES)
        except NotImplementedError:  # an allocation whose stack was not kept
            frames, python = [], []
        row = {"bytes": record.size, "count": record.n_allocations, "frames": frames, "python": python}
        print(json.dumps(row))


if __name__ == "__main__":
    main(sys.argv[1])
