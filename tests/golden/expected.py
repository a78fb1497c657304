"""What the report of a golden recording must say: the part of the contract that a user acts on, and no sentence.

Of kinds that are not found it says only what is not usual, so that a new diagnosis changes no expectation.
"""

from __future__ import annotations

import json
import math
from typing import Any

from leakscope.analyzers import names
from tests.end_to_end.programs import Program

from . import expected_of

# Bytes may move by this much without anybody noticing: an account of growth is an estimate.
RELATIVE_TOLERANCE, ABSOLUTE_TOLERANCE_BYTES = 0.1, 1 << 20
_RULED_OUT, _SKIPPED = "ruled out", "not checked"
# Of programs without a GPU, of which most mark no phase, compile nothing and train nothing. All others are ruled out.
USUALLY_SKIPPED = frozenset({
    "eval-accumulation", "gpu-fragmentation", "gpu-imbalance", "gpu-other-process", "gpu-out-of-memory", "gpu-peak",
    "gpu-retention", "recompilation", "unhealthy-training",
})  # fmt: skip
_SUBJECT = ("process", "role", "variable", "holder", "file", "line", "function", "module", "library")


def expectation(report: dict[str, Any]) -> dict[str, Any]:
    """The part of a report that is compared."""
    verdict = report["verdict"]
    return {
        "verdict": {name: verdict[name] for name in ("leaking", "killed", "growth_bytes", "wasted_bytes", "limit")},
        "findings": [_finding(finding) for finding in report["findings"]],
        "otherwise": _otherwise(report),
    }


def _otherwise(report: dict[str, Any]) -> dict[str, str]:
    """{kind: how it was told} of those that are not told as usual."""
    found = {finding["kind"] for finding in report["findings"]}
    told = {kind: "nothing is told" for kind in names() if kind not in found}
    for name, words in (("ruled_out", _RULED_OUT), ("skipped", _SKIPPED)):
        for kind in sorted({entry["kind"] for entry in report[name]}):
            told[kind] = f"{told[kind]}, {words}" if told.get(kind) in (_RULED_OUT, _SKIPPED) else words
    usual = {kind: _SKIPPED if kind in USUALLY_SKIPPED else _RULED_OUT for kind in told.keys() - found}
    return {kind: words for kind, words in sorted(told.items()) if usual.get(kind) != words}


def _finding(finding: dict[str, Any]) -> dict[str, Any]:
    subject = {name: finding["subject"][name] for name in _SUBJECT if finding["subject"][name] is not None}
    return {"kind": finding["kind"], "severity": finding["severity"], "bytes": finding["bytes"], **subject}


def differences(expected: Any, found: Any, where: str = "") -> list[str]:
    """What differs beyond the tolerance, a line each: ``findings[0].line: 12, now 13``."""
    if isinstance(expected, dict) and isinstance(found, dict):
        names = [*expected, *(name for name in found if name not in expected)]
        return [
            line
            for name in names
            for line in differences(expected.get(name), found.get(name), f"{where}.{name}" if where else str(name))
        ]
    if isinstance(expected, list) and isinstance(found, list) and len(expected) == len(found):
        return [line for i, pair in enumerate(zip(expected, found)) for line in differences(*pair, f"{where}[{i}]")]
    if where.endswith("bytes") and isinstance(expected, (int, float)) and isinstance(found, (int, float)):
        if math.isclose(expected, found, rel_tol=RELATIVE_TOLERANCE, abs_tol=ABSOLUTE_TOLERANCE_BYTES):
            return []
        return [f"{where}: {expected / 2**20:,.1f} MiB, now {found / 2**20:,.1f} MiB"]
    return [] if expected == found else [f"{where}: {_short(expected)}, now {_short(found)}"]


def read(program: Program) -> dict[str, Any] | None:
    """What is expected of a program's golden recording; None if nobody said."""
    try:
        expected: dict[str, Any] = json.loads(expected_of(program).read_text(encoding="utf-8"))
    except FileNotFoundError:
        return None
    return expected


def write(program: Program, expected: dict[str, Any]) -> None:
    """A finding or a name a line, so that a difference reads as one."""
    findings = ",\n    ".join(json.dumps(finding) for finding in expected["findings"])
    entries = [
        f'  "verdict": {json.dumps(expected["verdict"])}',
        f'  "findings": [\n    {findings}\n  ]' if findings else '  "findings": []',
        f'  "otherwise": {json.dumps(expected["otherwise"])}',
    ]
    path = expected_of(program)
    path.parent.mkdir(exist_ok=True)
    path.write_text("{\n" + ",\n".join(entries) + "\n}\n", encoding="utf-8")


def _short(value: Any) -> str:
    if isinstance(value, list):
        return f"[{', '.join(_short(member) for member in value)}]"
    if isinstance(value, dict):
        return str(value.get("kind", "unknown"))
    return json.dumps(value)
