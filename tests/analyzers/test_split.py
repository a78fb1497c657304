"""What a process holds, in accounts that add up at every sample."""

from __future__ import annotations

import numpy as np

from leakscope.facts.case import Case
from leakscope.facts.growth.split import IN_TOTAL, accounts
from tests.builders import RecordingBuilder

from .leaks import LEAK_BYTES_PER_S, PID, MiB, sentinels, trainer

WORKER = 4300


def split_of(builder: RecordingBuilder, pid: int = PID):
    case = Case(builder.open())
    process = next(p for p in case.growth.processes if p.pid == pid)
    return process, accounts(process)


def test_the_accounts_add_up_to_what_it_held_at_every_sample(tmp_path):
    builder = sentinels(trainer(tmp_path))
    for number, at_s in enumerate((4, 9, 17), 1):
        builder.take(PID, number, at_s, python_bytes=8 * MiB + at_s * MiB, array_bytes=0, tensor_bytes=MiB)
    process, accounts = split_of(builder)
    assert np.allclose(sum(np.nan_to_num(accounts.levels[name]) for name in IN_TOTAL), process.held_bytes)
    assert accounts.levels["python-objects"][-1] > accounts.levels["python-objects"][20]


def test_what_nobody_measured_is_not_told_as_nothing(tmp_path):
    _, accounts = split_of(trainer(tmp_path))
    assert all(
        np.isnan(accounts.levels[name]).all() for name in ("python-objects", "tensors", "native", "allocator-free")
    )
    assert not np.isnan(accounts.levels["unexplained"]).any()


def test_a_fork_begins_with_nothing_of_what_its_parent_had_counted(tmp_path):
    """It copies 20 MiB of its parent's pages as it writes to them, and allocates 40 MiB of its own."""
    builder = sentinels(trainer(tmp_path, leak=0))
    command = "/usr/bin/python3 -u /home/me/train.py --lr 1"
    builder.process(WORKER, ppid=PID, cmdline=command, role="worker")
    builder.samples(WORKER, [MiB + round(60 * MiB * n / 59) for n in range(60)], every_s=0.25, from_s=5.0)
    in_use = [300 * MiB + round(40 * MiB * n / 14) for n in range(15)]
    builder.sentinels(WORKER, from_s=5.0, malloc_in_use_bytes=in_use, malloc_free_bytes=0)
    for number, at_s in enumerate((6, 12, 19), 1):
        builder.take(WORKER, number, at_s, python_bytes=90 * MiB, array_bytes=0, tensor_bytes=0)
    _, accounts = split_of(builder, WORKER)
    gained = {name: (level[-1] - level[0]) / MiB for name, level in accounts.levels.items()}
    assert gained["python-objects"] == 0 and 35 < gained["native"] < 45 and 15 < gained["inherited"] < 25


def test_a_step_of_the_leak_is_seen_in_its_account_when_it_comes(tmp_path):
    in_use = [50 * MiB + (LEAK_BYTES_PER_S * (s - 10) if s > 10 else 0) for s in range(20)]
    builder = sentinels(trainer(tmp_path), malloc_in_use_bytes=in_use)
    for number, at_s in enumerate((4, 17), 1):
        builder.take(PID, number, at_s, python_bytes=8 * MiB, array_bytes=0, tensor_bytes=0)
    _, accounts = split_of(builder)
    first, start, last = np.interp([2.0, 10.0, 18.0], accounts.time_s, accounts.levels["native"])
    assert start - first < MiB < 60 * MiB < last - start
