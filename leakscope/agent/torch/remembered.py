"""What looks at torch's objects leave to each other: numbers, never an object of the job. Runs in the job."""

from __future__ import annotations


class Remembered:
    """Of one process; a forked child begins anew."""

    def __init__(self) -> None:
        # Where torch keeps a tensor's memory: tensors.py, memory_layout; None: not found yet.
        self.tensor_layout: tuple[int, int, int, int, int] | None = None

        # Rounds of fingerprints of weights.
        self.fingerprint_rounds = 0
        self.fingerprinted_at = 0.0
        self.fingerprinted_bytes = 0
