"""mprof of memory_profiler: `mprofile_*.dat`, with children (`-M`) and functions that `@profile` marks."""

from __future__ import annotations

import shlex
from collections.abc import Iterator

from ._facts import UNIX, Fact
from ._figures import MIB, amount, unix
from ._source import Source

LACKS = "has resident memory alone, not what is in it or who holds it"
_FIELDS = (b"CMDLINE ", b"MEM ", b"FUNC ", b"CHLD ")


def sniff(head: bytes, name: str) -> bool:
    lines = [line for line in head.split(b"\n")[:50] if line.strip()]
    return bool(lines) and lines[0].startswith(_FIELDS) and any(b.startswith(_FIELDS[1:]) for b in lines)


def read(source: Source) -> Iterator[Fact]:
    """``MEM MiB time``; ``CHLD pid MiB time``; ``FUNC name MiB time MiB time level``: times since 1970."""
    source.clock, source.tool = UNIX, "memory_profiler"
    main = source.unnamed("main", comm="python")
    begun, earlier = 0, sum(line.startswith("CMDLINE ") for line in source.lines()) - 1
    if earlier > 0:
        source.notes.append(f"{earlier} earlier runs, to which mprof appended this one, are left out")
    for line in source.lines():
        field, _, rest = line.partition(" ")
        begun += field == "CMDLINE"
        if earlier > 0 and begun <= earlier:
            continue
        words = rest.split()
        if field == "CMDLINE":
            source.knows(main, cmdline=rest.strip())
            source.about[main].pop("comm", None)
            source.meta["command"] = _words(rest)
        elif field == "MEM" and len(words) >= 2:
            yield from _sample(source, main, words[0], words[1])
        elif field == "CHLD" and len(words) >= 3:
            yield from _sample(source, _child(source, words[0]), words[1], words[2])
        elif field == "FUNC" and len(words) >= 5:
            yield from _function(source, main, words)
        elif line.strip():
            source.left_out += 1


def _sample(source: Source, pid: int, mib: str, at: str) -> Iterator[Fact]:
    at_s, rss = unix(at), amount(mib, MIB)
    if at_s is None or rss is None:
        source.left_out += 1
    elif rss:  # 0: a child that was gone before it was read
        yield Fact("process_samples", at_s, {"pid": pid, "rss_bytes": rss})


def _child(source: Source, word: str) -> int:
    """By its pid; before 0.56 children were counted from 0."""
    pid = int(word) if word.isdigit() and len(word) < 10 else 0
    if pid > 1:
        source.knows(pid, comm="python")
        return pid
    return source.unnamed(f"child {word}", comm="python")


def _function(source: Source, pid: int, words: list[str]) -> Iterator[Fact]:
    for at, what in ((words[2], "began"), (words[4], "ended")):
        at_s = unix(at)
        if at_s is None:
            source.left_out += 1
        else:
            yield Fact("marks", at_s, {"pid": pid, "text": f"{words[0]}() {what}"})


def _words(command: str) -> list[str]:
    try:
        return shlex.split(command)
    except ValueError:
        return command.split()
