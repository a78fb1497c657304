"""Whose code a crash came in: what the text that Python writes at a fatal signal says of leakscope's own agent.

Runs in the recorder and in the analysis: text in, text out.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

_THREAD = re.compile(r"^(?P<current>Current thread|Thread) 0x[0-9a-f]+(?![0-9a-f]).*\(most recent call first\):$")
_AGENTS = re.compile(
    r'^\s*File "[^"\n]*(?:\.journal|/leakscope-run-\w+)/(?:agent|boot)/(?:\w+/)?(?P<file>[^"\n/]+)", '
    r"line (?P<line>\d+),? in (?P<function>[^\n]+)$"
)
_LIBRARY = re.compile(r"\blibleakscope_\w+\.so\b")
# They stand between the job and what it calls, and only hand on: what crashes below them is the job's.
HAND_ON = frozenset((
    ("sitecustomize.py", "<module>"), ("sitecustomize.py", "_make_way"),
    ("hooks.py", "_find"),
    ("phases.py", "train"), ("peak.py", "backward"),
))  # fmt: skip


def last_fatal_error(text: str) -> str:
    """The report of Python giving up, which names the calls; "" if there is none."""
    at = text.rfind("Fatal Python error:")
    return text[at:] if at >= 0 else ""


def crashed_thread(text: str) -> list[str] | None:
    """The lines under the head of the thread that crashed, the innermost call first.

    None: the text lists no threads. Empty: it was none of Python's.
    """
    threads = list(_threads(text.splitlines()))
    crashed = [lines for is_current, lines in threads if is_current]
    return crashed[-1] if crashed else [] if threads else None


def agent_in_crash(text: str) -> str | None:
    """The innermost call of the agent's in the thread that crashed, ``heap.py:12 in sweep``; None without one."""
    return _agents_call(crashed_thread(text) or ())


def library_in_crash(text: str) -> str | None:
    """A library of the agent's that is named among the calls of C, as Python since 3.14 and glibc print them."""
    found = _LIBRARY.search(text)
    return found.group() if found else None


def agent_elsewhere(text: str) -> str | None:
    """What the agent did on a thread that did not crash, if it was at work there."""
    others = (lines for is_current, lines in _threads(text.splitlines()) if not is_current)
    return next(filter(None, map(_agents_call, others)), None)


def _agents_call(lines: Sequence[str]) -> str | None:
    for line in lines:
        if found := _AGENTS.match(line):
            call = found["file"], found["function"].rpartition(".")[2]
            if call not in HAND_ON:
                return f"{found['file']}:{found['line']} in {found['function']}"
    return None


def _threads(lines: Sequence[str]) -> Iterator[tuple[bool, list[str]]]:
    heads = [(at, found) for at, line in enumerate(lines) if (found := _THREAD.match(line))]
    for (at, found), end in zip(heads, [at for at, _ in heads[1:]] + [len(lines)]):
        yield found["current"] == "Current thread", list(lines[at + 1 : end])
