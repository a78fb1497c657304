"""Leakbench: programs with a known leak and their repaired twins; tools answer, one rule scores what they say."""

from __future__ import annotations

from tests.end_to_end.programs import FIXTURES, Program, programs

BENCH_PROGRAMS = FIXTURES / "leakbench"  # too many to be recorded by every run of the tests
# Written by somebody who knows nothing of leakscope. They are only run: nothing is changed because of what they show.
UNSEEN_PROGRAMS = FIXTURES / "unseen"
UNSEEN_S = 65.0  # they grow at the pace of a service or a training, not of a test

# Reports of memory that runs out, by cause, as people file them; a sample is drawn in these proportions.
FIELD = {
    "containers": 0.40,
    "native code and allocators": 0.25,
    "workers and copies": 0.10,
    "graphs and tensors": 0.10,
    "processes, threads and files": 0.10,
    "compilers": 0.05,
}
_AREAS = {
    "native-growth": "native code and allocators",
    "fragmentation": "native code and allocators",
    "allocator-kept": "native code and allocators",
    "unexplained-growth": "native code and allocators",
    "refcount-drift": "native code and allocators",
    "mapped-files": "native code and allocators",
    "memory-pressure": "native code and allocators",
    "dataloader-workers": "workers and copies",
    "dataset-copies": "workers and copies",
    "duplicate-model": "workers and copies",
    "manager-proxies": "workers and copies",
    "shared-memory": "workers and copies",
    "retained-graph": "graphs and tensors",
    "eval-accumulation": "graphs and tensors",
    "unhealthy-training": "graphs and tensors",
    "process-pileup": "processes, threads and files",
    "thread-pileup": "processes, threads and files",
    "fd-pileup": "processes, threads and files",
    "map-pileup": "processes, threads and files",
    "compile-workers": "compilers",
    "recompilation": "compilers",
}


def all_programs() -> list[Program]:
    return [*programs(BENCH_PROGRAMS), *programs()]


def unseen_programs() -> list[Program]:
    return programs(UNSEEN_PROGRAMS)


def area(program: Program) -> str:
    """The field's name for what is wrong with a program, or with its twin; of a guilty-looking one "containers"."""
    kinds = [place.kind for place in program.places]
    if not kinds:
        twin = program.path.with_name("leaky.py")
        kinds = [p.kind for other in _folder_of(program) if other.path == twin for p in other.places]
    return _AREAS.get(kinds[0], "containers") if kinds else "containers"


def _folder_of(program: Program) -> list[Program]:
    return [other for other in programs(program.path.parents[1]) if other.path.parent == program.path.parent]


def sample(among: list[Program], count: int) -> list[Program]:
    """About ``count`` programs in the field's proportions, with their twins; and some that look guilty."""
    chosen: list[Program] = []
    for name, part in FIELD.items():
        here = [program for program in among if area(program) == name]
        leaky = sorted((p for p in here if p.places), key=lambda p: p.path)
        number = min(len(leaky), max(1, round(count * part / 2)))
        picked = [leaky[(2 * i + 1) * len(leaky) // (2 * number)] for i in range(number)]  # spread over the alphabet
        folders = {program.path.parent for program in picked}
        chosen += [program for program in here if program.path.parent in folders]
    guilty_looking = [program for program in among if not program.path.with_name("leaky.py").exists()]
    return chosen + guilty_looking[:: max(1, 8 * len(guilty_looking) // count)]
