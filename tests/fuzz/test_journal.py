"""Whatever is in a journal: what is lost is said, nothing is made up, and of a damaged one the sound part is kept."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from leakscope import schema
from leakscope.storage import open_recording
from leakscope.storage.finalize import finalize

from . import hostile
from .looking import FUZZ, assert_nothing_invented, look, steady

AGENT = "agent-100-10000-000001.jnl"


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The journal of a run in which nothing happened."""
    return steady(tmp_path_factory.mktemp("sound")).write_journal()


@pytest.fixture(scope="module")
def fresh(sound: Path, tmp_path_factory: pytest.TempPathFactory) -> Callable[[], Path]:
    """A new copy of it for each example; gives the recording's path."""
    folder = tmp_path_factory.mktemp("fresh")

    def make() -> Path:
        path = folder / "run.parquet"
        for old in folder.iterdir():
            shutil.rmtree(old) if old.is_dir() else old.unlink()
        shutil.copytree(f"{sound}.journal", f"{path}.journal")
        return path

    return make


def journal(path: Path) -> Path:
    return Path(f"{path}.journal")


def segment(path: Path) -> Path:
    (found,) = journal(path).glob("recorder-*.jnl")
    return found


def frames(data: bytes) -> Iterator[bytes]:
    while data:
        length = 8 + int.from_bytes(data[:4], "little")
        yield data[:length]
        data = data[length:]


@FUZZ
@given(data=st.binary(max_size=300))
def test_a_segment_of_anything(fresh: Callable[[], Path], data: bytes) -> None:
    path = fresh()
    (journal(path) / AGENT).write_bytes(data)
    report = look(path)
    assert_nothing_invented(report)
    said = () if report is None else report.recording.notes
    assert report is None or not data or any(f"{len(data):,} bytes of {AGENT} are torn or damaged" in n for n in said)


@pytest.mark.further
@FUZZ
@given(data=st.data())
def test_flipped_and_missing_bytes(fresh: Callable[[], Path], data: st.DataObject) -> None:
    path = fresh()
    content = bytearray(segment(path).read_bytes())
    whole = bytes(content)
    for at in data.draw(st.lists(st.integers(0, len(content) - 1), max_size=3)):
        content[at] ^= 1 << data.draw(st.integers(0, 7))
    segment(path).write_bytes(content[: data.draw(st.just(len(content)) | st.integers(0, len(content)))])
    damaged = segment(path).read_bytes() != whole
    report = look(path)
    assert damaged or report is not None
    assert_nothing_invented(report)
    recording = open_recording(finalize(path))
    assert set(recording.tables.process_samples["pid"]) <= {100, 101}
    assert set(recording.tables.process_samples["rss_bytes"]) <= {10**8, *(10**9 + 4096 * i for i in range(3))}
    assert recording.complete is not damaged
    assert not damaged or recording.notes


@FUZZ
@given(data=st.data())
def test_frames_in_another_order_and_twice(fresh: Callable[[], Path], data: st.DataObject) -> None:
    path = fresh()
    parts = list(frames(segment(path).read_bytes()))
    chosen = data.draw(st.lists(st.sampled_from(parts), max_size=2 * len(parts)))
    half = len(chosen) // 2
    segment(path).write_bytes(b"".join(chosen[:half]))
    (journal(path) / AGENT).write_bytes(b"".join(chosen[half:]))
    assert_nothing_invented(look(path))


@pytest.mark.further
@FUZZ
@given(payloads=st.lists(st.binary(max_size=60).map(hostile.frame) | hostile.blocks.map(hostile.packed), max_size=4))
def test_sound_frames_of_no_block_of_ours(fresh: Callable[[], Path], payloads: list[bytes]) -> None:
    path = fresh()
    (journal(path) / AGENT).write_bytes(b"".join(payloads))
    assert look(path) is not None


@pytest.mark.further
def test_deeper_than_the_stack(fresh: Callable[[], Path]) -> None:
    import zlib

    path = fresh()
    (journal(path) / AGENT).write_bytes(hostile.frame(zlib.compress(b"[" * 200_000)))
    assert_nothing_invented(look(path))


def test_a_count_without_rows(fresh: Callable[[], Path]) -> None:
    path = fresh()
    (journal(path) / AGENT).write_bytes(hostile.packed({"t": "events", "n": 10**15, "c": {}, "d": []}))
    assert_nothing_invented(look(path))


@pytest.mark.further
@FUZZ
@given(table=st.sampled_from(sorted(schema.TABLES)), data=st.data())
def test_any_values_in_any_table(fresh: Callable[[], Path], table: str, data: st.DataObject) -> None:
    """What the values say may be true: only that there is an answer is asked for."""
    path = fresh()
    (journal(path) / AGENT).write_bytes(hostile.block(table, data.draw(hostile.rows(schema.TABLES[table]))))
    assert look(path) is not None


@pytest.mark.further
@FUZZ
@given(meta=st.binary(max_size=100) | hostile.json_values.map(lambda value: json.dumps(value).encode()))
def test_meta_of_anything(fresh: Callable[[], Path], meta: bytes) -> None:
    path = fresh()
    (journal(path) / "meta.json").write_bytes(meta)
    assert_nothing_invented(look(path))


META = [
    *("command", "cwd", "host", "kernel", "boot_id", "started_at", "start_mono_ns", "start_unix_ns", "recorder_pid"),
    *("leakscope_version", "labels", "options", "attached", "python", "notes", "ended", "state", "complete"),
]


@pytest.mark.further
@FUZZ
@given(changes=st.dictionaries(st.sampled_from(META), hostile.json_values, min_size=1, max_size=4))
def test_meta_with_other_values(fresh: Callable[[], Path], changes: dict[str, object]) -> None:
    path = fresh()
    file = journal(path) / "meta.json"
    file.write_text(json.dumps({**json.loads(file.read_text()), **changes}))
    report = look(path)
    assert report is not None
    assert report.verdict.killed is not True
