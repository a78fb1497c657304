"""What of a process is its own, where forks share pages with each other."""

from __future__ import annotations

import numpy as np
import pandas as pd

from leakscope.facts.growth.sharing import Family, shares

MiB = float(1 << 20)
SECONDS = np.arange(0.0, 60.0, 2.0)


def rows(own: np.ndarray, shared_bytes: float) -> pd.DataFrame:
    """Readings of a process with so much of its own, and pages of which each of two has half."""
    anon = own + shared_bytes
    zeros = np.zeros_like(own)
    return pd.DataFrame(
        {
            "time_s": SECONDS, "rss_bytes": anon, "anon_bytes": anon, "shmem_bytes": zeros, "file_bytes": zeros,
            "swap_bytes": zeros, "pss_bytes": own + shared_bytes / 2, "pss_anon_bytes": own + shared_bytes / 2,
        }
    )  # fmt: skip


def test_a_fork_that_grows_keeps_what_it_shares_with_its_parent() -> None:
    """Its own share passes nine tenths on the way: the shared pages did not become its own there."""
    own = np.linspace(10 * MiB, 100 * MiB, SECONDS.size)
    pair = Family(np.array([-1.0, -1.0]), np.empty(0))
    _, private, _, _ = shares(rows(own, 12 * MiB), pair)
    assert np.allclose(np.diff(private), np.diff(own), rtol=0.02)


def test_a_reading_a_moment_later_is_no_sharing() -> None:
    own = np.where(np.arange(SECONDS.size) % 3 == 0, 93 * MiB, 100 * MiB)  # of 100 MiB resident
    pair = Family(np.array([-1.0, -1.0]), np.empty(0))
    readings = rows(np.full(SECONDS.size, 100 * MiB), 0.0)
    readings["pss_bytes"] = readings["pss_anon_bytes"] = own
    _, private, _, _ = shares(readings, pair)
    assert np.ptp(private) < 1 * MiB
