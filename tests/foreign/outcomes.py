"""What became of each test of a run, read from a JUnit report or from what ``unittest -v`` prints."""

from __future__ import annotations

import re
import signal
from pathlib import Path
from xml.etree import ElementTree

MESSAGE_LINES, LAST_LINES = 8, 25
_HEAD = re.compile(r"^(\w+ \([\w.<>]+\))(?: \[.*\]| \(.*\))?(.*)$")
_RESULT = re.compile(r"(?:^|\.\.\. ?|[^.\w])(ok|FAIL|ERROR|skipped|expected failure|unexpected success)\b[^.]*$")
_EXCEPTION = re.compile(r"(?:E   +)?[\w.]*(?:Error|Exception|Warning|Failure|Interrupt|Exit|Timeout)\b")
_VARYING = re.compile(r"0x[0-9a-fA-F]+|/lf-[\w-]+|\b\d{5,}\b")


def read(report: Path, said: str) -> tuple[dict[str, str], dict[str, str]]:
    """Outcome of each test, and the last lines of what failed. Without a report: as far as the output goes."""
    try:
        tree = ElementTree.parse(report)
    except (OSError, ElementTree.ParseError):
        return from_text(said), {}
    found: dict[str, set[str]] = {}
    messages = {}
    for case in tree.iter("testcase"):
        test = anonymous(".".join(filter(None, (case.get("classname"), case.get("name")))))
        outcome = "passed"
        for child in case:
            if child.tag in ("failure", "error", "skipped"):
                outcome = {"failure": "failed", "error": "error", "skipped": "skipped"}[child.tag]
                if outcome != "skipped":
                    messages[test] = _gist(child.text or "")
        found.setdefault(test, set()).add(outcome)  # sub-tests share the name of their test
    return {test: "+".join(sorted(some)) for test, some in found.items()}, messages


def from_text(said: str) -> dict[str, str]:
    """Of ``test_x (module.Class) ... ok``, also where a docstring or output of the test stands in between."""
    found = {}
    test = None
    for line in said.splitlines():
        head = _HEAD.match(line)
        if head:
            test, line = anonymous(head[1]), head[2]
        result = _RESULT.search(line)
        if test and result:
            found[test] = result[1]
            test = None
    return found


def _gist(traceback: str) -> str:
    """The last exception, with the line that raised it."""
    lines = traceback.strip().splitlines()
    raised = [index for index, text in enumerate(lines) if _EXCEPTION.match(text)]
    begin = max(0, raised[-1] - 2) if raised else -MESSAGE_LINES
    return anonymous("\n".join(lines[begin:][:MESSAGE_LINES]))


def last_words(said: str) -> str:
    """The first stack of a fatal error, else the end of the output."""
    before, fatal, after = said.rpartition("Fatal Python error")
    lines = said.splitlines()[-LAST_LINES:]
    if fatal:
        lines = before.splitlines()[-1:] + (fatal + after).splitlines()[:LAST_LINES]
    return anonymous("\n".join(lines))


def anonymous(text: str) -> str:
    """Without addresses, process ids and folders, which no two runs have in common."""
    return _VARYING.sub("#", text)


def signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
