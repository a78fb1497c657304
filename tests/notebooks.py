"""Run notebooks anew: ``python -m tests.notebooks`` (``make notebooks``), with parts of names for some of them.

They are read where no script runs: on a forge, and in a Jupyter that does not trust them yet. So scripts are left out
of what is committed, and a chart is its picture alone: a third of the size. Who runs a notebook has both.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).parents[1] / "notebooks"
NOTEBOOKS = sorted(FOLDER.glob("*.ipynb"))
_SCRIPT = re.compile(r"<script>.*?</script>", re.DOTALL)


def executed(path: Path) -> Any:
    """The notebook with what its cells show now. **Errors** ImportError, nbclient's CellExecutionError."""
    import nbclient
    import nbformat

    notebook = nbformat.read(path, as_version=4)  # type: ignore[no-untyped-call]
    where = {"metadata": {"path": str(FOLDER)}}
    nbclient.NotebookClient(notebook, timeout=300, kernel_name="python3", resources=where).execute()
    return notebook


def without_scripts(notebook: Any) -> Any:
    """The same, as it is committed."""
    for cell in notebook.cells:
        for output in cell.get("outputs", ()):
            shown = output.get("data", {})
            if "image/png" in shown:
                shown.pop("text/html", None)
            elif "text/html" in shown:
                shown["text/html"] = _SCRIPT.sub("", shown["text/html"])
        cell.metadata.pop("execution", None)  # at which second it ran
    return notebook


if __name__ == "__main__":
    import nbformat

    for path in NOTEBOOKS:
        if any(part in path.stem for part in sys.argv[1:] or [""]):
            nbformat.write(without_scripts(executed(path)), path)  # type: ignore[no-untyped-call]
            print(f"{path.name}: {path.stat().st_size / 1000:.0f} kB")
