"""Whoever waits for the GIL gets it soon, however long our thread is at work. Runs in the job.

A thread that wants the GIL asks for it after 5 ms (``sys.getswitchinterval``), and a service lets go of it several
times a request: beside a thread of ours that calculates for long, each answer would come that much later each time.
"""

from __future__ import annotations

from time import monotonic, sleep

LONGEST_S = 0.001  # that our thread keeps the GIL while it makes rows
REST_S = 0.00005  # by 0 it would have the GIL back before whoever waits for it has woken up

_began = [0.0]


def give_way() -> None:
    """Between two pieces of work of ours, while nothing of the job's has to hold still. **Cost** 0.1 us."""
    if monotonic() - _began[0] > LONGEST_S:
        sleep(REST_S)
        _began[0] = monotonic()
