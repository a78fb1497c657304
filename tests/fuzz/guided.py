"""Coverage-guided fuzzing of everything that reads bytes of others: ``python -m tests.fuzz.guided READER [-runs=N]``.

What follows the reader's name are options of libFuzzer (``-max_total_time=60``); without a name, the readers are
listed. Needs atheris (``pip install -e '.[fuzz]'``); ``make fuzz`` runs each for a while. The hypothesis tests beside
this file look at whole reports; here a reader alone runs some thousand times a second, led by what it has not yet
executed. A reader may refuse (LeakscopeError), and may do nothing else than return.
"""

from __future__ import annotations

import io
import json
import os
import pickle
import sys
import tempfile
import zlib
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import atheris

with atheris.instrument_imports(include=["leakscope"]):
    from leakscope import oom, torch_snapshots, units
    from leakscope.agent import journal
    from leakscope.errors import LeakscopeError
    from leakscope.facts.code import adding as _source_lines
    from leakscope.facts.code import index as _source_index
    from leakscope.facts.endings import meanings as _crash_meanings
    from leakscope.facts.endings import texts as _crash_texts
    from leakscope.importing import _formats, _spool
    from leakscope.recorder import roles
    from leakscope.recorder.sources import _kernel_journal, kernel_log
    from leakscope.storage import merge

from tests.importing import allocator, small_dumps

ROOT = Path(__file__).parents[2]
Reader = Callable[[bytes], object]


def oom_log(data: bytes) -> None:
    """A kernel log that somebody saved."""
    reading = oom.read(data)
    oom.as_text(reading)
    oom.as_json(reading)


def kernel_record(data: bytes) -> None:
    """Records of /dev/kmsg and of ``journalctl -o json``."""
    list(kernel_log.lines_of(data))
    _kernel_journal.entries_of(data)


def command_line(data: bytes) -> None:
    """The command lines of a process and of its parent."""
    own, _, parents = data.decode("utf-8", "surrogateescape").partition("\n")
    for parent_role in (None, "trainer", "forkserver", "launcher"):
        roles.role_of(own[:15], own.split("\0"), parent_role, parents.split("\0"))


def stderr(data: bytes) -> None:
    """What a job wrote before it died."""
    text = data.decode("utf-8", "replace")
    _crash_texts.frames(text)
    _crash_texts.final(_crash_texts.said(text))
    _crash_texts.message(_crash_texts.last_traceback(text) + _crash_texts.last_fatal_error(text), "RuntimeError")
    _crash_meanings.known(text)


def source(data: bytes) -> None:
    """Source of a job, which may be of a newer Python, or no Python at all."""
    text = data.decode("utf-8", "replace")
    sources = [_source_index.Source("train", "train.py", text)]
    for word in text.split()[:1]:
        _source_lines.find_calls(sources, word)
        _source_lines.adding_lines(sources, _source_lines.Holder(word))


def amount(data: bytes) -> None:
    """What somebody wrote for a duration or an amount of memory."""
    for parse in (units.parse_duration, units.parse_bytes):
        with suppress(LeakscopeError):
            parse(data.decode("utf-8", "replace"))


def segment(data: bytes) -> None:
    """A file of a journal."""
    list(journal.read_blocks(str(_segment(data))))


def block(data: bytes) -> None:
    """A sound frame of a journal, with whatever is in it, up to the recording."""
    payload = zlib.compress(data, 1)
    file = _segment(journal.HEADER.pack(len(payload), zlib.crc32(payload)) + payload)
    with suppress(LeakscopeError):
        merge.merge(file.parent, io.BytesIO(), "final")


def imported(data: bytes) -> None:
    """A file of another tool: its first byte says of which, as who names it by --from may be wrong."""
    known = [name for name in _formats.names() if not hasattr(_formats.module_of(name), "EXTRA")]
    file = _folder() / "imported.log"
    file.write_bytes(data[1:])
    _formats.maybe_of_file(file)
    with suppress(LeakscopeError):
        part = _spool.part_of(file, known[data[0] % len(known)] if data else known[0])
        for _ in part.facts():
            pass
        part.close()


def gpu_snapshot(data: bytes) -> None:
    """A memory snapshot of torch: a pickle or JSON of somebody's."""
    path = _folder() / "snapshot.pickle"
    path.write_bytes(data)
    torch_snapshots.sniff(data, path.name)
    with suppress(LeakscopeError):
        list(torch_snapshots.read(path).rows)


def _segment(content: bytes) -> Path:
    file = _folder() / "recorder-1-1-000001.jnl"
    file.write_bytes(content)
    return file


def _folder() -> Path:
    """One for the whole run, in memory where there is such a place."""
    if not _made:
        shm = "/dev/shm"
        _made.append(tempfile.TemporaryDirectory(dir=shm if os.path.isdir(shm) else None))
        (Path(_made[0].name) / "meta.json").write_text(json.dumps({"format_version": 1}))
    return Path(_made[0].name)


_made: list[tempfile.TemporaryDirectory[str]] = []
READERS: dict[str, Reader] = {
    reader.__name__: reader
    for reader in (
        oom_log,
        kernel_record,
        command_line,
        stderr,
        source,
        amount,
        segment,
        block,
        imported,
        gpu_snapshot,
    )
}


def seeds(name: str) -> Iterator[bytes]:
    """Something sound to begin with."""
    logs = [path.read_bytes() for path in sorted((ROOT / "fixtures/oom-logs").iterdir()) if path.suffix != ".md"]
    if name == "oom_log":
        yield from logs
    elif name == "kernel_record":
        yield b"3,503,1348045010,-;Out of memory: Killed process 4242 (python)\\x0a"
        yield from (line for log in logs for line in log.splitlines()[:1])
    elif name == "command_line":
        yield b"python3\0-m\0torch.distributed.run\0train.py\nbash\0-c\0x"
        yield b"/usr/bin/python\0-c\0from multiprocessing.spawn import spawn_main; spawn_main(1)\n/usr/bin/python\0t.py"
    elif name == "stderr":
        yield b'Traceback (most recent call last):\n  File "t.py", line 3, in <module>\n    f()\nMemoryError: x\n'
        yield b'Fatal Python error: none_dealloc\n\nCurrent thread 0x1 (most recent call first):\n  File "t.py", line 3'
    elif name == "gpu_snapshot":
        device = allocator.Device()
        allocator.train(device, 1, layers=1)
        for generation in allocator.GENERATIONS:
            yield pickle.dumps(allocator.snapshot(device, generation=generation))
        yield json.dumps(allocator.snapshot(device)).encode()
    elif name == "source":
        yield (ROOT / "fixtures/train_leaky.py").read_bytes()
        yield b"append\nfor x in y:\n    self.a[x].append(x := x + 1)\n"
    elif name == "amount":
        yield from (b"1.5 GiB", b"300MB", b"1h 30min", b"90s")
    elif name == "imported":
        folder = ROOT / "fixtures/imports"
        files = sorted(path for path in folder.iterdir() if path.suffix not in (".md", ".py"))
        known = [one for one in _formats.names() if not hasattr(_formats.module_of(one), "EXTRA")]
        for one, form in ((small_dumps.midden(), "midden"), (small_dumps.pyheap(), "pyheap")):
            yield bytes([known.index(form)]) + one
        for path in [*files, ROOT / "fixtures/oom-logs/memcg-kill.kmsg"]:
            form = _formats.maybe_of_file(path)
            yield bytes([known.index(form) if form in known else 0]) + path.read_bytes()[:4000]
    elif name in ("segment", "block"):
        rows = [{"pid": 100, "time_ns": i, "rss_bytes": 10**9 + i, "comm": "python"} for i in range(3)]
        frame = journal.encode_block("process_samples", rows)
        yield frame if name == "segment" else zlib.decompress(frame[journal.HEADER.size :])


def main(arguments: list[str]) -> None:
    if not arguments or arguments[0] not in READERS:
        sys.exit(f"which reader? {', '.join(READERS)}")
    name = arguments[0]
    with tempfile.TemporaryDirectory() as corpus:
        for number, seed in enumerate(seeds(name)):
            Path(corpus, str(number)).write_bytes(seed)
        atheris.Setup([name, corpus, "-timeout=20", *arguments[1:]], READERS[name])
        atheris.Fuzz()


if __name__ == "__main__":
    main(sys.argv[1:])
