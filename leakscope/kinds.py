"""What a kind of finding means: for the verdict, as its diagnosis declares, and in the words of its docstring."""

from __future__ import annotations

import inspect
import re
from collections.abc import Sequence
from dataclasses import dataclass

GROWTH = "growth"
WASTE = "waste"
SIBLINGS = "siblings"
MAKES = "makes"
WHEN = "when"
ELSEWHERE = "elsewhere"
PILE = "pile"
DANGER = "danger"
LIMIT = "limit"
CRASH = "crash"
KILL = "kill"
ASIDE = "aside"
FILLS = "fills"
HELD = "held"
# What a diagnosis may declare as TELLS, and what the verdict then makes of its findings.
MEANINGS = {
    GROWTH: "names what made memory of the job grow",
    WASTE: "names memory that is held needlessly from the start, or once in each process",
    SIBLINGS: "its bytes are those of all processes that are alike; its subject is one of them",
    MAKES: "counts what makes that grow which others name: code, and caches of its library",
    WHEN: "shows when memory grows, not what holds it: its bytes are explained by others",
    ELSEWHERE: "a leak even while the memory of the processes is flat; the headline begins with HEADLINE",
    PILE: "what runs out although memory does not grow",
    DANGER: "worse than any growth: the job is about to end, or trains nothing (unless the finding has bytes)",
    LIMIT: "a danger that is past, and no longer said, once the job was killed or crashed",
    CRASH: "the job ended of it where its severity is critical: no limit lies ahead then",
    KILL: "the kernel ended a process: reported before all else",
    ASIDE: "said in the headline only if memory leaks and nothing ranks above it",
    HELD: "names what memory is full of though it does not grow: the headline says it there",
    FILLS: "names what makes memory grow up to a limit of its own: where nothing else grows, the headline says it",
}
_HEADINGS = ("Looks for", "Why", "Decides by", "Mistaken when", "Do")
_HEADING = re.compile(rf"^({'|'.join(_HEADINGS)}):\s+", re.MULTILINE)


@dataclass(frozen=True)
class Kind:
    """``tells``: some of ``MEANINGS``; ``headline``: how it begins where it tells of a leak elsewhere.

    ``rule``: the switch of ``leakscope check`` that allows none, where it has one of its own.

    The others are the docstring: its first line, a paragraph for each heading, and as ``remarks`` what stands below.
    """

    name: str
    tells: Sequence[str]
    headline: str
    rule: str
    summary: str
    looks_for: str
    why: str
    decides_by: str
    mistaken_when: str
    do: str
    remarks: str


def kind_of(name: str, docstring: str | None, tells: Sequence[str], headline: str = "", rule: str = "") -> Kind:
    """The kind that a diagnosis with this docstring finds; what the docstring lacks is empty."""
    paragraphs = inspect.cleandoc(docstring or "").split("\n\n")
    pieces = _HEADING.split("".join(paragraphs[1:2]))
    said = dict(zip(pieces[1::2], map(_one_line, pieces[2::2])))
    looks_for, why, decides_by, mistaken_when, do = (said.get(heading, "") for heading in _HEADINGS)
    summary, remarks = _one_line(paragraphs[0]), _one_line(" ".join(paragraphs[2:]))
    return Kind(name, tells, headline, rule, summary, looks_for, why, decides_by, mistaken_when, do, remarks)


def _one_line(paragraph: str) -> str:
    return " ".join(paragraph.replace("``", "`").split())
