"""The columns of a row: one recording, as ``fleet index`` and ``fleet analyze`` write it.

The only place that says so; documentation is made from it. Columns are added, never renamed.
"""

from __future__ import annotations

from typing import NamedTuple


class Column(NamedTuple):
    """``type`` is int, float, str, bool, time (UTC) or texts (a map). Null where the recording does not say."""

    name: str
    type: str
    unit: str
    meaning: str


PLACE = (
    Column("url", "str", "", "where it is: a path of this host, or an address such as s3://bucket/run.parquet"),
    Column(
        "state",
        "str",
        "",
        "final, checkpoint, empty, unfinished (a journal nobody finalised), unreadable, foreign, "
        "failed (`fleet analyze` did on it)",
    ),
    Column("problem", "str", "", "why it cannot be read, or what its end lacks"),
    Column("size_bytes", "int", "bytes", "size of the file"),
    Column("stamp", "str", "", "time of its last change, or its ETag: a recording with another one is read again"),
    Column("first_index", "int", "", "number of the index run that saw it first"),
    Column("read_index", "int", "", "number of the index run that read it last"),
    Column("columns_id", "int", "", "the same for files with the same columns"),
)
RUN = (
    Column("command", "str", "", "the command, words joined by spaces"),
    Column("host", "str", "", "name of the machine"),
    Column("started_at", "time", "", "when recording began"),
    Column("leakscope_version", "str", "", "version that recorded it"),
    Column("labels", "texts", "", "labels that the user gave"),
    Column("sample_count", "int", "", "rows of process_samples"),
    Column("complete", "bool", "", "nothing is known to be missing"),
)
BELONGS = (
    Column("job", "str", "", "name or number of the job"),
    Column("attempt", "int", "", "which try of the job this is"),
    Column("rank", "int", "", "rank in the job"),
    Column("local_rank", "int", "", "rank among those of its node"),
    Column("world_size", "int", "", "ranks of the job"),
    Column("node", "str", "", "node it ran on; the host where nothing else is said"),
    Column("node_rank", "int", "", "number of the node in the job"),
    Column("pod", "str", "", "pod of Kubernetes"),
    Column("namespace", "str", "", "namespace of Kubernetes"),
    Column("container", "str", "", "container of the pod"),
    Column("restart_count", "int", "", "how often the container was started again before"),
    Column("commit", "str", "", "commit of the program"),
    Column("scheduler", "str", "", "who started it: torchrun, slurm, mpi, kubernetes, ray, sagemaker, github-actions"),
)
VERDICT = (
    Column("judged", "bool", "", "the footer has a verdict; without one, nothing is said of leaks"),
    Column("leaking", "bool", "", "true, false, or null: cannot tell, or not judged"),
    Column(
        "as_of_s",
        "float",
        "s",
        "the verdict is provisional: of this moment of a run that went on; null: of its end",
    ),
    Column("killed", "bool", "", "a process was killed for lack of memory"),
    Column("headline", "str", "", "the verdict as a sentence"),
    Column("growth_bytes", "int", "bytes", "what the job gained"),
    Column("growth_bytes_per_hour", "float", "bytes/h", "how fast it grew"),
    Column("growth_bytes_per_step", "float", "bytes", "the same per training step"),
    Column("limit", "str", "", "nearest limit: host, cgroup, rlimit, gpu:0"),
    Column("seconds_to_limit", "float", "s", "until this growth fills it"),
)
FIGURES = (
    Column("duration_s", "float", "s", "length of the recording"),
    Column("ended", "str", "", "exit, signal, oom-killed or lost"),
    Column("exit_code", "int", "", "exit status"),
    Column("signal", "int", "", "signal that ended it"),
    Column("kill_count", "int", "", "processes of the job that the kernel killed for lack of memory, by its counters"),
    Column("peak_bytes", "int", "bytes", "most memory of all processes at once"),
    Column("end_bytes", "int", "bytes", "memory at the end"),
    Column("limit_bytes", "int", "bytes", "the nearest limit"),
    Column("steps", "int", "", "training steps"),
    Column("process_count", "int", "", "processes"),
    Column("gpu_count", "int", "", "GPUs"),
    Column("gpu_name", "str", "", "model of the GPUs"),
    Column("gpu_driver", "str", "", "version of the driver"),
    Column("gpu_peak_bytes", "int", "bytes", "most memory in use on a GPU"),
)
FINDING = (
    Column("kind", "str", "", "kind of finding, such as retained-objects"),
    Column("severity", "str", "", "critical, warning or note"),
    Column("confidence", "float", "", "0 to 1"),
    Column("fingerprint", "str", "", "the same wherever the same is found; null where nothing is named"),
    Column("title", "str", "", "the finding as a sentence"),
    Column("holder", "str", "", "what holds the memory"),
    Column("file", "str", "", "file of the line to edit"),
    Column("line", "int", "", "line to edit"),
    Column("bytes", "int", "bytes", "what a fix frees"),
    Column("bytes_per_hour", "float", "bytes/h", "how fast it grows"),
)
# In rows of `fleet analyze` alone, and read by no other command: a thousand of them are 50 MB.
REPORT = Column("report_json", "str", "", "the whole report, `leakscope.report/1`")
COLUMNS = (*PLACE, *RUN, *BELONGS, *VERDICT, *FIGURES)
# As storage.catalogue takes them.
TYPES = {**{c.name: c.type for c in COLUMNS}, "findings": {c.name: c.type for c in FINDING}}
