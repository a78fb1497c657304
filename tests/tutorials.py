"""Tutorials of docs/: programs, commands and what these print, made from what stands beside each page.

``docs/tutorials/NAME.md`` has the words. ``docs/tutorials/NAME/`` has the program (``train.py``), the same with the
fault mended (``mended.py``), and what real runs of both left: recordings, trimmed as golden ones are, and the texts
that ``leakscope record`` printed. ``python -m tests.tutorials`` (``make tutorials``) records them anew.

A fenced block of a page with one of these first lines is made; ``python -m tests.test_docs`` (``make docs``) renews it:

- ``console``: each line that begins with ``$`` is a command, and the rest is what it prints;
- ``python title="train.py"``: the program;
- ``diff title="train.py"``: how it is mended.

A page of another folder says which recordings the commands below mean: ``<!-- run in tutorials/ram-per-step -->``.
"""

from __future__ import annotations

import difflib
import io
import os
import re
import shlex
import shutil
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from contextlib import redirect_stdout
from functools import lru_cache
from pathlib import Path

import pytest

from leakscope import cli, open_recording
from leakscope.answering import told
from tests.golden.trim import trim

DOCS = Path(__file__).parent.parent / "docs"
FOLDER = DOCS / "tutorials"
HERE = Path("/tmp/tutorial")  # where the pages tell the reader to work, so that paths are the same
WIDTH = 88  # what fits beside the navigation of the site
LEAKS = {  # what the first finding of each has to be: its kind, and what its holder is called
    "compile-workers": ("retained-objects", "Monitor.seen"),
    "start": ("retained-objects", "WordCounts.seen"),
    "ram-per-step": ("retained-graph", "Trainer.total_loss"),
    "two-models": ("duplicate-model", "Service.run() self."),
}
PAGES = ("start",)  # have words of their own; the recordings of the others are shown in pages about commands
MADE_UP = {"fleet"}  # pages without a program: their recordings are made when somebody follows them
_BLOCK = re.compile(r'^```(console|(?:python|diff) title="train\.py")\n(.*?)^```$', re.DOTALL | re.MULTILINE)
_ELSEWHERE = re.compile(r"^<!-- run in (\S+) -->$", re.MULTILINE)
_RUNS = {"before.parquet": "train.py", "after.parquet": "mended.py"}


def pages() -> list[Path]:
    """Pages with blocks that are made."""
    return sorted(page for page in DOCS.rglob("*.md") if _BLOCK.search(page.read_text("utf-8")))


def renewed(page: Path) -> str:
    """The text of a page with all its blocks made anew."""
    text = page.read_text("utf-8")
    places = [(named.start(), DOCS / named[1]) for named in _ELSEWHERE.finditer(text)]

    def renew(block: re.Match[str]) -> str:
        *_, folder = [page.with_suffix(""), *(folder for at, folder in places if at < block.start())]
        return f"```{block[1]}\n{made(block[1], block[2], folder)}```"

    return _BLOCK.sub(renew, text)


def made(kind: str, text: str, folder: Path) -> str:
    if kind.startswith("python"):
        return (folder / "train.py").read_text("utf-8")
    if kind.startswith("diff"):
        return "".join(_diff(folder))
    commands = [line[2:] for line in text.splitlines() if line.startswith("$ ")]
    return "\n".join(f"$ {command}\n{printed(command, folder)}" for command in commands)


def printed(command: str, folder: Path, *, color: bool = False) -> str:
    """What a command prints. ``record`` and ``snapshot`` are not run: they printed that as they wrote their file.

    The verdict of ``record`` is made anew from that file, so that it is that of the report.
    """
    words = shlex.split(command)
    assert words[0] == "leakscope", f"{command}: nothing else can be run in a block of a page"
    if words[1] in ("record", "snapshot"):
        output = folder / words[words.index("-o") + 1]
        text = output.with_suffix(".txt").read_text("utf-8")
        return text if words[1] == "snapshot" else _with_answer(text, output)
    words, pipe = (words[: words.index("|")], words[words.index("|") + 1 :]) if "|" in words else (words, [])
    if color and words[1] == "report":
        words.append("--color")
    return "".join(_piped(pipe, _run(folder, *words[1:])))


def _with_answer(text: str, recording: Path) -> str:
    """``text`` up to how the command ended, the verdict, and where the recording is; as wide as a page."""
    head, ending, rest = re.split(r"^(leakscope: the command .*)$", text, flags=re.MULTILINE)
    answer = told(open_recording(recording)).lines
    lines = [ending, *(f"  {line}" for line in (*answer, rest.strip().split("\n")[-1].strip()))]
    fold = textwrap.TextWrapper(WIDTH, subsequent_indent="    ", break_on_hyphens=False, break_long_words=False)
    return head + "".join(f"{fold.fill(line)}\n" for line in lines)


@lru_cache  # several blocks show parts of one report
def _run(folder: Path, *words: str) -> list[str]:
    text = io.StringIO()
    with pytest.MonkeyPatch.context() as patch, redirect_stdout(text):
        patch.chdir(folder)
        patch.setenv("COLUMNS", str(WIDTH))
        cli.main(words)
    return text.getvalue().splitlines(keepends=True)


def _piped(pipe: list[str], lines: list[str]) -> list[str]:
    """What ``head -N``, ``grep WORDS`` and ``grep -A N WORDS`` let through."""
    if not pipe:
        return lines
    if pipe[0] == "head":
        return lines[: -int(pipe[1])]
    assert pipe[0] == "grep", f"{pipe[0]}: only head and grep may follow"
    more = int(pipe[2]) if pipe[1] == "-A" else 0
    shown = {at + n for at, line in enumerate(lines) if pipe[-1] in line for n in range(more + 1)}
    return [line for at, line in enumerate(lines) if at in shown]


def _diff(folder: Path) -> Iterator[str]:
    before, after = ((folder / name).read_text("utf-8").splitlines(keepends=True) for name in _RUNS.values())
    return (line for line in list(difflib.unified_diff(before, after, n=1))[2:])


def record(name: str, output: str, here: Path = HERE) -> str:
    """Record one of the two programs of a tutorial by the command of its page, in an empty folder; returns what was
    printed."""
    shutil.rmtree(here, ignore_errors=True)
    here.mkdir()
    shutil.copy(FOLDER / name / _RUNS[output], here / "train.py")
    done = subprocess.run(
        ["leakscope", "record", "-o", output, "--", "python", "train.py"], cwd=here, env=_environment(),
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False,
    )  # fmt: skip
    return done.stdout


def _environment() -> dict[str, str]:
    """In which ``leakscope`` and ``python`` are those of this environment."""
    return {**os.environ, "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}", "COLUMNS": str(WIDTH)}


def keep(name: str, output: str) -> None:
    """Record anew what a page shows."""
    text = record(name, output)
    trim(HERE / output, FOLDER / name / output)
    (FOLDER / name / output).with_suffix(".txt").write_text(text, "utf-8")


if __name__ == "__main__":
    for tutorial in sys.argv[1:] or LEAKS:
        for run in _RUNS:
            print(f"== {tutorial}: {run}", flush=True)
            keep(tutorial, run)
