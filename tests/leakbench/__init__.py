"""Leakbench: programs with a known leak and their repaired twins, recorded and judged by what the report says first."""

from __future__ import annotations

from tests.end_to_end.programs import FIXTURES, Program, programs

BENCH_PROGRAMS = FIXTURES / "leakbench"  # too many to be recorded by every run of the tests


def all_programs() -> list[Program]:
    return [*programs(BENCH_PROGRAMS), *programs()]
