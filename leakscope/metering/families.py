"""The metrics that there are: name, type, unit, labels, meaning. Everything else asks this table.

Names are as Prometheus has them. OpenTelemetry gets the same with dots and without the unit, which it tells apart
(``leakscope.memory.pss`` in ``By``): a collector that hands them to Prometheus makes the names here of them again.
"""

from __future__ import annotations

from typing import NamedTuple

GAUGE, COUNTER, INFO = "gauge", "counter", "info"
PREFIX = "leakscope_"
_OTLP_UNITS = {"bytes": "By", "seconds": "s", "bytes_per_hour": "By/h", "": ""}


class Family(NamedTuple):
    """One metric. ``name`` without the ``_total`` or ``_info`` of its samples; ``unit`` is how it ends."""

    name: str
    kind: str
    unit: str
    help: str
    labels: tuple[str, ...] = ()

    @property
    def sample_name(self) -> str:
        """What a query says."""
        return self.name + {GAUGE: "", COUNTER: "_total", INFO: "_info"}[self.kind]

    @property
    def otlp_name(self) -> str:
        bare = self.name[: -len(self.unit) - 1] if self.unit else self.name
        area, _, rest = bare[len(PREFIX) :].partition("_")
        return f"leakscope.{area}.{rest}" if rest else f"leakscope.{area}"

    @property
    def otlp_unit(self) -> str:
        return _OTLP_UNITS[self.unit]


def _gauge(name: str, unit: str, help: str, *labels: str) -> Family:
    return Family(f"{PREFIX}{name}_{unit}" if unit else PREFIX + name, GAUGE, unit, help, labels)


def _counter(name: str, unit: str, help: str, *labels: str) -> Family:
    return _gauge(name, unit, help, *labels)._replace(kind=COUNTER)


_OF_A_HOLDER = ("holder", "type", "role")

RECORDING = Family(
    f"{PREFIX}recording", INFO, "", "What is recorded; labels of `record --label` begin with label_.",
    ("version", "recording", "program"),
)  # fmt: skip
STARTED = _gauge("recording_start", "seconds", "When the recording began, Unix time.")
SAMPLED = _gauge("last_sample", "seconds", "When the newest figures were taken, Unix time.")
PROCESSES = _gauge("processes", "", "Living processes of the job.")
PSS = _gauge("memory_pss", "bytes", "Memory of all processes of the job, pages that they share counted once.")
RSS = _gauge("memory_rss", "bytes", "The same by resident pages: what processes share counts in each.")
PRIVATE = _gauge("memory_private", "bytes", "Of it what no other process has, as last read: ending the job frees it.")
SWAP = _gauge("memory_swap", "bytes", "Memory of the job that is in swap.")
PEAK = _gauge("memory_peak", "bytes", "The most that was held at any sample: with swap, without mapped files.")
GAINED = _gauge(
    "memory_gained", "bytes",
    "Gained since the warm-up and never given back: the growth of the report, without a judgement whether that leaks.",
)  # fmt: skip
GROWTH = _gauge("memory_growth", "bytes_per_hour", "The same, memory_gained, as a rate over the whole recording.")
STEADY_GROWTH = _gauge(
    "memory_steady_growth", "bytes_per_hour",
    "Growth that went on all along for the last 20 to 120 seconds; no sample where there is none.",
)  # fmt: skip
ROLE_MEMORY = _gauge("role_memory", "bytes", "Memory of the processes of one role, shared pages counted once.", "role")
ROLE_LARGEST = _gauge("role_largest_process", "bytes", "Memory of the largest process of one role.", "role")
ROLE_PROCESSES = _gauge("role_processes", "", "Living processes of one role.", "role")
LIMIT = _gauge("limit", "bytes", "A limit that ends the job: of the host, the tightest cgroup, an rlimit.", "limit")
LIMIT_USED = _gauge("limit_used", "bytes", "What counts against it now.", "limit")
LIMIT_LEFT = _gauge(
    "limit_time_left", "seconds",
    "Time until it is full, at the steady growth of its use or of the job; no sample where nothing grows.", "limit",
)  # fmt: skip
GPU = _gauge("gpu_memory", "bytes", "Memory of a GPU.", "gpu", "uuid")
GPU_USED = _gauge("gpu_memory_used", "bytes", "Of it in use, by whomever.", "gpu", "uuid")
GPU_JOB = _gauge("gpu_memory_job", "bytes", "Of it in use by processes of the job.", "gpu", "uuid")
STEP = _gauge("step", "", "Training steps, requests or tasks so far, of the process that is farthest.")
STEP_RATE = _gauge("steps_per_second", "", "Its steps, requests or tasks a second, over the last minute.")
SNAPSHOTS = _counter("snapshots", "", "Snapshots of the heap so far, of all processes.")
SNAPSHOT_PAUSES = _counter("snapshot_pause", "seconds", "Time for which they held their threads.")
SNAPSHOT_LONGEST = _gauge("snapshot_longest_pause", "seconds", "The longest of them.")
HOLDERS_TAKEN = _gauge("holders_taken", "seconds", "When the snapshot of these holders was taken, Unix time.")
HOLDER = _gauge(
    "holder", "bytes",
    "Memory of one of the ten largest holders of the newest snapshot, in the process that has most of it.",
    *_OF_A_HOLDER,
)  # fmt: skip
HOLDER_GROWTH = _gauge("holder_growth", "bytes", "What it gained since the first snapshot.", *_OF_A_HOLDER)
HOLDERS_LEFT_OUT = _gauge(
    "holders_left_out", "", "Of the ten largest those without series of their own: too many names so far."
)
KILLS = _counter("oom_kills", "", "Processes that the kernel's OOM killer ended, as its counters say.")
ALERTS = _counter("alerts", "", "Alerts of `record --alert`.")
LOST = _counter("lost", "seconds", "Time that could not be recorded: a full disk, for one.")
RECORDER_CPU = _counter("recorder_cpu", "seconds", "CPU time of the recorder.")
RECORDER_MEMORY = _gauge("recorder_memory", "bytes", "Resident memory of the recorder.")
RECORDER_ROUND = _gauge("recorder_round", "seconds", "Time that its last round of samples took.")
RECORDER_JOURNAL = _gauge("recorder_journal", "bytes", "What it has written so far.")
EXPORTER_CPU = _counter("exporter_cpu", "seconds", "CPU time of the process that serves these metrics.")
EXPORTER_MEMORY = _gauge("exporter_memory", "bytes", "Its resident memory.")

FAMILIES = tuple(value for value in globals().values() if isinstance(value, Family))
