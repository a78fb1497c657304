"""A short recording is finished without pyarrow, and nobody who reads it can tell."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pandas as pd
import pyarrow.parquet as pq
import pytest

from leakscope import open_recording
from leakscope.storage import few_rows, keep_answer, seal
from leakscope.storage.finalize import finalize
from tests.builders import RecordingBuilder

ROOT = Path(__file__).parents[2]


def build(folder: Path, name: str = "run.parquet") -> RecordingBuilder:
    """Of two processes in turns, with every kind of value: missing, negative, of other scripts."""
    builder = RecordingBuilder(folder, name).process(100, role="trainer").process(7)
    for second in range(11):
        builder.samples(100 if second % 2 else 7, rss=[-(2**63) + second, None, 2**62], from_s=float(second))
    builder.row("marks", 1.0, 100, step=3, phase="train", text="späte Überraschung 漢字 🙂")
    builder.row("marks", 2.0, 100, step=None, phase="", text=None)
    builder.row("events", 2.5, event="peak", value=-2.5, text="x" * 300)
    return builder.ends()


def test_it_is_the_same_table_as_pyarrow_makes(tmp_path):
    ours = finalize(build(tmp_path).write_journal(), few_rows=True)
    theirs = finalize(build(tmp_path, "other.parquet").write_journal())
    one, other = (pq.ParquetFile(path, page_checksum_verification=True) for path in (ours, theirs))
    assert one.schema_arrow.equals(other.schema_arrow, check_metadata=True)
    assert one.read().equals(other.read())
    pd.testing.assert_frame_equal(pd.read_parquet(ours), pd.read_parquet(theirs))
    assert open_recording(ours).meta == open_recording(theirs).meta
    assert not ours.with_name("run.parquet.journal").exists()


@pytest.mark.parametrize("module", ["duckdb", "polars"])
def test_other_engines_read_it(tmp_path, module):
    engine = pytest.importorskip(module)
    path = finalize(build(tmp_path).write_journal(), few_rows=True)
    query = f"SELECT text FROM '{path}' WHERE \"table\" = 'marks' AND step = 3"
    if module == "duckdb":
        found = engine.sql(query).fetchall()
    else:
        frame = engine.read_parquet(path)
        found = frame.filter((engine.col("table") == "marks") & (engine.col("step") == 3)).select("text").rows()
    assert found == [("späte Überraschung 漢字 🙂",)]


@pytest.mark.live
def test_no_pyarrow_is_asked_for(tmp_path):
    path = build(tmp_path).write_journal()
    code = (
        "import sys; sys.modules['pyarrow'] = sys.modules['pandas'] = sys.modules['numpy'] = None\n"
        "from leakscope.storage.finalize import finalize; finalize(sys.argv[1], few_rows=True)"
    )
    subprocess.run([sys.executable, "-c", code, str(path)], check=True, cwd=ROOT)
    assert os.listdir(tmp_path) == [path.name]
    assert open_recording(path).complete


def test_a_flipped_byte_is_noticed(tmp_path):
    path = finalize(build(tmp_path).write_journal(), few_rows=True)
    data = bytearray(path.read_bytes())
    data[len(data) // 20] ^= 1
    path.write_bytes(data)
    with pytest.raises(Exception, match="is damaged"):
        seal.check_file(path)


def test_a_verdict_is_kept_in_it(tmp_path):
    path = finalize(build(tmp_path).write_journal(), few_rows=True)
    keep_answer(open_recording(path), {"verdict": {"leaking": None}})
    assert open_recording(path).meta["verdict"] == {"leaking": None}
    seal.check_file(path)


@pytest.mark.parametrize(
    "what",
    [
        pytest.param({"step": "three"}, id="a value of another kind"),
        pytest.param({"step": 2**70}, id="a value that is too large"),
        pytest.param({"of_the_future": 1}, id="a column of a newer writer"),
        pytest.param({"text": "\ud800"}, id="half a character"),
    ],
)
def test_what_it_cannot_write_is_left_as_it_was(tmp_path, what):
    builder = build(tmp_path).row("marks", 3.0, 100, **what)
    builder.write_journal()
    with pytest.raises(few_rows.DoesNotFit):
        finalize(builder.path, few_rows=True)
    assert os.listdir(tmp_path) == [builder.journal.name]
    assert open_recording(finalize(builder.path)).complete


def test_a_torn_end_is_for_who_says_what_is_lost(tmp_path):
    builder = build(tmp_path)
    builder.write_journal()
    segment = next(builder.journal.glob("*.jnl"))
    segment.write_bytes(segment.read_bytes()[:-3])
    with pytest.raises(few_rows.DoesNotFit):
        finalize(builder.path, few_rows=True)
