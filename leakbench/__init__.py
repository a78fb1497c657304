"""Leakbench: programs with a known leak and their repaired twins; tools answer, one rule scores what they say."""

from __future__ import annotations

import json
from pathlib import Path

from tests.end_to_end.programs import FIXTURES, Place, Program, programs

BENCH_PROGRAMS = FIXTURES / "leakbench"  # too many to be recorded by every run of the tests
# Written by somebody who knows nothing of leakscope. They are only run: nothing is changed because of what they show.
UNSEEN_PROGRAMS = FIXTURES / "unseen"
UNSEEN_S = 65.0  # they grow at the pace of a service or a training, not of a test

# Written by somebody who knows nothing of leakscope, and run for a release alone: nothing may be changed by what a
# program of these shows, or it moves to the others.
SEALED_PROGRAMS = FIXTURES / "sealed"
KILLED_PROGRAMS = FIXTURES / "circumstances"  # of these, what dies in a memory cgroup
SNAPSHOTS = FIXTURES / "snapshots"  # of torch's allocator: they are read, not run

# Reports of memory that runs out, by cause, as people file them; a sample is drawn in these proportions.
FIELD = {
    "containers": 0.40,
    "native code and allocators": 0.25,
    "workers, processes and copies": 0.10,
    "graphs and tensors": 0.10,
    "kills under a limit": 0.10,
    "GPU snapshots": 0.05,
}
_AREAS = {
    "native-growth": "native code and allocators",
    "fragmentation": "native code and allocators",
    "allocator-kept": "native code and allocators",
    "unexplained-growth": "native code and allocators",
    "refcount-drift": "native code and allocators",
    "mapped-files": "native code and allocators",
    "memory-pressure": "native code and allocators",
    "dataloader-workers": "workers, processes and copies",
    "dataset-copies": "workers, processes and copies",
    "duplicate-model": "workers, processes and copies",
    "manager-proxies": "workers, processes and copies",
    "shared-memory": "workers, processes and copies",
    "process-pileup": "workers, processes and copies",
    "thread-pileup": "workers, processes and copies",
    "fd-pileup": "workers, processes and copies",
    "map-pileup": "workers, processes and copies",
    "compile-workers": "workers, processes and copies",
    "retained-graph": "graphs and tensors",
    "eval-accumulation": "graphs and tensors",
    "unhealthy-training": "graphs and tensors",
    "recompilation": "graphs and tensors",
    "oom-kill": "kills under a limit",
}


def all_programs() -> list[Program]:
    killed = [program for program in programs(KILLED_PROGRAMS) if program.limit_bytes and not program.options]
    return [*programs(BENCH_PROGRAMS), *programs(), *killed, *snapshots()]


def snapshots() -> list[Program]:
    """Memory snapshots of torch's; a line is told as ``file:number`` there, since no source comes with them."""
    found = []
    for name, truth in json.loads(Path(__file__).with_name("snapshots.json").read_text()).items():
        places = (Place(truth["kind"], None, truth["line"]),) if truth["kind"] else ()
        found.append(Program(SNAPSHOTS / f"{name}.pickle.gz", places, truth["grows"]))
    return found


def sealed_programs() -> list[Program]:
    return programs(SEALED_PROGRAMS)


def unseen_programs() -> list[Program]:
    return programs(UNSEEN_PROGRAMS)


def area(program: Program) -> str:
    """The field's name for what is wrong with a program, or with its twin; of a guilty-looking one "containers"."""
    if is_snapshot(program):
        return "GPU snapshots"
    kinds = [place.kind for place in program.places]
    if not kinds:
        twin = program.path.with_name("leaky.py")
        kinds = [p.kind for other in _folder_of(program) if other.path == twin for p in other.places]
    return _AREAS.get(kinds[0], "containers") if kinds else "containers"


def is_snapshot(program: Program) -> bool:
    return program.path.parent == SNAPSHOTS


def _folder_of(program: Program) -> list[Program]:
    return [other for other in programs(program.path.parents[1]) if other.path.parent == program.path.parent]


def sample(among: list[Program], count: int) -> list[Program]:
    """About ``count`` programs with their twins, and some that look guilty, in the field's proportions.

    However many of the first have these, too.
    """
    chosen: list[tuple[float, list[Program]]] = []  # in which share of its area each folder comes
    for name, part in FIELD.items():
        here = [program for program in among if area(program) == name]
        leaky = sorted((p for p in here if p.places), key=lambda p: p.path)
        number = min(len(leaky), max(1, round(count * part / 2)))
        for i, picked in enumerate(leaky[(2 * i + 1) * len(leaky) // (2 * number)] for i in range(number)):
            folder = picked.path.parent
            twins = [picked] if folder == SNAPSHOTS else [program for program in here if program.path.parent == folder]
            chosen.append(((i + 0.5) / number, twins))  # spread over the alphabet
    guilty_looking = [
        program for program in among if not program.places and not program.path.with_name("leaky.py").exists()
    ]
    picked_guilty = guilty_looking[:: max(1, 8 * len(guilty_looking) // count)]
    chosen += [((i + 0.5) / len(picked_guilty), [one]) for i, one in enumerate(picked_guilty)]
    in_order = [program for _, programs in sorted(chosen, key=lambda pair: pair[0]) for program in programs]
    return list(dict.fromkeys(in_order))
