"""``leakscope oom``: who was killed for memory, and by what limit."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from ..errors import BadInput
from ._shared import command, text_or_json, write_or_print


@command(
    examples=[
        ("dmesg | leakscope oom -", "who was killed, and why"),
        ("leakscope oom pod.log -f json", "for a program"),
    ]
)
@click.argument("log", metavar="FILE", type=click.Path(allow_dash=True))
@text_or_json
def oom(log: str, format_name: str) -> None:
    """Say who was killed for memory, by which limit, and who held it.

    FILE is any log with evidence, or - for standard input: dmesg, journalctl, syslog, kubectl, earlyoom, ...
    """
    import json

    from .. import oom as reader

    try:
        data = sys.stdin.buffer.read() if log == "-" else Path(log).read_bytes()
    except OSError as error:
        raise BadInput(f"{log}: {error.strerror or error}") from None
    if data.startswith(b"PAR1"):
        raise BadInput(f"{log} is a recording, and no log: `leakscope report {log}` says who was killed")
    reading = reader.read(data)
    text = json.dumps(reader.as_json(reading), indent=1) if format_name == "json" else reader.as_text(reading)
    write_or_print(text, None, format_name)
