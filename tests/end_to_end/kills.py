"""Programs that run out of memory for real, each with its truth, and what a report has to say of it.

``python -m tests.end_to_end.kills [NAME-PART ...]`` runs them (as root, for a memory cgroup) and prints what was told.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any, NamedTuple

from leakscope.units import format_bytes

from .cgroups import Cgroup
from .programs import LONGEST_S, report

MiB = 1 << 20

# What all of them have: keeps ``piece`` MiB each ``pause`` seconds, in the way that the program's own class does.
_HEAD = """
import sys, time
PIECE, PAUSE = int(float(sys.argv[1]) * 2**20), float(sys.argv[2])
"""
LIST = (
    _HEAD
    + """
class Preprocessor:
    def __init__(self):
        self.features = []

    def add(self):
        self.features.append(b"x" * PIECE)

def main():
    preprocessor = Preprocessor()
    while True:
        preprocessor.add()
        time.sleep(PAUSE)

main()
"""
)
RECORDS = (
    _HEAD
    + """
class Corpus:
    def __init__(self):
        self.documents = {}

    def read(self, number):
        words = range(20)
        self.documents[number] = [{"id": n, "words": [f"w{n}-{i}" for i in words]} for n in range(PIECE // 2000)]

def main():
    corpus = Corpus()
    for number in range(1 << 40):
        corpus.read(number)
        time.sleep(PAUSE)

main()
"""
)
TRAINING = (
    _HEAD
    + """
import torch

class Miner:
    def __init__(self):
        self.pool = []
        self.model = torch.nn.Linear(256, 64)
        self.optimizer = torch.optim.Adam(self.model.parameters())

    def step(self):
        images = torch.randn(PIECE // 1024, 256)
        loss = self.model(images).pow(2).mean()
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()
        self.pool.append(images)

def main():
    torch.set_num_threads(1)
    miner = Miner()
    while True:
        miner.step()
        time.sleep(PAUSE)

main()
"""
)
WORKER = (
    _HEAD
    + """
import multiprocessing

class Clips:
    def __init__(self):
        self.decoded = {}

    def decode(self, number):
        self.decoded[number] = bytearray(PIECE)

def work(clips):
    for number in range(1 << 40):
        clips.decode(number)
        time.sleep(PAUSE)

def main():
    clips = Clips()
    worker = multiprocessing.get_context("fork").Process(target=work, args=(clips,))
    worker.start()
    worker.join()
    sys.exit(5 if worker.exitcode else 0)

main()
"""
)
TORCH_WORKER = (
    _HEAD
    + """
import torch
from torch.utils.data import DataLoader, Dataset

class Clips(Dataset):
    def __init__(self):
        self.decoded = {}

    def __len__(self):
        return 1 << 30

    def __getitem__(self, index):
        self.decoded[index] = torch.ones(PIECE // 4)
        time.sleep(PAUSE)
        return torch.ones(8)

def main():
    torch.set_num_threads(1)
    for batch in DataLoader(Clips(), batch_size=1, num_workers=1):
        pass

main()
"""
)
TOKENISING = (
    _HEAD
    + """
def tokenise(text):
    return [hash(word) & 0xFFFF_FFFF_FFFF for word in text.split()]

def main():
    tokens = []
    text = " ".join(map(str, range(PIECE // 40)))
    while True:
        tokens.extend(tokenise(text))
        time.sleep(PAUSE)

main()
"""
)
TORCH_ALLOCATOR = (
    _HEAD
    + """
import torch

class History:
    def __init__(self):
        self.states = []

    def keep(self):
        self.states.append(torch.ones(PIECE // 4))

def main():
    history = History()
    while True:
        history.keep()
        time.sleep(PAUSE)

main()
"""
)
SHARED = (
    _HEAD
    + """
from multiprocessing import shared_memory

class Frames:
    def __init__(self):
        self.segments = []

    def add(self):
        segment = shared_memory.SharedMemory(create=True, size=PIECE)
        self.segments.append(segment)
        segment.buf[:] = b"x" * PIECE

def main():
    frames = Frames()
    while True:
        frames.add()
        time.sleep(PAUSE)

main()
"""
)


class Death(NamedTuple):
    """``inside``: the recorder is in the cgroup, too. ``rate``: MiB a second. ``before``: words before the command;
    ``around``: before the recorder.

    ``first``: the kind of the first finding; ``by``: what its title has to name of killer and limit. ``holder`` and
    ``line``: what filled the memory. ``victim``: whose name stands in the title.
    """

    name: str
    program: str
    rate: float
    limit_mib: int | None
    inside: bool
    holder: str
    line: str
    first: str = "oom-kill"
    by: tuple[str, ...] = ()
    before: tuple[str, ...] = ()
    around: tuple[str, ...] = ()
    victim: str = "train.py["


_SMALL_SHM = 'mount -t tmpfs -o size=%dm tmpfs /dev/shm && exec "$0" "$@"'
_AS, _DATA = (
    'ulimit -v %d; exec "$0" "$@"',
    "import os, resource, sys; resource.setrlimit(resource.RLIMIT_DATA, (%d, %d)); os.execvp(sys.argv[1], sys.argv[1:])",
)
_FEATURES = "self.features.append"


def _python_limit(code: str) -> tuple[str, ...]:
    return (sys.executable, "-S", "-c", code)


DEATHS = [
    *(
        Death(f"list-{mib}-{rate}-{'inside' if inside else 'outside'}", LIST, rate, mib, inside, "features", _FEATURES)
        for mib, rate, inside in ((256, 8, True), (256, 8, False), (600, 40, True), (600, 40, False), (400, 1000, True),
                                  (2048, 100, True), (2048, 1000, False), (1024, 200, False))
    ),
    *(
        Death(f"records-{mib}-{rate}-{'inside' if inside else 'outside'}", RECORDS, rate, mib, inside, "documents",
              "self.documents[number] =")
        for mib, rate, inside in ((300, 10, True), (700, 40, False), (1500, 100, True))
    ),
    *(
        Death(f"training-{mib}-{rate}-{'inside' if inside else 'outside'}", TRAINING, rate, mib, inside, "pool",
              "self.pool.append")
        for mib, rate, inside in ((450, 10, True), (450, 10, False), (600, 20, True), (900, 60, False), (2048, 100, True))
    ),
    *(
        Death(f"worker-{mib}-{rate}-{'inside' if inside else 'outside'}", WORKER, rate, mib, inside, "decoded",
              "self.decoded[number] =")
        for mib, rate, inside in ((256, 10, True), (600, 60, False))
    ),
    *(
        Death(f"loader-{mib}-{rate}-{'inside' if inside else 'outside'}", TORCH_WORKER, rate, mib, inside, "decoded",
              "self.decoded[index] =")
        for mib, rate, inside in ((700, 30, True), (900, 60, False))
    ),
    Death("launcher-500-25-inside", LIST, 25, 500, True, "features", _FEATURES, before=("sh", "-c", '"$0" "$@"; exit 3')),
    Death("launcher-500-25-outside", LIST, 25, 500, False, "features", _FEATURES, before=("sh", "-c", '"$0" "$@"; exit 3')),
    Death("tokenising-500-80-inside", TOKENISING, 80, 500, True, "tokens", "tokens.extend"),
    Death("tokenising-1000-160-outside", TOKENISING, 160, 1000, False, "tokens", "tokens.extend"),
    Death("ulimit-v-6000", LIST, 500, None, True, "features", _FEATURES, first="crash", by=("refused memory", "address space"),
          before=("sh", "-c", _AS % (6000 << 10))),
    Death("ulimit-v-900", LIST, 40, None, True, "features", _FEATURES, first="crash", by=("refused memory", "address space"),
          before=("sh", "-c", _AS % (900 << 10))),
    Death("rlimit-data-1500", LIST, 80, None, True, "features", _FEATURES, first="crash", by=("refused memory", "data"),
          before=_python_limit(_DATA % (1500 * MiB, 1500 * MiB))),
    Death("torch-allocator-7000", TORCH_ALLOCATOR, 300, None, True, "states", "self.states.append", first="crash",
          by=("refused memory", "address space"), before=("sh", "-c", _AS % (7000 << 10))),
    Death("shm-96", SHARED, 8, None, True, "segments", "segment = shared_memory", first="crash", by=("bus error", "/dev/shm"),
          around=("unshare", "-m", "sh", "-c", _SMALL_SHM % 96)),
]  # fmt: skip


class Told(NamedTuple):
    """What was said of one death. ``wrong``: what of it is not as it has to be; empty if nothing is."""

    status: int
    report: dict[str, Any]
    last_words: str
    seconds: float
    wrong: list[str]


def run(death: Death, folder: Path, cgroup: Cgroup | None, record: bool = True) -> Told:
    """Die, and be told of."""
    program = folder / "train.py"
    program.write_text(death.program)
    piece = 1.0 if death.rate >= 10 else 0.25
    command = [*death.before, sys.executable, str(program), str(piece), str(piece / death.rate)]
    enter: list[str] = []
    if cgroup is not None and death.limit_mib is not None:
        cgroup.limit(death.limit_mib * MiB)
        enter = ["sh", "-c", f'echo $$ > {cgroup.folder}/cgroup.procs; exec "$0" "$@"']
    output = folder / "run.parquet"
    recorder = [sys.executable, "-m", "leakscope", "record", "-o", str(output), "--"]
    enter += death.around
    words = [*enter, *recorder, *command] if death.inside else [*recorder, *enter, *command]
    done = subprocess.run(words, capture_output=True, text=True, timeout=LONGEST_S, cwd=folder)
    told = report(output)
    return Told(done.returncode, told, done.stderr, told["recording"]["duration_s"], wrong_of(death, told, done.stderr))


def wrong_of(death: Death, told: dict[str, Any], last_words: str) -> list[str]:
    """What the first finding, the verdict and the last words of ``record`` lack."""
    wrong = []
    if not told["findings"]:
        return ["no finding"]
    first = told["findings"][0]
    title, subject = first["title"], first["subject"]
    if first["kind"] != death.first:
        wrong.append(f"kind {first['kind']}")
    by = death.by or ("kernel", f"cgroup limit {_mib(death.limit_mib)}")
    text = " ".join([title, *(e["text"] for e in first["evidence"])])
    wrong += [f"no {word!r}" for word in by if word.lower() not in text.lower()]
    if death.victim not in title:
        wrong.append("no victim")
    if subject["variable"] != death.holder and death.holder not in (subject["holder"] or ""):
        wrong.append(f"holder {subject['holder']}")
    lines = death.program.splitlines()
    line = lines[subject["line"] - 1].strip() if subject["line"] and subject["line"] <= len(lines) else ""
    if death.line not in line:
        wrong.append(f"line {line!r}")
    if not re.search(r"\d+% of", title):
        wrong.append("no share")
    if "enough" not in text and not any("enough" in r for r in first["remedy"]):
        wrong.append("not what would have been enough")
    if death.first == "oom-kill":
        if not told["verdict"]["killed"]:
            wrong.append("verdict not killed")
        if "out of memory" not in last_words:
            wrong.append("last words without the kill")
    if death.holder not in last_words:
        wrong.append("last words without the holder")
    if [f for f in told["findings"] if f["kind"] == "unhealthy-training"]:
        wrong.append("unhealthy-training")
    for finding in told["findings"][1:]:
        if finding["severity"] != "note" and finding["subject"]["variable"] != death.holder:
            wrong.append(f"also: {finding['kind']}: {finding['title'][:60]}")
    return wrong


def _mib(mib: int | None) -> str:
    return format_bytes((mib or 0) * MiB)


def main(parts: list[str]) -> int:
    chosen = [d for d in DEATHS if not parts or any(part in d.name for part in parts)]
    failed = 0
    for death in chosen:
        folder = Path(tempfile.mkdtemp(prefix="kills-"))
        cgroup = Cgroup.made(f"leakscope-kills-{os.getpid()}") if death.limit_mib is not None else None
        try:
            told = run(death, folder, cgroup)
        finally:
            if cgroup is not None:
                cgroup.remove()
        failed += bool(told.wrong)
        first = told.report["findings"][0] if told.report["findings"] else {}
        print(f"{death.name}: {'ok' if not told.wrong else '; '.join(told.wrong)}", flush=True)
        print(f"    {told.status} after {told.seconds:.1f} s: {first.get('title')}", flush=True)
        for line in told.last_words.splitlines()[-5:]:
            print(f"    | {line}", flush=True)
        if os.environ.get("KEEP"):
            print(f"    {folder}", flush=True)
        else:
            shutil.rmtree(folder)
    print(json.dumps({"deaths": len(chosen), "told wrong": failed}))
    return failed > 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
