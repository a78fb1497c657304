"""One sentence for all ranks: which leak, which do not, on which unclear, and what it is."""

from __future__ import annotations

import re
import statistics
from collections.abc import Sequence

from ..facts.processes.ranks import named_ranks as named
from ..facts.processes.ranks import who_leaks
from ..findings import SEVERITIES, Finding, ended_by_lack
from ..kinds import FILLS, HELD, KILL
from ..units import SOME, format_bytes, format_duration, format_rate
from ..words import ended
from ._job import JobVerdict
from ._merging import Part

_DIGITS = re.compile(r"\d[\d.,]*")
_CANNOT = "Cannot tell whether memory leaks: "
_MOST_REASONS = 3  # in the sentence; the table of ranks has all
_ALIKE = 2.0  # times the growth of the rank in the middle


def verdict(parts: Sequence[Part], unreadable: dict[int, str], world_size: int | None) -> JobVerdict:
    """``unreadable``: ranks whose recording cannot be read, with the reason."""
    leaking, steady, killed = (sorted(part.judged.rank for part in parts if test(part)) for test in _TESTS)
    unclear: dict[str, list[int]] = {}
    reasons: dict[str, str] = {}
    for part in sorted(parts, key=lambda part: part.judged.rank):
        said = part.judged.report.verdict
        if said.leaking is None:
            reason = said.headline.partition(_CANNOT)[2] or said.headline
            first = reasons.setdefault(_DIGITS.sub("N", reason), reason.rstrip("."))
            unclear.setdefault(first, []).append(part.judged.rank)
    for rank, why in sorted(unreadable.items()):
        unclear.setdefault(f"its recording cannot be read: {why}", []).append(rank)
    unknown = sorted(rank for ranks in unclear.values() for rank in ranks)
    known = {*leaking, *steady, *unknown}
    missing = [rank for rank in range(world_size or 0) if rank not in known]
    sentences = [
        _killed(parts, killed, len(known)),
        _leak(parts, leaking, steady, unclear),
        _besides(parts) if not leaking else "",
        _ended(parts),
        _missing(missing, world_size),
    ]
    return JobVerdict(
        leaking=True if leaking else None if unknown else False,
        killed=bool(killed),
        headline=" ".join(sentence for sentence in sentences if sentence),
        leaking_ranks=leaking,
        steady_ranks=steady,
        unclear_ranks=unknown,
        killed_ranks=killed,
        missing_ranks=missing,
        unclear=unclear,
    )


_TESTS = (
    lambda part: part.judged.report.verdict.leaking is True,
    lambda part: part.judged.report.verdict.leaking is False,
    lambda part: part.judged.report.verdict.killed,
)


def what_grows(findings: Sequence[Finding]) -> Finding | None:
    """What tells best why the memory of a rank grows."""
    return next(
        (f for f in findings if f.bytes > 0 and not (f.wasted or f.tells(FILLS, HELD) or ended_by_lack(f))), None
    )


def _killed(parts: Sequence[Part], killed: Sequence[int], count: int) -> str:
    if not killed:
        return ""
    own = next(part for part in parts if part.judged.rank == killed[0])
    kill = next((f for f in own.judged.report.findings if f.tells(KILL)), None)
    said = f": {kill.title}" if kill is not None else ""
    of = f" of {count}" if len(killed) > 1 else ""
    return f"{_capital(named(killed))}{of} {'was' if len(killed) == 1 else 'were'} killed{said}."


def _leak(parts: Sequence[Part], leaking: Sequence[int], steady: Sequence[int], unclear: dict[str, list[int]]) -> str:
    unknown = sum(map(len, unclear.values()))
    count = len(leaking) + len(steady) + unknown
    several = sorted(unclear.items(), key=lambda one: -len(one[1]))
    rest = [rank for _, ranks in several[_MOST_REASONS:] for rank in ranks]
    doubts = "; ".join(
        [
            *(f"cannot tell on {named(ranks)}: {reason}" for reason, ranks in several[:_MOST_REASONS]),
            *([f"nor, for other reasons, on {named(rest)}"] if rest else []),
        ]
    )
    if leaking:
        said = f"{who_leaks(leaking, steady, count)}: {_what(parts, leaking)}"
        return f"{said}; {doubts}." if doubts else f"{said}."
    if not unknown:
        return f"No leak: {_none_of(count)}."
    if unknown == count and len(unclear) == 1:
        on = "the only rank" if count == 1 else f"any of the {count} ranks"
        return f"Cannot tell on {on}: {next(iter(unclear))}."
    others = f"; {_others(len(steady), 'does not leak', 'do not leak')}" if steady else ""
    return f"{_capital(doubts)}{others}."


def _none_of(count: int) -> str:
    return "the only rank does not keep growing" if count == 1 else f"none of the {count} ranks keeps growing"


def _others(count: int, one: str, several: str) -> str:
    return f"the other {one}" if count == 1 else f"the other {count} {several}"


def _what(parts: Sequence[Part], leaking: Sequence[int]) -> str:
    """The holder that most of them have in common, and how much they gained."""
    own = [part for part in parts if part.judged.rank in set(leaking)]
    grown = [part.judged.report.verdict.growth_bytes for part in own]
    seconds = max(part.judged.window_s for part in own)
    firsts = [what_grows(part.judged.report.findings) for part in own]
    prints = [first.likeness for first in firsts if first is not None]
    each = " each" if len(own) > 1 else ""
    least, most = min(grown), max(grown)
    size = format_bytes(statistics.median_high(grown))
    size = f"{format_bytes(least)} to {format_bytes(most)}" if most - least > SOME * most else size
    amount = f"{size}{each} in {format_duration(seconds)}"
    rates = [rate for part in own if (rate := part.judged.report.verdict.growth_bytes_per_hour) is not None]
    middle = f"{each} on the rank in the middle" if size != format_bytes(statistics.median_high(grown)) else each
    pace = f" ({format_rate(statistics.median_high(rates), seconds)}{middle})" if rates else ""
    gained = f"{'they' if len(own) > 1 else 'it'} gained {amount}{pace}"
    if not prints:
        return gained
    common = max(dict.fromkeys(prints), key=prints.count)
    same = sorted((one for one in firsts if one is not None and one.likeness == common), key=lambda f: f.bytes)
    first = same[len(same) // 2]
    if len(own) == 1:
        return f"{_lower(first.title)}; {gained}"
    of = "on all of them" if prints.count(common) == len(own) else f"on {prints.count(common)} of them"
    alike = ", alike" if _are_alike(grown) and prints.count(common) == len(own) else ""
    return f"{_lower(first.title)} ({of}{alike}); {gained}"


def _are_alike(grown: Sequence[int]) -> bool:
    middle = statistics.median(grown)
    return all(middle / _ALIKE <= value <= middle * _ALIKE for value in grown)


def _besides(parts: Sequence[Part]) -> str:
    """What else is wrong where nothing leaks: the gravest finding, and the ranks that have it."""
    found = [(part.judged.rank, f) for part in parts for f in part.judged.report.findings if not f.tells(KILL)]
    first = next((f for severity in SEVERITIES[:-1] for _, f in found if f.severity == severity), None)
    if first is None:
        return ""
    ranks = sorted({rank for rank, f in found if f.likeness == first.likeness})
    return f"But on {named(ranks)}: {_lower(first.title)}."


def _ended(parts: Sequence[Part]) -> str:
    """Ranks that failed, by how; those that were killed for memory are told of already."""
    groups: dict[str, list[int]] = {}
    for part in parts:
        recording = part.judged.report.recording
        if not part.judged.report.verdict.killed and (recording.exit_code or recording.signal):
            groups.setdefault(ended(recording), []).append(part.judged.rank)
    return " ".join(f"{_capital(named(ranks))}: {how}." for how, ranks in groups.items())


def _missing(missing: Sequence[int], world_size: int | None) -> str:
    return f"There is no recording of {named(missing)} of {world_size}." if missing else ""


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]


def _lower(title: str) -> str:
    """A title inside a sentence: names keep their capitals, an ordinary first word loses its own."""
    word = title.split(" ", 1)[0]
    return title[:1].lower() + title[1:] if word.isalpha() and (word[1:].islower() or len(word) == 1) else title
