"""memray, as its guide to leaks says: run with Python's allocators traced, then what was never freed."""

from __future__ import annotations

import json
import subprocess
import sys
from collections import Counter
from pathlib import Path

from leakbench.answer import LINE, Answer

OFFERS = frozenset({LINE})  # what was never freed by the end; whether it grows it does not say
REQUIRES = ("memray",)
HOW = "`memray run --trace-python-allocators`; leaked allocations by size, at the innermost frame of the program's own"
_READ = """
import json, sys
import memray
sizes = {}
for record in memray.FileReader(sys.argv[1]).get_leaked_allocation_records(merge_threads=True):
    for function, file, line in record.stack_trace():
        if sys.argv[2] in file:
            sizes[file, line] = sizes.get((file, line), 0) + record.size
            break
print(json.dumps([[*place, size] for place, size in sizes.items()]))
"""


def command(program: Path, seconds: float, folder: Path) -> list[str]:
    capture = folder / "capture.bin"
    return [sys.executable, "-m", "memray", "run", "-q", "-f", "--trace-python-allocators", "-o", str(capture),
            str(program), f"{seconds:g}"]  # fmt: skip


def answer(folder: Path, program: Path) -> Answer:
    reading = [sys.executable, "-c", _READ, str(folder / "capture.bin"), program.parent.name]
    done = subprocess.run(reading, capture_output=True, text=True, check=True)
    sizes = Counter({(file, line): size for file, line, size in json.loads(done.stdout)})
    return Answer(lines=tuple(place for place, _ in sizes.most_common(10)))
