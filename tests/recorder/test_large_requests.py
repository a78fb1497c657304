"""What processes of the job write into memory of the recorder's."""

from __future__ import annotations

import os

from hypothesis import given
from hypothesis import strategies as st

from leakscope.agent.journal import encode_block
from leakscope.recorder.large_requests import LargeRequests

_SLOT = 2048
_head = st.binary(max_size=40)
_call = st.builds(
    lambda file, line, name: f"{file}\n{line}\n1\n{name}\0".encode("utf-8", "surrogatepass"),
    st.text(max_size=20), st.one_of(st.integers(), st.text(max_size=3)), st.text(max_size=20),
)  # fmt: skip


@given(st.lists(st.tuples(_head, st.lists(_call, max_size=4)), max_size=5))
def test_whatever_stands_there_rows_can_be_written(slots: list[tuple[bytes, list[bytes]]]) -> None:
    """It is the job's to write to: the recorder ends as it would have."""
    memory = LargeRequests()
    assert memory.file is not None
    try:
        descriptor = os.open(memory.file, os.O_RDWR)
        for at, (head, calls) in enumerate(slots, 1):
            os.pwrite(descriptor, (head.ljust(40, b"\1") + b"".join(calls))[:_SLOT], at * _SLOT)
        os.close(descriptor)
        rows = list(memory.rows())
        assert len(rows) <= len(slots)
        for row in rows:
            assert (
                encode_block("large_requests", [row])
                and max(abs(row["size_bytes"]), abs(row["time_mono_ns"])) < 1 << 62
            )
    finally:
        memory.close()


def test_nobody_can_take_the_memory_away_from_under_the_job() -> None:
    """A process that writes where a file has ended is killed by SIGBUS."""
    memory = LargeRequests()
    assert memory.file is not None
    descriptor = os.open(memory.file, os.O_RDWR)
    try:
        os.ftruncate(descriptor, 0)
    except PermissionError:
        pass
    else:
        raise AssertionError("it was cut short")
    finally:
        os.close(descriptor)
        memory.close()
