"""Recordings made in code, so that a test shows its cause: processes, a growing RSS, takes, a kill.

    recording = (
        RecordingBuilder(tmp_path)
        .process(100, role="trainer")
        .samples(100, rss=[1000, 2000, 3000], every_s=1.0)
        .take(100, 1, at_s=2.0, holders=[{"path": "main() history", "deep_bytes": 500}])
        .ends(at_s=3.0, exit_code=0)
        .open()
    )

Times are seconds since the recording began. Everything goes through the real journal and the real finalise.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from leakscope import schema
from leakscope.agent.journal import Journal
from leakscope.storage import Recording, open_recording
from leakscope.storage.finalize import finalize
from tests.heaps import Heap

START_MONO_NS = 50_000_000_000_000
START_UNIX_NS = 1_795_255_200_000_000_000  # 2026-11-21T10:00:00Z
START_BOOT_NS = 60_000_000_000_000


class RecordingBuilder:
    """Collects rows and writes them as one finalised recording. Every method that adds returns the builder."""

    def __init__(self, folder: Path, name: str = "run.parquet", **meta: Any) -> None:
        """``meta`` replaces or adds entries of ``meta.json``: ``command``, ``host``, ``labels``, ..."""
        self.path = folder / name
        self.journal = folder / f"{name}.journal"
        self.meta: dict[str, Any] = {
            "format_version": schema.SCHEMA_VERSION,
            "command": ["python", "train.py"],
            "cwd": "/home/user/project",
            "host": "testhost",
            "started_at": "2026-11-21T10:00:00Z",
            "start_mono_ns": START_MONO_NS,
            "start_unix_ns": START_UNIX_NS,
            "leakscope_version": "0.1.0",
            "labels": {},
            **meta,
        }
        self._rows: list[tuple[str, dict[str, Any]]] = []
        self._processes: dict[int, dict[str, Any]] = {}
        self._heaps: dict[int, Heap] = {}
        self._last_s = 0.0

    def row(self, table: str, at_s: float, pid: int | None = None, **columns: Any) -> RecordingBuilder:
        """One row of any table; ``pid`` adds the process's start_ticks."""
        self._last_s = max(self._last_s, at_s)
        offset_ns = round(at_s * 1e9)
        row: dict[str, Any] = {
            "time_unix_ns": START_UNIX_NS + offset_ns,
            "time_mono_ns": START_MONO_NS + offset_ns,
            "time_boot_ns": START_BOOT_NS + offset_ns,
        }
        if pid is not None:
            row |= {"pid": pid, "start_ticks": start_ticks(pid)}
        self._rows.append((table, row | columns))
        return self

    def series(
        self, table: str, pid: int | None = None, every_s: float = 1.0, from_s: float = 0.0, **columns: Any
    ) -> RecordingBuilder:
        """Rows at even distances; a column given as a list has one value a row, any other value is in every row."""
        counts = {len(v) for v in columns.values() if isinstance(v, list)}
        if len(counts) != 1:
            raise ValueError(f"the lists of a series must be of one length, not {sorted(counts)}")
        for i in range(counts.pop()):
            values = {name: v[i] if isinstance(v, list) else v for name, v in columns.items()}
            self.row(table, from_s + i * every_s, pid, **values)
        return self

    def process(
        self,
        pid: int,
        role: str = "trainer",
        *,
        ppid: int | None = None,
        born_s: float = 0.0,
        died_s: float | None = None,
        **columns: Any,
    ) -> RecordingBuilder:
        """A process, born and perhaps dead; the first one is the root, and the parent of the others unless they say."""
        root = not self._processes
        born = {
            "ppid": ppid if ppid is not None else (1 if root else next(iter(self._processes))),
            "ns_pid": pid,
            "comm": "python",
            "cmdline": "python train.py",
            "exe": "/usr/bin/python3",
            "role": role,
            "cgroup": "/job",
            "born_mono_ns": START_MONO_NS + round(born_s * 1e9),
            "is_root": root,
            **columns,
        }
        self._processes[pid] = born
        self.row("processes", born_s, pid, **born)
        if died_s is not None:
            self.row("processes", died_s, pid, **born, died_mono_ns=START_MONO_NS + round(died_s * 1e9))
        return self

    def samples(
        self, pid: int, rss: list[int], every_s: float = 1.0, from_s: float = 0.0, **columns: Any
    ) -> RecordingBuilder:
        """Memory of a process, bytes: all of ``rss`` is private and anonymous unless other columns say otherwise."""
        private = {"rss_bytes": rss, "anon_bytes": rss, "pss_bytes": rss, "pss_anon_bytes": rss, "uss_bytes": rss}
        rest = {"file_bytes": 0, "shmem_bytes": 0, "swap_bytes": 0, "thread_count": 1, "fd_count": 8, "state": "S"}
        return self.series("process_samples", pid, every_s, from_s, **{**private, **rest, **columns})

    def sentinels(self, pid: int, every_s: float = 1.0, from_s: float = 0.0, **columns: Any) -> RecordingBuilder:
        """Readings from inside a process; give at least one column as a list."""
        return self.series("sentinels", pid, every_s, from_s, **columns)

    def host(self, available: list[int], total: int, every_s: float = 1.0, **columns: Any) -> RecordingBuilder:
        """Memory of the machine, bytes."""
        return self.series(
            "host_samples", None, every_s, 0.0, mem_available_bytes=available, mem_total_bytes=total, **columns
        )

    def cgroup(
        self, current: list[int], limit: int | None, every_s: float = 1.0, cgroup: str = "/job", **columns: Any
    ) -> RecordingBuilder:
        """Memory of one cgroup, bytes."""
        return self.series(
            "cgroup_samples", None, every_s, 0.0, cgroup=cgroup, current_bytes=current, limit_bytes=limit, **columns
        )

    def take(
        self,
        pid: int,
        number: int,
        at_s: float,
        *,
        holders: list[dict[str, Any]] | None = None,  # places, as tests/heaps.py has them
        types: list[dict[str, Any]] | None = None,
        threads: list[dict[str, Any]] | None = None,
        **columns: Any,
    ) -> RecordingBuilder:
        """An inventory: its own row (``columns``) and the rows of the tables that belong to it."""
        row = {"reason": "schedule", "safe_point": "pending-call", "duration_s": 0.01, "truncated": False}
        row |= {"tensor_bytes": 0, "tensor_device_bytes": 0, **columns}  # torch was asked
        self.row("takes", at_s, pid, take=number, **row)
        parts = [("object_types", part) for part in types or ()] + [("threads", part) for part in threads or ()]
        for table, part in parts:
            self.row(table, at_s, pid, take=number, **part)
        weighed = {name: columns.get(f"{name}_bytes") or 0 for name in ("python", "array", "tensor")}
        told = {"array_bytes": weighed["array"], "storage_bytes": weighed["tensor"]} if any(weighed.values()) else {}
        if told:
            told["retained_bytes"] = sum(weighed.values())
        return self.holds(pid, number, at_s, holders, **told) if holders else self

    def holds(self, pid: int, number: int, at_s: float, places: list[dict[str, Any]], **graph: Any) -> RecordingBuilder:
        """What a snapshot found in the heap: ``places`` as tests/heaps.py has them; ``graph``: columns of its row."""
        for table, part in self._heaps.setdefault(pid, Heap()).rows(places):
            self.row(table, at_s, pid, take=number, **(part | graph if table == "heap_graphs" else part))
        return self

    def node(self, pid: int, path: str) -> int:
        """The number of what ``holds`` found at a path."""
        return self._heaps.setdefault(pid, Heap()).number(path)

    def allocated(
        self, pid: int, at_s: float, live_bytes: int, stack: str, *, sample_count: int = 9, **columns: Any
    ) -> RecordingBuilder:
        """What malloc handed out under one stack (``file:line function``, outermost first) and is alive."""
        place, _, function = stack.rpartition("\n")[2].partition(" ")
        file, _, line = place.rpartition(":")
        row = {"allocator": "malloc", "stack": stack, "function": function, "owner_file": file, "owner_line": int(line)}
        sizes = {"live_bytes": live_bytes, "settled_bytes": live_bytes, "asked_bytes": live_bytes, "error_bytes": 0}
        return self.row("allocation_stacks", at_s, pid, **{**row, **sizes, "sample_count": sample_count, **columns})

    def heap(
        self,
        pid: int,
        number: int,
        at_s: float,
        kept_bytes: int,
        count: int,
        *,
        storage_bytes: int = 0,
        modules: int = 0,
        **columns: Any,
    ) -> RecordingBuilder:
        """The graph of a snapshot: a module ``store`` whose dict ``KEPT`` has ``count`` members.

        ``modules``: how many there are, of 32 KiB each.
        """
        held = {"retained_bytes": kept_bytes + 500, "retained_storage_bytes": storage_bytes}
        of_modules = {"retained_bytes": kept_bytes + (modules << 15) + 500, "length": modules}
        nodes = (
            (0, None, None, None, "", {}), (1, 0, None, None, "", {}), (6, 1, None, None, "dict", of_modules),
            (7, 6, "key", "store", "module", {}), (8, 7, "namespace", None, "dict", {}),
            (11, 8, "key", "KEPT", "dict", {"length": count, "child_count": count}),
        )  # fmt: skip
        for node, above, kind, name, of, more in nodes:
            row = {
                "node": node, "path_node": above, "dominator_node": above, "root_kind": "module", "type_name": of,
                "edge_kind": kind, "edge_name": name, "is_named": True, "shallow_bytes": 100, "child_count": 1,
            }  # fmt: skip
            self.row("heap_nodes", at_s, pid, take=number, **(row | held | more))
        self.row(
            "heap_children", at_s, pid, take=number, node=11, type_name="store.Entry", object_count=count,
            retained_bytes=kept_bytes,
        )  # fmt: skip
        row = {
            "node_count": 100, "retained_bytes": 20 << 20, "storage_bytes": storage_bytes, "outside_bytes": 0,
            "unreached_bytes": 0, **columns,
        }  # fmt: skip
        return self.row("heap_graphs", at_s, pid, take=number, **row)

    def event(
        self,
        event: str,
        at_s: float,
        pid: int | None = None,
        text: str | None = None,
        value: float | None = None,
    ) -> RecordingBuilder:
        """Something that happened once."""
        return self.row("events", at_s, pid, event=event, text=text, value=value)

    def mark(
        self, pid: int, at_s: float, step: int | None = None, phase: str | None = None, text: str | None = None
    ) -> RecordingBuilder:
        """A step, phase or label the program passed."""
        return self.row("marks", at_s, pid, step=step, phase=phase, text=text)

    def note(self, pid: int, at_s: float, note: str, text: str = "") -> RecordingBuilder:
        """What the agent did, or did not do and why."""
        return self.row("agent_notes", at_s, pid, note=note, text=text)

    def source(self, pid: int, file: str, source_text: str, module: str = "__main__") -> RecordingBuilder:
        """The source of a user's module as it was loaded."""
        return self.row("sources", 0.0, pid, module=module, file=file, source_text=source_text)

    def ends(self, at_s: float | None = None, exit_code: int | None = 0, signal: int | None = None) -> RecordingBuilder:
        """The root process ends and the recorder says so; without this call the recording is ``lost``."""
        at_s = self._last_s if at_s is None else at_s
        code = None if signal is not None else exit_code
        for pid, born in list(self._processes.items())[:1]:
            died = {"died_mono_ns": START_MONO_NS + round(at_s * 1e9), "exit_code": code, "exit_signal": signal}
            self.row("processes", at_s, pid, **{**born, **died})
        status = -signal if signal is not None else (code or 0)
        return self.event("end", at_s, text=f"the command ended: {status}", value=float(status))

    def write_journal(self) -> Path:
        """Leave the recording as a killed recorder would: a journal folder only. Returns the path of the output."""
        self.journal.mkdir()
        (self.journal / "meta.json").write_text(json.dumps(self.meta))
        for pid, heap in self._heaps.items():
            known = {row["module"] for table, row in self._rows if table == "sources" and row["pid"] == pid}
            for module, file in heap.user_modules.items():
                if module not in known and (file is not None or not known):
                    self.source(pid, file or f"/job/{'train' if module == '__main__' else module}.py", "", module)
        journal = Journal(str(self.journal), "recorder")
        for table, row in self._rows:
            journal.add(table, row)
        journal.close()
        return self.path

    def write(self) -> Path:
        """Write and finalise; returns the path of the recording."""
        return finalize(self.write_journal())

    def open(self) -> Recording:
        """Write, finalise and open."""
        return open_recording(self.write())


def start_ticks(pid: int) -> int:
    """The start time a built process has."""
    return pid * 100
