"""``leakscope heap``: who holds how much, exactly."""

from __future__ import annotations

from pathlib import Path

import click

from ..errors import BadInput
from ._shared import command, run_argument, write_or_print


@command(
    examples=[
        ("leakscope heap", "who holds how much"),
        ("leakscope heap --diff", "what grew"),
        ("leakscope heap --path Tensor", "what keeps objects of that type alive"),
        ("leakscope heap --gpu --diff", "who got ever more memory of a GPU"),
    ]
)
@run_argument
@click.option("-p", "--pid", type=int, metavar="PID", help="Process; the one with the largest heap by default.")
@click.option("--at", "at_s", type=float, metavar="SECONDS", help="The snapshot nearest to this moment, not the last.")
@click.option("--at-end", is_flag=True, help="The snapshot made as it ended, not the last one while it worked.")
@click.option("--since", "since_s", type=float, metavar="SECONDS", help="Growth since the one nearest to this moment.")
@click.option("--diff", "by_growth", is_flag=True, help="Sort by growth, and show what grew only.")
@click.option("--path", "wanted", metavar="TEXT", help="Who holds the objects with this in their type or name.")
@click.option("--gpu", "on_devices", is_flag=True, help="Who holds what tensors have on GPUs, not memory of the host.")
@click.option("--full", is_flag=True, help="With --path: of all objects, small ones too, by type or address.")
@click.option("--depth", type=click.IntRange(0), default=12, show_default=True, help="Levels to show.")
def heap(
    run: Path,
    pid: int | None,
    at_s: float | None,
    at_end: bool,
    since_s: float | None,
    by_growth: bool,
    wanted: str | None,
    on_devices: bool,
    full: bool,
    depth: int,
) -> None:
    """Show the Python heap of a process by who holds it: exact sizes, at any snapshot.

    That is the last one which saw it at work: as a program ends, the variables of its functions are gone.
    """
    from .. import browsing
    from ..storage import open_recording

    if at_end and at_s is not None:
        raise BadInput("--at and --at-end name two snapshots: choose one")
    if full and wanted is None:
        raise BadInput("--full needs --path: an address, or a part of the name of a type")
    if full and on_devices:
        raise BadInput("--full has memory of the host only: leave --gpu out")
    recording = open_recording(run)
    if full and wanted is not None:
        shown = browsing.every_way(recording, wanted, pid=pid, at_s=at_s, at_end=at_end)
    elif wanted is not None:
        shown = browsing.ways(recording, wanted, pid=pid, at_s=at_s, at_end=at_end, on_devices=on_devices)
    else:
        shown = browsing.show(
            recording, pid=pid, at_s=at_s, since_s=since_s, at_end=at_end, by_growth=by_growth, depth=depth,
            on_devices=on_devices,
        )  # fmt: skip
    write_or_print(shown, None, "terminal")
