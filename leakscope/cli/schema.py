"""``leakscope schema``: what tables, columns and JSON mean."""

from __future__ import annotations

import click

from ._shared import PACKAGE, Format, command

_JSON_SCHEMAS = ("report", "job", "fleet")


_SCHEMAS = ["recording", *_JSON_SCHEMAS, "markdown", "json"]  # the last two: what it was called by before -f


@command(
    examples=[
        ("leakscope schema", "tables and columns"),
        ("leakscope schema -f json", "the same for a program"),
        ("leakscope schema report", "the JSON Schema of `leakscope report -f json`"),
        ("leakscope schema fleet", "that of `leakscope fleet report -f json`"),
    ]
)
@click.argument("what", metavar="[recording|report|job|fleet]", type=click.Choice(_SCHEMAS), default="recording")
@click.option(
    "-f", "--format", "format_name", type=Format(["json", "markdown"]), default="markdown", show_default=True,
    help="Of the tables; a schema of a report is always JSON.",
)  # fmt: skip
def schema(what: str, format_name: str) -> None:
    """Print what a recording consists of, or the report of a run, a job or a fleet: names, types, units, meaning."""
    if what in _JSON_SCHEMAS:
        click.echo((PACKAGE / f"{what}-schema.json").read_text(encoding="utf-8"), nl=False)
        return
    from ..storage import describe

    is_json = "json" in (what, format_name)
    click.echo(describe.as_json() if is_json else describe.as_markdown(), nl=False)
