"""Prometheus and cAdvisor: JSON that `/api/v1/query_range` (or `query`) or `/api/v1.3/containers` answered."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from ._facts import UNIX, Fact, NotThisFormat
from ._figures import MIB, amount, moment, number, unix
from ._source import Source

LACKS = "has sizes of processes, containers and machines, not what is in them or who holds it"
# Name of a series: table, column, bytes in its unit.
_SERIES: dict[str, tuple[str, str, float]] = {
    "process_resident_memory_bytes": ("process_samples", "rss_bytes", 1),
    "process_virtual_memory_bytes": ("process_samples", "virtual_bytes", 1),
    "process_open_fds": ("process_samples", "fd_count", 1),
    "namedprocess_namegroup_memory_bytes": ("process_samples", "rss_bytes", 1),
    "container_memory_rss": ("process_samples", "anon_bytes", 1),
    "container_memory_swap": ("process_samples", "swap_bytes", 1),
    "container_memory_working_set_bytes": ("cgroup_samples", "current_bytes", 1),
    "container_memory_usage_bytes": ("cgroup_samples", "usage", 1),
    "container_memory_cache": ("cgroup_samples", "cgroup_file_bytes", 1),
    "container_memory_max_usage_bytes": ("cgroup_samples", "cgroup_peak_bytes", 1),
    "container_spec_memory_limit_bytes": ("cgroup_samples", "limit_bytes", 1),
    "container_oom_events_total": ("cgroup_samples", "oom_kill_count", 1),
    "kube_pod_container_resource_limits": ("cgroup_samples", "limit_bytes", 1),
    "node_memory_MemTotal_bytes": ("host_samples", "mem_total_bytes", 1),
    "node_memory_MemAvailable_bytes": ("host_samples", "mem_available_bytes", 1),
    "node_memory_MemFree_bytes": ("host_samples", "mem_free_bytes", 1),
    "node_memory_SwapTotal_bytes": ("host_samples", "swap_total_bytes", 1),
    "node_memory_SwapFree_bytes": ("host_samples", "swap_free_bytes", 1),
    "node_memory_Shmem_bytes": ("host_samples", "host_shmem_bytes", 1),
    "node_vmstat_oom_kill": ("host_samples", "oom_kill_count", 1),
    "machine_memory_bytes": ("host_samples", "mem_total_bytes", 1),
    "DCGM_FI_DEV_FB_USED": ("gpu_samples", "gpu_used_bytes", MIB),
    "nvidia_smi_memory_used_bytes": ("gpu_samples", "gpu_used_bytes", 1),
    "nvidia_smi_memory_total_bytes": ("gpu_samples", "gpu_total_bytes", 1),
    "nvidia_gpu_memory_used_bytes": ("gpu_samples", "gpu_used_bytes", 1),
    "nvidia_gpu_memory_total_bytes": ("gpu_samples", "gpu_total_bytes", 1),
}
_IDS = (
    "namespace",
    "pod",
    "pod_name",
    "container",
    "container_name",
    "name",
    "id",
    "job",
    "instance",
    "groupname",
    "exported_job",
)
_NO_LIMIT = 1 << 60
Labels = dict[str, Any]


def sniff(head: bytes, name: str) -> bool:
    text = head[:4000].decode("utf-8", "replace")
    is_prometheus = re.search(r'"resultType"\s*:\s*"(matrix|vector)"', text) is not None
    return is_prometheus or (
        '"stats"' in head.decode("utf-8", "replace") and re.search(r'"has_memory"', text) is not None
    )


def read(source: Source) -> Iterator[Fact]:
    """Each series by its name; ``container_memory_rss`` is what all processes of a container hold together."""
    document = source.document()
    source.clock = UNIX
    if not isinstance(document, dict):
        raise NotThisFormat("is no answer of Prometheus")
    if "data" not in document:
        source.tool = "cAdvisor"
        yield from _cadvisor(source, document)
        return
    source.tool = "Prometheus"
    if document.get("status") != "success":
        raise NotThisFormat(f"is an error of Prometheus, no answer: {str(document.get('error'))[:100]}")
    result = document["data"].get("result") if isinstance(document["data"], dict) else None
    unknown: dict[str, None] = {}
    subjects: dict[tuple[str, str], tuple[Labels, list[tuple[str, list[Any]]]]] = {}
    for series in result if isinstance(result, list) else []:
        if not isinstance(series, dict):
            continue
        metric = series.get("metric")
        labels: Labels = metric if isinstance(metric, dict) else {}
        name = str(labels.get("__name__", ""))
        values = series.get("values") or ([series["value"]] if "value" in series else [])
        if name not in _SERIES or (name == "kube_pod_container_resource_limits" and labels.get("resource") != "memory"):
            unknown.setdefault(name or "a series without a name")
        elif isinstance(values, list) and labels.get("container", labels.get("container_name")) != "POD":  # it pauses
            table = _SERIES[name][0]
            key = _subject(source, table, labels)
            subjects.setdefault((table, str(key)), (key, []))[1].append((name, values))
    for (table, _), (key, several) in subjects.items():
        yield from _of_subject(source, table, key, several)
    if unknown:
        source.notes.append(f"not memory that is known here, left out: {', '.join(list(unknown)[:5])}")
        if "a series without a name" in unknown:
            source.notes.append("ask for the plain series: sum() and rate() take their names away")


def _of_subject(source: Source, table: str, key: Labels, several: list[tuple[str, list[Any]]]) -> Iterator[Fact]:
    """Its series side by side: a limit counts where it stands beside what is in use."""
    rows: dict[float, Labels] = {}
    for name, values in several:
        _, column, unit = _SERIES[name]
        for pair in values:
            at_s = unix(pair[0]) if isinstance(pair, list) and len(pair) == 2 else None
            value = amount(pair[1], unit) if at_s is not None else None
            if at_s is None or value is None:
                source.left_out += 1
            elif column != "limit_bytes" or 0 < value < _NO_LIMIT:
                rows.setdefault(at_s, {})[column] = value
    for at_s, row in rows.items():
        usage = row.pop("usage", None)
        if usage is not None:
            row.setdefault("current_bytes", usage)
        if "anon_bytes" in row:
            row.setdefault("rss_bytes", row["anon_bytes"])
        yield Fact(table, at_s, {**key, **row})


def _subject(source: Source, table: str, labels: Labels) -> Labels:
    """What a row is about: a process by its labels, a cgroup, a GPU."""
    named = [str(labels[name]) for name in _IDS if labels.get(name)]
    if table == "process_samples":
        comm = next(
            (
                str(labels[n])
                for n in ("container", "container_name", "groupname", "pod", "job", "name", "id")
                if labels.get(n)
            ),
            "process",
        )
        cgroup = "/".join(named) if labels.get("container") or labels.get("id") else None
        return {"pid": source.unnamed("|".join(named) or "process", comm=comm, cgroup=cgroup and f"/{cgroup}")}
    if table == "cgroup_samples":
        return {"cgroup": "/" + "/".join(named)}
    if table == "gpu_samples":
        uuid = next(
            (str(labels[name]) for name in ("UUID", "uuid", "gpu", "minor_number") if labels.get(name)), "GPU 0"
        )
        index = number(labels.get("gpu", labels.get("minor_number", 0)))
        return {
            "gpu_uuid": uuid,
            "gpu_index": None if index is None else int(index),
            "gpu_name": labels.get("modelName"),
        }
    return {}


def _cadvisor(source: Source, document: Labels) -> Iterator[Fact]:
    containers = [document] if "stats" in document else [v for v in document.values() if isinstance(v, dict)]
    for container in containers:
        name = str(container.get("name", "container"))
        aliases = container.get("aliases")
        comm = str(aliases[0]) if isinstance(aliases, list) and aliases else name.rsplit("/", 1)[-1]
        spec = container.get("spec")
        memory = spec.get("memory") if isinstance(spec, dict) else None
        limit = amount(memory.get("limit")) if isinstance(memory, dict) else None
        pid = source.unnamed(name, comm=comm, cgroup=name)
        for one in container.get("stats") or ():
            at = moment(str(one.get("timestamp", ""))) if isinstance(one, dict) else None
            figures = one.get("memory") if isinstance(one, dict) else None
            if at is None or not isinstance(figures, dict):
                source.left_out += 1
                continue
            anon, used = amount(figures.get("rss")), amount(figures.get("working_set", figures.get("usage")))
            if anon is not None:
                yield Fact("process_samples", at[0], {"pid": pid, "rss_bytes": anon, "anon_bytes": anon})
            if used is not None:
                own = {
                    "cgroup": name,
                    "current_bytes": used,
                    "limit_bytes": limit if limit and limit < _NO_LIMIT else None,
                }
                yield Fact("cgroup_samples", at[0], own)
