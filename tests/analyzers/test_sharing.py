"""What of a process is its own, where forks share pages with each other."""

from __future__ import annotations

import numpy as np

from leakscope.facts.growth.sharing import Family, Ours, read_by_forks, shares
from leakscope.storage import Rows

MiB = float(1 << 20)
SECONDS = np.arange(0.0, 60.0, 2.0)


def rows(own: np.ndarray, shared_bytes: float) -> Rows:
    """Readings of a process with so much of its own, and pages of which each of two has half."""
    anon = own + shared_bytes
    zeros = np.zeros_like(own)
    return Rows.of(
        {
            "time_s": SECONDS, "rss_bytes": anon, "anon_bytes": anon, "shmem_bytes": zeros, "file_bytes": zeros,
            "swap_bytes": zeros, "pss_shmem_bytes": zeros,
            "pss_bytes": own + shared_bytes / 2, "pss_anon_bytes": own + shared_bytes / 2,
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
    read_bytes = own
    readings = readings.assign(pss_bytes=read_bytes, pss_anon_bytes=read_bytes)
    _, private, _, _ = shares(readings, pair)
    assert np.ptp(private) < 1 * MiB


def test_a_share_holds_as_long_as_all_who_have_it() -> None:
    """Read before the third of three forks is born, and again when all are gone: between, nothing was its own."""
    at_s = np.arange(0.0, 12.0)
    readings = Rows.of({name: np.full(at_s.size, 400 * MiB) for name in ("rss_bytes", "anon_bytes")})
    readings = readings.assign(time_s=at_s, shmem_bytes=0.0, file_bytes=0.0, swap_bytes=0.0, pss_shmem_bytes=np.nan)
    read = {0: 400 * MiB, 4: 133 * MiB, 10: 400 * MiB}
    read_bytes = [read.get(n, np.nan) for n in range(at_s.size)]
    readings = readings.assign(pss_bytes=read_bytes, pss_anon_bytes=read_bytes)
    family = Family(np.array([-1.0, 3.5, 3.5, 4.5]), np.array([8.5, 8.7, 9.1]))
    _, private, _, _ = shares(readings, family)
    assert np.allclose(private[4:9] / MiB, 133, atol=1)
    assert np.allclose(private[10:] / MiB, 400, atol=1) and np.allclose(private[:4] / MiB, 400, atol=1)


def test_a_moments_forks_beside_workers_take_no_growth_away() -> None:
    """A training with two workers grows, and forks two more for each evaluation: two readings meet them."""
    own = np.linspace(200 * MiB, 400 * MiB, SECONDS.size)
    readings = rows(own, 160 * MiB)
    read_bytes = readings["pss_bytes"].values.copy()
    for met in (12, SECONDS.size - 1):
        read_bytes[met] = (own[met] + 160 * MiB) / 3
    readings = readings.assign(pss_bytes=read_bytes, pss_anon_bytes=read_bytes)
    trio = Family(np.array([-1.0, -1.0, -1.0]), np.empty(0))
    _, private, _, _ = shares(readings, trio)
    assert np.allclose(private, own + 80 * MiB, rtol=0.1)
    assert private[-1] == private.max()


def test_a_peak_that_a_snapshot_met_stays_without_what_the_snapshot_took() -> None:
    """A graph of 40 MiB was held for 12 s, as the process went to 300 MiB and back; at rest nothing is seen of it."""
    own = np.full(SECONDS.size, 100 * MiB)
    own[10] = 300 * MiB
    held = np.where((SECONDS >= 16) & (SECONDS <= 28), 40 * MiB, 0.0)
    at_s, private, _, _ = shares(rows(own + held, 0.0), Family(), ours=[Ours(16.0, 28.0, 40 * MiB)])
    assert at_s.tolist() == SECONDS.tolist()
    assert np.allclose(private, own, rtol=0.01)
    known_s, unsaid, _, _ = shares(rows(own + held, 0.0), Family(), ours=[Ours(16.0, 28.0, np.inf)])
    assert known_s.tolist() == [at for at in SECONDS if not 16 <= at <= 28], "what nobody measured is no sample"
    assert np.allclose(unsaid, 100 * MiB, rtol=0.01), "how much of it is ours was not said"


def test_a_fork_born_late_does_not_count_the_pages_of_its_parent_twice() -> None:
    """The parent was read for the last time while it was alone; its fork has half of each page since its birth."""
    alone = rows(np.full(SECONDS.size, 2000 * MiB), 0.0)
    read_bytes = np.where(SECONDS > 0, np.nan, alone["pss_bytes"].values)
    alone = alone.assign(pss_bytes=read_bytes, pss_anon_bytes=read_bytes)
    fork = alone.iloc[-5:].assign(anon_bytes=2000 * MiB, pss_bytes=1030 * MiB, pss_anon_bytes=1030 * MiB)
    samples = {(1, 0): alone, (2, 0): fork}
    pair = Family(np.array([-1.0, SECONDS[-5] - 0.5]), np.empty(0))
    read = read_by_forks(samples, {(2, 0): (1, 0)})
    of_parent, of_fork = (shares(read[key], pair)[1] for key in samples)
    assert np.allclose((of_parent[-5:] + of_fork) / MiB, 2060, atol=1)
    assert np.allclose(of_parent[:-5] / MiB, 2000, atol=1)


def test_another_job_that_maps_the_same_libraries_takes_none_of_our_memory() -> None:
    """100 MiB of files are ours alone once it has ended; the shared memory was divided between two all the time."""
    readings = rows(np.full(SECONDS.size, 200.0 * MiB), 0.0)
    files = np.where(SECONDS < 30, 30.0, 100.0) * MiB
    readings = readings.assign(shmem_bytes=300.0 * MiB, file_bytes=100.0 * MiB, pss_shmem_bytes=150.0 * MiB)
    readings = readings.assign(pss_bytes=readings["pss_anon_bytes"] + 150 * MiB + files)
    two = Family(np.array([-1.0, -1.0]), np.empty(0))
    _, _, shared, file = shares(readings, two)
    assert np.ptp(shared) == 0 and shared[0] == 150 * MiB
    assert (file[0], file[-1]) == (30 * MiB, 100 * MiB)
