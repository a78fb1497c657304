"""What a recording contains: every table and column, with type, unit and meaning. The only place that says so.

A recording is one parquet file in which each row belongs to one table (column ``table``); a column that two tables
share has one type and one meaning. Standard library only: the recorder writes by it, storage reads by it, and the
documentation is generated from it.

Columns and tables are added without a new SCHEMA_VERSION: readers fill them with nulls. Before version 2, who holds
what did not stand in the graph of the heap (``heap_*``); no release wrote such recordings, and they are refused.
"""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

SCHEMA_VERSION = 2
OLDEST_VERSION = 2  # that is read
# What a reader calls roles of processes, where it is something else. The root of a job may train, or serve, or neither.
ROLES = {"trainer": "main process", "python": "child", "python-fork": "forked child", "python-spawn": "spawned child"}
SETTLED_S = 10.0  # so long what is in settled_bytes has been alive


CARRIES: dict[str, str] = {
    "command": "command lines",
    "process": "names that processes and threads have, or give themselves",
    "file": "paths of files and folders",
    "name": "names in programs: of variables, functions, classes, types, modules",
    "way": "paths through objects: names, and keys of dicts that look like names",
    "message": "messages: of exceptions, on stderr, of labels and marks; values that a guard of torch.compile quotes",
    "note": "sentences of leakscope's own and of the kernel, with names and paths in them",
    "source": "source text of the program",
    "machine": "what distinguishes one machine from another",
}
"""Kinds of text of the user's that a column may carry: the only place that says what a recording may hold of them."""

# The footer of a recording says these of the run, texts of the same kinds.
FOOTER_CARRIES: dict[str, str] = {
    "command": "command",
    "crashed_in_agent": "command",
    "cwd": "file",
    "python": "file",
    "options": "file",
    "labels": "message",
    "belongs": "machine",
    "verdict": "note",
    "notes": "note",
    "imports": "file",
    "host": "machine",
    "boot_id": "machine",
}


class Column(NamedTuple):
    """One column. ``type`` is int, float, str or bool; every column is nullable unless it is in KEYS.

    ``carries``: a key of CARRIES, or "" where there are figures and words of our own, the kernel's or a library's only.
    """

    name: str
    type: str
    unit: str
    meaning: str
    carries: str = ""


class Table(NamedTuple):
    """One table: what a row stands for, who writes it, and its columns beside the common ones."""

    name: str
    writer: str
    meaning: str
    columns: tuple[Column, ...]


def _c(name: str, type: str, unit: str, meaning: str, carries: str = "") -> Column:
    return Column(name, type, unit, meaning, carries)


KEYS: tuple[Column, ...] = (
    _c("table", "str", "", "the table this row belongs to"),
    _c("time_unix_ns", "int", "ns", "wall clock (CLOCK_REALTIME); may jump"),
    _c("time_mono_ns", "int", "ns", "CLOCK_MONOTONIC: order and distances; stops in suspend"),
    _c("time_boot_ns", "int", "ns", "CLOCK_BOOTTIME: the kernel log's clock; runs on in suspend"),
    _c("origin", "str", "", "name of the file that the row was imported from; null = recorded here", "file"),
)
_PROCESS: tuple[Column, ...] = (
    _c("pid", "int", "", "process id as the recorder sees it (inside the job: as the job sees it)"),
    _c("start_ticks", "int", "clock ticks", "start time, field 22 of /proc/PID/stat; with pid it names a process"),
)
_TAKE = (_c("take", "int", "", "number of the snapshot in its process, from 1"),)

# Columns of more than one table: one type, one meaning.
_RSS_BYTES = _c(
    "rss_bytes", "int", "bytes", "resident set: anon + file + shmem; pages shared with others count in each"
)
_CPU_S = _c("cpu_s", "float", "s", "user + system time so far")
_PSI_SOME_AVG10 = _c(
    "psi_some_avg10", "float", "%", "memory pressure: share of the last 10 s in which some task waited"
)
_PSI_FULL_AVG10 = _c("psi_full_avg10", "float", "%", "memory pressure: share in which all tasks waited")
_OOM_KILL_COUNT = _c(
    "oom_kill_count", "int", "", "oom_kill of /proc/vmstat (host) or memory.events (cgroup), since boot or creation"
)
_LIMIT_BYTES = _c(
    "limit_bytes", "int", "bytes",
    "memory.max / memory.limit_in_bytes, the soft rlimit, or the size of the file system; null = no limit",
)  # fmt: skip
_TEXT = _c("text", "str", "", "one line for a person", "note")
_LABEL = _TEXT._replace(meaning="label of the user's; null where there is none", carries="message")
_STEP = _c(
    "step",
    "int",
    "",
    "training step: optimizer steps or the user's marks; of a service the requests or tasks done; null = none seen",
)
_ALLOCATED_BLOCKS = _c("allocated_blocks", "int", "", "sys.getallocatedblocks(): small-object allocator blocks in use")
_MALLOC_IN_USE_BYTES = _c(
    "malloc_in_use_bytes",
    "int",
    "bytes",
    "allocated by malloc: mallinfo2 uordblks + hblkhd; of jemalloc stats.allocated, of tcmalloc "
    "current_allocated_bytes; of another malloc an estimate, by samples; null: not known",
)
_REACHED_COUNT = _c("reached_count", "int", "", "objects that something leads to")
_TYPE_NAME = _c("type_name", "str", "", "module-qualified name of the type", "name")
_GC_FROZEN_COUNT = _c(
    "gc_frozen_count", "int", "", "gc.get_freeze_count(): objects the collector ignores; null = not read"
)
_OBJECT_COUNT = _c(
    "object_count", "float", "", "objects; an estimate where members of long containers represent others"
)
_SHALLOW_BYTES = _c("shallow_bytes", "int", "bytes", "the objects' own bytes, without what they refer to")
_TAKE_CPU_S = _c("take_cpu_s", "float", "s", "CPU time of the snapshot; heap_graphs: of reading the graph")
_NODE = _c("node", "int", "", "number of an object in its process, the same in all snapshots; 0 to 5: groups of roots")
_RETAINED_BYTES = _c("retained_bytes", "int", "bytes", "exact: what could be freed with it, its own bytes included")
_RETAINED_DEVICE_BYTES = _c(
    "retained_device_bytes",
    "int",
    "bytes",
    "not in retained_bytes: storages on GPUs that would be freed with it; null = none",
)
_COMM = _c("comm", "str", "", "command name the kernel shows (15 bytes)", "process")
_EDGE_COUNT = _c("edge_count", "int", "", "references; heap_nodes: to this object from others")
_ROOT_KIND = _c(
    "root_kind", "str", "",
    "module, frame, thread, generator, task, library, unreached, outside (held by C code alone), recorder",
)  # fmt: skip
_EDGE_KIND = _c(
    "edge_kind", "str", "",
    "how it is held: local, global, attribute, class-attribute, item, key, cell, default, base, cache, reference; "
    "heap_nodes: attribute, key, index, local, cell, default, namespace (a __dict__), contents, member, item",
)  # fmt: skip
_OWNER = _c("owner", "str", "", "what the name belongs to, or the code is of: function, class or module", "name")
_ARRAY_BYTES = _c(
    "array_bytes", "int", "bytes",
    "estimate of reached arrays, images, buffers (numpy, PIL, Arrow, mmap); heap_graphs: arrays of numpy, exactly",
)  # fmt: skip
_OUTSIDE_COUNT = _c("outside_count", "int", "", "objects that no name leads to, held by C code alone")
_OUTSIDE_BYTES = _c("outside_bytes", "int", "bytes", "what these retain")
_UNREACHED_COUNT = _c("unreached_count", "int", "", "objects nothing leads to: garbage that waits to be collected")
_UNREACHED_BYTES = _c("unreached_bytes", "int", "bytes", "what these retain; heap_strays: their own bytes")
_CHAIN = _c("chain", "str", "", "types and names from the object up to what holds it, or round the cycle", "way")
_LENGTH = _c("length", "float", "", "members of these containers, added up; null for what has no length")
_OPAQUE = _c("opaque", "bool", "", "a C object whose contents cannot be seen (database, pickler, parser)")
_LENGTH_LIMIT = _c("length_limit", "int", "", "maxlen of a deque, maxsize of an lru_cache; null = none")
_OWNER_FILE = _c("owner_file", "str", "", "source file of the owner, where known", "file")
_OWNER_LINE = _c("owner_line", "int", "", "first line of the owning function or class, where known")
_FUNCTION = _c(
    "function", "str", "", "threads: outermost user function, qualified; compile_counters: compiled most often", "name"
)
_STACK = _c("stack", "str", "", "calls from the outermost user frame inward: file:line function, one a line", "file")
_PHASE = _c("phase", "str", "", "start-up, train, eval, save, or the user's word", "message")
_DEVICE = _c("device", "str", "", "cpu, cuda:0, ...")
_DTYPE = _c("dtype", "str", "", "element type without the torch prefix: float32, bfloat16, ...")
_SHAPE = _c("shape", "str", "", "dimensions, as 768x3072; of the largest where a row is of several")
_STORAGE_BYTES = _c("storage_bytes", "int", "bytes", "storages, each once however many tensors view it")
_TENSOR_OWNER = _c(
    "tensor_owner", "str", "",
    "parameter, buffer, gradient, optimizer-state, master-weight, batch, saved-for-backward, activation, user-held, "
    "other",
)  # fmt: skip
_TENSOR_NAME = _c("tensor_name", "str", "", "name inside the model or container: layers.0.weight", "way")
_WEIGHT_SET = _c("weight_set", "str", "", "model, optimizer or container the tensor belongs to, as a path", "way")
_SEGMENT_KIND = _c(
    "segment_kind", "str", "",
    "gpu_segments: small or large; shared_segments: dev-shm; deleted: no name, still mapped; sysv; sysv-removed: "
    "attached",
)  # fmt: skip
_SNAPSHOT = _c("snapshot", "int", "", "number of the snapshot of torch's allocator in this recording, from 1")
_BLOCK_ADDRESS = _c("block_address", "int", "", "address of a block in the device's memory")
_SEGMENT_ADDRESS = _c("segment_address", "int", "", "where the segment begins")
_BLOCK_BYTES = _c(
    "block_bytes", "int", "bytes", "gpu_blocks: the block, as rounded; gpu_events: what was asked for, or a segment's"
)
_STACK_NUMBER = _c("stack_number", "int", "", "number of a stack in its snapshot; null: none was recorded")
_GPU_STREAM = _c("gpu_stream", "int", "", "stream it belongs to, 0 the default one")
_DEEP_BYTES = _c("deep_bytes", "int", "bytes", "own bytes and all that is only reached through them")

TABLES: dict[str, Table] = {
    t.name: t
    for t in (
        Table("processes", "recorder", "A process of the tree, written at birth and at death: the last row counts", (
            *_PROCESS,
            _c("ppid", "int", "", "parent's pid when first seen"),
            _c("ns_pid", "int", "", "pid in the innermost pid namespace (last NSpid), how the process knows itself"),
            _COMM,
            _c("cmdline", "str", "", "command line, arguments joined by spaces and quoted for a shell", "command"),
            _c("exe", "str", "", "path of the executable", "file"),
            _c("role", "str", "", "trainer, launcher, dataloader-worker, compile-worker, python-fork, other, ..."),
            _c("rank", "int", "", "RANK of a distributed job, where the environment says"),
            _c("local_rank", "int", "", "LOCAL_RANK: the rank among those of its machine"),
            _c("cgroup", "str", "", "cgroup path (v2, or the memory controller of v1)", "file"),
            _c("born_mono_ns", "int", "ns", "first seen, CLOCK_MONOTONIC"),
            _c("died_mono_ns", "int", "ns", "first missed, CLOCK_MONOTONIC; null while alive"),
            _c("exit_code", "int", "", "exit status, where the kernel reported it; null otherwise"),
            _c("exit_signal", "int", "", "signal that ended it, where the kernel reported it"),
            _c("is_root", "bool", "", "the command that was recorded"),
        )),
        Table("process_samples", "recorder", "Memory of one process at one instant", (
            *_PROCESS,
            _RSS_BYTES,
            _c("anon_bytes", "int", "bytes", "RssAnon: private memory and untouched copy-on-write pages"),
            _c("file_bytes", "int", "bytes", "RssFile: mapped files, reclaimable"),
            _c("shmem_bytes", "int", "bytes", "RssShmem: shared memory and tmpfs"),
            _c("pss_bytes", "int", "bytes", "proportional set size; null between the adaptive readings"),
            _c("pss_anon_bytes", "int", "bytes", "anonymous part of pss_bytes"),
            _c("pss_shmem_bytes", "int", "bytes", "shared memory in pss_bytes; the rest is of files"),
            _c("uss_bytes", "int", "bytes", "private clean + private dirty: what ending the process frees"),
            _c("swap_bytes", "int", "bytes", "VmSwap"),
            _c("virtual_bytes", "int", "bytes", "VmSize: address space, the figure RLIMIT_AS limits"),
            _c("thread_count", "int", "", "threads"),
            _c("fd_count", "int", "", "open file descriptors; null when not readable"),
            _CPU_S,
            _c("run_delay_s", "float", "s", "time its first thread was ready and waited for a core so far (schedstat)"),
            _c("state", "str", "", "state letter of /proc/PID/stat"),
        )),
        Table("host_samples", "recorder", "Memory of the machine at one instant", (
            _c("mem_total_bytes", "int", "bytes", "MemTotal"),
            _c("mem_available_bytes", "int", "bytes", "MemAvailable: what can be had without swapping"),
            _c("mem_free_bytes", "int", "bytes", "MemFree"),
            _c("page_cache_bytes", "int", "bytes", "Cached + Buffers - Shmem"),
            _c("host_shmem_bytes", "int", "bytes", "Shmem: tmpfs and shared memory of the whole machine"),
            _c("swap_total_bytes", "int", "bytes", "SwapTotal"),
            _c("swap_free_bytes", "int", "bytes", "SwapFree"),
            _PSI_SOME_AVG10,
            _PSI_FULL_AVG10,
            _OOM_KILL_COUNT,
        )),
        Table("cgroup_samples", "recorder", "Memory of one cgroup of the job or above it at one instant", (
            _c("cgroup", "str", "", "cgroup path", "file"),
            _c("current_bytes", "int", "bytes", "memory.current / memory.usage_in_bytes, page cache included"),
            _LIMIT_BYTES,
            _c("high_bytes", "int", "bytes", "memory.high; null = none"),
            _c("cgroup_peak_bytes", "int", "bytes",
               "memory.peak / memory.max_usage_in_bytes: the most since the cgroup was made, page cache included"),
            _c("cgroup_anon_bytes", "int", "bytes", "anon of memory.stat"),
            _c("cgroup_file_bytes", "int", "bytes", "file of memory.stat: page cache, reclaimable"),
            _c("cgroup_shmem_bytes", "int", "bytes", "shmem of memory.stat"),
            _OOM_KILL_COUNT,
            _c("oom_count", "int", "", "oom of memory.events: the limit was hit and reclaim failed"),
            _PSI_SOME_AVG10,
            _PSI_FULL_AVG10,
        )),
        Table("limit_samples", "recorder", "Use of a limit that is no cgroup's and not the machine's, at one instant", (
            *_PROCESS,
            _c("limit_name", "str", "", "rlimit-as, rlimit-data, dev-shm"),
            _c("used_bytes", "int", "bytes", "what counts against it: VmSize, VmData, what lies in /dev/shm"),
            _LIMIT_BYTES,
        )),
        Table("kernel_log", "recorder", "A line of the kernel's log, or of a killer in user space", (
            _c("log_source", "str", "", "kmsg, journal, file"),
            _c("kernel_time_s", "float", "s", "the line's own time since boot (CLOCK_MONOTONIC of the kernel's log)"),
            _c("log_boot_id", "str", "", "boot the line belongs to, where the source says; null = this one", "machine"),
            _TEXT,
        )),
        Table("crash_text", "agent", "Last words of a process as it failed", (
            *_PROCESS,
            _c("crash_source", "str", "", "exception, thread-exception, faulthandler, stderr"),
            _c("exception_type", "str", "", "qualified name of the exception's class", "name"),
            _c("last_words", "str", "", "the text, many lines, at most 64 KiB: its end", "message"),
            _STEP,
        )),
        Table("recorder_samples", "recorder", "What recording cost so far", (
            _CPU_S,
            _RSS_BYTES,
            _c("sample_duration_s", "float", "s", "time the last round of samples took"),
            _c("journal_bytes", "int", "bytes", "bytes in the recorder's journal so far"),
        )),
        Table("events", "recorder", "Something that happened once: start, end, signal, alert, lost output", (
            _c("event", "str", "", "start, end, signal, output-lost, oom-kill-counter, pressure, alert, stopped, "
               "continued, throttled, source-failed, helper-left-out, helper-killed, peak (without what our "
               "snapshots took), oom-kills (at the end: how many processes of the job the kernel killed)"),
            *_PROCESS,
            _TEXT,
            _c("value", "float", "", "figure belonging to the event, unit by event"),
        )),
        Table("sentinels", "agent", "Readings from inside a Python process that cost next to nothing", (
            *_PROCESS,
            _STEP,
            _c("refcount_none", "int", "", "sys.getrefcount(None); null where None is immortal (Python >= 3.12)"),
            _c("tensor_count", "int", "", "live torch.Tensor objects, by the reference count of the type"),
            _c("parameter_count", "int", "", "live torch.nn.Parameter objects, by the reference count of the type"),
            _c("interned_count", "int", "", "sys.getunicodeinternedsize(): interned strings; null before Python 3.12"),
            _ALLOCATED_BLOCKS,
            _MALLOC_IN_USE_BYTES,
            _c("malloc_free_bytes", "int", "bytes",
               "mallinfo2 fordblks: kept by malloc, free; may have been returned to the kernel; of jemalloc "
               "stats.resident - metadata - allocated; of tcmalloc heap_size - pageheap_unmapped - in use"),
            _c("malloc_mmap_bytes", "int", "bytes", "mallinfo2 hblkhd: of the bytes in use, those in own mappings"),
            _c("malloc_system_bytes", "int", "bytes", "mallinfo2 arena + hblkhd: held by malloc, trimmed or not; of "
               "mimalloc current_commit"),
            _c("malloc_arena_count", "int", "", "arenas of glibc's malloc"),
            _c("malloc_library", "str", "", "what serves malloc in place of libc: libjemalloc.so.2; null: libc does",
               "file"),
            _c("pymalloc_bytes", "int", "bytes", "arenas of Python's small-object allocator, in use or not"),
            _c("pymalloc_in_use_bytes", "int", "bytes", "of pymalloc_bytes, what is allocated"),
            _c("burst_bytes", "int", "bytes", "most in use at once since the last reading, less what is now: sampled"),
            _c("native_cache_bytes", "int", "bytes", "what pools of known libraries say they hold (Arrow)"),
            _RSS_BYTES,
            _c("gc_enabled", "bool", "", "gc.isenabled()"),
            _c("gc_threshold", "int", "", "first of gc.get_threshold()"),
            _c("gc_pending_count", "int", "", "first of gc.get_count(): allocations since the last young collection"),
            _c("gc_collections", "int", "", "collections of all generations so far"),
            _c("gc_full_collections", "int", "", "collections of the oldest generation so far"),
            _c("gc_collected_count", "int", "", "objects that collections freed so far"),
            _c("gc_uncollectable_count", "int", "", "objects that collections could not free so far"),
            _GC_FROZEN_COUNT,
            _c("python_thread_count", "int", "", "Python threads (len(sys._current_frames()) less the agent's own)"),
        )),
        Table("malloc_arenas", "agent", "One arena of glibc's malloc, now and then: the 16 that have most free", (
            *_PROCESS,
            _c("arena", "int", "", "its number in malloc_info; 0 is the one that brk serves; null: several, added up"),
            _c("arena_count", "int", "", "arenas in this row"),
            _c("system_bytes", "int", "bytes", "held of the kernel"),
            _c("free_bytes", "int", "bytes", "of these, not in use; some may have been returned to the kernel"),
            _c("top_bytes", "int", "bytes", "of free_bytes, at the end of the arena, from where it can shrink"),
            _c("free_chunk_count", "int", "", "pieces that are free"),
        )),
        Table("takes", "agent", "One snapshot of the Python heap: when, where and at what cost", (
            *_PROCESS, *_TAKE,
            _c("reason", "str", "", "schedule, growth, fall, pressure, exception, exit, user"),
            _c("safe_point", "str", "", "optimizer-step, pending-call, agent-thread, cuda-oom, exit"),
            _STEP,
            _c("duration_s", "float", "s", "time the snapshot held its thread"),
            _TAKE_CPU_S,
            _RSS_BYTES,
            _c("gc_object_count", "int", "", "objects the collector tracks; null = not counted (--max-pause)"),
            _GC_FROZEN_COUNT,
            _c("truncated", "bool", "", "not looked at to the end: figures are lower bounds, or estimates"),
            _c("python_bytes", "int", "bytes", "estimate of reached Python objects, without arrays and tensors"),
            _ARRAY_BYTES,
            _c("tensor_bytes", "int", "bytes", "host storages of live tensors, each once; null = not measured"),
            _c("tensor_device_bytes", "int", "bytes", "device storages of live tensors; null = not measured"),
            _MALLOC_IN_USE_BYTES,
            _ALLOCATED_BLOCKS,
            _c("copied_bytes", "int", "bytes", "pages it wrote to that forked children share; null = none shared"),
            _c("seen_lines", "str", "",
               "lines of the user's that were seen to run since the one before: file:line function each", "file"),
        )),
        Table("heap_graphs", "agent", "The graph of all Python objects of one process, in one snapshot", (
            *_PROCESS, *_TAKE,
            _c("node_count", "int", "", "objects: those the collector tracks and all they refer to"),
            _EDGE_COUNT,
            _c("is_sampled", "bool", "", "too many to read: members of long containers represent the others"),
            _RETAINED_BYTES,
            _OUTSIDE_COUNT,
            _OUTSIDE_BYTES,
            _UNREACHED_COUNT,
            _UNREACHED_BYTES,
            _ARRAY_BYTES,
            _c("beyond_malloc_bytes", "int", "bytes",
               "of array_bytes, what malloc did not hand out: mappings, columns of Arrow and polars (by samples)"),
            _c("column_pools_bytes", "int", "bytes",
               "resident, of mappings in which columns of Arrow or polars lie or lay, and nothing of malloc's"),
            _STORAGE_BYTES,
            _c("native_bytes", "int", "bytes", "memory of malloc that objects lead to, by samples of allocations"),
            _c("device_bytes", "int", "bytes", "not in retained_bytes: storages of tensors on GPUs; null = none"),
            _c("small_object_bytes", "int", "bytes", "objects of at most 512 bytes, which pymalloc serves"),
            _c("arena_bytes", "int", "bytes", "arenas of pymalloc; null, like the next five: not found"),
            _c("pool_bytes", "int", "bytes", "of these, pools in which something is in use"),
            _c("block_bytes", "int", "bytes", "of these, what is in use: objects, and tables of objects"),
            _c("held_arena_count", "int", "", "arenas in which an object of the graph lies"),
            _c("held_pool_count", "int", "", "pools in which an object of the graph lies"),
            _c("held_bytes", "int", "bytes", "of block_bytes, objects of the graph"),
            _c("none_reference_count", "int", "",
               "references to None that Python counts; null, like the next: it lives for ever (Python >= 3.12)"),
            _c("none_known_count", "int", "",
               "of these, what objects and functions have, and Python's cache of attributes: the rest is C code's"),
            _c("key_reference_count", "int", "",
               "references to strings by keys of dicts, which the collector does not see; null = not counted"),
            _c("weighs_tensors", "bool", "", "storages of tensors are in it; False: none were known yet"),
            _TAKE_CPU_S,
            _c("analysis_cpu_s", "float", "s", "CPU time afterwards, on the agent's thread"),
            _c("held_s", "float", "s", "how long the graph was in the process's memory, which is larger by as much"),
            _c("reading_bytes", "int", "bytes", "memory that it took at most to read the graph and to work it out"),
        )),
        Table("heap_nodes", "agent", "An object that retains much, and those on the way to it, in one snapshot", (
            *_PROCESS, *_TAKE,
            _NODE,
            _c("path_node", "int", "", "node one step nearer to a root, on the shortest way; null at the root"),
            _c("dominator_node", "int", "",
               "nearest node that all ways from the roots pass: without it this one could be freed; null at the root"),
            _c("also_node", "int", "", "the nearest on another way to it; null: none is known"),
            _ROOT_KIND,
            _TYPE_NAME,
            _EDGE_KIND,
            _c("edge_name", "str", "", "attribute, variable, ['key'] or index; null: none that says anything", "way"),
            _OWNER,
            _OWNER_FILE,
            _OWNER_LINE,
            _c("is_named", "bool", "", "still there, on the same way, when names were looked up"),
            _OPAQUE,
            _c("was_there", "bool", "", "also in the process's snapshot before (wrongly so for 1 new object in 70)"),
            _SHALLOW_BYTES,
            _RETAINED_BYTES,
            _c("retained_storage_bytes", "int", "bytes", "of retained_bytes, storages of tensors; null = none"),
            _c("retained_native_bytes", "int", "bytes", "of retained_bytes, sampled memory of malloc; null = none"),
            _RETAINED_DEVICE_BYTES,
            _c("retained_unshown_bytes", "int", "bytes",
               "of retained_bytes, arrays and storages that only views refer to, and no view shows; null = none"),
            _c("error_bytes", "int", "bytes",
               "of retained_bytes, one standard error: some members represent others; null = all were read"),
            _LENGTH,
            _LENGTH_LIMIT,
            _c("hit_count", "int", "", "calls of an lru_cache whose result was there; null = no cache, as the next"),
            _c("miss_count", "int", "", "calls of it whose result was not"),
            _c("limits", "str", "", "attributes that may be limits of what it holds: maxsize=3000 most=5", "name"),
            _c("child_count", "int", "", "objects it dominates immediately"),
            _c("new_child_count", "int", "", "of these: not in the snapshot before"),
            _c("reference_count", "int", "", "references to it that Python counts; null = it lives for ever"),
            _EDGE_COUNT,
        )),
        Table("heap_children", "agent", "What one node dominates immediately, of one type, in one snapshot", (
            *_PROCESS, *_TAKE,
            _NODE,
            _TYPE_NAME,
            _OBJECT_COUNT,
            _RETAINED_BYTES,
            _RETAINED_DEVICE_BYTES,
            _c("new_count", "int", "", "of these: not in the snapshot before"),
            _c("new_bytes", "int", "bytes", "what the new ones retain"),
        )),
        Table("heap_shared", "agent", "Objects of one type that a node refers to, and that others hold as well", (
            *_PROCESS, *_TAKE,
            _NODE,
            _c("dominator_node", "int", "", "nearest node that all ways to these objects pass"),
            _TYPE_NAME,
            _OBJECT_COUNT,
            _c("direct_count", "int", "",
               "to so many of these it refers itself, to the others by way of what refers to them; null: to all"),
            _RETAINED_BYTES,
            _RETAINED_DEVICE_BYTES,
        )),
        Table("heap_strays", "agent", "Objects of one type that no name leads to, in one snapshot: up to 40 types", (
            *_PROCESS, *_TAKE,
            _TYPE_NAME,
            _OBJECT_COUNT,
            _UNREACHED_COUNT,
            _UNREACHED_BYTES,
            _c("frozen_count", "int", "", "of unreached_count: gc.freeze() hides them from the collector"),
            _OUTSIDE_COUNT,
            _OUTSIDE_BYTES,
            _c("extra_reference_count", "int", "", "references to these that no Python object accounts for"),
            _c("loose_count", "int", "",
               "estimate from a sample of pools: small objects that no object refers to, unknown to the collector"),
            _c("loose_bytes", "int", "bytes", "the blocks of these; null where pools are not known"),
            _CHAIN,
        )),
        Table("heap_pins", "agent", "Objects one node holds in pools or arenas that are mostly free, in one snapshot", (
            *_PROCESS, *_TAKE,
            _NODE,
            _OBJECT_COUNT,
            _SHALLOW_BYTES,
            _c("pinned_bytes", "int", "bytes", "free memory next to them: of each block in use there its share"),
        )),
        Table("object_types", "agent", "Objects of one type the collector tracks, in one snapshot", (
            *_PROCESS, *_TAKE,
            _TYPE_NAME,
            _c("base", "str", "", "str, bytes, int or float where the type is derived from it, else null"),
            _OBJECT_COUNT,
            _REACHED_COUNT,
            _SHALLOW_BYTES,
        )),
        Table("threads", "agent", "Python threads in one snapshot, by the outermost function they run", (
            *_PROCESS, *_TAKE,
            _FUNCTION,
            _OWNER_FILE,
            _OWNER_LINE,
            _OBJECT_COUNT,
            _TEXT,
        )),
        Table("marks", "agent", "A step, phase or label the program passed", (
            *_PROCESS,
            _STEP,
            _PHASE,
            _LABEL,
        )),
        Table("phases", "agent", "What one phase of a program did to its memory so far, all its passages added up", (
            *_PROCESS,
            _PHASE,
            _c("entry_count", "int", "", "times the phase was entered"),
            _c("phase_s", "float", "s", "time spent in it"),
            _c("gained_bytes", "int", "bytes", "malloc in use at each leaving less at each entering, added up"),
            _c("peak_gain_bytes", "int", "bytes", "most that the same rose above its entry in one passage"),
            _STEP,
        )),
        Table("tensors", "agent", "Live tensors of one owner, device and type in one snapshot, each storage once", (
            *_PROCESS, *_TAKE,
            _c("moment", "str", "", "take: at a safe point; backward: as a backward pass began, the peak of a step"),
            _TENSOR_OWNER,
            _DEVICE,
            _DTYPE,
            _SHAPE,
            _c("storage_count", "int", "", "storages"),
            _STORAGE_BYTES,
            _NODE,
            _TEXT,
        )),
        Table("weights", "agent", "Fingerprint of one large floating-point tensor, to find the same weights twice", (
            *_PROCESS, *_TAKE,
            _WEIGHT_SET,
            _TENSOR_NAME,
            _TENSOR_OWNER,
            _DEVICE,
            _DTYPE,
            _SHAPE,
            _STORAGE_BYTES,
            _c("storage_key", "int", "", "address of the storage: equal for views and tied weights of one process"),
            _c("requires_grad", "bool", "", "the tensor is trained"),
            _c("is_training", "bool", "", "the model is in training mode; null for what belongs to no model"),
            _NODE,
            _c("fingerprint", "str", "", "base64 of 32 little-endian float32: elements at a fixed stride"),
        )),
        Table("gradients", "agent", "Parameters of one model with an unhealthy value or gradient, in one snapshot", (
            *_PROCESS, *_TAKE,
            _WEIGHT_SET,
            _TENSOR_NAME,
            _c("gradient_state", "str", "", "none-parameter, none, nan, inf, nan-parameter; counted: frozen, ok"),
            _c("parameter_count", "int", "", "parameters the row is of"),
            _SHAPE,
            _NODE,
            _STEP,
        )),
        Table("compile_counters", "agent", "Counters of torch.compile, or of tf.function, in one snapshot", (
            *_PROCESS, *_TAKE,
            _c("unique_graph_count", "int", "", "graphs that were compiled so far"),
            _c("compiled_frame_count", "int", "", "frames dynamo looked at so far; null: of tf.function"),
            _c("recompile_count", "int", "", "compilations of a function beyond its first; null before torch 2.1"),
            _FUNCTION,
            _OWNER_FILE,
            _OWNER_LINE,
            _c("recompile_reason", "str", "", "the newest reason dynamo gave, or arguments that differed", "message"),
            _STEP,
            _c("compile_worker_pids", "str", "", "pids of compile workers forked by this process, comma separated"),
        )),
        Table("loaders", "agent", "A DataLoader iterator that was alive in one snapshot", (
            *_PROCESS, *_TAKE,
            _TYPE_NAME,
            _c("dataset_type", "str", "", "type of the dataset it reads", "name"),
            _c("worker_pids", "str", "", "pids of its worker processes, comma separated; empty = loads in process"),
            _c("batches_yielded", "int", "", "batches yielded so far in this epoch"),
            _c("batches_in_flight", "int", "", "batches asked of workers and not yet yielded"),
            _c("prefetch_factor", "int", "", "batches each worker prepares ahead"),
            _c("is_persistent", "bool", "", "persistent_workers"),
            _c("is_pinned", "bool", "", "pin_memory"),
        )),
        Table("data_forms", "agent", "A large container of records and a sketch of what is in it, to find copies", (
            *_PROCESS, *_TAKE,
            _NODE,
            _TYPE_NAME,
            _c("row_count", "int", "", "records"),
            _DEEP_BYTES,
            _c("data_form", "str", "", "records, strings, token-ids, integers, arrow-table, arrow-mapped"),
            _c("content_sketch", "str", "", "JSON list for each row looked at: position, size, address, word hashes"),
            _c("padded_share", "float", "", "of the numbers looked at, what fills rows up to one length; null: none"),
            _c("repeated_share", "float", "", "of a row of numbers, what the one before has, further on; null: none"),
        )),
        Table("text_fields", "agent", "Texts in a field of a large container's members, of which some were looked at", (
            *_PROCESS, *_TAKE,
            _NODE,
            _c("field", "str", "", "key or attribute; null: the members themselves, or a place in them", "name"),
            _c("text_count", "int", "", "texts looked at"),
            _c("own_count", "int", "", "of these, in memory of their own"),
            _c("alone_count", "int", "", "of these, with content that no other one has"),
            _c("text_bytes", "int", "bytes", "of the texts looked at"),
        )),
        Table("allocator", "agent", "Figures of torch's CUDA allocator and pinned memory: one device, one instant", (
            *_PROCESS, *_TAKE,
            _DEVICE,
            _c("allocated_bytes", "int", "bytes", "allocated to tensors"),
            _c("reserved_bytes", "int", "bytes", "held from the driver: allocated and cached"),
            _c("active_bytes", "int", "bytes", "in blocks in use or waiting for a stream"),
            _c("inactive_split_bytes", "int", "bytes", "free parts of segments in use: fragmentation"),
            _c("peak_allocated_bytes", "int", "bytes", "most ever allocated; never reset by the recorder"),
            _c("alloc_retry_count", "int", "", "failed allocations after which the cache was flushed"),
            _c("device_oom_count", "int", "", "out-of-memory errors raised"),
            _c("pinned_bytes", "int", "bytes", "pinned host memory of torch's host allocator"),
            _STEP,
        )),
        Table("gpu_snapshots", "import", "One device in one memory snapshot of torch", (
            *_PROCESS, _SNAPSHOT, _DEVICE,
            _c("snapshot_file", "str", "", "the file it was read from", "file"),
            _c("snapshot_format", "str", "", "what the file has: segments+events+times+settings+annotations+labels"),
            _c("event_count", "int", "", "events in the file; gpu_events may have the newest of them only"),
            _c("has_stacks", "bool", "", "some allocation has a stack"),
            _c("allocator_settings", "str", "", "PYTORCH_CUDA_ALLOC_CONF; null: the file does not say"),
            _c("expandable_setting", "bool", "", "expandable_segments is on; null: the file does not say"),
            _c("max_split_bytes", "int", "bytes", "max_split_size; null = none"),
        )),
        Table("gpu_segments", "import", "Memory that torch's allocator holds from the driver, in one snapshot", (
            *_PROCESS, _SNAPSHOT, _DEVICE, _SEGMENT_ADDRESS,
            _c("segment_bytes", "int", "bytes", "its size; of one that is expandable what is mapped"),
            _GPU_STREAM,
            _SEGMENT_KIND,
            _c("pool", "str", "", "0:0 is the common pool; others belong to CUDA graphs or a MemPool"),
            _c("is_expandable", "bool", "", "grows and shrinks in place"),
        )),
        Table("gpu_blocks", "import", "A piece of a segment, in use or free, in one snapshot", (
            *_PROCESS, _SNAPSHOT, _DEVICE, _SEGMENT_ADDRESS, _BLOCK_ADDRESS, _BLOCK_BYTES,
            _c("requested_bytes", "int", "bytes", "what was asked for; the rest is rounding"),
            _c("block_state", "str", "", "allocated, awaiting-free (another stream still uses it), free"),
            _STACK_NUMBER,
        )),
        Table("gpu_events", "import", "What torch's allocator did, in order, before one snapshot", (
            *_PROCESS, _SNAPSHOT, _DEVICE,
            _c("event_index", "int", "", "its place in the history of the device; null for a mark"),
            _c("gpu_action", "str", "",
               "alloc, free-requested, free-completed, segment-alloc, segment-free, segment-map, segment-unmap, oom, "
               "snapshot; mark-start and mark-end of an annotation"),
            _BLOCK_ADDRESS, _BLOCK_BYTES, _GPU_STREAM, _STACK_NUMBER,
            _c("device_free_bytes", "int", "bytes", "oom: what the driver had free on the device"),
            _c("gpu_label", "str", "", "name of a mark, or what the program had set as metadata", "message"),
            _c("compile_context", "str", "", "frame/number of what torch.compile compiled; null: none, or not said"),
        )),
        Table("gpu_stacks", "import", "The calls that led to an allocation on a GPU, once each in a snapshot", (
            *_PROCESS, _SNAPSHOT, _STACK_NUMBER, _FUNCTION, _OWNER_FILE, _OWNER_LINE, _STACK,
        )),
        Table("gpu_samples", "recorder", "Memory of one GPU, or of one process on it (pid), at one instant, by NVML", (
            *_PROCESS,
            _COMM,
            _c("gpu_uuid", "str", "", "UUID of the GPU or MIG instance", "machine"),
            _c("gpu_index", "int", "", "index in NVML's order, not the job's"),
            _c("gpu_name", "str", "", "product name"),
            _c("gpu_total_bytes", "int", "bytes", "memory of the device"),
            _c("gpu_used_bytes", "int", "bytes", "used on the device by all processes; with pid: by that process"),
            _c("is_ours", "bool", "", "the process belongs to the recorded tree; null where pids cannot be matched"),
        )),
        Table("memory_maps", "recorder", "Mappings of one process of one kind and file, added up, at one instant", (
            *_PROCESS,
            _c("map_kind", "str", "", "heap, anonymous, stack, file, deleted-file, shared-memory, device, kernel"),
            _c("map_path", "str", "", "file or segment name; null for private anonymous memory", "file"),
            _c("map_count", "int", "", "mappings added up"),
            _c("map_size_bytes", "int", "bytes", "address space"),
            _c("map_rss_bytes", "int", "bytes", "resident"),
            _c("map_pss_bytes", "int", "bytes", "proportional share of what is resident"),
            _c("map_private_dirty_bytes", "int", "bytes", "written by this process alone: not reclaimable"),
            _c("map_swap_bytes", "int", "bytes", "swapped out"),
        )),
        Table("descriptors", "recorder", "Open descriptors of one process of one kind and path at one instant", (
            *_PROCESS,
            _c("fd_kind", "str", "", "file, deleted-file, socket, pipe, device, shared-memory, eventfd, other"),
            _c("fd_path", "str", "",
               "path, digits as N; folder/* for many files of one folder; null: has none", "file"),
            _c("open_count", "int", "", "descriptors"),
        )),
        Table("unreaped", "recorder", "Children of one process that ended and that it never waited for", (
            *_PROCESS,
            _c("zombie_count", "int", "", "ended children whose exit status was never asked for"),
            _c("zombie_comm", "str", "", "command name of most of them", "process"),
        )),
        Table("shared_segments", "recorder", "Segments of shared memory of one kind and name at one instant", (
            _SEGMENT_KIND,
            _c("segment_name", "str", "", "how their names begin, the changing rest as *: psm_*", "file"),
            _c("segment_count", "int", "", "segments"),
            _c("segment_bytes", "int", "bytes", "memory they take; deleted: address space, an upper bound"),
            _c("unmapped_bytes", "int", "bytes", "of them, segments that no process of the recorded tree maps"),
            _c("mapped_by", "str", "", "pids of the recorded tree that map one, comma separated; empty = none"),
        )),
        Table("tracked_segments", "agent", "Segments that Python's resource tracker knows: the job's, not unlinked", (
            *_PROCESS,
            _c("segment_name", "str", "", "how their names begin: psm_*", "file"),
            _c("segment_count", "int", "", "segments"),
            _c("segment_bytes", "int", "bytes", "memory they take"),
        )),
        Table("allocation_stacks", "agent", "Memory that is alive or made a peak, by who asked for it: sampled", (
            *_PROCESS,
            _c("allocator", "str", "", "malloc; mmap: large pieces; arenas: of Python's small objects; objects: these"),
            _c("native_library", "str", "", "innermost on the stack but libc, libstdc++ and Python's own", "file"),
            _c("native_function", "str", "", "function of that library, where it shows its name", "name"),
            _c("native_stack", "str", "", "native functions, innermost first: library:function, one a line", "name"),
            _FUNCTION,
            _OWNER_FILE,
            _OWNER_LINE,
            _STACK,
            _c("live_bytes", "int", "bytes", "alive now, estimated from samples"),
            _c("settled_bytes", "int", "bytes", f"of them, alive for {SETTLED_S:.0f} s (objects: half of a window)"),
            _c("error_bytes", "int", "bytes", "one standard error of live_bytes: large allocations have next to none"),
            _c("sample_count", "int", "", "samples that are alive"),
            _c("asked_bytes", "int", "bytes", "asked for in all, freed or not"),
            _c("map_rss_bytes", "int", "bytes", "mmap: of live_bytes, what is resident; null: malloc's, or not known"),
            _c("peak_bytes", "int", "bytes", "alive when all was most since the rows before; null: it was more once"),
            _c("peak_ago_s", "float", "s", "how long before this row that was"),
            _STEP,
        )),
        Table("large_requests", "recorder", "The last large pieces of memory that the job asked for, freed or not", (
            *_PROCESS,
            _c("size_bytes", "int", "bytes", "asked for"),
            _FUNCTION,
            _OWNER_FILE,
            _OWNER_LINE,
            _STACK,
        )),
        Table("allocation_lives", "agent", "How long a sampled piece of malloc's memory was in use: events in order", (
            *_PROCESS,
            _c("life", "int", "", "which event of the process it began with; a second row of it has its end"),
            _c("end_order", "int", "", "which event it ended with; null: it was there when the row was written"),
            _c("thread_number", "int", "", "thread that asked for it, 1 the main one; null: an earlier row has it"),
            _c("end_thread_number", "int", "", "thread that freed it; null with end_order: lost from sight then"),
            _c("size_bytes", "int", "bytes", "asked for"),
            _c("weight_bytes", "int", "bytes", "all that was asked for for which it stands"),
        )),
        Table("experiments", "agent", "What a popular remedy would free, tried once", (
            *_PROCESS,
            _c("experiment", "str", "",
               "gc.collect, malloc_trim, arrow.release_unused, torch.cuda.empty_cache, empty_host_cache"),
            _c("returned_bytes", "int", "bytes", "resident memory before less after; may be negative"),
            _c("freed_count", "int", "", "objects freed, where the remedy says"),
            _c("experiment_s", "float", "s", "time it took"),
            _TEXT,
        )),
        Table("lost_references", "agent", "References to None before and after calls of C functions (--probe)", (
            *_PROCESS,
            _c("function", "str", "", "the C function; null = the sum of all calls that were watched", "name"),
            _c("file", "str", "", "file that calls it", "file"),
            _c("line", "int", "", "line that calls it"),
            _c("call_count", "int", "", "calls that were watched"),
            _c("losing_count", "int", "", "of these, in which the count fell, or behind which before any other call"),
            _c("gained_count", "int", "", "references that came in them and behind them, less those that went"),
        )),
        Table("imports", "importer", "A file of another tool from which rows were imported", (
            _c("format", "str", "", "whose file: mprof, nvidia-smi, ..."),
            _c("tool", "str", "", "the program that wrote it and its version, where the file says"),
            _c("row_count", "int", "", "rows that it gave"),
            _c("clock", "str", "", "which clock its moments were on, and how that was laid over the others"),
            _TEXT,
        )),
        Table("agent_notes", "agent", "What the agent did, or did not do and why", (
            *_PROCESS,
            _c("note", "str", "",
               "loaded, no-agent, take-skipped, reduced-take, no-heap-graph, no-allocation-samples, "
               "fewer-allocation-samples, counts, ..."),
            _TEXT,
        )),
        Table("sources", "agent", "Source of a user's module as it was loaded, so that a report can name lines later", (
            *_PROCESS,
            _c("module", "str", "", "module name", "name"),
            _c("file", "str", "", "path of the source file", "file"),
            _c("source_text", "str", "", "the source, at most 256 KiB of it", "source"),
        )),
        Table("library_sources", "agent", "Source of a library's module of which an object has grown: what lets go", (
            *_PROCESS,
            _c("module", "str", "", "module name", "name"),
            _c("file", "str", "", "path of the source file", "file"),
            _c("source_text", "str", "", "the source, at most 256 KiB of it", "source"),
        )),
    )
}  # fmt: skip


# Of a file that has the whole heap of one snapshot, beside a recording: a row an object.
WHOLE_HEAP: tuple[Column, ...] = (
    _c("object", "int", "", "its number in this file, from 0: that of its row"),
    _c("address", "int", "", "id() of it while it lived; 0: a group of roots"),
    _c("type_name", "str", "", _TYPE_NAME.meaning, _TYPE_NAME.carries),
    _c("own_bytes", "int", "bytes", "its own bytes, without what it refers to"),
    _c("retained_bytes", "int", "bytes", _RETAINED_BYTES.meaning),
    _c("dominator", "int", "", "nearest object that all ways from the roots to it pass"),
    _c("path_object", "int", "", "object one step nearer to a root, on a short way by names; 0: none"),
    _c("reference_count", "int", "", "references to it that Python counts; null = it lives for ever, or is none"),
    _c("node", "int", "", "its number in the table heap_nodes; null = it has no row there"),
    _c("refers_to", "ints", "", "objects that it refers to, one for each reference"),
)


@lru_cache(maxsize=1)
def columns() -> dict[str, Column]:
    """Every column of a recording by name, keys first, then in the order of the tables."""
    merged: dict[str, Column] = {}
    for column in (*KEYS, *(c for table in TABLES.values() for c in table.columns)):
        known = merged.setdefault(column.name, column)
        if known.type != column.type:
            raise AssertionError(f"column {column.name} has two types")
    return merged
