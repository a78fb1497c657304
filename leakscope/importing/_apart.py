"""Readers that are libraries of others run in a process of their own: its memory is bounded, its crash not ours."""

from __future__ import annotations

import ctypes
import json
import os
import signal
import subprocess
import sys
from collections.abc import Generator, Iterator
from pathlib import Path

from .. import isolation
from ..errors import BadInput, to_install
from ..signals import Signal
from ..units import GiB
from . import _formats
from ._facts import Fact, NotThisFormat
from ._source import Source

_MOST_BYTES = 1 * GiB
_LEAST_CPU_S = 60  # a library that is large takes some of it to be imported
_BYTES_PER_CPU_S = 1 << 20  # the slowest of them reads several times as much
_PR_SET_PDEATHSIG = 1  # of who waits for it no longer, it is killed: some libraries read some files without end
_STATE = ("clock", "tool", "boot_unix_s", "meta", "notes", "left_out")
_CODE = "import sys, json; sys.path += json.loads(sys.argv[1]); from leakscope.importing import _apart; _apart.main()"
_ENDS = "end"
_MISSING = "missing"
_BAD = "bad"


def facts(name: str, source: Source) -> Iterator[Fact]:
    """What the format's reader yields and tells ``source``. **Errors** NotThisFormat; BadInput without its library."""
    path = json.dumps(isolation.installed())
    most_cpu_s = _most_cpu_s(source.path)
    command = [*isolation.interpreter(), "-c", _CODE, path, name, str(source.path), str(most_cpu_s)]
    with subprocess.Popen(
        command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    ) as reader:
        try:
            ended = yield from _said(reader, source)
        finally:
            reader.kill()
    if not ended:
        why = _why(reader.wait(), most_cpu_s)
        raise NotThisFormat(f"could not be read to its end by the library of {name}: it {why}")


def _why(status: int, most_cpu_s: int) -> str:
    """By the exit status of the process that read it."""
    if status == -Signal.SIGXCPU:
        return f"took more than {most_cpu_s} s of processor time, which a file of its size never does: it is damaged"
    return "needs more than 1 GiB of memory, or is damaged" if status else "is damaged"


def _most_cpu_s(path: Path) -> int:
    """By what the file takes on disk: a hole that claims 10 GB is made in no time."""
    stat = path.stat()
    return _LEAST_CPU_S + min(stat.st_size, stat.st_blocks * 512) // _BYTES_PER_CPU_S


def _said(reader: subprocess.Popen[str], source: Source) -> Generator[Fact, None, bool]:
    """Returns whether it came to its end."""
    for line in reader.stdout or ():
        kind, *rest = json.loads(line)
        if kind == _MISSING:
            package, extra = rest
            raise BadInput(f"{source.path}: {package} is not installed here: {to_install(extra)}")
        if kind == _BAD:
            raise NotThisFormat(rest[0])
        if kind == _ENDS:
            for attribute, value in zip(_STATE, rest[0]):
                setattr(source, attribute, value)
            source.about = {int(pid): about for pid, about in rest[1].items()}
            return True
        yield Fact(*rest)
    return False


def _be_bounded(most_cpu_s: int) -> None:
    import resource

    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    resource.setrlimit(resource.RLIMIT_DATA, (_MOST_BYTES, _MOST_BYTES))
    resource.setrlimit(resource.RLIMIT_CPU, (most_cpu_s, most_cpu_s + 1))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))  # the signal of that limit leaves one


def main() -> None:
    """In the process of its own: one line of JSON a fact, and a last one with what ``Source`` was told."""
    name, source = sys.argv[2], Source(Path(sys.argv[3]))
    if sys.platform == "linux":
        _be_bounded(int(sys.argv[4]))
    out = os.fdopen(os.dup(1), "w", encoding="ascii")
    os.dup2(2, 1)  # what a library prints is no fact

    def say(*words: object) -> None:
        out.write(json.dumps(words) + "\n")

    module = _formats.module_of(name)
    try:
        for fact in module.read(source):
            say("fact", *fact)
        say(_ENDS, [getattr(source, attribute) for attribute in _STATE], source.about)
    except ModuleNotFoundError as error:
        say(_MISSING, (error.name or "").split(".")[0], module.EXTRA)
    except NotThisFormat as error:
        say(_BAD, str(error))
    except MemoryError:
        say(_BAD, "needs more than 1 GiB of memory to be read: record less of the run")
    except Exception as error:  # whatever the library raises: the file is none that it knows
        text = " ".join(str(error).split())[:120]
        say(_BAD, f"could not be read by the library of {name}: {type(error).__name__}: {text}")
    out.flush()
    os._exit(0)  # no finalizers of a library that has just failed
