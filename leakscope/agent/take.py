"""One take: an inventory of the Python heap. Runs at a safe point, on the thread that owns it.

A take pauses its thread and keeps the collector from running in between (its own allocations must not decide when the
job's garbage is collected). When it returns it holds no object of the job: only rows of numbers and strings remain.
"""

import gc
import os
import sys
import types
from collections import Counter
from itertools import compress
from time import perf_counter, thread_time

from . import roots, walk
from .probes import holders, object_types, orphans, threads

PROBES = (object_types, holders, orphans, threads)
_SUSPENDED = frozenset((types.GeneratorType, types.CoroutineType, types.AsyncGeneratorType))


class Take(object):
    """``rows()`` gives (table, row) pairs; ``memory`` is what the taker remembers between takes: numbers and names."""

    def __init__(self, number, pause_s, memory, main_thread, agent_thread, reduced=False):
        self.number = number
        self.memory = memory
        self.main_thread = main_thread
        self.agent_thread = agent_thread
        self.reduced = reduced
        self.pause_s = pause_s
        self.walk = None
        self.census = None
        self.threads = None
        self.summary = {}

    def run(self):
        """Take it. Returns [(table, row), …]; the row of ``takes`` is ``self.summary``."""
        collecting = gc.isenabled()
        tracer = sys.gettrace()
        if tracer is not None:
            sys.settrace(None)  # a debugger or coverage must not step through us
        if collecting:
            gc.disable()
        try:
            return self._run()
        finally:
            self.walk = self.census = self.threads = None
            if collecting:
                gc.enable()
            if tracer is not None:
                sys.settrace(tracer)

    def _run(self):
        begin, begin_cpu = perf_counter(), thread_time()
        self.deadline = begin + self.pause_s
        objects = gc.get_objects()
        kinds = list(map(type, objects))
        self.census = Counter(kinds)
        suspended = list(compress(objects, map(_SUSPENDED.__contains__, kinds)))
        tensor_bytes = device_bytes = 0
        if not self.reduced:
            tensor_bytes, device_bytes = _tensor_totals(objects, kinds)
        object_count = len(objects)
        # Gone before the walk: what the walk learns from reference counts must not include ours.
        del objects, kinds
        self.walk = walk.Walk(self.deadline, with_tensors=not self.reduced)
        self.threads = roots.feed(self.walk, self.main_thread, self.agent_thread, suspended)
        del suspended
        self.walk.finish(self.census)
        rows = []
        for probe in PROBES:
            for row in probe.rows(self):
                row["take"] = self.number
                rows.append((probe.TABLE, row))
        nodes = self.walk.nodes
        array_bytes = sum(n.deep_array for n in nodes if n.parent is None)
        held_tensor_bytes = sum(n.deep_tensor for n in nodes if n.parent is None)
        self.summary = {
            "gc_object_count": object_count,
            "visited_count": self.walk.visited,
            "reached_count": int(sum(n.count for n in nodes)),
            "truncated": self.walk.truncated,
            "python_bytes": int(sum(n.deep for n in nodes if n.parent is None) - array_bytes - held_tensor_bytes),
            "array_bytes": int(array_bytes),
            "tensor_bytes": tensor_bytes,
            "tensor_device_bytes": device_bytes,
            "allocated_blocks": sys.getallocatedblocks(),
            "take_cpu_s": thread_time() - begin_cpu,
            "duration_s": perf_counter() - begin,
        }
        return rows


def _tensor_totals(objects, kinds):
    """(host bytes, device bytes) of all live tensors, each storage once, without touching the storages themselves."""
    torch = sys.modules.get("torch")
    tensor = walk.getattr_plain(torch, "Tensor")
    storage_id = walk.getattr_plain(walk.getattr_plain(torch, "_C"), "_storage_id")
    if tensor is None or storage_id is None:
        return 0, 0
    wanted = {tensor}
    queue = [tensor]
    while queue:
        for subclass in type.__subclasses__(queue.pop()):
            if subclass not in wanted and walk.type_name(subclass).rsplit(".", 1)[-1] not in _PHANTOMS:
                wanted.add(subclass)
                queue.append(subclass)
    sizes = {}
    devices = {}
    guard = walk.getattr_plain(torch._C, "DisableTorchFunctionSubclass")
    if guard is None:
        return 0, 0
    with guard():
        for obj in compress(objects, map(wanted.__contains__, kinds)):
            try:
                key = storage_id(obj)
                size = obj.numel() * obj.element_size()
                if size > sizes.get(key, -1):
                    sizes[key] = size
                    devices[key] = obj.device.type
            except Exception:
                continue  # sparse, nested, uninitialised: no storage to speak of
        obj = None
    host = sum(size for key, size in sizes.items() if devices[key] == "cpu")
    other = sum(size for key, size in sizes.items() if devices[key] not in ("cpu", "meta"))
    return host, other


_PHANTOMS = frozenset(("FakeTensor", "FunctionalTensor"))


def rss_bytes():
    """Resident set of this process, 2 us. None where there is no /proc."""
    try:
        with open("/proc/self/statm", "rb", 0) as stream:
            return int(stream.read(200).split()[1]) * _PAGE
    except (OSError, IndexError, ValueError):
        return None


_PAGE = os.sysconf("SC_PAGE_SIZE") if hasattr(os, "sysconf") else 4096
