"""A byte that was changed after it was written, wherever it is: one line, exit status 3, and no figure is told.

Where it changes nothing that is read (the name of the seal in the footer) all is told as before.
"""

from __future__ import annotations

import json
import random
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import duckdb
import pandas as pd
import polars
import pyarrow.parquet as pq
import pytest

from leakscope.agent.journal import encode_block, read_blocks
from leakscope.cli import main
from leakscope.errors import UnreadableRecording
from leakscope.storage import open_recording, read_footer, seal
from leakscope.storage.finalize import finalize
from leakscope.storage.footer import add_to_footer
from leakscope.storage.footers import footer as footer_of_tail
from tests.builders import RecordingBuilder

GOLDEN = Path(__file__).parents[1] / "golden" / "recordings"
PLACES, FURTHER_PLACES = 40, 1000
MASKS = (0x01, 0x80, 0xFF)


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A finished recording with rows in many tables."""
    builder = RecordingBuilder(tmp_path_factory.mktemp("written")).process(100).process(101)
    builder.samples(100, rss=[10**8 + 4096 * i for i in range(200)]).samples(101, rss=[10**7] * 200)
    builder.host(available=[10**9] * 200, total=2 * 10**9).source(100, "train.py", "history = []\n")
    path = builder.take(100, 1, 20.0, holders=[]).take(100, 2, 150.0, holders=[]).ends().write()
    assert add_to_footer(path, {"verdict": {"leaking": False}})  # as who analyses it does
    return path


def gist(path: Path) -> Any:
    recording = open_recording(path)
    return json.dumps(recording.meta), {name: recording.tables[name].to_json() for name in recording.names()}


def flipped(data: bytes, at: int, mask: int) -> bytes:
    return data[:at] + bytes([data[at] ^ mask]) + data[at + 1 :]


def places(size: int, count: int) -> Iterator[tuple[int, int]]:
    """Where, and what: the same in each run. The ends of the file, which say where all else is, are among them."""
    chosen = random.Random(48)
    yield from ((at, 0x01) for at in (*range(4), *range(size - 8, size)))
    yield from ((at, chosen.choice(MASKS)) for at in chosen.sample(range(size), count))


def sweep(path: Path, told: Callable[[Path], Any], count: int) -> None:
    data, before = path.read_bytes(), told(path)
    copy = path.with_name("copy.parquet")
    for at, mask in places(len(data), count):
        copy.write_bytes(flipped(data, at, mask))
        try:
            now = told(copy)
        except UnreadableRecording as error:
            assert "\n" not in str(error) and str(copy) in str(error)
        else:
            assert now == before, f"byte {at:,} of {len(data):,}, by {mask:#x}, is not noticed"


@pytest.mark.parametrize("count", [PLACES, pytest.param(FURTHER_PLACES, marks=pytest.mark.slow)])
def test_a_changed_byte_of_a_recording(written: Path, tmp_path: Path, count: int) -> None:
    path = Path(shutil.copy(written, tmp_path / "run.parquet"))
    sweep(path, gist, count)
    sweep(path, lambda one: json.dumps(read_footer(one)), count)


def test_what_a_person_sees(written: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    data = written.read_bytes()
    path = tmp_path / "run.parquet"
    for at in (100, len(data) // 2, len(data) - 3000):
        path.write_bytes(flipped(data, at, 0xFF))
        for command in (["report"], ["check"], ["export", "-f", "perfetto", "-o", str(tmp_path / "trace")], ["heap"]):
            assert main([command[0], str(path), *command[1:]]) == 3
            told = capsys.readouterr()
            assert told.out == "" and told.err.count("\n") == 1 and f"{path} is damaged" in told.err


def test_a_footer_that_is_read_alone(written: Path, tmp_path: Path) -> None:
    """As an index of a bucket does: of a few bytes of each file."""
    data = written.read_bytes()
    at = data.rindex(b'"leaking": false')
    told = footer_of_tail(data[-100_000:], len(data), written)
    assert told.said["verdict"] == {"leaking": False}
    with pytest.raises(UnreadableRecording, match="is damaged"):
        footer_of_tail(data[:at] + b'"leaking": true ' + data[at + 16 :][-100_000:], len(data), written)


def test_a_verdict_is_not_written_over_damage(written: Path, tmp_path: Path) -> None:
    path = tmp_path / "run.parquet"
    data = written.read_bytes()
    path.write_bytes(flipped(data, 5000, 0xFF))
    assert add_to_footer(path, {"verdict": {"leaking": True}})  # of the rows it knows nothing, and vouches for none
    with pytest.raises(UnreadableRecording, match="is damaged"):
        open_recording(path)
    path.write_bytes(flipped(data, data.rindex(b'"leaking"') + 3, 0xFF))
    with pytest.raises(UnreadableRecording, match="is damaged"):
        add_to_footer(path, {"verdict": {"leaking": True}})


def test_others_read_and_write_it_as_before(written: Path, tmp_path: Path) -> None:
    rows = len(pd.read_parquet(written))
    assert duckdb.sql(f"SELECT count(*) FROM '{written}'").fetchall() == [(rows,)]
    assert polars.read_parquet(written).height == rows
    assert pq.ParquetFile(written, page_checksum_verification=True).read().num_rows == rows
    copy = tmp_path / "copy.parquet"
    keys = pq.read_metadata(written).metadata  # the seal among them, which is not one of the copy
    pq.write_table(pq.read_table(written).replace_schema_metadata(keys), copy, compression="gzip")
    assert gist(copy)[1] == gist(written)[1]


def test_recordings_without_a_seal_are_read() -> None:
    path = GOLDEN / "fd_pileup-leaky.parquet"
    assert seal.check_file(path) is None
    assert len(open_recording(path).tables.process_samples)


def test_every_file_has_a_seal(written: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    empty = Path(seal.__file__).with_name("empty.parquet")
    assert main(["redact", str(written), "-o", str(tmp_path / "redacted.parquet")]) == 0
    assert main(["fleet", "index", str(written), "-o", str(tmp_path / "fleet.parquet"), "-q"]) == 0
    for path in (empty, written, tmp_path / "redacted.parquet", tmp_path / "fleet.parquet"):
        assert seal.check_file(path) is not None, path
    capsys.readouterr()
    index = tmp_path / "fleet.parquet"
    data = index.read_bytes()
    for at, mask in places(len(data), 20):
        index.write_bytes(flipped(data, at, mask))
        assert main(["fleet", "list", str(index)]) == 3 or _is_of_the_seal(data, at), at
        assert capsys.readouterr().err.count("\n") <= 1


def _is_of_the_seal(data: bytes, at: int) -> bool:
    name = data.rindex(seal.KEY.encode())
    return name <= at < name + len(seal.KEY)


@pytest.fixture
def journal(tmp_path: Path) -> Path:
    """Of a recorder that was killed: what it flushed in five turns."""
    RecordingBuilder(tmp_path).process(100).ends().write_journal()
    journal = tmp_path / "run.parquet.journal"
    (segment,) = journal.glob("recorder-*.jnl")
    with segment.open("ab") as stream:
        for turn in range(5):
            times = ({"pid": 100, "start_ticks": 10_000, "time_mono_ns": 10**9 * (50 * turn + i)} for i in range(50))
            stream.write(encode_block("process_samples", [{**time, "rss_bytes": 10**8 + turn} for time in times]))
    return journal


@pytest.mark.parametrize("count", [PLACES, pytest.param(FURTHER_PLACES, marks=pytest.mark.slow)])
def test_a_changed_byte_of_a_journal(journal: Path, count: int) -> None:
    (segment,) = journal.glob("recorder-*.jnl")
    data, run = segment.read_bytes(), journal.with_suffix("")
    for at, mask in places(len(data), count):
        segment.write_bytes(flipped(data, at, mask))
        with pytest.raises(UnreadableRecording, match=r"is damaged at byte [\d,]+: `leakscope finalize .*run.parquet`"):
            open_recording(run)
        assert not run.exists()
    kept = open_recording(finalize(run))
    assert not kept.complete and any("are damaged: the rows in them are lost" in note for note in kept.notes)
    assert set(kept.tables.process_samples["rss_bytes"]) <= {10**8 + turn for turn in range(5)}


def test_a_torn_end_is_no_damage(journal: Path) -> None:
    (segment,) = journal.glob("recorder-*.jnl")
    data = segment.read_bytes()
    for cut in (1, 9, 60, 130):
        segment.write_bytes(data[:-cut])
        recording = open_recording(journal.with_suffix(""), read_only=True)
        assert recording.meta["unreadable_bytes"] > 0 and len(recording.tables.process_samples)


def test_a_file_that_grows_while_it_is_read_is_whole(journal: Path) -> None:
    (segment,) = journal.glob("recorder-*.jnl")
    data = segment.read_bytes()
    blocks = read_blocks(segment)
    next(blocks)
    with segment.open("ab") as stream:
        stream.write(data)
    with pytest.raises(StopIteration) as end:
        while True:
            next(blocks)
    assert end.value.value == 0
