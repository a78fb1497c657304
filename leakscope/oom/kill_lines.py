"""The lines of a kernel report that name a victim: the kill line, the one that announces it, and oom-kill:..."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import NamedTuple

# "(oom_kill_allocating_task)", and words a vendor may add there, stand between the words and the colon.
_PREFIX = r"(?P<prefix>Memory cgroup out of memory|Out of [Mm]emory)(?: \([\w ]{1,40}\))?:\s+"
_KILLED = re.compile(rf"(?:{_PREFIX})?Killed\s+process\s+(?P<pid>\d+)(?:,\s+UID\s+(?P<uid>\d+),)?\s*(?P<rest>\(.*)")
_INTENT = re.compile(
    rf"{_PREFIX}[Kk]ill\s+process\s+(?P<pid>\d+)(?:,\s+UID\s+(?P<uid>\d+),)?\s*\((?P<comm>.*)\)(?P<rest>.*)",
    re.DOTALL,
)
_STARTED = re.compile(r"(?:Memory cgroup out|Out) of [Mm]emory(?: \(\w+\))?:|Killed\s+process\s")
_FIELD = re.compile(r",?([A-Za-z][A-Za-z_-]*):(-?\d[\d,]*)(kB)?")
_UID_APART = re.compile(r"\s*,\s*UID\s+(\d+),")  # RHEL 7 from 3.10.0-1127 on
_REST = re.compile(r",?(?:[A-Za-z][A-Za-z_-]*(?::-?[\d,]*k?)?)?(?:[.>…]|\.\.\.)?")
_LEFT_OUT = re.compile(r",?(?:\.{2,}|…|\[(?:\.{2,}|…|snip)\])")  # by who quotes the line
_UNREAD = re.compile(r",?([A-Za-z][A-Za-z_-]*):?(?:-?[\d.,]*\d[A-Za-z]+(?=,|$)|(?=\.\.|…))")  # rounded, or left out
_SIZES = ("total-vm", "anon-rss", "file-rss", "shmem-rss")
_ORDER = ("total-vm", "anon-rss", "file-rss", "shmem-rss", "UID", "pgtables", "oom_score_adj")
_AFTER_COMM = re.compile(r"\s*(?:[tvafs,.>…\[]|$)")  # total-vm or vsz, or a later field, or a cut
_LONGEST_TAIL = 600  # the fields take 150 characters, and blanks where a line was wrapped
_LONGEST_COMM = 64  # 15 in the kernel; wrapping and vendors make it longer

_KILL_BY_OOM = re.compile(r"oom-kill:\s*constraint=(?:CONSTRAINT_)?(?P<word>\w+)")
_TAIL = re.compile(r",pid=(?P<pid>\d+),(?:uid=(?P<uid>\d+)$)?")
_OOM_CGROUP = re.compile(r",oom_memcg=((?:(?!,oom_memcg=).)*?),task_memcg=")
_CGROUP = re.compile(r",task_memcg=((?:(?!,task_memcg=).)*?),task=")
_TASK_IN = re.compile(r"Task\s*in\s*(/(?:.*?\S)?)\s*killed\s*as\s*a\s*result\s*of\s*limit\s*of\s*(/.*)")
_CPUSET = re.compile(r",cpuset=((?:(?!,cpuset=).)*?),mems_allowed=([\d,-]*\d)(?=,[a-z]|$)")


class KillLine(NamedTuple):
    prefix: str | None
    pid: int
    comm: str | None
    uid: int | None
    sizes: dict[str, int]
    oom_score_adj: int | None


class OomKillLine(NamedTuple):
    word: str
    pid: int | None
    uid: int | None
    task: str | None
    cgroup: str | None
    oom_cgroup: str | None
    cpuset: str | None
    mems_allowed: str | None

    @property
    def constraint_word(self) -> str:
        """What was short. 4.19 to 5.0 print NONE for all; but only a cgroup's limit makes them name oom_memcg."""
        return "MEMCG" if self.word == "NONE" and self.oom_cgroup is not None else self.word


def kill_line(text: str, more: Iterable[str], trusted: bool) -> KillLine | None:
    """What a kill line says, joined with the lines it was wrapped into; None where it is not one.

    ``trusted``: the carrier or the line before shows that the kernel wrote it; without that a bare line
    "Killed process 7 (x)" may be prose, and counts only with its prefix or its sizes.
    """
    if not _STARTED.match(text):
        return None
    following = iter(more)
    match = _KILLED.match(text)
    if match is None and len(text) < 80 and not _INTENT.match(text):
        match = _joined(_KILLED, text, following)
    if match is None:
        return None
    rest = match["rest"]
    for line in following:
        parsed = _comm_and_fields(rest)
        if parsed is None or ("oom_score_adj" in parsed[1] and not re.fullmatch(r"\d{1,3}", line)):
            break  # it is whole, unless the last number was torn
        if _comm_and_fields(f"{rest} {line}") is None:
            break
        rest = f"{rest} {line}"
    parsed = _comm_and_fields(rest)
    trusted = trusted or match["prefix"] is not None
    if parsed is None:
        if not trusted or ")" in rest or len(rest) > _LONGEST_COMM:
            return None
        parsed = None, {}  # cut inside the name
    comm, fields = parsed
    if not fields and not trusted:
        return None
    if not fields and comm is not None and comm.count("(") > comm.count(")"):
        comm = None  # cut before its own last parenthesis
    uid = match["uid"] if match["uid"] is not None else fields.get("UID")
    adj = fields.get("oom_score_adj")
    sizes = {
        name: value for name, value in fields.items() if name not in ("UID", "oom_score_adj") and value is not None
    }
    return KillLine(match["prefix"], int(match["pid"]), comm, None if uid is None else int(uid), sizes, adj)


def _joined(pattern: re.Pattern[str], text: str, following: Iterator[str]) -> re.Match[str] | None:
    spaced = glued = text
    for _ in range(3):
        line = next(following, None)
        if line is None:
            return None
        spaced, glued = f"{spaced} {line}", glued + line
        match = pattern.match(spaced) or pattern.match(glued)
        if match:
            return match
    return None


def _comm_and_fields(rest: str) -> tuple[str | None, dict[str, int | None]] | None:
    """``(comm) total-vm:..``: the last parenthesis that leaves a list of fields, or the start of one, ends it."""
    for end in range(min(len(rest), _LONGEST_COMM) - 1, 0, -1):
        if rest[end] == ")" and _AFTER_COMM.match(rest, end + 1):
            fields = _fields(rest[end + 1 : end + _LONGEST_TAIL])
            if fields is not None:
                return rest[1:end], fields
    return None


def _fields(tail: str) -> dict[str, int | None] | None:
    """Blanks do not count: wrapping puts them anywhere, also into numbers, and every number has its name before it.

    Who quotes such a line leaves fields out, or rounds them: those are None, and the others are read.
    """
    uid = _UID_APART.match(tail)
    dense = re.sub(r"\s+", "", tail[uid.end() :] if uid else tail)
    fields: dict[str, int | None] = {}
    is_shortened = False
    position = place = 0
    while True:
        if match := _LEFT_OUT.match(dense, position):
            is_shortened = True
        elif match := _FIELD.match(dense, position):
            name, number, unit = match.groups()
            if name == "vsz":
                name = "total-vm"  # so called before 2.6.36
            if name not in _ORDER[place:] or (not place and name not in _SIZES):
                break  # of another message
            is_shortened = is_shortened or (not place and name != "total-vm")
            place = _ORDER.index(name) + 1
            if unit is None and name not in ("UID", "oom_score_adj"):
                match = _UNREAD.match(dense, position)
                if match is None:
                    break  # cut inside the number
                fields[name], is_shortened = None, True
            elif name == "UID" and match.end() == len(dense):
                break  # likewise: nothing shows where it ends
            else:
                fields[name] = int(number.replace(",", ""))
        elif (match := _UNREAD.match(dense, position)) and match[1] in _ORDER[place:]:
            fields[match[1]] = None
            place, is_shortened = _ORDER.index(match[1]) + 1, True
        else:
            break
        position = match.end()
    if uid and fields:
        fields["UID"] = int(uid[1])
    rest = dense[position:]
    if "file-rss" in fields or (is_shortened and fields):
        return fields  # enough to be sure; another message may have been glued on
    return fields if _is_start_of_field(rest) else None


def _is_start_of_field(rest: str) -> bool:
    if not _REST.fullmatch(rest):
        return False
    name, colon, _ = rest.strip(",.>…").partition(":")
    return name in _ORDER if colon else any(known.startswith(name) for known in _ORDER)


def intent(text: str, more: Iterable[str]) -> KillLine | None:
    """The line before the kill in kernels to 5.0: "Kill process P (C) score S or sacrifice child"."""
    if not text.startswith(("Out of", "Memory cgroup out")):
        return None
    match = _INTENT.match(text)
    if match is None and len(text) < 100 and "ill" in text:
        match = _joined(_INTENT, text, iter(more))
    if match is None:
        return None
    rest = re.sub(r"\s+", "", match["rest"])
    if rest and not rest.startswith("score") and not "score".startswith(rest):
        return None
    comm = match["comm"].split(") score", 1)[0] if len(match["comm"]) > _LONGEST_COMM else match["comm"]
    uid = match["uid"]
    return KillLine(match["prefix"], int(match["pid"]), comm, None if uid is None else int(uid), {}, None)


def oom_kill_line(text: str, more: Iterable[str]) -> OomKillLine | None:
    """``oom-kill:constraint=..,task=C,pid=P,uid=U``, read from the right since C can hold anything."""
    start = _KILL_BY_OOM.match(text)
    if start is None:
        return None
    tail = _TAIL.match(text, max(text.rfind(",pid="), 0))
    if tail is None or tail["uid"] is None:
        whole = text
        for line, _ in zip(more, range(4)):
            whole += line
            whole_tail = _TAIL.match(whole, max(whole.rfind(",pid="), 0))
            if whole_tail and whole_tail["uid"]:
                text, tail, start = whole, whole_tail, _KILL_BY_OOM.match(whole) or start
                break
    task_at = text.find(",task=")
    cpuset = _CPUSET.search(text)
    oom_cgroup, cgroup = _OOM_CGROUP.search(text), _CGROUP.search(text)
    if oom_cgroup and cgroup and not _is_within(cgroup[1], oom_cgroup[1]):
        oom_cgroup = cgroup = None  # torn
    return OomKillLine(
        start["word"],
        int(tail["pid"]) if tail else None,
        int(tail["uid"]) if tail and tail["uid"] else None,
        text[task_at + len(",task=") : tail.start()] if tail and task_at >= 0 else None,
        cgroup[1] if cgroup else None,
        oom_cgroup[1] if oom_cgroup else None,
        cpuset[1] if cpuset else None,
        cpuset[2] if cpuset else None,
    )


def task_in(text: str, more: Iterable[str]) -> tuple[str, str] | None:
    """(cgroup of the victim, cgroup of the limit), which to 4.20 a line of its own says.

    The limit is the victim's cgroup or one above it; where it is not, the name goes on in the next line.
    """
    whole = text
    following = iter(more)
    for _ in range(5):
        for candidate in (whole, re.sub(r"\s+", "", whole)):
            match = _TASK_IN.match(candidate)
            if match and _is_within(match[1], match[2]):
                return match[1], match[2]
        line = next(following, None)
        if line is None:
            return None
        whole = f"{whole} {line}"
    return None


def _is_within(cgroup: str, above: str) -> bool:
    return f"{cgroup}/".startswith(f"{above.rstrip('/')}/")
