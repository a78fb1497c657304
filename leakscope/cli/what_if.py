"""``leakscope what_if``: a change tried on a recording."""

from __future__ import annotations

from pathlib import Path

import click

from ._shared import command, run_argument, text_or_json, write_or_print


@command(
    "whatif",
    examples=[
        ("leakscope whatif", "would MALLOC_ARENA_MAX=2, malloc_trim or jemalloc help?"),
        ("leakscope whatif run.parquet -p 4242 -f json", "of that process, for a program"),
    ],
    exits={4: "cannot tell: the replay of what was recorded does not come out as that was"},
)
@run_argument
@click.option("-p", "--pid", type=int, metavar="PID", help="Process; the one of which malloc kept most by default.")
@text_or_json
def what_if(run: Path, pid: int | None, format_name: str) -> int:
    """Say what a process would hold under other allocators and settings of malloc, by a replay.

    What was sampled of its calls of malloc (sizes, threads, lives) is done again here, under glibc's malloc with some
    settings, and under jemalloc, mimalloc and tcmalloc where they are installed. The program itself is not run. It
    takes half a minute, and at most 1 GiB of memory.
    """
    import json

    from .. import replaying
    from ..storage import open_recording

    found = replaying.what_if(open_recording(run), pid)
    text = json.dumps(replaying.as_json(found), indent=1) if format_name == "json" else replaying.as_text(found)
    write_or_print(text, None, format_name)
    return 0 if found.is_true else 4
