"""``leakscope check``: are the rules kept?"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from ._shared import command, horizon_option, run_argument, say, text_or_json, write_or_print


@command(
    examples=[
        ("leakscope check", "it must not leak"),
        ("leakscope check --max-growth 5MB/1000steps --no-oom", "rules of your own"),
    ],
    exits={
        1: "a rule is broken",
        4: "cannot tell: too short, no steps, or the run failed",
    },
)
@run_argument
@click.option("--max-growth", metavar="RATE", help="5MB/1000steps, 20KB/step or 50MB/hour.")
@click.option("--max-rss", metavar="SIZE", help="Most memory of all processes together, shared pages counted once.")
@click.option("--max-workers", metavar="COUNT", help="Most data loader workers at once.")
@click.option("--no-duplicates", is_flag=True, help="No model may be in memory twice.")
@click.option("--no-oom", is_flag=True, help="No process may have been killed for memory.")
@click.option("--no-findings", multiple=True, metavar="KIND", help="No finding of this kind; repeatable.")
@click.option(
    "--baseline", type=click.Path(path_type=Path), metavar="RUN", help="Must not be worse than this recording."
)
@click.option(
    "--inconclusive", metavar="[pass|fail]", help="Result of a rule that cannot be decided.  [default: exit 4]"
)
@horizon_option
@text_or_json
def check(run: Path, horizon: str | None, format_name: str, **options: Any) -> int:
    """Hold a recording to rules: a gate for CI. Without any rule it must not leak.

    Rules not given here come from [tool.leakscope.check] in the pyproject.toml of the working folder. Findings that
    `ignore` of [tool.leakscope] names break no rule, and are counted.
    """
    from .. import checking
    from ..ignoring import read_ignores
    from ..settings import horizon_s
    from ..storage import open_recording

    rules = checking.read_rules({name.replace("_", "-"): value for name, value in options.items()}, Path.cwd())
    baseline = open_recording(rules.baseline) if rules.baseline is not None else None
    ignores = read_ignores(Path.cwd())
    for note in ignores.notes:
        say(note)
    result = checking.check(open_recording(run), rules, baseline, ignores, horizon_s(Path.cwd(), horizon))
    write_or_print(checking.render(result, format_name), None, format_name)
    return result.exit_status
