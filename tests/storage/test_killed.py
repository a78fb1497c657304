"""SIGKILL of a writer and of a finalise at seeded instants: the file always opens, flushed rows are all there."""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
import subprocess
import sys

import pandas as pd
import pytest

from leakscope import open_recording, schema
from leakscope.storage import empty
from leakscope.storage.finalize import finalize
from tests.builders import RecordingBuilder

pytestmark = pytest.mark.live

ROWS_A_FLUSH = 20
WRITER = f"""
import sys
import time
from leakscope.agent.journal import Journal
writer = Journal(sys.argv[1], "recorder")
flushed = 0
while True:
    for i in range({ROWS_A_FLUSH}):
        number = flushed * {ROWS_A_FLUSH} + i
        writer.add("process_samples", {{"time_mono_ns": number, "pid": number % 3, "rss_bytes": number}})
    writer.flush()
    flushed += 1
    print(flushed, flush=True)
    time.sleep(0.002)  # who reads must not be left behind by hundreds of thousands of rows
"""


SEEDS = [pytest.param(seed, marks=[pytest.mark.slow] if seed >= 8 else []) for seed in range(30)]


@pytest.mark.cases(2)
@pytest.mark.parametrize("seed", SEEDS)
def test_a_killed_writer(tmp_path, seed):
    chance = random.Random(seed)
    output = tmp_path / "run.parquet"
    folder = tmp_path / "run.parquet.journal"
    folder.mkdir()
    shutil.copy(empty.PATH, output)
    (folder / "meta.json").write_text(json.dumps({"format_version": schema.SCHEMA_VERSION, "start_mono_ns": 0}))
    writer = subprocess.Popen([sys.executable, "-c", WRITER, str(folder)], stdout=subprocess.PIPE, text=True)
    acknowledged = 0
    for _ in range(chance.randrange(1, 60)):
        acknowledged = int(writer.stdout.readline())
    if chance.random() < 0.5:
        finalize(output, checkpoint=True)
    writer.send_signal(signal.SIGKILL)
    rest, _ = writer.communicate()
    acknowledged = int(rest.split("\n")[-2]) if "\n" in rest else acknowledged
    assert set(pd.read_parquet(output).columns) == set(schema.columns())
    rss = sorted(open_recording(output).tables.process_samples.rss_bytes)
    assert rss == list(range(len(rss))), "no row is missing or twice"
    assert len(rss) // ROWS_A_FLUSH in (acknowledged, acknowledged + 1), "the flush under way may or may not be in"


@pytest.mark.cases(2)
@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_killed_finalise(tmp_path, seed):
    builder = RecordingBuilder(tmp_path).process(100).samples(100, rss=list(range(2000))).ends()
    builder.write_journal()
    shutil.copy(empty.PATH, builder.path)
    child = os.fork()
    if child == 0:
        try:
            finalize(builder.path)
        finally:
            os._exit(0)
    instant = random.Random(seed).random() * 0.06
    old = signal.signal(signal.SIGALRM, lambda *_: os.kill(child, signal.SIGKILL))
    signal.setitimer(signal.ITIMER_REAL, instant)
    try:
        os.waitid(os.P_PID, child, os.WEXITED | os.WNOWAIT)  # not reaped yet: a late alarm still finds it
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, old)
        os.waitpid(child, 0)
    was_final = len(pd.read_parquet(builder.path)) >= 2000  # killed after the file was there, before the journal went
    recording = open_recording(builder.path)
    assert recording.tables.process_samples.rss_bytes.tolist() == list(range(2000))
    assert recording.complete
    assert was_final or not builder.journal.exists()
