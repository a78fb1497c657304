"""What single diagnoses say of a recording, without the report round it: that costs as much again, a thousand times."""

from __future__ import annotations

from collections.abc import Sequence

from leakscope.analyzers import Diagnosis, diagnose
from leakscope.facts.case import Case
from leakscope.findings import in_order
from leakscope.reporting.merging import folded
from leakscope.storage import Recording


def asked(recording: Recording, only: Sequence[str]) -> Diagnosis:
    """Findings, and what was ruled out and skipped, as ``analyze`` has them of these kinds."""
    told = diagnose(Case(recording), only)
    findings = folded(in_order(told.findings))
    ruled_out = sorted(told.ruled_out, key=lambda one: (one.kind, one.reason))
    return Diagnosis(findings, ruled_out, [skip for skip in told.skipped if skip.kind in only])
