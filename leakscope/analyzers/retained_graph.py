"""Autograd graphs that are kept: a running loss, stored losses or outputs that were never detached.

Looks for:     a named tensor, or a container of tensors, below which the nodes of autograd graphs keep growing.
Why:           every such tensor keeps the whole history that made it, in C++, out of sight of object counters.
Decides by:    nodes and saved bytes under a name in snapshots at optimizer steps, min_share of the growth or more.
Mistaken when: a graph is meant to grow, as in a truncated backpropagation whose window is longer than the recording.
Do:            keep .item() or .detach() of it, or run evaluation under torch.no_grad().
"""

from __future__ import annotations

from collections.abc import Iterator

from ..evidence import retained
from ..facts.case import Case
from ..facts.growth.tree import TOLD_SHARE
from ..findings import Finding, RuledOut, Skipped
from ..kinds import GROWTH
from ..units import LITTLE

NEEDS = retained.NEEDS
TELLS = (GROWTH,)


def findings(
    case: Case,
    *,
    min_share: float = TOLD_SHARE,  # the same as for objects: the two compete for the same growth
    min_bytes: int = LITTLE,
) -> Iterator[Finding | RuledOut | Skipped]:
    """Yield one finding per holder of growing graphs."""
    yield from retained.findings(case, retained.GRAPH, min_share=min_share, min_bytes=min_bytes)
