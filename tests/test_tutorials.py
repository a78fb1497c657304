"""Tutorials show what their commands print, and following one word by word leads where it says."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests import pictures, tutorials

LARGEST_RECORDING = 300 * 1000
BEHIND = "the page is behind what its commands print: run `make docs`"


@pytest.mark.golden
@pytest.mark.parametrize("page", tutorials.pages(), ids=lambda page: page.stem)
def test_a_page_shows_what_its_commands_print(page: Path) -> None:
    assert page.read_text("utf-8") == tutorials.renewed(page), BEHIND


@pytest.mark.parametrize("name", tutorials.PAGES)
def test_a_tutorial_shows_the_right_answer_and_that_it_is_gone(name: str) -> None:
    kind, holder = tutorials.LEAKS[name]
    text = (tutorials.FOLDER / f"{name}.md").read_text("utf-8")
    first = re.search(r"^1\. \w+: (\S+) (.*?)^(?:2\.|Where|```)", text, re.DOTALL | re.MULTILINE)
    assert first and first[1] == kind
    assert holder in first[2]
    assert re.search(rf"^  gone  .*{re.escape(holder)}", text, re.MULTILINE)


def test_every_tutorial_is_tried_and_its_recordings_are_small() -> None:
    folders = {folder.name: folder for folder in tutorials.FOLDER.iterdir() if folder.is_dir()}
    pages = {page.stem for page in tutorials.FOLDER.glob("*.md")} - tutorials.MADE_UP
    assert folders.keys() == tutorials.LEAKS.keys()
    assert pages == {*tutorials.PAGES}
    for folder in folders.values():
        assert {recording.name for recording in folder.glob("*.parquet")} == {"before.parquet", "after.parquet"}
        for recording in folder.glob("*.parquet"):
            assert recording.stat().st_size <= LARGEST_RECORDING, recording


@pytest.mark.golden
def test_the_terminal_in_the_readme_shows_what_the_commands_print() -> None:
    assert pictures.words(pictures.CAST.read_text("utf-8")) == pictures.words(pictures.cast()), BEHIND


@pytest.mark.live
@pytest.mark.parametrize("name", ["page", "compare", "notebook"])
def test_pictures_of_pages_say_what_these_say_today(name: str, tmp_path: Path) -> None:
    picture, make, _ = pictures.PAGES[name]
    make(tmp_path / "page.html")
    said = pictures.headline((tmp_path / "page.html").read_text("utf-8"))
    assert said.encode() in picture.read_bytes(), f"{picture} is of another version: make pictures"


def test_pictures_ask_nobody_for_anything() -> None:
    assert set(re.findall(r"https?://[^\"\s)]+", pictures.CAST.read_text("utf-8"))) == {"http://www.w3.org/2000/svg"}


@pytest.mark.slow
@pytest.mark.parametrize("name", tutorials.LEAKS)
def test_a_tutorial_leads_where_it_says(name: str, tmp_path: Path) -> None:
    if "import torch" in (tutorials.FOLDER / name / "train.py").read_text("utf-8"):
        pytest.importorskip("torch")
    here = tmp_path / "tutorial"
    printed, before = _recorded(name, "before.parquet", here)
    assert "leakscope: the command " in printed
    kind, holder = tutorials.LEAKS[name]
    first = before["findings"][0]
    assert first["kind"] == kind
    assert holder in json.dumps(first)
    before_recording = (here / "before.parquet").rename(tmp_path / "before.parquet")
    _, after = _recorded(name, "after.parquet", here)
    assert kind not in {finding["kind"] for finding in after["findings"]}
    assert _leakscope("compare", before_recording, here / "after.parquet").returncode == 0


def _recorded(name: str, output: str, here: Path) -> tuple[str, dict]:
    printed = tutorials.record(name, output, here)
    return printed, json.loads(_leakscope("report", here / output, "-f", "json").stdout)


def _leakscope(*words: str | Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-m", "leakscope", *words], capture_output=True, text=True, check=False)
