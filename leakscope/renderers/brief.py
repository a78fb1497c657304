"""The answer in under 2 KB of Markdown, for a chat or the context of a coding agent: what to edit, and what proves it.

The verdict, the first finding with its line of source, what to do, the commands that prove a fix, and what was not
checked where that matters. Files are named from the folder the job was started in, so that an agent that works there
finds them. What has no room is cut, never the verdict or the commands; the same report gives the same text each time.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from ..findings import Excerpt, Finding, RecordingFacts, Report, Subject, file_of
from ..words import VERDICTS, amount, by_reason, caveats, in_a_line, in_markdown, run_facts
from ._markdown import block, code, text
from ._places import below_cwd, run_argument

SUFFIX = ".brief"
MOST_BYTES = 2000  # under 2 KB, however a kilobyte is counted
_LONGEST_COMMAND = 300
_OTHERS = 3
_HOLDING = ("retained-objects", "retained-graph", "cyclic-garbage", "native-growth", "fragmentation")


@dataclass(frozen=True)
class _Room:
    """How much is said: lines of source round the line, and characters of each sentence."""

    lines: int
    characters: int


_ROOMS = (_Room(2, 300), _Room(1, 240), _Room(1, 160), _Room(0, 100), _Room(0, 50), _Room(0, 16))


def render(report: Report) -> str:
    """Markdown of less than MOST_BYTES in UTF-8, ending with a newline."""
    for room in _ROOMS:
        shown = "\n\n".join(_parts(report, room)) + "\n"
        if len(shown.encode("utf-8")) < MOST_BYTES:
            return shown
    return "\n\n".join(_least(report)) + "\n"


def _least(report: Report) -> Iterator[str]:
    """Of a report whose every string is made to take all the room."""
    yield f"**{VERDICTS[report.verdict.leaking]}**"
    yield from _next(report, _ROOMS[-1])


def _parts(report: Report, room: _Room) -> Iterator[str]:
    facts = report.recording
    word, _, headline = in_a_line(report.verdict).partition(": ")
    killed = ", KILLED" if report.verdict.killed else ""
    yield f"**{word}{killed}**: {_said(headline, facts, 2 * room.characters)}"
    command = code(below_cwd(" ".join(facts.command), facts), room.characters) or "(attached)"
    yield f"{command} · {in_markdown(run_facts(facts)[: room.characters])}"
    if report.findings:
        yield from _finding(report.findings[0], report, room)
    if others := report.findings[1:]:
        titles = (_said(one.title, facts, room.characters // 3) for one in others[:_OTHERS])
        more = f" and {len(others) - _OTHERS} more" if len(others) > _OTHERS else ""
        yield "Also: " + "; ".join(f"{number}. {title}" for number, title in enumerate(titles, 2)) + more
    yield from _next(report, room)
    unknown = [_said(one, facts, room.characters) for one in _not_checked(report)]
    if unknown:
        more = f" (and {len(unknown) - 2} more)" if len(unknown) > 2 else ""
        yield f"Not checked: {'; '.join(unknown[:2])}{more}"


def _finding(finding: Finding, report: Report, room: _Room) -> Iterator[str]:
    facts = report.recording
    where = "\n".join(_where(finding, facts, room))
    yield f"**1. {_said(finding.title, facts, room.characters)}** ({text(finding.severity, 20)}, {amount(finding)})" + (
        f"\n{where}" if where else ""
    )
    place = (finding.subject.file, finding.subject.line)
    excerpt = next((one for one in report.excerpts if (one.file, one.line) == place), None)
    if excerpt is not None:
        yield block(_lines(excerpt, room))
    said = [("Why", [e.text for e in finding.evidence]), ("Doubt", finding.doubts), ("Do", finding.remedy)]
    told = [f"{word}: {_said(sentences[0], facts, room.characters)}" for word, sentences in said if sentences]
    told += [f"Or: {_said(one, facts, room.characters)}" for one in finding.remedy[1:2] if room.lines]
    edit = finding.edit
    if edit is not None and edit.note and room.lines:  # what was chosen in the edit below, or why there is none
        word = "Mind" if edit.diff is not None else "No edit is certain enough"
        told.append(f"{word}: {_said(edit.note, facts, room.characters)}")
    if told:
        yield "\n".join(f"- {one}" for one in told)
    if edit is not None and edit.diff is not None and room.lines:
        yield _edit(edit.diff, room)


def _edit(diff: str, room: _Room) -> str:
    """The lines that go and come, and where."""
    changed = [line for line in diff.split("\n") if line[:1] in ("+", "-", "@") and line[:3] not in ("+++", "---")]
    return "Edit, as `leakscope fix` prints it:\n\n" + block([line[: room.characters] for line in changed], "diff")


def _where(finding: Finding, facts: RecordingFacts, room: _Room) -> Iterator[str]:
    subject = finding.subject
    if subject.file:
        line = f":{subject.line}" if subject.line else ""
        function = f" in {code(subject.function, room.characters // 2)}" if subject.function else ""
        yield f"{code(f'{file_of(finding, facts.cwd)}{line}', room.characters)}{function}"
    held = list(_held(subject))
    if held:
        yield ", ".join(f"{word} {code(name, room.characters // 2)}" for word, name in held)


def _held(subject: Subject) -> Iterator[tuple[str, str]]:
    for word, name in (("held by", subject.holder), ("path", subject.path), ("type", subject.type)):
        if name:
            yield word, name


def _lines(excerpt: Excerpt, room: _Room) -> Iterator[str]:
    """Those round the line, without the indentation that all of them have."""
    near = [
        (number, line.expandtabs(4)[: room.characters])
        for number, line in enumerate(excerpt.lines, excerpt.first_line)
        if abs(number - excerpt.line) <= room.lines
    ]
    indent = min((len(line) - len(line.lstrip()) for _, line in near if line.strip()), default=0)
    for number, line in near:
        yield f"{'>' if number == excerpt.line else ' '} {number} {line[indent:]}".rstrip()


def _next(report: Report, room: _Room) -> Iterator[str]:
    """The commands by which a fix is proved, or by which nobody has to wonder any longer."""
    facts = report.recording
    run = run_argument(facts, _LONGEST_COMMAND)
    command, after = _command(facts), "fixed.parquet" if run == "after.parquet" else "after.parquet"
    again = f"leakscope record -o {{}} -- {command}" if command else "leakscope attach -o {} PID"
    if any(finding.severity != "note" or finding.wasted for finding in report.findings):
        proof = f'leakscope compare {run} {after}  # a fix: "Better", the finding gone'
        yield f"Fix it, then prove it:\n\n{_shell([again.format(after) + _load(report), proof])}"
    elif report.verdict.leaking is None:
        longer = "longer.parquet"
        told = [again.format(longer) + _load(report), f"leakscope report {longer} -f brief"]
        told += [f"leakscope heap {run} --diff  # who holds how much, and what grew"] if report.heap else []
        yield f"Record longer, then ask again:\n\n{_shell(told)}"
    else:
        yield f"Nothing to fix. A gate that keeps it so:\n\n{_shell([f'leakscope check {run}  # exit status 0'])}"


def _load(report: Report) -> str:
    """Of a service: what to do while it is recorded, since it leaks by what it serves and ends when it is told to."""
    unit = report.verdict.step_unit
    return f"  # give it as many {unit}s as before, then stop it (Ctrl+C)" if unit in ("request", "task") else ""


def _shell(lines: Sequence[str]) -> str:
    fence = "`" * max(3, 1 + max((len(run) for run in re.findall("`+", "".join(lines))), default=0))
    return "\n".join([f"{fence}bash", *lines, fence])


def _command(facts: RecordingFacts) -> str:
    """To be copied; a placeholder for one that is too long or has line ends, empty if none is known."""
    command = shlex.join(below_cwd(word, facts) for word in facts.command)
    is_short = len(command.encode("utf-8", "replace")) <= _LONGEST_COMMAND
    return command if is_short and command.isprintable() else "COMMAND"


def _not_checked(report: Report) -> list[str]:
    """What the recording could not see; where nothing explains the growth, also who was not asked what holds it."""
    unknown = caveats(report)
    explained = report.verdict.leaking is False or any(finding.severity != "note" for finding in report.findings)
    for kinds, reason in by_reason(report.skipped):
        asked = any(kind in _HOLDING for kind in kinds.split(", ")) and reason not in report.verdict.headline
        if reason.startswith("failed: ") or (asked and not explained):
            unknown.append(f"{kinds}: {reason}")
    return unknown


def _said(sentence: str, facts: RecordingFacts, most: int) -> str:
    return text(below_cwd(sentence, facts), most)
