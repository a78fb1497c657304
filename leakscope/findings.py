"""What an analysis says: frozen values that cross the wall from analyzers to renderers, and do no more than sort.

The field names are those of the JSON contract ``leakscope.report/1``; they are extended, never renamed.
"""

from __future__ import annotations

import hashlib
import os.path
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, NamedTuple

from .confidence import Ground
from .kinds import CRASH, GROWTH, KILL, Kind
from .schema import ROLES as ROLES  # which pages and renderers show

if TYPE_CHECKING:
    import pandas as pd

_COUNT = re.compile(r"(?<!\w)\d[\d,]*(\.\d+)?(?!\w)")
_GUESS = 0.5  # less sure than that
SEVERITIES = ("critical", "warning", "note")
BY_THE_END = "in a run like this one"  # in a remedy: how much it saves; no forecast
AGENT = "_leakscope_agent"  # ``Subject.module`` of a crash that leakscope's own agent may have caused


@dataclass(frozen=True)
class Evidence:
    """One sentence and the figures behind it (bytes, seconds and counts under self-explaining keys)."""

    text: str
    figures: Mapping[str, object] = field(default_factory=dict)


HELD_BY = "bytes held by"
NOBODY = "no Python object"  # by which what C code has leaked is held

OTHERS = "other processes"  # behind their number: the name of a band that has several


@dataclass(frozen=True)
class Series:
    """A short curve to draw: ``x`` in ``x_unit``, ``y`` in ``y_unit``, at most 2,000 points.

    ``process``: the label of the one of several processes that it is of; None where the subject says it.
    """

    name: str
    x: Sequence[float]
    y: Sequence[float]
    x_unit: str = "s"
    y_unit: str = "bytes"
    process: str | None = None

    @property
    def is_of_holder(self) -> bool:
        """What the holder that the finding names held at each snapshot."""
        return self.name.startswith(HELD_BY)


@dataclass(frozen=True)
class Subject:
    """What a finding is about. ``file`` and ``line`` are the place a user would edit; None means not known."""

    pid: int | None = None
    process: str | None = None
    role: str | None = None
    device: str | None = None
    holder: str | None = None
    variable: str | None = None
    path: str | None = None
    type: str | None = None
    file: str | None = None
    line: int | None = None
    function: str | None = None
    module: str | None = None
    library: str | None = None

    @property
    def process_text(self) -> str | None:
        """Who it is about: ``train.py (pid 4242)``, ``gunicorn (forked child, pid 91)``, ``train.py (pid 7, cuda:1)``.

        Not what goes without saying: that the program itself is it, and that memory is the machine's.
        """
        if not self.process:
            return None
        role = "" if self.role == "trainer" else ROLES.get(self.role or "", self.role)
        pid = f"pid {self.pid}" if self.pid is not None else ""
        extra = ", ".join(filter(None, (role, pid, self.device if self.device != "cpu" else "")))
        return f"{self.process} ({extra})" if extra else self.process


@dataclass(frozen=True)
class Edit:
    """``diff``: the smallest edit that follows the first remedy, as a unified diff; None where none is certain enough.

    ``note``: what was chosen in it, or why there is none; a clause, which may be empty.
    """

    diff: str | None
    note: str


class Idle(NamedTuple):
    """What nothing reads since the program went on from a line; None: it is not known which one read it last.

    ``since_s``: where the moment itself is known.
    """

    bytes: int
    path: str
    file: str | None = None
    line: int | None = None
    function: str | None = None
    since_s: float | None = None


@dataclass(frozen=True)
class Finding:
    """One diagnosis.

    **Units** ``bytes``: what fixing it frees by the end of the recording (not a forecast); ``confidence`` 0 to 1,
    how sure we are, apart from ``severity``, how bad it is. ``wasted`` marks one-time waste: it is added up in
    ``verdict.wasted_bytes`` and does not make a run "leaking". ``fingerprint`` is the same from run to run; None where
    nothing is named that could be the same again. ``also``: kinds of other findings about the same object, which are
    told as evidence of this one. ``grounds``: what the confidence is computed from. ``mechanism``: why memory is kept,
    which the first remedy mends; None where none is proved. ``edit``: how, in the source. ``means``, which is not in
    the JSON, is the kind as its diagnosis declares it: who runs the diagnoses fills it in. ``step_unit`` is that of
    the verdict. ``idle``: of ``bytes`` that are wasted, what nothing reads any more, piece by piece.
    """

    kind: str
    title: str
    severity: str
    confidence: float
    bytes: int
    subject: Subject
    bytes_per_hour: float | None = None
    bytes_per_step: float | None = None
    evidence: Sequence[Evidence] = ()
    doubts: Sequence[str] = ()
    remedy: Sequence[str] = ()
    series: Sequence[Series] = ()
    wasted: bool = False
    fingerprint: str | None = None
    also: Sequence[str] = ()
    grounds: Sequence[Ground] = ()
    mechanism: str | None = None
    edit: Edit | None = None
    means: Kind | None = field(default=None, compare=False, repr=False, metadata={"json": False})
    step_unit: str = field(default="step", compare=False, repr=False, metadata={"json": False})
    idle: Sequence[Idle] = field(default=(), compare=False, repr=False, metadata={"json": False})

    @property
    def likeness(self) -> str:
        """A key that findings of one program share if they are about the same: of ranks of a job, for instance."""
        return self.fingerprint or self.kind

    @property
    def watched_s(self) -> float:
        """How long it took to gain its bytes at its rate; 0 where it has none."""
        return 3600 * self.bytes / self.bytes_per_hour if self.bytes_per_hour else 0.0

    def tells(self, *meanings: str) -> bool:
        """Whether findings of this kind mean one of these for the verdict (``kinds.MEANINGS``)."""
        return self.means is not None and any(meaning in self.means.tells for meaning in meanings)


_COLUMNS = {
    "kind": "string", "severity": "string", "title": "string", "bytes": "int64", "bytes_per_hour": "Float64",
    "bytes_per_step": "Float64", "wasted": "bool", "confidence": "float64", "file": "string", "line": "Int64",
    "function": "string", "holder": "string", "type": "string", "path": "string", "process": "string", "pid": "Int64",
    "evidence": "object", "doubts": "object", "remedy": "object", "fingerprint": "string",
}  # fmt: skip


class Findings(list[Finding]):
    """The findings of a report, the answer first."""

    def to_pandas(self) -> pd.DataFrame:
        """A row a finding: what was found, how much it is, where, who holds it, and why.

        **Shape** ``evidence``, ``doubts`` and ``remedy`` are lists of sentences; ``bytes`` is what fixing it frees by
        the end of the recording, ``confidence`` is from 0 to 1.
        """
        import pandas as pd

        frame = pd.DataFrame([_row(finding) for finding in self], columns=list(_COLUMNS)).astype(_COLUMNS)
        frame.attrs["units"] = dict.fromkeys(("bytes", "bytes_per_hour", "bytes_per_step"), "bytes")
        return frame


def _row(finding: Finding) -> dict[str, Any]:
    """By the columns of a frame of findings."""
    values = {**vars(finding.subject), **vars(finding)}
    values["evidence"] = [evidence.text for evidence in finding.evidence]
    values.update({name: list(values[name]) for name in ("doubts", "remedy")})
    return {column: values[column] for column in _COLUMNS}


@dataclass(frozen=True)
class Ignored:
    """A finding that the project knows of and accepts: why, and until which day (ISO 8601; None: for good)."""

    finding: Finding
    reason: str
    until: str | None = None


@dataclass(frozen=True)
class RuledOut:
    """Something that was looked for and is not there, with the figures that say so."""

    kind: str
    reason: str
    figures: Mapping[str, object] = field(default_factory=dict)


@dataclass(frozen=True)
class Skipped:
    """Something that could not be looked for, and why. ``applies``: False where the job has nothing of the kind, as no
    GPU has memory where there is none.
    """

    kind: str
    reason: str
    applies: bool = True


@dataclass(frozen=True)
class LedgerRow:
    """Growth of one account in one process, bytes.

    Rows ``in_total`` sum to the measured growth of the tree. Pages of mapped files stand beside: the kernel takes them
    back when memory is short, and whether they are counted here or in another process is chance. So does shared memory
    that no process maps, ``unmapped-shared-memory``: no sum of processes has it.
    """

    account: str
    process: str
    start_bytes: int
    end_bytes: int
    growth_bytes: int
    estimated: bool = False
    in_total: bool = True


@dataclass(frozen=True)
class BudgetRow:
    """Bytes of one account of tensors on one device: at the ``end`` (the last snapshot of the process at work), or
    at the ``peak`` of a training step. ``time_s``: when that was, in seconds since the recording began.

    Accounts are model, optimizer, gradients, activations, batch, user-held, other-tensors, and ``not-tensors``: what
    the process holds (on a GPU: what the allocator reserved) beside tensors. By a memory snapshot of torch the moments
    are ``snapshot`` and ``snapshot-peak``, and accounts besides: workspaces, communication, before-recording, unknown,
    awaiting-free, rounding, cached (segments that are empty), fragmented (free parts of segments in use).
    """

    process: str
    device: str
    moment: str
    account: str
    bytes: int
    time_s: float | None = None


LEVEL, PEAK = "level", "peak"
DATA = "data"  # the account of what the user's variables hold


@dataclass(frozen=True)
class BillRow:
    """What some of the memory was. **Units** bytes.

    ``account``: data (what the user's variables hold), model, gradients, optimizer, activations, batch, user-held,
    other-tensors, tensors, libraries, native, code, mapped-files, shared-memory, allocator-free, leakscope, workers,
    workers-shared, since-snapshot, not-measured. ``parts`` divide a row, and add up to it. ``error_bytes``: one
    standard error, where members of long containers stood for others. ``type`` and ``count`` of what holds it;
    ``tensor_bytes`` of it are tensors; ``file`` and ``line`` of who asked for it. ``also``: another name of the user's
    by which it is held, as a block that two tables have is.
    """

    account: str
    name: str
    bytes: int
    process: str
    estimated: bool = False
    error_bytes: int | None = None
    type: str | None = None
    count: int | None = None
    tensor_bytes: int = 0
    parts: Sequence[BillRow] = ()
    file: str | None = None
    line: int | None = None
    also: str | None = None


@dataclass(frozen=True)
class Bill:
    """What all memory of a job was at one ``moment``: ``level`` (the last snapshot at work) or ``peak``.

    **Units** bytes, and seconds since the recording began. ``rows`` add up to ``total_bytes``, the proportional set
    size of all processes, pages of mapped files included. ``snapshot_s``: of the snapshot that divides what the largest
    process held; None without one. ``asked_in``: of a peak, who asked for most of that process's memory round it, at
    ``file`` and ``line`` of the user's; None where no sampled allocation says.
    """

    moment: str
    time_s: float
    total_bytes: int
    snapshot_s: float | None
    rows: Sequence[BillRow]
    asked_in: str | None = None
    file: str | None = None
    line: int | None = None


@dataclass(frozen=True)
class GpuLine:
    """What one line allocated on one device for one purpose (an account of the budget), by a snapshot of torch.

    **Units** bytes that were alive at the peak and at the end; ``count`` of allocations at the larger of the two.
    ``place`` where no line is known: ``file`` and ``line`` are null then.
    """

    process: str
    device: str
    account: str
    place: str
    file: str | None
    line: int | None
    function: str | None
    count: int
    peak_bytes: int
    end_bytes: int


@dataclass(frozen=True)
class ProcessRow:
    """All processes of one role that ran one program; memory at the moment the whole tree held most, added up.

    A role that was not alive then is shown at its own most.

    **Units** seconds since the recording began, bytes; ``lifetime_s`` is the median, ``busy_share`` of one core each.
    ``held_bytes`` is what the peak is of: without mapped files, shared pages divided among their sharers. ``rss_bytes``
    counts pages that processes share once for each of them: it is shown because other tools show it.
    """

    process: str
    role: str
    count: int
    most_at_once: int
    lifetime_s: float
    busy_share: float
    pss_bytes: int
    private_bytes: int
    rss_bytes: int
    thread_count: int
    fd_count: int
    first_s: float
    last_s: float
    held_bytes: int = 0


@dataclass(frozen=True)
class Band:
    """One layer of a stacked chart: bytes at each moment of its timeline."""

    name: str
    value_bytes: Sequence[int]
    estimated: bool = False


@dataclass(frozen=True)
class Moment:
    """Something to mark on the timeline: ``kind`` is phase, take, mark, event, pressure, alert, birth, end or death.

    A phase has a name (``eval``), and an ``end_s`` where somebody saw it end.
    """

    kind: str
    time_s: float
    text: str
    phase: str | None = None
    end_s: float | None = None


@dataclass(frozen=True)
class Outlook:
    """The judged window of a timeline, and in a job that leaks the straight line through it, up to the limit.

    **Units** seconds since the recording began, bytes. ``began_s``: since when memory never came back to where it was.
    The line goes from ``start_bytes`` to ``end_bytes`` within the window. It meets ``limit_bytes``, as much as the
    whole job may hold, at ``full_s``; these are None where nothing grows towards a limit.
    """

    start_s: float
    end_s: float
    began_s: float | None = None
    start_bytes: int | None = None
    end_bytes: int | None = None
    limit: str | None = None
    limit_bytes: int | None = None
    full_s: float | None = None


@dataclass(frozen=True)
class Timeline:
    """Memory of the process tree over the run, twice divided: by account and by process (each sums to the total).

    **Units** seconds since the recording began, bytes; pages that processes share are counted once. ``step`` is the
    training step at each moment, None where no process said. Thinned for drawing, but no band's peak is lost;
    ``left_out`` counts the moments of a kind that were too many to mark.
    """

    time_s: Sequence[float]
    total_bytes: Sequence[int]
    accounts: Sequence[Band]
    processes: Sequence[Band]
    step: Sequence[int | None] = ()
    moments: Sequence[Moment] = ()
    left_out: Mapping[str, int] = field(default_factory=dict)
    outlook: Outlook | None = None


@dataclass(frozen=True)
class Lap:
    """Once through what a job does again and again: a passage through its phases, a step, or some steps.

    **Units** seconds since the recording began, bytes of all processes without mapped files. ``at`` counts from the
    beginning of the lap, in the unit of its laps; both sequences are empty where only the figures are kept.
    """

    name: str
    start_s: float
    end_s: float
    floor_bytes: int
    peak_bytes: int
    at: Sequence[float] = ()
    value_bytes: Sequence[int] = ()


@dataclass(frozen=True)
class Laps:
    """What a job does again and again, to be laid over each other: ``by`` what it was divided, ``unit`` step or s.

    ``left_out_count`` laps were too many to list.
    """

    by: str
    unit: str
    laps: Sequence[Lap]
    left_out_count: int = 0


@dataclass(frozen=True)
class DeviceMemory:
    """Memory of one GPU: torch's allocator in one process, or what the driver counted on the whole device.

    **Units** seconds since the recording began, bytes; a figure that was not read is None. ``failures`` are the moments
    at which an allocation failed.
    """

    device: str
    time_s: Sequence[float]
    allocated_bytes: Sequence[int | None] = ()
    reserved_bytes: Sequence[int | None] = ()
    used_bytes: Sequence[int | None] = ()
    limit_bytes: int | None = None
    failures: Sequence[Moment] = ()


# Accounts of what torch's allocator has on GPUs, beside the tensors that Python objects hold.
DEVICE_OTHER, DEVICE_CACHE = "device-other", "device-cache"


@dataclass(frozen=True)
class HeapTake:
    """A snapshot to look at or to compare with. ``truncated``: it was cut short, its figures are lower bounds."""

    take: int
    time_s: float
    step: int | None
    reason: str
    truncated: bool


@dataclass(frozen=True)
class HeapHolder:
    """What was found at one path, in each of the heap's snapshots: bytes with all that was first reached through it.

    ``parent`` is the index of the nearest path above it that is shown, None at the top. ``length``: of a container how
    many members it has, also those that others hold too; None where it has none, or nobody counted. ``member_type``:
    what most of them are; None where that is not known.
    """

    path: str
    parent: int | None
    type: str
    bytes: Sequence[int]
    count: Sequence[int]
    length: Sequence[int] | None = None
    member_type: str | None = None


@dataclass(frozen=True)
class HeapView:
    """The heap of one process by holder; parents stand before their members. ``left_out_count`` paths were smaller.

    ``exact``: from the graph of all objects. Then bytes are what could be freed with a holder, and with the others that
    hold the same. ``accounts`` divide all memory of the process at each snapshot. ``on_devices``: bytes are those that
    tensors have on GPUs, and ``accounts`` what torch's allocator has there.
    """

    process: str
    takes: Sequence[HeapTake]
    holders: Sequence[HeapHolder]
    left_out_count: int = 0
    exact: bool = False
    accounts: Sequence[Band] = ()
    on_devices: bool = False


@dataclass(frozen=True)
class Excerpt:
    """A few lines of the user's source, as it was loaded, round a line that a finding names."""

    file: str
    line: int
    first_line: int
    lines: Sequence[str]


@dataclass(frozen=True)
class Verdict:
    """``leaking``: True = grows without end in sight, False = looked and it does not, None = cannot tell.

    ``growth_bytes`` is of private pages and shared memory, between ``start_s`` and ``end_s`` of the recording. The
    rates are of that, or of what is in use where only that was seen to grow.
    ``step_unit``: what a step is: ``step`` of training, ``request`` of a service, ``task`` of a worker.
    ``model``: the course that memory took in that window; ``model_odds``, 0 to 1, by what was held out of it.
    ``shown_bytes_per_hour``: of what does not leak, the slowest steady leak that would have shown.
    ``growth_bytes_per_hour_low`` and ``_high`` bound the growth at 95 %; of what was not seen to grow there is no low.
    """

    leaking: bool | None
    killed: bool
    headline: str
    growth_bytes: int
    growth_bytes_per_hour: float | None = None
    growth_bytes_per_step: float | None = None
    wasted_bytes: int = 0
    limit: str | None = None
    seconds_to_limit: float | None = None
    start_s: float | None = None
    end_s: float | None = None
    step_unit: str = "step"
    model: str | None = None
    model_odds: float | None = None
    shown_bytes_per_hour: float | None = None
    growth_bytes_per_hour_low: float | None = None
    growth_bytes_per_hour_high: float | None = None

    @property
    def watched_s(self) -> float:
        """How long what grew was watched."""
        return (self.end_s or 0.0) - (self.start_s or 0.0)


@dataclass(frozen=True)
class Peak:
    """The most memory of all processes together, bytes.

    ``between_samples``: no sample shows it, the kernel told of it; then ``process`` is who held it, if that is known,
    and ``since_s`` when the last sample before it was taken, likewise.
    ``cgroup_bytes``: the most that the job's cgroup counted, if it has a limit; page cache is in it.
    """

    bytes: int
    process: str | None = None
    between_samples: bool = False
    cgroup_bytes: int | None = None
    since_s: float | None = None


@dataclass(frozen=True)
class RecordingFacts:
    """What was recorded and what recording it cost; ``ended`` is exit, signal, oom-killed or lost.

    ``cwd``: the folder the job was started in. ``goes_on``: the job still runs, and has not ended in any way.
    """

    path: str
    command: Sequence[str]
    started_at: str
    duration_s: float
    ended: str
    exit_code: int | None
    signal: int | None
    process_count: int
    agent_count: int
    complete: bool
    notes: Sequence[str] = ()
    overhead: Mapping[str, float | None] = field(default_factory=dict)
    cwd: str | None = None
    peak: Peak | None = None
    goes_on: bool = False


@dataclass(frozen=True)
class Report:
    """The whole answer; ``findings`` are in order, the first is the report's answer; ``.to_pandas()`` makes a table.

    ``left_out``: names of the parts that this copy of it does without, ``series`` of the findings among them.
    """

    recording: RecordingFacts
    verdict: Verdict
    bill: Sequence[Bill] = ()
    ledger: Sequence[LedgerRow] = ()
    findings: Findings = field(default_factory=Findings)
    ruled_out: Sequence[RuledOut] = ()
    skipped: Sequence[Skipped] = ()
    tensor_budget: Sequence[BudgetRow] = ()
    gpu_lines: Sequence[GpuLine] = ()
    processes: Sequence[ProcessRow] = ()
    timeline: Timeline | None = None
    laps: Laps | None = None
    devices: Sequence[DeviceMemory] = ()
    heap: Sequence[HeapView] = ()
    excerpts: Sequence[Excerpt] = ()
    ignored: Sequence[Ignored] = ()
    left_out: Sequence[str] = ()

    def __post_init__(self) -> None:
        object.__setattr__(self, "findings", Findings(self.findings))


DRAWN = ("timeline", "laps", "devices", "heap", "series")  # many figures, for who draws them


def without_drawn(report: Report) -> Report:
    """The report for who reads it: without what is there to be drawn, which is nine tenths of it."""
    findings = Findings(replace(finding, series=()) for finding in report.findings)
    ignored = [replace(one, finding=replace(one.finding, series=())) for one in report.ignored]
    return replace(
        report, timeline=None, laps=None, devices=(), heap=(), findings=findings, ignored=ignored, left_out=DRAWN
    )


def file_of(finding: Finding, folder: str | None) -> str | None:
    """The file of a finding, relative if it lies below ``folder``, in which the job was started."""
    file = finding.subject.file
    if not file or file.startswith("<") or folder is None:
        return os.path.normpath(file) if file and not file.startswith("<") else file
    whole, top = os.path.normpath(os.path.join(folder, file)), os.path.normpath(folder)
    return os.path.relpath(whole, top) if whole.startswith(top.rstrip("/") + "/") else whole


def fingerprint_of(finding: Finding, folder: str | None) -> str | None:
    """A key that stays from run to run, also when lines move: what holds, and where; no line, no figure, no process.

    None where none of that is known: growth of which nothing is known is no more the same than any two strangers.
    """
    subject = finding.subject
    held = subject.variable or _without_counts(subject.holder)
    parts = (file_of(finding, folder), subject.function, held, _without_counts(subject.type))
    return _hashed(finding.kind, *parts) if any(parts) else None


def stands_for_all(kind: str) -> str:
    """What older versions wrote as the fingerprint of every finding of a kind of which nothing is known."""
    return _hashed(kind, None, None, None, None)


def _hashed(*parts: str | None) -> str:
    joined = "\0".join(part or "" for part in parts)
    return hashlib.sha256(joined.encode("utf-8", "replace")).hexdigest()[:32]


def _without_counts(text: str | None) -> str | None:
    """``156 threads of follow`` are 157 in the next run."""
    return None if text is None else _COUNT.sub("N", text)


def is_our_crash(finding: Finding) -> bool:
    """Whether leakscope itself may be what made the job fail."""
    return finding.subject.module == AGENT


def ended_by_lack(finding: Finding) -> bool:
    """Whether it tells how lack of memory ended a process, and what had filled it: killed, or refused some."""
    return finding.tells(KILL) or (finding.tells(CRASH) and finding.severity == "critical" and finding.bytes > 0)


def in_order(findings: Sequence[Finding]) -> list[Finding]:
    """Our own fault, then by severity, a kill before what led to it, then by bytes times our confidence.

    Where something is known of what took the bytes, it stands before what is guessed; and what can take memory, such as
    processes, before what comes with it, such as their pipes.
    """
    is_known = any(f.bytes > 0 and f.confidence >= _GUESS for f in findings)

    def rank(f: Finding) -> tuple[object, ...]:
        severity, is_guess = SEVERITIES.index(f.severity), is_known and f.confidence < _GUESS
        weight = -f.bytes * f.confidence
        return not is_our_crash(f), severity, not ended_by_lack(f), is_guess, weight, not f.tells(GROWTH), f.title

    return sorted(findings, key=rank)
