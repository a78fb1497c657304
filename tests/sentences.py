"""Sentences of a report in tests: what they name and count is asserted, how they put it is not."""

from __future__ import annotations


def says(text: str, *words: str) -> bool:
    """Whether a sentence has all these names and figures."""
    return all(word in text for word in words)
