"""The commands that need the standard library alone, where nothing else is installed: on nodes that only record.

What reads recordings needs the packages of the whole leakscope, and says so in one line.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from textwrap import fill

from .addresses import without_credentials
from .errors import BadInput, LeakscopeError
from .options import ATTACH_LACKS, RECORD_OPTIONS
from .version import __version__

WHOLE = "install leakscope-recorder for that"
_WIDTH = 100
_USAGE = f"""\
leakscope {__version__}: records the memory of a job; what reads recordings is leakscope-recorder

  leakscope record [OPTIONS] [--] COMMAND   run a command and record the memory of all its processes
  leakscope attach [OPTIONS] PID...         record processes that run already
  leakscope ps                              list the Python processes that run, and how fast they grow
  leakscope metrics RUN [--listen ADDRESS]  figures of a run that is being recorded, for Prometheus
  leakscope finalize RUN...                 make a finished file of a recording (needs pyarrow)
  leakscope upload RUN... --to URL          copy recordings to a store as they are (needs fsspec)

`leakscope record --help` has its options. A recording is a file and, until it is finished, a folder next to it: where
leakscope is installed, `leakscope report RUN` reads both."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command and return its exit status; whatever a person can cause ends in one line on stderr."""
    words = list(sys.argv[1:] if argv is None else argv)
    name = words.pop(0) if words else "--help"
    if name in ("-h", "--help"):
        print(_USAGE)
        return 0
    if name == "--version":
        print(f"leakscope, version {__version__}")
        return 0
    try:
        if name not in _COMMANDS:
            raise BadInput(f"`{name}` is not part of this installation, which only records: {WHOLE}")
        return _COMMANDS[name](words)
    except LeakscopeError as error:
        return _fail(str(error), error.exit_status)
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] == __package__:
            return _fail(f"`{name}` of this recording needs the whole leakscope, which is leakscope-recorder", 2)
        return _fail(f"`{name}` needs {error.name}, which is not installed here: pip install {error.name}", 2)
    except OSError as error:
        return _fail(f"{error.filename or 'output'}: {error.strerror or error}", 2)


def _fail(line: str, status: int) -> int:
    print(f"leakscope: {line}", file=sys.stderr)
    return status


def _help_of(command: str) -> Callable[[list[str]], int]:
    def shown(_: list[str]) -> int:
        operands = "PID..." if command == "attach" else "[--] COMMAND [ARGUMENTS]..."
        print(f"Usage: leakscope {command} [OPTIONS] {operands}")
        options = [o for o in RECORD_OPTIONS if o.group and not (command == "attach" and o.field in ATTACH_LACKS)]
        for group in dict.fromkeys(option.group for option in options):
            print(f"\n{group}:")
            for option in (option for option in options if option.group == group):
                print(f"  {', '.join(option.flags)} {option.metavar}".rstrip())
                default = f" [default: {option.default}]" if option.default else ""
                print(fill(option.help + default, _WIDTH, initial_indent=" " * 8, subsequent_indent=" " * 8))
        return 0

    return shown


def _ps(_: list[str]) -> int:
    from .recorder.ps import main as list_processes

    return list_processes()


def _finalize(words: list[str]) -> int:
    runs = _runs(words, "finalize")
    from .storage.finalize import finalize, run_lightly

    run_lightly()
    for run in runs:
        path = finalize(run)
        print(f"leakscope: {path} is up to date", file=sys.stderr)
    return 0


def _metrics(words: list[str]) -> int:
    from . import metering

    where = _value(words, "--listen")
    (run,) = _runs(words, "metrics")[:1]
    if where is not None:
        return metering.serve(run, where, say=lambda line: print(f"leakscope: {line}", file=sys.stderr))
    sys.stdout.write(metering.text_of(run))
    return 0


def _upload(words: list[str]) -> int:
    """The files as they are: the journal of a recording that is not finished goes with it."""
    url = _value(words, "--to")
    runs = _runs(words, "upload")
    if url is None:
        raise BadInput("upload needs --to URL, such as --to s3://bucket/runs/")
    from .storage.remote import put

    for run in runs:
        journal = run.with_name(f"{run.name}.journal")
        files = [run, *(sorted(journal.iterdir()) if journal.is_dir() else ())]
        for file in files:
            put(str(file), f"{url.rstrip('/')}/{file.relative_to(run.parent)}")
        count = "1 file" if len(files) == 1 else f"{len(files)} files"
        print(f"leakscope: {run} is in {without_credentials(url)} ({count})", file=sys.stderr)
    return 0


def _value(words: list[str], flag: str) -> str | None:
    """Take an option with its value out of ``words``."""
    for at, word in enumerate(words):
        if word == flag and at + 1 < len(words):
            value = words[at + 1]
            del words[at : at + 2]
            return value
        if word.startswith(f"{flag}="):
            del words[at]
            return word.partition("=")[2]
    return None


def _runs(words: list[str], command: str) -> list[Path]:
    unknown = [word for word in words if word.startswith("-")]
    if unknown:
        raise BadInput(f"{command} has no option {unknown[0]} here; leakscope-recorder may")
    runs = [Path(word) for word in words or ["run.parquet"]]
    for run in runs:
        if not run.exists() and not os.path.exists(f"{run}.journal"):
            raise BadInput(f"there is no recording {run}")
    return runs


_COMMANDS: dict[str, Callable[[list[str]], int]] = {
    "record": _help_of("record"),  # the recorder has the rest
    "attach": _help_of("attach"),
    "ps": _ps,
    "finalize": _finalize,
    "metrics": _metrics,
    "upload": _upload,
}
