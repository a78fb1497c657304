"""Two runs that are known by memory snapshots of torch alone."""

from __future__ import annotations

import pytest

from leakscope import open_recording
from leakscope.comparing import compare
from leakscope.importing import import_files
from tests.importing.allocator import Device, MiB, called, dump, moved, snapshot, train
from tests.sentences import says


@pytest.fixture
def decided(tmp_path):
    """The comparison of two devices."""

    def decide(before, after):
        files = [dump(tmp_path / f"{n}.pickle", snapshot(device)) for n, device in enumerate((before, after))]
        runs = [import_files([file], tmp_path / f"{file.stem}.parquet", force=True).path for file in files]
        return compare(*map(open_recording, runs))

    return decide


def trained(**how):
    device = Device()
    train(device, 8, **how)
    return device


def test_a_leak_that_is_gone_is_better_and_one_that_came_is_worse(decided):
    fixed = decided(trained(leak=True), trained())
    assert fixed.verdict == "better" and says(fixed.reason, "no longer", "4.0 MiB per step")
    assert decided(trained(), trained(leak=True)).verdict == "worse"
    assert decided(trained(leak=True), trained(leak=True)).verdict == "same"


@pytest.mark.further
def test_a_peak_that_is_lower_names_what_made_it(decided):
    def attention(size):
        device = Device()
        device.alloc(100 * MiB, moved())
        device.free(device.alloc(size, called(7, "softmax")))
        return device

    better = decided(attention(800 * MiB), attention(100 * MiB))
    assert better.verdict == "better" and says(better.reason, "900 MiB before", "200 MiB after", "softmax", "-700 MiB")
    assert decided(attention(100 * MiB), attention(800 * MiB)).verdict == "worse"
    assert decided(attention(800 * MiB), attention(801 * MiB)).verdict == "same"
