"""Which forked children are worth a snapshot, and what it may take."""

from __future__ import annotations

import subprocess
import sys

import pytest

from leakscope.agent.snapshots import sharing

MiB = 1 << 20


GAINS = """
from leakscope.agent.snapshots import sharing
fork = sharing.Fork(copies=False)
print(fork.is_worth_a_snapshot())
gained = b"x" * (64 << 20)
print(fork.is_worth_a_snapshot(), fork.is_worth_a_snapshot(), fork.refusal, fork.left_bytes())
"""


@pytest.mark.live
def test_a_fork_is_looked_into_by_what_it_gained_whatever_the_machine_has_free() -> None:
    """In a process of its own: what other tests left here may be freed while it gains."""
    told = subprocess.run([sys.executable, "-c", GAINS], capture_output=True, check=True, text=True).stdout
    before, is_worth_it, again, refusal, left_bytes = told.split()
    assert before == "False"
    assert is_worth_it == "True"
    assert again == "False", "it has gained nothing since"
    assert refusal == "None"
    assert 0.8 * 4 * 64 * MiB < int(left_bytes) < 1.5 * 4 * 64 * MiB


def test_what_keeps_a_fork_from_a_snapshot_is_to_be_said_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its memory is told here: this process may free what other tests left while it asks."""
    held = [256 * MiB]
    monkeypatch.setattr(sharing, "anonymous_bytes", lambda: sum(held))
    fork = sharing.Fork(copies=True)
    fork.allows_copies = lambda shared_bytes: False  # type: ignore[method-assign]
    held.append(64 * MiB)
    assert not fork.is_worth_a_snapshot()
    assert fork.refusal is not None and "MiB with others" in fork.refusal
    fork.refusal = None
    held.append(512 * MiB)
    assert not fork.is_worth_a_snapshot() and fork.refusal is None


def test_a_parent_of_forks_may_ask_some_tensors_however_large_they_are(monkeypatch: pytest.MonkeyPatch) -> None:
    """What tensors hold is only read: of 6 GiB that loader workers share, objects are all that is copied."""
    monkeypatch.setattr(sharing, "available_bytes", lambda: 1 << 30)
    assert sharing.parent_allows(64 * MiB) and not sharing.parent_allows(6 << 30)
    assert sharing.tensors_allowed(64 * MiB) == float("inf")
    asked = sharing.tensors_allowed(6 << 30)
    assert asked > 1000 and asked * sharing.COPIED_BY_TENSOR_BYTES <= 64 * MiB
