"""A client that knows nothing of a program finds what leaks, mends the line it is told, and proves it: tools only."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
from pathlib import Path

import pytest

from .clients import LEAKSCOPE, needs_mcp, session

pytestmark = [pytest.mark.slow, needs_mcp]

LOOP = """
until = time.monotonic() + 30
while time.monotonic() < until:
    {call}
    time.sleep(0.02)
"""
# Each keeps what it was given, at the same pace on a machine that is busy: holder, program.
LIST = """
class Feed:
    def __init__(self):
        self.last = None
        self.backlog = []

    def take(self, frame):
        self.last = frame
        self.backlog.append(frame)

feed = Feed()
"""
DICT = """
SEEN = {}

def answer(request, body):
    SEEN[request] = body
    return len(body)
"""
LISTENERS = """
class Bus:
    listeners = []

    def listen(self, listener):
        self.listeners.append(listener)

def connect(bus, body):
    bus.listen(lambda: body)

bus = Bus()
"""
PROGRAMS = {
    "Feed.backlog": (LIST, "feed.take(bytearray(200_000))"),
    "SEEN": (DICT, "answer(time.monotonic(), bytearray(200_000))"),
    "Bus.listeners": (LISTENERS, "connect(bus, bytearray(200_000))"),
}


def record(folder: Path, words: list[str]) -> None:
    environment = {**os.environ, "PATH": f"{LEAKSCOPE.parent}:{os.environ['PATH']}"}
    subprocess.run(words, cwd=folder, env=environment, check=True, capture_output=True)


@pytest.mark.parametrize("leaks", PROGRAMS)
def test_a_leak_is_found_mended_and_proved(tmp_path, leaks):
    program, call = PROGRAMS[leaks]
    (tmp_path / "train.py").write_text("import time\n" + program + LOOP.format(call=call))
    record(tmp_path, ["leakscope", "record", "-o", "before.parquet", "--", "python", "train.py"])

    with session(tmp_path) as asked:
        (line,) = asked("list_recordings").text.splitlines()
        name = line.split(" · ")[0]
        brief = asked("report", recording=name).text
        assert brief.startswith("**LEAKING**")
        file, number = re.search(r"^`([\w.]+):(\d+)` in", brief, re.MULTILINE).groups()
        holder = re.search(r"held by `([\w.]+) \(", brief)[1]
        assert holder.endswith(leaks)
        way = asked("heap_path", recording=name, name=holder.rpartition(".")[2]).text
        assert leaks.partition(".")[0] in way

        lines = (tmp_path / file).read_text().splitlines()
        culprit = lines[int(number) - 1]
        assert culprit.strip() in asked("explain_finding", recording=name).text
        lines[int(number) - 1] = culprit.replace(culprit.strip(), "pass")
        (tmp_path / file).write_text("\n".join(lines) + "\n")

        again, compare = re.search(r"```bash\n(.*?)```", brief, re.DOTALL)[1].splitlines()
        record(tmp_path, shlex.split(again))
        before, after = shlex.split(compare, comments=True)[2:]
        proof = asked("compare", before=before, after=after).text
        assert proof.startswith("**Better**") and f"gone  {holder}" in proof
        assert asked("report", recording=after).text.startswith("**NOT LEAKING**")
