"""A finding has the same fingerprint in each run of a program."""

from __future__ import annotations

import pytest

from leakscope.findings import Finding, Subject, fingerprint_of


def _of(holder: str, type: str | None = None, variable: str | None = None) -> str:
    subject = Subject(holder=holder, type=type, variable=variable, file="/app/serve.py", function="serve")
    return fingerprint_of(Finding("thread-pileup", "", "warning", 0.9, 0, subject), "/app")


@pytest.mark.parametrize(
    ("one", "other"),
    [("78 threads of follow", "1,156 threads of follow"), ("186 segments /dev/shm/psm_*", "2 segments /dev/shm/psm_*")],
)
def test_how_many_there_were_is_no_part_of_it(one: str, other: str) -> None:
    assert _of(one) == _of(other)
    assert _of("Server", type=one) == _of("Server", type=other)


def test_numbers_in_names_are() -> None:
    assert _of("Layer1.cache (dict)") != _of("Layer2.cache (dict)")
