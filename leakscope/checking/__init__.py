"""A gate for continuous integration: does a recording keep to the rules its project has set?

Runs afterwards. A rule that the recording cannot answer is neither kept nor broken: a run of 20 steps says nothing
about 5 MB per 1,000 steps, and a gate that is green for want of evidence is worse than none.
"""

from __future__ import annotations

from ._check import BROKEN, CANNOT_TELL, KEPT, Check, Outcome, check, check_case
from ._render import FORMATS, render
from ._rules import Growth, Rules, read_rules

__all__ = [
    "BROKEN",
    "CANNOT_TELL",
    "FORMATS",
    "KEPT",
    "Check",
    "Growth",
    "Outcome",
    "Rules",
    "check",
    "check_case",
    "read_rules",
    "render",
]
