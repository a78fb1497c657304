"""The notebooks run from top to bottom, in the order they are read, and were committed with what they show."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from .notebooks import FOLDER, NOTEBOOKS, executed

LARGEST_RECORDING = 300 * 1024
LARGEST_NOTEBOOK = 500_000  # bytes: a forge shows one of this size at once


@pytest.mark.live
@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_runs_and_shows_what_it_was_committed_with(path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.delenv("COLUMNS", raising=False)  # tests that run at once are told how wide their terminal is
    pytest.importorskip("nbclient", reason="nbclient is not installed: pip install -e '.[test]'")
    nbformat = pytest.importorskip("nbformat")
    pytest.importorskip("ipykernel", reason="there is no kernel to run notebooks: pip install -e '.[test]'")
    pytest.importorskip("resvg_py")
    committed = texts(nbformat.read(path, as_version=4))
    notebook = executed(path)
    outputs = [output for cell in notebook.cells for output in cell.get("outputs", ())]
    assert not [output for output in outputs if output.output_type == "error"]
    assert texts(notebook) == committed, "make notebooks, and read what changed beside the text of this one"


def texts(notebook: Any) -> list[str]:
    """What its cells printed and returned, as text."""
    outputs = [output for cell in notebook.cells for output in cell.get("outputs", ())]
    return [output.get("text") or output.get("data", {}).get("text/plain", "") for output in outputs]


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_was_committed_as_it_ran(path: Path):
    cells = [cell for cell in json.loads(path.read_text(encoding="utf-8"))["cells"] if cell["cell_type"] == "code"]
    assert [cell["execution_count"] for cell in cells] == list(range(1, len(cells) + 1))
    outputs = [output for cell in cells for output in cell["outputs"]]
    assert not [output for output in outputs if output["output_type"] == "error" or output.get("name") == "stderr"]
    assert any("image/png" in output.get("data", {}) for output in outputs)
    assert any("text/html" in output.get("data", {}) for output in outputs)
    assert "<script" not in json.dumps(outputs), "make notebooks: scripts do not run where it is read"
    assert path.stat().st_size <= LARGEST_NOTEBOOK


def test_recordings_are_small_and_each_has_its_program():
    recordings = sorted(FOLDER.glob("recordings/*.parquet"))
    assert recordings
    for recording in recordings:
        assert recording.stat().st_size <= LARGEST_RECORDING, recording
        assert (FOLDER / "programs" / f"{recording.stem}.py").is_file()
