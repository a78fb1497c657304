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

PROGRAM = '''"""Keeps what it was given, at the same pace on a machine that is busy."""

import time


class Feed:
    def __init__(self):
        self.last = None
        self.backlog = []

    def take(self, frame):
        self.last = frame
        self.backlog.append(frame)


def main(seconds=30):
    feed, until = Feed(), time.monotonic() + seconds
    while time.monotonic() < until:
        feed.take(bytearray(200_000))
        time.sleep(0.02)


main()
'''


def record(folder: Path, words: list[str]) -> None:
    environment = {**os.environ, "PATH": f"{LEAKSCOPE.parent}:{os.environ['PATH']}"}
    subprocess.run(words, cwd=folder, env=environment, check=True, capture_output=True)


def test_a_leak_is_found_mended_and_proved(tmp_path):
    (tmp_path / "train.py").write_text(PROGRAM)
    record(tmp_path, ["leakscope", "record", "-o", "before.parquet", "--", "python", "train.py"])

    async def talk(asked):
        (line,) = (await asked("list_recordings")).text.splitlines()
        name = line.split(" · ")[0]
        brief = (await asked("report", recording=name)).text
        assert brief.startswith("**LEAKING**")
        file, number = re.search(r"^`([\w.]+):(\d+)` in", brief, re.MULTILINE).groups()
        holder = re.search(r"held by `([\w.]+) \(", brief)[1]
        assert holder == "Feed.backlog"
        way = (await asked("heap_path", recording=name, name=holder.rpartition(".")[2])).text
        assert "Feed" in way

        lines = (tmp_path / file).read_text().splitlines()
        culprit = lines[int(number) - 1]
        assert culprit.strip() in (await asked("explain_finding", recording=name)).text
        lines[int(number) - 1] = culprit.replace(culprit.strip(), "pass")
        (tmp_path / file).write_text("\n".join(lines) + "\n")

        again, compare = re.search(r"```bash\n(.*?)```", brief, re.DOTALL)[1].splitlines()
        record(tmp_path, shlex.split(again))
        before, after = shlex.split(compare, comments=True)[2:]
        proof = (await asked("compare", before=before, after=after)).text
        assert proof.startswith("**Better**") and f"gone  {holder}" in proof
        assert (await asked("report", recording=after)).text.startswith("**NOT LEAKING**")

    session(tmp_path, talk)
