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


def test_growth_of_which_nothing_is_known_has_none() -> None:
    """Of two programs, or of one twice: it may be another leak each time."""
    finding = Finding(
        "unexplained-growth", "", "critical", 0.6, 5, Subject(process="serve.py", pid=4242, role="trainer")
    )
    assert fingerprint_of(finding, "/app") is None
    assert _of("Server") is not None
