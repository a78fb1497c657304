"""What the recording is called: templates, ranks, and the name an earlier recording gets. Runs in the recorder."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Mapping
from typing import Any

from ..addresses import is_url, without_credentials
from ..agent.journal import open_regular
from ..errors import BadInput
from .job_identity import belongs, variables_of

DEFAULT_OUTPUT = "run.parquet"
_FIELD = re.compile(r"\{([^{}]*)\}")
# What a program on its own is: the only one of its kind.
_ALONE = {"rank": 0, "local_rank": 0, "world_size": 1, "node_rank": 0, "restart_count": 0, "attempt": 1}
_SHORT = {"restart": "restart_count"}  # what a template calls it
_OF_REPORTS = (".html", ".json", ".md", ".xml", ".sarif")  # whoever names one means `report -o`
_SHORT_ID = 12  # characters of a commit and of a container's id, as git and docker show them
_BELONGS = (
    "job", "rank", "local_rank", "world_size", "node", "node_rank", "pod", "namespace", "container", "restart",
    "attempt", "commit",
)  # fmt: skip
FIELDS = ("host", "pid", "time", *_BELONGS, "env:NAME")
_STARTED_AT = re.compile(rb'"started_at":\s*"(\d{4})-(\d\d)-(\d\d)T(\d\d):(\d\d):(\d\d)')
_LARGEST_FOOTER_BYTES = 16 * 1024 * 1024


def output_path(
    template: str | None, environ: Mapping[str, str], now_unix_s: float, known: Mapping[str, Any] | None = None
) -> str:
    """The absolute path to record to; without ``-o`` each rank has its own. **Errors** BadInput.

    ``known``: where the recording belongs, if somebody has looked already.
    """
    if template is not None and is_url(template):
        raise BadInput(
            f"{without_credentials(template)}: only `leakscope record` and `attach` upload what they record: name a "
            "file, and then `leakscope upload FILE --to URL`"
        )
    if template is not None and template.lower().endswith(_OF_REPORTS):
        raise BadInput(f"--output {template}: that is a format of reports; a recording is a .parquet file")
    if template is None:
        template = add_to_name(DEFAULT_OUTPUT, "rank{rank}") if environ.get("RANK") else DEFAULT_OUTPUT
    return os.path.abspath(filled_in(template, environ, now_unix_s, known))


def filled_in(
    template: str, environ: Mapping[str, str], now_unix_s: float, known: Mapping[str, Any] | None = None
) -> str:
    """A template with its fields filled in. **Errors** BadInput."""
    if known is None and "{" in template:
        known = belongs(environ, os.getcwd())

    def fill(match: re.Match[str]) -> str:
        value = _value(match.group(1), environ, now_unix_s, known or {})
        return value.replace("/", "_") if value.strip(".") else "_" * len(value)  # it names no other folder

    return _FIELD.sub(fill, template)


def one_a_rank(template: str, known: Mapping[str, Any]) -> str:
    """A URL that is another one for each rank: in a bucket two recorders do not find out that they share a name."""
    if known.get("world_size", 1) == 1 or any(mark in template for mark in ("{rank}", "{pid}", "{env:")):
        return template
    return add_to_name(template, "rank{rank}")


def _value(field: str, environ: Mapping[str, str], now_unix_s: float, known: Mapping[str, Any]) -> str:
    if field.startswith("env:"):
        if value := environ.get(field[4:]):
            return value
        raise BadInput(f"--output: {{{field}}}: the environment has no {field[4:]}")
    if field in _BELONGS:
        return _of_belongs(field, known)
    values = {"host": os.uname().nodename, "pid": str(os.getpid()), "time": stamp(now_unix_s)}
    if field not in values:
        raise BadInput(f"--output: {{{field}}} is not known; there are {' '.join(f'{{{name}}}' for name in FIELDS)}")
    return values[field]


def _of_belongs(field: str, known: Mapping[str, Any]) -> str:
    name = _SHORT.get(field, field)
    value = known.get(name, _ALONE.get(name))
    if value is None and field == "node":
        value = os.uname().nodename
    if value is None:
        what = "job id" if field == "job" else field
        raise BadInput(f"--output: {{{field}}}: the environment has no {what} ({', '.join(variables_of(name))})")
    return str(value)[:_SHORT_ID] if field in ("container", "commit") else str(value)


def stamp(unix_s: float) -> str:
    """``20261121T100000``, UTC."""
    return time.strftime("%Y%m%dT%H%M%S", time.gmtime(unix_s))


def add_to_name(path: str, addition: str) -> str:
    """``run.parquet`` and ``rank3`` make ``run.rank3.parquet``."""
    stem, suffix = os.path.splitext(path)
    return f"{stem}.{addition}{suffix}"


def start_stamp(output: str, journal: str) -> str:
    """When an earlier recording began: as its journal or its parquet footer says, else when it was last changed."""
    for text in written_down(output, journal):
        if match := _STARTED_AT.search(text):
            year, month, day, hour, minute, second = (group.decode() for group in match.groups())
            return f"{year}{month}{day}T{hour}{minute}{second}"
    there = output if os.path.exists(output) else journal
    return stamp(os.stat(there).st_mtime)


def written_down(output: str, journal: str) -> tuple[bytes, bytes]:
    """What a recording says of itself: in its journal, and in the footer of its file; empty where it is not."""
    return _head(os.path.join(journal, "meta.json")), _parquet_footer(output)


def _head(path: str) -> bytes:
    try:
        with os.fdopen(open_regular(path), "rb") as stream:
            return stream.read(1024 * 1024)
    except OSError:
        return b""


def _parquet_footer(path: str) -> bytes:
    """The footer of a parquet file: its length stands before the last four bytes, and its JSON is not compressed."""
    try:
        with os.fdopen(open_regular(path), "rb") as stream:
            stream.seek(-8, os.SEEK_END)
            tail = stream.read(8)
            length = int.from_bytes(tail[:4], "little")
            if tail[4:] != b"PAR1" or length > _LARGEST_FOOTER_BYTES:
                return b""
            stream.seek(-8 - length, os.SEEK_END)
            return stream.read(length)
    except OSError:
        return b""


def shown(path: str) -> str:
    """A path as the user would type it."""
    try:
        relative = os.path.relpath(path)
    except OSError:  # the job removed the current folder
        return path
    return path if relative.startswith("..") else relative
