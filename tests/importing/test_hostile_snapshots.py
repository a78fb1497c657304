"""Files that are no snapshots, or are made to do harm: one line that says what is wrong, nothing executed, no flood."""

from __future__ import annotations

import gzip
import json
import os
import pickle
import random
import struct
import tracemalloc

import pytest

from leakscope import torch_snapshots
from leakscope.cli import main
from leakscope.errors import UnreadableInput, UnreadableRecording
from leakscope.importing import import_files
from leakscope.torch_snapshots import plain_pickle

from .allocator import Device, MiB, dump, snapshot, train

HEAD = b"\x80\x04}\x94(\x8c\x08segments\x94"  # so that it is taken for one


class _Calls:
    """A pickle of this runs a command when it is loaded by Python's own unpickler."""

    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return os.mkdir, (self.path,)


def refused(path):
    with pytest.raises(UnreadableRecording) as caught:
        facts = torch_snapshots.read(path)
        list(facts.rows)
    (line,) = str(caught.value).splitlines()
    assert path.name in line
    return line


def made(tmp_path, data):
    path = tmp_path / "s.pickle"
    path.write_bytes(data)
    return path


@pytest.mark.parametrize("protocol", range(2, 6))
def test_nothing_is_executed(tmp_path, protocol):
    trap = tmp_path / "was here"
    whole = {"segments": [], "device_traces": [[_Calls(str(trap))]]}
    line = refused(made(tmp_path, pickle.dumps(whole, protocol)))
    assert "opcode" in line and not trap.exists()


@pytest.mark.cases(4)
@pytest.mark.parametrize(
    ("name", "body"),
    [
        ("empty lists", b"]" * 160_000),
        ("lists in lists", b"](" * 80_000),
        ("empty dicts", b"}" * 160_000),
        ("tuples of one", b")" + b"\x85" * 160_000),
        ("a place in the memo", b"Nr\xff\xff\xff\x7f"),
        ("a string that is not there", b"X\xff\xff\xff\x7f"),
        ("a longer one", b"\x8d" + struct.pack("<Q", 2**62)),
        ("a number of 4 GB", b"\x8b\xff\xff\xff\x7f"),
        ("bytes that are not there", b"\x96" + struct.pack("<Q", 2**40)),
        ("marks", b"(" * 100_000),
        ("an item of nothing", b"\x85s"),
        ("items without a mark", b"u"),
        ("a tuple of nothing", b"\x87"),
        ("numbers", b"K\x07" * 160_000),
        ("the same string again", b"\x8c\xff" + b"a" * 255 + b"\x94" + b"h\x01" * 160_000),
    ],
)
def test_bombs_end_in_one_line_within_bounds(tmp_path, monkeypatch, name, body):
    """The bound is made smaller, so that a test comes to it soon."""
    monkeypatch.setattr(plain_pickle, "MOST_HELD_BYTES", 4 * MiB)
    path = made(tmp_path, HEAD + body)
    tracemalloc.start()
    try:
        refused(path)
        assert tracemalloc.get_traced_memory()[1] < 1.5 * 4 * MiB
    finally:
        tracemalloc.stop()


def test_what_is_referred_to_twice_is_not_taken_for_gone(tmp_path, monkeypatch):
    """Frames of an event become one number; a list that something else holds too stays in memory."""
    monkeypatch.setattr(plain_pickle, "MOST_HELD_BYTES", 4 * MiB)
    frames = b"](" + b"K\x01" * 2000 + b"e\x94"
    event = b"}(\x8c\x06action\x8c\x05alloc\x8c\x06frames" + b"j%su"
    body = b"".join(frames + event % struct.pack("<I", 1 + number) for number in range(100))
    assert "4 MiB of memory" in refused(made(tmp_path, HEAD + body))


def test_a_bomb_of_gzip(tmp_path):
    path = tmp_path / "s.pickle.gz"
    with gzip.open(path, "wb") as stream:
        stream.write(HEAD)
        for _ in range(8):
            stream.write(b"\0" * (1 << 20))
    assert "no torch snapshot" in refused(path)


@pytest.mark.parametrize(
    "text",
    [
        '{"segments": ' + "[" * 100_000,
        '{"segments": [' + "[]," * 9_000_000 + "[]]}",
        '{"segments": [' + "1" * 100_000 + "]}",
        '{"segments": [1, 2',
        '{"segments": 7}',
        '[{"total_size": "large"}]',
        '{"segments": [{"total_size": 5, "blocks": [{"size": 5, "state": "upside-down"}]}]}',
    ],
)
def test_json_that_is_none_or_too_much(tmp_path, text):
    path = tmp_path / "s.json"
    path.write_text(text)
    refused(path)


def test_cut_off_anywhere(tmp_path):
    device = Device()
    train(device, 1, layers=1)
    data = pickle.dumps(snapshot(device))
    for size in range(20, len(data) - 1, 397):
        refused(made(tmp_path, data[:size]))
    whole = gzip.compress(data)
    (tmp_path / "s.pickle.gz").write_bytes(whole[: len(whole) // 2])
    refused(tmp_path / "s.pickle.gz")


def test_flipped_bytes_are_read_or_refused(tmp_path):
    device = Device()
    train(device, 1, layers=2)
    data, dice = pickle.dumps(snapshot(device)), random.Random(7)
    for _ in range(100):
        torn = bytearray(data)
        for _ in range(dice.randint(1, 5)):
            torn[dice.randrange(len(torn))] = dice.randrange(256)
        try:
            list(torch_snapshots.read(made(tmp_path, bytes(torn))).rows)
        except UnreadableRecording as error:
            assert "\n" not in str(error)


def test_values_of_wrong_types_are_read_or_refused(tmp_path):
    device = Device()
    train(device, 1, layers=1)
    dice = random.Random(11)
    odd = [None, "x", -1, 2**80, 1.5, [], {}, True, "\ud800", [[]]]

    def torn(value, depth=0):
        if dice.random() < 0.02 and depth:
            return dice.choice(odd)
        if isinstance(value, dict):
            return {name: torn(one, depth + 1) for name, one in value.items()}
        return [torn(one, depth + 1) for one in value] if isinstance(value, list) else value

    for number in range(12):
        path = tmp_path / f"{number}.json"
        path.write_text(json.dumps(torn(snapshot(device))))
        try:
            import_files([path], tmp_path / "run.parquet", force=True)
        except UnreadableInput as error:
            assert "\n" not in str(error)


def test_the_command_says_it_in_one_line_and_leaves_nothing(tmp_path, capsys):
    path = made(tmp_path, HEAD + b"cos\nsystem\n")
    assert main(["import", str(path), "-o", str(tmp_path / "run.parquet")]) == 3
    (line,) = capsys.readouterr().err.splitlines()
    assert "s.pickle" in line and "GLOBAL" in line
    assert sorted(p.name for p in tmp_path.iterdir()) == ["s.pickle"]


@pytest.mark.parametrize("kind", ["missing", "folder of others", "other file", "fifo"])
def test_what_is_no_snapshot_at_all(tmp_path, capsys, kind):
    path = tmp_path / "thing"
    if kind == "folder of others":
        path.mkdir()
        (path / "a.txt").write_text("hello")
    elif kind == "fifo":
        os.mkfifo(path)
    elif kind == "other file":
        path.write_text("hello")
    assert main(["import", str(path), "-o", str(tmp_path / "run.parquet")]) == 3
    assert len(capsys.readouterr().err.splitlines()) == 1


def test_an_earlier_recording_is_not_replaced_unasked(tmp_path, capsys):
    device = Device()
    train(device, 1, layers=1)
    file, output = dump(tmp_path / "s.pickle", snapshot(device)), tmp_path / "run.parquet"
    output.write_text("precious")
    assert main(["import", str(file), "-o", str(output)]) == 2
    assert output.read_text() == "precious"
    assert main(["import", "--force", str(file), "-o", str(output)]) == 0
