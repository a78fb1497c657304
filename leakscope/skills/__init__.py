"""The Agent Skill: how a coding agent records, reads, mends and proves, as `leakscope skill` prints it."""

from __future__ import annotations

from importlib import resources

__all__ = ["skill_text"]


def skill_text() -> str:
    """``SKILL.md``, with its front matter."""
    return (resources.files(__name__) / "leakscope" / "SKILL.md").read_text(encoding="utf-8")
