"""A program run with a tool inside it: ``python -m leakbench.inside MODULE FOLDER SECONDS PROGRAM``.

For tools that have to be called from the program that they look at. A thread calls ``look`` of the tool's file twice,
in the middle of the run and near its end; what the second returns is left in the folder. The program runs as
``__main__``.
"""

from __future__ import annotations

import importlib
import json
import runpy
import sys
import threading
import time
from pathlib import Path
from typing import Any

PATIENCE_S = 60.0  # a look that takes so much longer than the program has no answer
LOOKS = (0.4, 0.75)  # of the seconds that a program is given
_ROOT = Path(__file__).parents[1]
_LEFT = "told.json"


def running(module: str, program: Path, seconds: float, folder: Path) -> list[str]:
    """The command for a tool whose file is ``module``."""
    return [sys.executable, str(_ROOT / "leakbench" / "inside.py"), module, str(folder), f"{seconds:g}", str(program)]


def left_in(folder: Path) -> dict[str, Any]:
    """What the second look found; nothing, where the program had ended before."""
    path = folder / _LEFT
    return dict(json.loads(path.read_text())) if path.exists() else {}


def main(name: str, folder: str, seconds: str, program: str) -> None:
    sys.path[0] = str(_ROOT)  # and not this folder, whose names a program may want for its own
    tool = importlib.import_module(name)
    began = time.monotonic()

    def watch() -> None:
        found = None
        for share in LOOKS:
            time.sleep(max(0.0, began + share * float(seconds) - time.monotonic()))
            found = tool.look(found, Path(program))
        Path(folder, _LEFT).write_text(json.dumps(found))

    sys.argv[:] = [program, seconds]
    sys.path.insert(0, str(Path(program).parent))
    watching = threading.Thread(target=watch, daemon=True)
    watching.start()
    tool.start()
    try:
        runpy.run_path(program, run_name="__main__")
    finally:
        watching.join(PATIENCE_S)


if __name__ == "__main__":
    main(*sys.argv[1:])
