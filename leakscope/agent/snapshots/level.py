"""Does memory stand where it stood after the last snapshot? Then another would find the same. Runs in the job."""

from __future__ import annotations

from ..native.allocators import malloc_in_use_bytes
from ..native.memory import rss_bytes

LOOKS = 4  # the lowest of so many: what a step needs in between is no gain
# Of resident memory, which wanders by 1.4 MiB in a training loop that keeps nothing, and of what malloc handed out.
GAIN_BYTES = (4 * 1024 * 1024, 1024 * 1024)
SPREAD = 0.25  # of the highest of them less the lowest: a saw-tooth met by chance here and there differs by as much


class Level:
    """Memory resident and in use, looked at now and then since the last snapshot."""

    def __init__(self) -> None:
        self.asked = False  # for a look after the next optimizer step: batch and activations are gone then
        self.begin()

    def begin(self) -> None:
        """A snapshot has just been made."""
        self._count = 0
        self._last: list[tuple[int, int]] = []
        self._lowest: tuple[int, ...] = ()  # since then: what the snapshot itself left to be written is soon gone

    def look(self) -> None:
        """**Cost** 10 us."""
        self.asked = False
        figures = (rss_bytes() or 0, malloc_in_use_bytes() or 0)
        self._count += 1
        self._last = (self._last + [figures])[-LOOKS:]
        self._lowest = tuple(map(min, zip(self._lowest or figures, figures)))

    def nearest_bytes(self, to: int) -> int | None:
        """Resident memory in that of the last looks which is nearest to this, without what came and went between them;
        None: too few yet. A fall counts once all of them saw it: a program that ends is gone by then.
        """
        seen = [rss for rss, _ in self._last]
        return min(max(to, min(seen)), max(seen)) if self._count > 1 else None

    def is_flat(self) -> bool:
        """Whether nothing was gained since; False also while that cannot be told yet."""
        last, lowest = self._last, self._lowest
        if self._count < 2 * LOOKS:  # each look must have others before it to be compared with
            return False
        return all(
            min(seen) - low <= max(enough, SPREAD * (max(seen) - low))
            for seen, low, enough in zip(zip(*last), lowest, GAIN_BYTES)
        )
