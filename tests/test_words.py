"""Lines that are wider than a terminal are folded where a reader expects it; and how a run ended."""

from __future__ import annotations

import pytest

from leakscope.words import ending, folded


def test_what_fits_and_what_is_coloured_stays() -> None:
    text = "short\n\x1b[1m" + "x" * 50 + "\n"
    assert folded(text, 40) == text


def test_a_long_line_goes_on_below_the_column_it_was_in() -> None:
    line = "    809 KiB    +421 KiB  shop.CACHE.entries  (dict holding 2,200 of very many)"
    first, *further = folded(line, 60).split("\n")
    assert first.startswith("    809 KiB    +421 KiB  shop.CACHE.entries")
    assert further
    assert all(part.startswith(" " * 25) and part[25] != " " for part in further)
    assert " ".join(" ".join([first, *further]).split()) == " ".join(line.split())


def test_a_sentence_goes_on_a_little_further_in() -> None:
    text = folded("one two three four five six seven eight nine ten", 24)
    assert text == "one two three four five\n  six seven eight nine\n  ten"


def test_nothing_is_wider_than_the_terminal() -> None:
    text = "a" * 30 + "  " + "word " * 40 + "/" + "path" * 40
    assert max(map(len, folded(text, 80).split("\n"))) <= 80


@pytest.mark.parametrize(
    ("number", "told"), [(11, "crashed with SIGSEGV"), (6, "crashed with SIGABRT"), (15, "ended by SIGTERM")]
)
def test_a_signal_that_nobody_sent_is_a_crash(number: int, told: str) -> None:
    assert ending("signal", None, number) == told
