"""What several renderers say alike: the verdict in a word, how the run ended, how much, and strings made harmless."""

from __future__ import annotations

import re
import shutil
import textwrap
from collections.abc import Iterable, Iterator, Sequence
from itertools import zip_longest

from .findings import Excerpt, Finding, Ignored, LedgerRow, Peak, RecordingFacts, Report, RuledOut, Skipped, Verdict
from .signals import FATAL_SIGNALS, signal_name
from .units import SOME, format_bytes, format_duration, format_per_step, format_rate

VERDICTS = {True: "LEAKING", False: "NOT LEAKING", None: "CANNOT TELL"}


_SAID_BY_BADGE = ("Memory leaks: ", "No leak: ", "Cannot tell whether memory leaks: ")
# What accounts of the bill are called, where rows of several processes are told together.
BILL_NAMES = {
    "data": "what your variables hold",
    "model": "models",
    "optimizer": "optimizer state",
    "gradients": "gradients",
    "activations": "activations",
    "batch": "batches",
    "user-held": "tensors of yours, by no named holder",
    "other-tensors": "other tensors",
    "tensors": "tensors (for what was not asked)",
    "libraries": "interpreter and libraries: objects",
    "native": "libraries: native memory",
    "code": "libraries: code (files)",
    "mapped-files": "mapped files",
    "shared-memory": "shared memory",
    "allocator-free": "freed, kept by the allocator",
    "leakscope": "leakscope's own",
    "workers": "other processes, their own",
    "workers-shared": "other processes, shared with them",
    "since-snapshot": "not in the snapshot",
    "not-measured": "not measured",
    "others": "others",
}


def in_a_line(verdict: Verdict) -> str:
    """``LEAKING: Store.rows (list) keeps growing: ...``."""
    headline = verdict.headline
    for words in _SAID_BY_BADGE:
        headline = headline[len(words) :] if headline.startswith(words) else headline
    return f"{VERDICTS[verdict.leaking]}: {headline}"


_BESIDE = {
    "mapped-files": "mapped files, which the kernel can reclaim",
    "unmapped-shared-memory": "shared memory that no process maps, which stays until it is unlinked",
}


def beside(rows: Sequence[LedgerRow]) -> Iterator[str]:
    """What a ledger says below its sum of rows that are no part of it."""
    for account, what in _BESIDE.items():
        own = [row for row in rows if row.account == account]
        start, end = (
            format_bytes(sum(row.start_bytes for row in own)),
            format_bytes(sum(row.end_bytes for row in own)),
        )
        if own:
            yield f"not counted: {start} → {end} of {what}"


def judged(verdict: Verdict, *, briefly: bool = False) -> str:
    """`` (own and shared memory, 12.1 s to 27.9 s)``: what amounts of growth are of; empty if nothing was judged."""
    if verdict.start_s is None or verdict.end_s is None:
        return ""
    start, end = (f"{at_s:.1f} s" if at_s < 1 else format_duration(at_s) for at_s in (verdict.start_s, verdict.end_s))
    return f", {start} to {end}" if briefly else f" (own and shared memory, {start} to {end})"


def printable(text: str) -> str:
    """A string of the job's on one line: control characters, lone surrogates and what turns a line round are shown.

    So is what a build's log takes for a command wherever it stands: ``##[``, ``##vso[``.
    """
    if not text.isprintable():
        text = "".join(c if c.isprintable() else c.encode("unicode_escape").decode("ascii") for c in text)
    return _ANYWHERE.sub(r"#\\x23\1", text) if "##" in text else text


_ANYWHERE = re.compile(r"##(\[|vso\[)")
_AT_A_START = re.compile(r"^((?:[ \t]|\x1b\[[0-9;]*m)*):(?=:)", re.MULTILINE)
_COLOUR = re.compile(r"(\x1b\[[0-9;]*m)")


def plain(text: str) -> str:
    """A whole text as a terminal or the log of a build gets it: its lines and colours, and nothing else that steers.

    What writes it has made each string of the job's ``printable``. This is for what nobody thought of, and for a line
    that was wrapped in the middle of one: ``::error::`` at the start of a line is a command where CI runs.
    """
    lines = []
    for line in text.split("\n"):
        if not line.isprintable() or "##" in line:
            parts = _COLOUR.split(line)  # text, colour, text, ...
            parts[::2] = ["\t".join(map(printable, part.split("\t"))) for part in parts[::2]]
            line = "".join(parts)
        lines.append(line)
    return _AT_A_START.sub(r"\1\\x3a", "\n".join(lines))


def folded(text: str, width: int) -> str:
    """Lines that are wider than a terminal go on in the next one, below the column that they were in.

    Coloured ones fit already: who colours them knows the width.
    """
    return "\n".join(_folded(line, width) for line in text.split("\n")) if width >= _LEAST_WIDTH else text


def _folded(line: str, width: int) -> str:
    if len(line) <= width or "\x1b" in line:
        return line
    if not line.strip("─"):
        return line[:width]
    columns = [match.end() for match in _COLUMN.finditer(line) if match.end() <= width // 2]
    indent = len(line) - len(line.lstrip())
    hang = columns[-1] if columns and columns[-1] > indent else indent + 2
    wrapper = textwrap.TextWrapper(width, subsequent_indent=" " * hang, drop_whitespace=True, break_on_hyphens=False)
    return "\n".join(wrapper.wrap(line))


_LEAST_WIDTH, _LEAST_CELL = 20, 16
_COLUMN = re.compile(r" {2,}")
_WIDEST = 110  # longer lines are hard to read


def text_width() -> int:
    """Columns of a text for the terminal."""
    return min(_WIDEST, shutil.get_terminal_size((_WIDEST, 24)).columns)


def wrapped(texts: Iterable[str], width: int, indent: str = "") -> list[str]:
    """Lines of sentences. Paths are not cut in two: somebody will want to copy them."""
    wrapper = textwrap.TextWrapper(max(20, width - len(indent) - 2), break_long_words=False, break_on_hyphens=False)
    return [
        f"{indent}{'  ' if number else ''}{line}"
        for text in texts
        for number, line in enumerate(wrapper.wrap(printable(text)))
    ]


def columns(table: Sequence[Sequence[str]], width: int) -> list[str]:
    """A row a line, the heads first; where that is too wide its widest cells go on in the next line, or, where that
    would be many, each figure has a line of its own.
    """
    table = [[printable(cell) for cell in row] for row in table]
    widths = [max(map(len, column)) for column in zip(*table)]
    while sum(widths) + 2 * len(widths) > width and max(widths) > _LEAST_CELL:
        widths[widths.index(max(widths))] -= 1
    if sum(widths) + 2 * len(widths) <= width:
        return [line for row in table for line in _cells(row, widths)]
    heads, *rows = table
    broad = max(map(len, heads))
    lines = []
    for row in rows:
        lines.append(f"  {row[0]}")
        lines += [f"    {head.ljust(broad)}  {cell}" for head, cell in zip(heads[1:], row[1:]) if cell]
    return lines


def _cells(row: Sequence[str], widths: Sequence[int]) -> Iterator[str]:
    """The lines of a row."""
    parts = [
        textwrap.wrap(cell, size, break_on_hyphens=False, subsequent_indent="  " * cell.startswith("· ")) or [""]
        for cell, size in zip(row, widths)
    ]
    for line in zip_longest(*parts, fillvalue=""):
        yield ("  " + "  ".join(cell.ljust(size) for cell, size in zip(line, widths))).rstrip()


def paragraphs(parts: Iterable[Sequence[str]]) -> str:
    """Those that have lines, with an empty one between them."""
    return "\n\n".join("\n".join(lines) for lines in parts if lines) + "\n"


def plain_json(text: str) -> str:
    """JSON, its strings free of what steers a terminal: the same values for who parses it."""
    return _UNPRINTED.sub(lambda match: match[0] if match[0].isprintable() else _as_json_escape(match[0]), text)


_UNPRINTED = re.compile(r"[^\x20-\x7e\n]")


def _as_json_escape(character: str) -> str:
    units = character.encode("utf-16-be", "surrogatepass")
    return "".join(f"\\u{units[at]:02x}{units[at + 1]:02x}" for at in range(0, len(units), 2))


# Forges link and ping by looking for these in the text that is left once markup is gone: escaping does not keep them
# from it, an invisible space does. In order: mentions and addresses, issues, addresses of pages, emoji; commits.
_LINKED = re.compile(
    r"@(?=[\w-])|#(?=\d)|\bgh-(?=\d)|\w:(?=//)|\bwww(?=\.)|:(?=(?:[+-]1|[a-z][\w+-]{0,40}):)",
    re.IGNORECASE,
)
_COMMIT = re.compile(r"\b(?=\d{0,40}[a-f])[0-9a-f]{7,40}\b", re.IGNORECASE)
_APART = "\u200b"  # zero-width space
_MARKUP = re.compile(r"[\\`*_\[\]~$]")


def in_markdown(string: str) -> str:
    """A part of a sentence, of any length: nothing in it is markup, a link or a call of somebody."""
    string = _LINKED.sub(lambda match: match[0] + _APART, string)
    string = _COMMIT.sub(lambda match: re.sub("(.{6})", rf"\1{_APART}", match[0]), string)
    string = string.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    return _MARKUP.sub(lambda match: "\\" + match[0], string)


def in_cell(string: str) -> str:
    """A text of the job's in Markdown: in a table a pipe is none of its own."""
    return in_markdown(printable(string)).replace("|", "\\|")


def markdown_table(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> list[str]:
    """Lines of a table whose cells are texts of the job's."""
    cells = (" | ".join(map(in_cell, row)) for row in rows)
    return [f"| {' | '.join(heads).lstrip()} |", "|---" * len(heads) + "|", *(f"| {row} |" for row in cells)]


def numbered(excerpt: Excerpt) -> list[tuple[int, str, bool]]:
    """(number, text, is meant) of each line, without the indent they have in common."""
    text = textwrap.dedent("\n".join(line.expandtabs(4) for line in excerpt.lines)).rstrip()
    lines = enumerate(text.split("\n"), excerpt.first_line)
    return [(number, line, number == excerpt.line) for number, line in lines]


def run_facts(recording: RecordingFacts, *, briefly: bool = False) -> str:
    """``45.9 s, 3 processes, exit status 0, peak 104 MiB (by tail, between samples)``; briefly, the bare peak."""
    processes = "1 process" if recording.process_count == 1 else f"{recording.process_count} processes"
    facts = [format_duration(recording.duration_s), processes, ended(recording)]
    if recording.peak is not None:
        facts.append(f"peak {format_bytes(recording.peak.bytes)}" if briefly else peak(recording.peak))
    return ", ".join(facts)


def peak(known: Peak) -> str:
    """``peak 104 MiB (by tail, between samples)``, and what a cgroup with a limit counted, page cache included."""
    of = f"by {printable(known.process)}, " if known.process is not None else ""
    after = f", after {format_duration(known.since_s)}" if known.since_s is not None else ""
    between = f" ({of}between samples{after})" if known.between_samples else ""
    cgroup = f", {format_bytes(known.cgroup_bytes)} in its cgroup with page cache" if known.cgroup_bytes else ""
    return f"peak {format_bytes(known.bytes)} without mapped files{between}{cgroup}"


def ended(recording: RecordingFacts) -> str:
    """``exit status 0``, ``ended by SIGKILL``."""
    return ending(recording.ended, recording.exit_code, recording.signal, goes_on=recording.goes_on)


def ending(how: str, exit_code: int | None, signal: int | None, *, goes_on: bool = False) -> str:
    """How a run ended, by what its footer says alone."""
    if how == "exit" and exit_code is not None:
        return f"exit status {exit_code}"
    if how == "signal" and signal is not None:
        return f"{'crashed with' if signal in FATAL_SIGNALS else 'ended by'} {signal_name(signal)}"
    if how == "oom-killed":
        return "killed for lack of memory"
    return "it still runs" if goes_on else "its end was not recorded"


def how_to_edit(finding: Finding, run: str) -> list[str]:
    """The command that prints its edit, with ``run`` as its argument; none where it is not certain enough."""
    if finding.edit is None or finding.edit.diff is None:
        return []
    command = "leakscope fix" if run == "run.parquet" else f"leakscope fix {run}"
    return [f"{command} prints this edit; --prove tests it"]


def why_no_edit(finding: Finding) -> str:
    """Why there is no edit for a finding, as a clause."""
    if finding.edit is not None:
        return finding.edit.note
    subject = finding.subject
    if not subject.file or not subject.line:
        return "no line of the source is known"
    holder = f", and {subject.holder} holds the memory" if subject.holder else ""
    return f"the line is known{holder}, but a finding of {finding.kind} does not prove why it is kept"


def rests_on(finding: Finding) -> list[str]:
    """What its confidence is computed from, a line each: ``for: 6 snapshots weighed it (65% sure by itself)``."""
    return [f"{'for' if g.is_for else 'against'}: {g.says} ({g.alone:.0%} sure by itself)" for g in finding.grounds]


def amount(finding: Finding, *, briefly: bool = False) -> str:
    """``600 MiB, 88.4 MiB per minute, 128 KiB per step, 97% sure``; briefly only one of the rates."""
    figures = [format_bytes(finding.bytes)] if finding.bytes else []  # of a crash or of open files nobody knows any
    if finding.wasted:
        figures.append("wasted")
    if finding.bytes_per_hour and not (briefly and finding.bytes_per_step):
        figures.append(format_rate(finding.bytes_per_hour, finding.watched_s))
    if finding.bytes_per_step:
        figures.append(format_per_step(finding.bytes_per_step, finding.step_unit))
    return ", ".join([*figures, f"{finding.confidence:.0%} sure"])


def accepted(one: Ignored) -> str:
    """``Store.rows (list) keeps growing: bounded by the vocabulary (until 2027-01-01)``."""
    until = f" (until {one.until})" if one.until is not None else ""
    return f"{one.finding.title}: {one.reason}{until}"


def ruled_out_kinds(report: Report) -> list[str]:
    """What was ruled out everywhere: a kind that was found, or could not be checked, in one process is no such kind."""
    found = {kind for finding in report.findings for kind in (finding.kind, *finding.also)}
    open_kinds = found | {entry.kind for entry in report.skipped}
    return [kind for kind in dict.fromkeys(entry.kind for entry in report.ruled_out) if kind not in open_kinds]


def by_reason(entries: Sequence[RuledOut | Skipped]) -> list[tuple[str, str]]:
    """(kinds, reason): what several kinds have in common is said once."""
    kinds: dict[str, dict[str, None]] = {}
    for one in entries:
        kinds.setdefault(one.reason, {})[one.kind] = None
    return [(", ".join(names), reason) for reason, names in kinds.items()]


def caveats(report: Report) -> list[str]:
    """What the recording itself could not see, in sentences."""
    lost = "the recording is not complete: what happened after its last row is not known"
    return [*report.recording.notes, *([] if report.recording.complete else [lost])]


def cost(recording: RecordingFacts, *, briefly: bool = False) -> str:
    """What recording cost, and how it kept to what was allowed."""
    figures = recording.overhead
    cpu, takes, rss = (figures.get(k) for k in ("recorder_cpu_fraction", "take_fraction", "recorder_rss_bytes"))
    pause_s, size = figures.get("longest_take_s"), figures.get("recording_bytes")
    at_once = f" (at most {format_duration(pause_s)} at once)" if pause_s is not None and not briefly else ""
    taken = figures.get("take_bytes")
    known = [
        f"{cpu:.1%} of a core" if cpu is not None else "",
        f"{takes:.1%} of the job's time in snapshots{at_once}" if takes is not None else "",
        f"{format_bytes(rss)} of memory" if rss is not None else "",
        f"up to {format_bytes(taken)} inside the job during a snapshot" if taken is not None else "",
        f"a file of {format_bytes(size)}" if size is not None else "",
    ]
    peak = recording.peak
    much = taken if taken is not None and peak is not None and taken >= SOME * peak.bytes else None
    if briefly and takes is not None and much is not None:
        known[1] = f"{takes:.1%} of the job's time, {format_bytes(much)} in snapshots"
    if briefly:
        known = known[:2]
    text = ", ".join(part for part in known if part) or "not measured"
    if briefly:
        return f"Recording cost: {text}."
    return f"Recording cost: {text}.{_kept_down(recording)}"


def _kept_down(recording: RecordingFacts) -> str:
    """What was done less often than usual for ``--max-overhead``."""
    figures = recording.overhead
    limit = figures.get("max_overhead_fraction")
    held_back, interval_s = figures.get("held_back_takes"), figures.get("longest_interval_s")
    less = [
        f"{held_back:.0f} {'snapshot was' if held_back == 1 else 'snapshots were'} postponed" if held_back else "",
        f"samples were up to {format_duration(interval_s)} apart" if interval_s is not None else "",
    ]
    if limit is None or not any(less):
        return ""
    text = " and ".join(part for part in less if part)
    spent = max(figures.get(k) or 0.0 for k in ("recorder_cpu_fraction", "take_fraction"))
    least = " (a shorter run may use as much as one of four minutes)" if spent > limit else ""
    return f" {text[:1].upper()}{text[1:]} to stay within --max-overhead {100 * limit:.3g}%{least}."
