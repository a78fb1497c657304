"""``leakscope skill``: how a coding agent uses leakscope."""

from __future__ import annotations

import click

from ._shared import command


@command(
    examples=[
        ("leakscope skill > .claude/skills/leakscope/SKILL.md", "where an agent looks for skills"),
    ]
)
def skill() -> None:
    """Print the Agent Skill: how a coding agent records, reads, mends and proves with leakscope.

    It is a SKILL.md: save it in a folder named leakscope where your agent looks for skills. It needs no MCP server.
    """
    from ..skills import skill_text

    click.echo(skill_text(), nl=False)
