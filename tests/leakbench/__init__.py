"""Leakbench: programs with a known leak and their repaired twins, recorded and judged by what the report says first."""

from __future__ import annotations

from tests.end_to_end.programs import FIXTURES, Program, programs

BENCH_PROGRAMS = FIXTURES / "leakbench"  # too many to be recorded by every run of the tests
# Written by somebody who knows nothing of leakscope. They are only run: nothing is mended by what they show.
UNSEEN_PROGRAMS = FIXTURES / "unseen"
UNSEEN_S = 65.0  # they grow at the pace of a service or a training, not of a test


def all_programs() -> list[Program]:
    return [*programs(BENCH_PROGRAMS), *programs()]


def unseen_programs() -> list[Program]:
    return programs(UNSEEN_PROGRAMS)
