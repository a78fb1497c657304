"""The page of docs/ on foreign tests, from the results that are committed beside this file."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from leakscope.renderers._markdown import code, head, row
from leakscope.words import in_markdown
from tests.foreign.compare import EXIT, TIMING
from tests.foreign.runs import HUNG

RESULTS = Path(__file__).with_name("results.json")
EXPLAINED = Path(__file__).with_name("explained.json")
UNEXPLAINED = "not yet explained: leakscope's"


def rows(path: Path) -> list[dict[str, Any]]:
    """Lines of results; of one file the last: **errors** none, where there are none yet."""
    if not path.exists():
        return []
    read = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    return list({(r["commit"], r["python"], r["suite"], r["file"]): r for r in read}.values())


def write(results: list[dict[str, Any]], *, is_part: bool = False) -> None:
    """Renew the committed sums: a newer result of a file replaces the older one, whatever the commit.

    Of a suite on an interpreter that has no results here the committed sum stays, with its date. Where only a part was
    run anew (``is_part``), its sum stands beside that of all, until the next run of all. A file whose bare run took
    too long was compared with nothing, and does not count.
    """
    latest = {(r["python"], r["suite"], r["file"]): r for r in results if r["status"] != HUNG}
    ran = {(suite, python) for python, suite, _ in latest}
    committed = json.loads(RESULTS.read_text(encoding="utf-8")) if RESULTS.exists() else []
    sums = {
        (*key, bool(one.get("is_part"))): one
        for one in committed
        if (key := (one["suite"], one["python"])) not in ran or (is_part and not one.get("is_part"))
    }
    for (python, suite, file), r in sorted(latest.items()):
        new = {"suite": suite, "python": python, **({"is_part": True} if is_part else {})}
        one = sums.setdefault((suite, python, is_part), {**new, "files": 0, "tests": 0, "snapshots": 0})
        one["files"] += 1
        one["tests"] += r["tests"]
        one["snapshots"] += r["snapshots"]
        one["date"] = max(one.get("date", ""), r["date"])
        one["timing"] = one.get("timing", 0) + sum(d["verdict"] == TIMING for d in r["differences"])
        ours = [
            {"file": file, "test": d["test"], "verdict": d["verdict"]}
            for d in r["differences"]
            if d["verdict"] != TIMING and not follows(d, r["differences"])
        ]
        one.setdefault("differences", []).extend(ours)
    lines = ",\n".join(json.dumps(one) for _, one in sorted(sums.items()))  # one a line: two runs can be compared
    RESULTS.write_text(f"[\n{lines}\n]\n", encoding="utf-8")


def follows(difference: dict[str, Any], others: list[dict[str, Any]]) -> bool:
    """An exit status that says what a test beside it says; that of a crash or a hang never does."""
    ended = difference["test"] == EXIT and all(status.isdigit() for status in difference["recorded"])
    return ended and any(other["test"] != EXIT for other in others)


def explanation(suite: str, difference: dict[str, str]) -> str:
    """Of the first entry of explained.json that fits: suite, part of the file's name, part of the test's."""
    for entry in json.loads(EXPLAINED.read_text(encoding="utf-8")):
        if entry["suite"] == suite and entry["file"] in difference["file"] and entry["test"] in difference["test"]:
            return str(entry["why"])
    return UNEXPLAINED


def page() -> str:
    """``docs/development/foreign-tests.md``."""
    sums = json.loads(RESULTS.read_text(encoding="utf-8"))
    parts = [
        "# Foreign tests\n",
        "Test suites of other projects, run bare and under `leakscope record` in stress mode: a snapshot every 50 ms,"
        " whatever it costs. Each test must have the same outcome, and each file the same exit status. What differed"
        " ran one to three times more each way: it is *timing* if a bare run showed the same, and otherwise"
        " leakscope's. `make foreign-tests` repeats it (hours).\n",
        ("\n".join((head(_TITLES), *(row(_cells(one)) for one in sums))) if sums else "No run yet.") + "\n",
        *_differences(sums),
    ]
    return "\n".join(parts)


_TITLES = ("suite", "Python", "date", "files", "tests", "snapshots", "timing", "other differences")


def _cells(one: dict[str, Any]) -> tuple[str, ...]:
    figures = (one["files"], one["tests"], one["snapshots"], one["timing"], len(one["differences"]))
    suite = f"{one['suite']}, a part" if one.get("is_part") else one["suite"]
    return (suite, one["python"], one["date"], *(f"{figure:,}" for figure in figures))


def _differences(sums: list[dict[str, Any]]) -> Iterator[str]:
    listed = [
        row((one["python"], code(d["file"]), code(d["test"]), d["verdict"], in_markdown(explanation(one["suite"], d))))
        for one in sums
        for d in one["differences"]
    ]
    if listed:
        yield "## Differences\n"
        yield "\n".join((head(("Python", "file", "test", "seen", "explanation")), *listed)) + "\n"
