"""A notebook in a real kernel: what a person types there, what is shown, and a kernel that is recorded."""

from __future__ import annotations

import ast
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from leakscope import beside, open_recording, record
from leakscope.errors import BadInput
from tests.recorder.runs import PYTHON, ROOT, TIMEOUT_S, environment

pytestmark = pytest.mark.live

CELLS = {
    "load": "%load_ext leakscope\nimport leakscope",
    "start": "%leakscope start run.parquet",
    "again": "%leakscope start",
    "work": "import time\nrows = []\nfor _ in range(60):\n    rows.append(bytearray(200_000)); time.sleep(0.02)",
    "stop": "rec = %leakscope stop\nrec",
    "complete": (
        "kernel = get_ipython().kernel\n"
        "typed = 'rec.tables.process_s', 'rec.tables[\"proc'\n"
        "print([kernel.do_complete(text, len(text))['matches'] for text in typed])"
    ),
    "sources": "print(sorted(set(rec.tables.sources['file'])))",
    "table": "rec.tables.object_typs",
    "top": "rec.heap.top(0)",
    "holder": "print(rec.heap.top(5)['name'].tolist())",
    "report": "rec.report()",
    "failed": "%%leakscope\nmore = bytearray(9_000_000)\n1 / 0",
    "none": "%leakscope stop",
}


@pytest.fixture(scope="module")
def shown(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """The outputs of each cell, after the notebook ran in a kernel of its own."""
    nbclient = pytest.importorskip("nbclient", reason="nbclient is not installed: pip install -e '.[test]'")
    nbformat = pytest.importorskip("nbformat")
    pytest.importorskip("ipykernel", reason="there is no kernel to run notebooks: pip install -e '.[test]'")
    folder = tmp_path_factory.mktemp("kernel")
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(text) for text in CELLS.values()])
    client = nbclient.NotebookClient(
        notebook, timeout=60, kernel_name="python3", allow_errors=True, resources={"metadata": {"path": str(folder)}}
    )
    # What jedi parsed is kept where all kernels of a user look for it: one that another kernel has half written makes
    # Tab complete nothing.
    own = {"PYTHONPATH": str(ROOT), "IPYTHONDIR": str(folder), "XDG_CACHE_HOME": str(folder / "cache"), "NO_COLOR": "1"}
    client.execute(env={**environment(), **own})
    return dict(zip(CELLS, (cell.outputs for cell in notebook.cells)))


in_one_worker = pytest.mark.xdist_group("kernel")


def text_of(outputs: list[Any]) -> str:
    """What was printed, returned as text or raised."""
    parts = []
    for output in outputs:
        parts += [output.get("text", ""), output.get("data", {}).get("text/plain", ""), *output.get("traceback", ())]
    return re.sub(r"\x1b\[[0-9;]*m", "", "\n".join(parts))


@in_one_worker
def test_a_kernel_that_runs_is_recorded_from_inside(shown):
    assert "%leakscope stop ends it" in text_of(shown["start"])
    assert "is being recorded" in text_of(shown["again"])
    names = ast.literal_eval(text_of(shown["holder"]).strip())
    assert any(name.split(".")[-1] == "rows" for name in names), names
    assert "nothing is being recorded" in text_of(shown["none"])


@in_one_worker
def test_code_of_ours_is_no_code_of_the_users_in_a_checkout_either(shown):
    files = ast.literal_eval(text_of(shown["sources"]).strip())
    assert not [file for file in files if file.startswith(f"{ROOT / 'leakscope'}/")]


@in_one_worker
def test_tab_completes_the_tables(shown):
    by_name, by_key = ast.literal_eval(text_of(shown["complete"]).strip())
    assert "rec.tables.process_samples" in by_name or "process_samples" in by_name
    assert any("processes" in match for match in by_key)


@in_one_worker
def test_a_cell_shows_the_page_of_the_report(shown):
    (html,) = [output["data"]["text/html"] for output in shown["report"] if "data" in output]
    assert '<svg class="chart"' in html and "Memory over time" in html


@in_one_worker
@pytest.mark.parametrize(
    ("cell", "says"),
    [("table", "no table 'object_typs'"), ("top", "n=0: at least 1"), ("none", "%leakscope start begins")],
)
def test_an_error_is_the_line_and_what_is_wrong(shown, cell, says):
    told = text_of(shown[cell])
    called = "run_line_magic" if cell == "none" else CELLS[cell]
    assert says in told and f"----> 1 {'get_ipython().' if cell == 'none' else ''}{called}" in told
    assert "leakscope/" not in told and len(told.strip().splitlines()) <= 3


@in_one_worker
def test_an_error_of_a_measured_cell_is_that_of_the_cell(shown):
    told = text_of([output for output in shown["failed"] if output.output_type == "error"])
    assert "1 / 0" in told and "ZeroDivisionError" in told and "_cell.py" not in told
    assert re.search(r"^more +\+8\.6 MiB", text_of(shown["failed"]), re.MULTILINE)


TWICE = """
import gc, os, sys, time
import leakscope
kept = []
for number in range(2):
    with leakscope.record(f"run{number}.parquet"):
        assert number == 0 or os.fork() == 0 or os.wait()[1] == 0
        for _ in range(20):
            kept.append(bytearray(100_000)); time.sleep(0.01)
        if os.getpid() != LEADER: os._exit(0)
print("whole")
"""


@pytest.mark.slow
def test_a_program_is_recorded_as_often_as_it_likes(tmp_path: Path):
    """And its forks go on as they would."""
    program = TWICE.replace("LEADER", "leader").replace("kept = []", "kept, leader = [], os.getpid()")
    done = subprocess.run(
        [PYTHON, "-c", program], cwd=tmp_path, env=environment(), capture_output=True, text=True, timeout=TIMEOUT_S
    )
    assert (done.stdout, done.stderr, done.returncode) == ("whole\n", "", 0)
    for number in range(2):
        recording = open_recording(tmp_path / f"run{number}.parquet")
        assert recording.complete and recording.ended == ("exit", None, None)
        takes = recording.tables.takes
        assert len(takes) >= 2 and set(takes["reason"]) >= {"user"}
        assert not list(tmp_path.glob("*.journal"))


@pytest.mark.slow
def test_the_error_of_the_program_comes_through(tmp_path: Path):
    program = "import leakscope\nwith leakscope.record('a.parquet'):\n    raise SystemExit(7)"
    done = subprocess.run(
        [PYTHON, "-c", program], cwd=tmp_path, env=environment(), capture_output=True, timeout=TIMEOUT_S
    )
    assert done.returncode == 7 and done.stderr == b""
    assert open_recording(tmp_path / "a.parquet").complete


def test_what_cannot_be_recorded_gets_one_line(tmp_path: Path):
    (tmp_path / "run.parquet.journal").mkdir()
    with pytest.raises(BadInput, match="choose another name"):
        record(tmp_path / "run.parquet").start()
    with pytest.raises(BadInput, match=r"the recorder did not start: .*none"):
        record(tmp_path / "none" / "run.parquet").start()
    with pytest.raises(BadInput, match="nothing is being recorded"):
        record(tmp_path / "run.parquet").stop()
    assert beside._AGENT not in sys.modules and os.listdir(tmp_path) == ["run.parquet.journal"]
