"""What snapshots of a process leave to each other: numbers and names, never an object of the job. Runs in the job."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ..interpreter.names import Named


class Remembered:
    """Of one process; a forked child begins anew."""

    def __init__(self) -> None:
        self.has_forked = False  # what it looks at is shared with others

        # Growth that the walk from users' names does not explain (beyond.py): resident memory and what the walk
        # explained of it, at the first snapshot and at the last.
        self.first: tuple[int, float] | None = None
        self.last: tuple[int, float] | None = None
        self.is_growth_hidden = False
        self.is_growth_named = False  # something of a library's was found to grow: hidden it is no longer
        self.module_count = 0

        # Containers of libraries: by their names, or by their ids where they have none.
        self.library_lengths: dict[str, int] | None = None
        self.growing_libraries: set[str] = set()
        self.large: dict[int, int] | None = None  # id: members
        self.library_names: dict[int, tuple[str, Named | None]] = {}
        self.registry_lengths: dict[str, int] = {}  # when first seen
        # (module, type name): where it is defined, of types whose objects nothing in Python holds
        self.outside: dict[tuple[str | None, str], tuple[str, int | None]] = {}

        # Passes over the heap to ask for referrers, and what the dearest of late has cost.
        self.passes = 0
        self.pass_s = 0.0

        # Objects by type that no path reached: of the last snapshots {type name: (unreached, all)}; types asked about.
        self.unreached: list[dict[str, tuple[int, int]]] = []
        self.climbed: set[str] = set()

        self.factors: dict[tuple[str, str], float] = {}  # (path, type): of the last walk with a census

        # Where torch keeps a tensor's memory: torch/tensors.py, memory_layout; None: not found yet.
        self.tensor_layout: tuple[int, int, int, int, int] | None = None

        # Rounds of fingerprints of weights.
        self.fingerprint_rounds = 0
        self.fingerprinted_at = 0.0
        self.fingerprinted_bytes = 0

    def forget_growth(self) -> None:
        """Where what has grown since is no growth to look into."""
        self.first = self.last = self.library_lengths = self.large = None
        self.is_growth_hidden = False
