"""Rows of a parent that its forks copy by reading them: any kind of worker, any kind of rows, no false alarms."""

from __future__ import annotations

import pytest

from tests.builders import RecordingBuilder

from .asking import asked
from .leaks import PID, MiB

FILE = "/home/me/score.py"
SOURCE = """\
from torch.utils.data import DataLoader, Dataset

RECORDS = []

class Log:
    def __init__(self, lines):
        self.entries = [parse(line) for line in lines]

class Blocks(Dataset):
    def __init__(self, base):
        self.base = base

    def __getitem__(self, i):
        return [self.base.entries[j] for j in range(i, i + 500)]

def load(lines):
    for line in lines:
        RECORDS.append(parse(line))
"""
PARENT_BYTES = 300 * MiB
ROWS = {"path": "score.RECORDS", "variable": "RECORDS", "edge_kind": "global", "root_kind": "module", "owner": "score"}
LOG = {"path": "main() log", "type_name": "score.Log", "variable": "log", "edge_kind": "local", "owner": "main"}
ENTRIES = {"path": "main() log.entries", "parent_path": "main() log", "variable": "entries", "owner": "Log"}


def parent(folder, *places, **columns):
    """A flat process of 300 MiB that is seen to hold ``places`` of Python objects (MiB, row of ``holders``)."""
    builder = RecordingBuilder(folder).process(PID, cmdline="python score.py").source(PID, FILE, SOURCE, "score")
    builder.samples(PID, [PARENT_BYTES] * 96, every_s=0.25)
    common = {"owner_module": "score", "owner_file": FILE, "is_user": True, "object_count": 1, "edge_kind": "attribute"}
    for number in (1, 2, 3):
        holders = [
            {**common, "type_name": "list", "deep_bytes": size * MiB, "array_deep_bytes": 0, **place, **columns}
            for size, place in places
        ]
        builder.take(PID, number, 6.0 * number, holders=holders)
    return builder


def fork(builder, pid, copied, role="python-fork", born_s=1.0, died_s=None, added=lambda t: 0.0):
    """A worker that shares all of its parent's memory; ``copied`` and ``added`` are MiB by seconds of its life."""
    ages_s = [0.25 * i for i in range(int(((died_s or 24.0) - born_s) * 4))]
    own = [round((6 + copied(t) + added(t)) * MiB) for t in ages_s]
    pages = [PARENT_BYTES + round(added(t) * MiB) for t in ages_s]
    builder.process(pid, role=role, ppid=PID, born_s=born_s, died_s=died_s, cmdline="python score.py")
    builder.samples(pid, pages, every_s=0.25, from_s=born_s, uss_bytes=own, pss_bytes=own, pss_anon_bytes=own)
    return builder


def looked(builder, kind="dataset-copies"):
    report = asked(builder.ends(at_s=24.0).open(), only=[kind])
    assert not [skip for skip in report.skipped if "failed" in skip.reason]
    return report.findings


def filling(mib):
    return lambda age_s: mib * min(1.0, age_s / 4)


def test_rows_that_a_pool_reads_are_named_with_their_line(tmp_path):
    builder = parent(tmp_path, (80, ROWS))
    for pid in (5001, 5002, 5003, 5004):
        fork(builder.note(pid, 1.0, "forked", "forked by a pool: it takes no inventory"), pid, filling(50))
    (finding,) = looked(builder)
    assert "Each of 4 pool workers has copied 56.0 MiB" in finding.title
    assert (finding.subject.variable, finding.subject.file) == ("RECORDS", FILE)
    assert SOURCE.splitlines()[finding.subject.line - 1].strip() == "RECORDS.append(parse(line))"
    assert finding.wasted
    assert finding.bytes == pytest.approx(224 * MiB, rel=0.01)


def test_a_data_set_that_another_wraps_is_named(tmp_path):
    builder = parent(tmp_path, (81, LOG), (80, ENTRIES))
    for pid in (5001, 5002, 5003):
        fork(builder, pid, filling(70), role="dataloader-worker")
    builder.row("loaders", 6.0, PID, take=1, dataset_type="score.Blocks", worker_pids="5001,5002,5003")
    (finding,) = looked(builder, "dataloader-workers")
    assert (finding.subject.variable, finding.subject.file) == ("entries", FILE)
    assert "self.entries = [" in SOURCE.splitlines()[finding.subject.line - 1]
    assert finding.bytes == pytest.approx(228 * MiB, rel=0.01)


@pytest.mark.parametrize("role, kind", [("dataloader-worker", "dataloader-workers"), ("python-fork", "dataset-copies")])
def test_workers_of_every_epoch_are_judged_by_those_that_lived_at_once(tmp_path, role, kind):
    builder = parent(tmp_path, (80, ROWS))
    for number in range(9):
        epoch = number // 3
        fork(builder, 5001 + number, filling(60), role, born_s=1 + 6.0 * epoch, died_s=6.9 + 6.0 * epoch)
    (finding,) = looked(builder, kind)
    assert finding.bytes == pytest.approx(198 * MiB, rel=0.01), "not of all epochs together"
    assert finding.subject.variable == "RECORDS"


@pytest.mark.cases(2)
@pytest.mark.parametrize(
    "copied, rows_mib, columns",
    [
        (filling(20), 80, {}),  # what any interpreter with torch copies
        (filling(50), 10, {}),  # there are no such rows
        (filling(50), 80, {"tensor_deep_bytes": 79 * MiB}),
    ],
)
def test_small_rows_and_arrays_are_no_finding(tmp_path, copied, rows_mib, columns):
    builder = parent(tmp_path, (rows_mib, ROWS), **columns)
    for pid in (5001, 5002, 5003, 5004):
        fork(builder, pid, copied)
    assert not looked(builder)


def test_what_workers_add_themselves_is_no_copy(tmp_path):
    builder = parent(tmp_path, (80, ROWS))
    for pid in (5001, 5002, 5003):
        fork(builder, pid, filling(5), added=filling(90))
    assert not looked(builder)


def test_the_last_of_several_copies_nothing_by_being_left_alone(tmp_path):
    builder = parent(tmp_path, (80, ROWS))
    fork(builder, 5001, filling(5), died_s=10.0)
    fork(builder, 5002, lambda age_s: 5.0 if age_s < 9.0 else 150.0)  # the parent had written to the pages long before
    assert not looked(builder)


def test_what_was_copied_before_the_first_reading_counts(tmp_path):
    builder = parent(tmp_path, (80, ROWS))
    for pid in (5001, 5002):
        fork(builder, pid, lambda age_s: 54.0)
    (finding,) = looked(builder)
    assert finding.bytes == pytest.approx(120 * MiB, rel=0.01)


def test_copying_that_goes_on_is_what_the_job_gains_and_no_waste(tmp_path):
    builder = parent(tmp_path, (80, ROWS))
    for pid in (5001, 5002, 5003, 5004):
        fork(builder, pid, lambda age_s: 4 * age_s)
    (finding,) = looked(builder)
    assert finding.title.startswith("Each of 4 forks copies the memory it inherited")
    assert (finding.subject.variable, finding.severity) == ("RECORDS", "critical")
    assert not finding.wasted
    assert finding.bytes == pytest.approx(4 * 4 * 20 * MiB, rel=0.15)
    assert not looked(builder, "retained-objects"), "they keep nothing"


def test_what_workers_need_to_begin_is_nothing_they_gain(tmp_path):
    """Those of a later epoch: a buffer for each first batch comes in the judged window."""
    builder = parent(tmp_path, (80, ROWS))
    for pid in (5001, 5002, 5003, 5004):
        fork(builder, pid, lambda age_s: 8 * age_s, born_s=6.0, added=lambda age_s: 40 * min(1.0, age_s / 1.5))
    (finding,) = looked(builder)
    assert finding.title.startswith("Each of 4 forks copies the memory it inherited")
    assert finding.bytes == pytest.approx(4 * 8 * 16 * MiB, rel=0.1)
