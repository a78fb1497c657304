"""Markdown for issues and pull requests: what it says, that it always fits, and that no string of the job is markup."""

from __future__ import annotations

import re

import pytest

from leakscope.renderers import _markdown, render

from .hostile import STRINGS, full_of
from .reports import EMPTY, FULL

LIMIT = 65_536
CODE = re.compile(r"(?<!\\)(`+)(?!`)(.+?)(?<!`)\1(?!`)")


def without_code(markdown: str) -> str:
    """What is not in code, where nothing is markup and nobody is pinged."""
    return CODE.sub("", re.sub(r"(?ms)^(`{3,})python$.*?^\1$", "", markdown))


def test_the_answer_comes_first_and_details_are_folded():
    shown = render(FULL, "markdown")
    assert shown.startswith("## LEAKING\n\n**Memory leaks: Trainer.history keeps every loss tensor.**\n")
    assert "| where | `train.py:88` in `Trainer.step` |" in shown
    assert "| 600 MiB" not in shown.split("### 1.")[0]
    before, details = shown.split("<details>", 1)
    assert "- store loss.item(): frees about 600 MiB" in before
    assert ">   88          self.history.append(loss)" in details
    assert "- the list grew from 120 to 5,000 members" in details
    assert "| **total** |  | 200 MiB | 842 MiB | **+642 MiB** |" in shown
    assert shown.count("<details>") == shown.count("</details>") == 4


def test_the_three_answers_do_not_look_alike():
    assert render(EMPTY, "markdown").startswith("## CANNOT TELL\n")
    assert "the recording is not complete" in render(EMPTY, "markdown")


@pytest.mark.parametrize("count", [1, 3, 400])
def test_it_fits_whatever_the_report_holds(count):
    shown = render(full_of(STRINGS, count), "markdown")
    assert len(shown) <= LIMIT
    assert "### 1. critical" in shown, "the answer is there all the same"
    assert without_code(shown).count("<details>") == without_code(shown).count("</details>")
    if count == 400:
        assert re.search(r"^- and \d+ more$", shown, re.MULTILINE)


@pytest.mark.parametrize("character", ["&", "|", "`", "\x00", "@a", "*", "\U0001f600"])
def test_it_fits_when_every_character_has_to_be_escaped(character):
    assert len(render(full_of([character * 3000, "x" * 3000], 50), "markdown")) <= LIMIT


def test_a_hostile_report_pings_and_links_nobody():
    shown = without_code(render(full_of(STRINGS), "markdown"))
    assert not re.search(r"@[\w-]", shown)
    assert not re.search(r"#\d|gh-\d", shown, re.IGNORECASE)
    assert not re.search(r"\w://|www\.", shown)
    assert not re.search(r"\b(?=\d*[a-f])[0-9a-f]{7,40}\b", shown)
    assert not re.search(r"(?<!\\)\]\(", shown)
    assert not re.search(r":tada:", shown)


def test_a_hostile_report_brings_no_html_and_no_control_characters():
    shown = render(full_of(STRINGS), "markdown")
    assert set(re.findall(r"<[^>]*>", without_code(shown))) == {"<details>", "</details>", "<summary>", "</summary>"}
    assert all(c.isprintable() or c in "\n\u200b" for c in shown)
    shown.encode("utf-8")


def test_tables_keep_their_columns():
    """Also with pipes and backslashes in the cells: as GitHub parts them, an escaped pipe parts nothing."""
    width = None
    for line in render(full_of(STRINGS), "markdown").splitlines():
        if not line.startswith("|"):
            width = None
            continue
        cells = len(re.findall(r"(?<!\\)\|", line)) - 1
        assert width in (None, cells), line
        width = cells


@pytest.mark.parametrize(
    ("string", "markdown"),
    [
        ("main() trainer.history[*]", "`main() trainer.history[*]`"),
        ("a `b` c", "``a `b` c``"),
        ("`", "`` ` ``"),
        ("", ""),
        ("two\nlines", "`two\\nlines`"),
    ],
)
def test_code_is_shown_as_it_is(string, markdown):
    assert _markdown.code(string) == markdown


@pytest.mark.parametrize(
    ("string", "markdown"),
    [
        ("__init__", "\\_\\_init\\_\\_"),
        ("a < b && c", "a &lt; b &amp;&amp; c"),
        ("# x", "\\# x"),
        ("12. x", "12\\. x"),
        ("grew to 4,096 at 10:00:30", "grew to 4,096 at 10:00:30"),
        ("x" * 400, "x" * 299 + "…"),
    ],
)
def test_sentences_are_escaped(string, markdown):
    assert _markdown.text(string) == markdown


def test_two_runs_give_the_same_text():
    assert render(FULL, "markdown") == render(FULL, "markdown")
