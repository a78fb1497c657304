"""Lines that speak of kills for want of memory in words that no reader knows: with such, "none" is no answer."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence

from . import killers, witnesses
from .records import Record

_HINTS = ("kill", "sig", "terminat", "sacrific", "evict", "oom", "memory", "corrective", "jetsam", "lmkd")
_MEMORY = re.compile(r"\boom|oom\b|memory|\blmkd?\b|lowmem|\bswap\b|low on mem|\bmem\b")
_KILLS = re.compile(
    r"\bkill(?:ed|ing|s)?\b|oom[-_ ]?kill|sig(?:kill|term)\b|\bterminat(?:ed|ing|es)\b|\bsacrific|"
    r"\bevict(?:ed|ing)\b"
)
# Killers that are known by name or by a phrase that nobody else has; what they print differs from version to version.
_KILLERS = (
    ("nohang", re.compile(r"(?i)\bnohang\b|[Ii]mplement(?:ing|_)? ?a? ?_?corrective[ _]action|SIG\w+ to the victim")),
    ("Android's low-memory killer", re.compile(r"(?i)\blowmemorykiller\b|\blmkd\b")),
    ("oomd", re.compile(r"\boomd (?:kill|dump)|\boomd\[\d+\]")),
    ("FreeBSD's kernel", re.compile(r"pid \d+ \(.{1,64}\), (?:jid \d+, )?uid \d+,? was killed: ")),
    ("macOS's memorystatus", re.compile(r"\bmemorystatus: |\bJetsam|low swap: killing")),
    ("Slurm's memory limit", re.compile(r"(?i)exceeded (?:job |step )?memory limit|\bslurm\w*: .*memory.*kill")),
)
# Parts of a kernel's report, settings and counters that stand at 0: no kill by themselves.
_NOT_A_KILL = re.compile(
    r"\+0x[0-9a-f]+/0x|^Tasks state|^Memory cgroup stats|^[\w+]+: usage \d|\boom-killer: gfp_mask|^\[\s*pid|"
    r"^oom_reaper: |\bmm/oom_kill\.c\b|\boom_(?:group_)?kill(?:_disable)?[ \t=:]+0\b|\boom_score_adj\b|"
    r"\boom_kill_allocating_task\s*=|\boom_kill_process: \d+ callbacks|Call Trace|^\??\s?[\w.]*oom[\w.]*$|"
    r"Killing .{0,80} due to hardware"
)
_LONGEST = 2000


def lines(records: Sequence[Record], understood: Collection[int]) -> list[Record]:
    """Them, in order; ``understood``: numbers of lines that a reader took."""
    found = []
    is_wrapped = False  # a line of known words went on in this one
    for record in records:
        text = record.text[:_LONGEST]
        if record.stamped or not text:
            is_wrapped = False
        if not text or is_wrapped or (record.line_number not in understood and not _speaks_of_a_kill(text)):
            continue
        if record.line_number in understood or killers.knows(record) or witnesses.knows(text):
            is_wrapped = record.stamped
        elif not _NOT_A_KILL.search(text):
            found.append(record)
    return found


def killer_of(record: Record) -> str | None:
    """The name of a killer whose lines are known to be its, and are not read."""
    texts = (record.text[:_LONGEST], record.tag or "")
    return next((name for name, pattern in _KILLERS if any(pattern.search(text) for text in texts)), None)


def _speaks_of_a_kill(text: str) -> bool:
    lower = text.lower()
    if not any(word in lower for word in _HINTS):
        return False
    if _KILLS.search(lower) and _MEMORY.search(lower):
        return True
    return any(pattern.search(text) for _, pattern in _KILLERS)
