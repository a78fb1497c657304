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
from collections.abc import Iterator
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


_SMALL_SHM = 'mount -t tmpfs -o size=96m tmpfs /dev/shm && exec "$0" "$@"'
_SETS_DATA = """
import os, resource, sys
resource.setrlimit(resource.RLIMIT_DATA, (1500 << 20, 1500 << 20))
os.execvp(sys.argv[1], sys.argv[1:])
"""
_SAYS_THE_SAME = ("crash", "memory-pressure", "shared-memory")  # of a worker that died, of the limit
_ADDRESS_SPACE = ("refused memory", "address space")


def _in_cgroups(
    name: str, program: str, holder: str, line: str, tried: str, before: tuple[str, ...] = ()
) -> Iterator[Death]:
    """``tried``: limit in MiB, growth in MiB a second, and whether the recorder is inside."""
    for one in tried.split():
        limit, rate, where = one.split(":")
        inside = where == "inside"
        title = f"{name}-{limit}-{rate}-{where}"
        yield Death(title, program, float(rate), int(limit), inside, holder, line, before=before)


def _under_ulimit(name: str, program: str, rate: float, mib: int, holder: str, line: str) -> Death:
    before = ("sh", "-c", f'ulimit -v {mib << 10}; exec "$0" "$@"')
    return Death(f"{name}-{mib}", program, rate, None, True, holder, line, "crash", _ADDRESS_SPACE, before)


_FEATURES = ("features", "self.features.append")
DEATHS = [
    *_in_cgroups("list", LIST, *_FEATURES, "256:8:inside 600:40:outside 256:8:outside 600:40:inside 2048:100:inside "
                 "1024:200:outside"),
    *_in_cgroups("training", TRAINING, "pool", "self.pool.append", "450:10:inside 450:10:outside 600:20:inside "
                 "900:60:outside 2048:100:inside"),
    *_in_cgroups("records", RECORDS, "documents", "self.documents[number] =", "300:10:inside 700:40:outside "
                 "1500:100:inside"),
    *_in_cgroups("worker", WORKER, "decoded", "self.decoded[number] =", "256:10:inside 600:60:outside"),
    *_in_cgroups("loader", TORCH_WORKER, "decoded", "self.decoded[index] =", "700:30:inside 900:60:outside"),
    *_in_cgroups("launcher", LIST, *_FEATURES, "500:25:inside 500:25:outside", ("sh", "-c", '"$0" "$@"; exit 3')),
    *_in_cgroups("tokenising", TOKENISING, "tokens", "tokens.extend", "500:80:inside 1000:160:outside"),
    _under_ulimit("ulimit-v", LIST, 500, 6000, *_FEATURES),
    _under_ulimit("torch-allocator", TORCH_ALLOCATOR, 300, 7000, "states", "self.states.append"),
    Death("rlimit-data-1500", LIST, 80, None, True, *_FEATURES, "crash", ("refused memory", "data segment"),
          (sys.executable, "-S", "-c", _SETS_DATA)),
    Death("shm-96", SHARED, 8, None, True, "segments", "segment = shared_memory", "crash", ("bus error", "/dev/shm"),
          around=("unshare", "-m", "sh", "-c", _SMALL_SHM)),
]  # fmt: skip


class Told(NamedTuple):
    """What was said of one death. ``wrong``: what of it is not as it has to be; empty if nothing is."""

    status: int
    report: dict[str, Any]
    last_words: str
    seconds: float
    wrong: list[str]


def run(death: Death, folder: Path, cgroup: Cgroup | None) -> Told:
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
    besides = (f for f in told["findings"][1:] if f["severity"] != "note" and f["kind"] not in _SAYS_THE_SAME)
    wrong += [f"also: {f['kind']}: {f['title'][:60]}" for f in besides if f["subject"]["variable"] != death.holder]
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
