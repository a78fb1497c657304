"""A part of ``make foreign-tests``: files of CPython's own suite end the same bare and recorded in stress mode."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.foreign.compare import TIMING
from tests.foreign.examine import examine, line
from tests.foreign.suites import SUITES
from tests.foreign.table import UNEXPLAINED, explanation, follows

FILES = (
    "test_gc", "test_frame", "test_generators", "test_coroutines", "test_xml_etree", "test_xml_etree_c",
    "test_weakref", "test_sys_settrace", "test_sys_setprofile", "test_bdb", "test_cprofile", "test_threading",
    "test_fork1", "test_interpreters", "test_descr", "test_atexit", "test_asyncio.test_tasks",
)  # fmt: skip
LIMIT_S = 300.0
PYTHON = Path(sys.executable)
CPYTHON = SUITES["cpython"]

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif("LEAKSCOPE_TORTURE" not in os.environ, reason="minutes: `make torture`"),
]


@pytest.fixture(scope="module")
def available() -> list[str]:
    try:
        return CPYTHON.files(PYTHON)
    except subprocess.SubprocessError:
        pytest.skip("this Python came without its test suite")


def is_new(difference: dict[str, str]) -> bool:
    """Not one that docs/development/foreign-tests.md explains."""
    return explanation("cpython", difference) == UNEXPLAINED


@pytest.mark.parametrize("name", FILES)
def test_a_file_of_cpythons_suite_ends_the_same(name, available):
    found = [file for file in available if file.removeprefix("test.") == name]
    if not found:
        pytest.skip("not in this Python's suite")
    row = examine(CPYTHON, PYTHON, found[0], limit_s=LIMIT_S)
    assert row["tests"] or row["status"] == "0", "nothing ran bare: there is nothing to compare"
    assert row["snapshots"], "the agent took no snapshot: nothing was tested"
    told = row["differences"]
    ours = [d for d in told if d["verdict"] != TIMING and not follows(d, told) and is_new({**d, "file": name})]
    assert not ours, line({**row, "differences": ours})
