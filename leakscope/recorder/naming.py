"""What the recording is called: templates, ranks, and the name an earlier recording gets. Runs in the recorder."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Mapping

from ..agent.journal import open_regular
from ..errors import BadInput

DEFAULT_OUTPUT = "run.parquet"
_FIELD = re.compile(r"\{([^{}]*)\}")
_RANKS = ("RANK", "SLURM_PROCID", "OMPI_COMM_WORLD_RANK", "PMI_RANK")
_LOCAL_RANKS = ("LOCAL_RANK", "SLURM_LOCALID", "OMPI_COMM_WORLD_LOCAL_RANK", "MPI_LOCALRANKID")
_JOBS = ("SLURM_JOB_ID", "PBS_JOBID", "LSB_JOBID", "JOB_ID", "TORCHELASTIC_RUN_ID")
_STARTED_AT = re.compile(rb'"started_at":\s*"(\d{4})-(\d\d)-(\d\d)T(\d\d):(\d\d):(\d\d)')
_LARGEST_FOOTER_BYTES = 16 * 1024 * 1024


def output_path(template: str | None, environ: Mapping[str, str], now_unix_s: float) -> str:
    """The absolute path to record to; without ``-o`` each rank has its own. **Errors** BadInput."""
    if template is None:
        template = add_to_name(DEFAULT_OUTPUT, "rank{rank}") if environ.get("RANK") else DEFAULT_OUTPUT

    def fill(match: re.Match[str]) -> str:
        value = _value(match.group(1), environ, now_unix_s)
        return value.replace("/", "_") if value.strip(".") else "_" * len(value)  # it names no other folder

    return os.path.abspath(_FIELD.sub(fill, template))


def _value(field: str, environ: Mapping[str, str], now_unix_s: float) -> str:
    if field.startswith("env:"):
        return _first(environ, (field[4:],), f"{{{field}}}: the environment has no {field[4:]}")
    if field == "job":
        return _first(environ, _JOBS, "{job}: the environment has no job id (" + ", ".join(_JOBS) + ")")
    values = {
        "host": os.uname().nodename,
        "pid": str(os.getpid()),
        "time": stamp(now_unix_s),
        "rank": _first(environ, _RANKS, "0"),  # a program on its own is rank 0 of 1
        "local_rank": _first(environ, _LOCAL_RANKS, "0"),
    }
    if field not in values:
        known = " ".join(f"{{{name}}}" for name in (*values, "job", "env:NAME"))
        raise BadInput(f"--output: {{{field}}} is not known; there are {known}")
    return values[field]


def _first(environ: Mapping[str, str], names: tuple[str, ...], otherwise: str) -> str:
    for name in names:
        if environ.get(name):
            return environ[name]
    if otherwise.startswith("{"):
        raise BadInput(f"--output: {otherwise}")
    return otherwise


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
