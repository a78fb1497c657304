"""Markdown for issues and pull requests: what it says, that it always fits, and that no string of the job is markup."""

from __future__ import annotations

import re

import pytest
from markdown_it import MarkdownIt  # rich needs it, but for its oldest versions

from leakscope.renderers import _markdown, render

from .hostile import STRINGS, full_of
from .reports import EMPTY, FULL

LIMIT = 65_536
FORGE = MarkdownIt("commonmark").enable("table")
TAGS = ["<details>", "</details>", "<summary>", "</summary>"]


def tokens(markdown):
    """What a forge's reader of markdown sees, inner parts included."""
    for token in FORGE.parse(markdown):
        yield token
        yield from token.children or ()


def words(markdown):
    """The text in which a forge looks for people and issues, once markup is gone; code it leaves alone."""
    return "\n".join(token.content for token in tokens(markdown) if token.type == "text")


def tags(markdown):
    html = "".join(token.content for token in tokens(markdown) if token.type in ("html_block", "html_inline"))
    return re.findall(r"<[^>]*>", html)


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
    assert shown.count("<details>") == shown.count("</details>") == 6


def test_the_three_answers_do_not_look_alike():
    assert render(EMPTY, "markdown").startswith("## CANNOT TELL\n")
    assert "the recording is not complete" in render(EMPTY, "markdown")


@pytest.mark.cases(2)
@pytest.mark.parametrize("count", [1, 3, 400])
def test_it_fits_whatever_the_report_holds(count):
    shown = render(full_of(STRINGS, count), "markdown")
    assert len(shown) <= LIMIT
    assert "### 1. critical" in shown, "the answer is there all the same"
    assert tags(shown).count("<details>") == tags(shown).count("</details>") >= 5
    if count == 400:
        assert re.search(r"^- and \d+ more$", shown, re.MULTILINE)


@pytest.mark.parametrize("character", ["&", "|", "`", "\x00", "@a", "*", "\U0001f600"])
def test_it_fits_when_every_character_has_to_be_escaped(character):
    assert len(render(full_of([character * 3000, "x" * 3000], 50), "markdown")) <= LIMIT


def test_a_hostile_report_pings_and_links_nobody():
    markdown = render(full_of(STRINGS), "markdown")
    shown = words(markdown)
    assert "@\u200boctocat" in shown
    assert not re.search(r"@[\w-]", shown)
    assert not re.search(r"#\d|gh-\d", shown, re.IGNORECASE)
    assert not re.search(r"\w://|www\.", shown)
    assert not re.search(r"\b(?=\d*[a-f])[0-9a-f]{7,40}\b", shown)
    assert not re.search(r":tada:", shown)
    assert not {"link_open", "image"} & {token.type for token in tokens(markdown)}


def test_a_hostile_report_has_the_form_of_a_harmless_one():
    """No heading, list, code or HTML of its own, and no control characters."""
    markdown = render(full_of(STRINGS), "markdown")
    assert set(tags(markdown)) == set(TAGS)
    parsed = FORGE.parse(markdown)
    headings = [after for before, after in zip(parsed, parsed[1:]) if before.type == "heading_open"]
    assert [heading.content.split()[0] for heading in headings] == ["LEAKING", "1.", "Where"]
    assert {token.info for token in tokens(markdown) if token.type == "fence"} == {"python"}
    assert not [token for token in tokens(markdown) if token.type in ("code_block", "em_open", "hr")]
    assert max(token.level for token in tokens(markdown) if token.type == "bullet_list_open") == 0
    assert all(c.isprintable() or c in "\n\u200b" for c in markdown)
    markdown.encode("utf-8")


def test_tables_keep_their_cells():
    """Also with pipes and backslashes in them: the reader finds each in its column, code unchanged."""
    code_of = [t.content for t in tokens(render(full_of(STRINGS), "markdown")) if t.type == "code_inline"]
    assert "a|b\\|c" in code_of
    assert "``` `x` ````" in code_of
    assert "<script>alert(1)</script><!-- </details>" in code_of


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
