"""What last words mean: known fatal texts, told from ordinary exceptions and from lack of memory."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from leakscope import analyze, faults, open_recording
from leakscope.facts.endings.cuda_oom import parse
from leakscope.findings import Finding, RuledOut, Skipped
from tests.builders import RecordingBuilder
from tests.recorder.runs import CRASHES_IN_A_TAKE
from tests.sentences import says

from .asking import asked
from .leaks import PID, trainer

MiB, GiB = 1024**2, 1024**3
PYTHON = sys.executable
AGENT = Path(faults.__file__).parent / "agent"
WORKER = 4300
TRACE = """Traceback (most recent call last):
  File "/home/me/train.py", line 12, in main
    step(batch)
  File "/home/me/train.py", line 7, in step
    model(batch)
  File "/usr/lib/python3/dist-packages/torch/nn/modules/module.py", line 1751, in _call_impl
    return forward_call(*args, **kwargs)
"""


def answers(builder: RecordingBuilder) -> list[Finding | RuledOut | Skipped]:
    report = asked(builder.open(), only=["crash"])
    return [*report.findings, *report.ruled_out, *report.skipped]


def with_words(folder: Path, text: str, *, source: str = "exception", type: str | None = None) -> RecordingBuilder:
    kind = type or text.rpartition("\n")[2].split(":")[0]
    builder = trainer(folder, leak=0)
    return builder.row("crash_text", 19.9, PID, crash_source=source, exception_type=kind, last_words=text)


def found(folder: Path, text: str) -> Finding:
    (finding,) = answers(with_words(folder, TRACE + text).ends(exit_code=1))
    assert isinstance(finding, Finding)
    return finding


def said(finding: Finding) -> str:
    return " / ".join([finding.title, *(e.text for e in finding.evidence), *finding.doubts, *finding.remedy])


# ---- ordinary failures


def test_an_ordinary_exception_is_a_note_with_its_line(tmp_path: Path) -> None:
    finding = found(tmp_path, "ValueError: shapes do not match")
    assert finding.severity == "note"
    assert says(finding.title, "train.py[4242]", "ValueError: shapes do not match")
    assert (finding.subject.file, finding.subject.line, finding.subject.function) == ("/home/me/train.py", 7, "step")
    assert finding.subject.library == "torch"


@pytest.mark.further
def test_endless_recursion_is_no_lack_of_memory(tmp_path: Path) -> None:
    finding = found(tmp_path, "RecursionError: maximum recursion depth exceeded")
    assert finding.severity == "note"
    assert "not a lack of memory" in said(finding)


def test_the_programs_source_is_not_searched_for_fatal_texts(tmp_path: Path) -> None:
    source = '  File "/home/me/train.py", line 9, in step\n    if "CUDA out of memory." in str(e): raise KeyError(1)\n'
    finding = found(tmp_path, source + "KeyError: 1")
    assert finding.severity == "note"


def test_what_a_loader_worker_handed_over_is_named(tmp_path: Path) -> None:
    place = '  File "/home/me/data.py", line 30, in __getitem__\n    return self.rows[i]\n'
    inner = place + "IndexError: list index out of range\n"
    text = "IndexError: Caught IndexError in DataLoader worker process 0.\n"
    finding = found(tmp_path, f"{text}Original Traceback (most recent call last):\n{inner}")
    assert finding.title.endswith("IndexError: list index out of range")
    assert (finding.subject.file, finding.subject.line) == ("/home/me/data.py", 30)


def test_what_a_process_of_multiprocessing_said_on_stderr_is_told(tmp_path: Path) -> None:
    text = f"epoch 1\nProcess Process-2:\n{TRACE}KeyError: 3\n\n"
    text += "During handling of the above exception, another exception occurred:\n\n"
    text += f"{TRACE}ValueError: no such row\ngoing on\n"
    builder = trainer(tmp_path, leak=0).process(WORKER, role="python-fork", died_s=8.0, exit_code=1)
    builder.row("crash_text", 20.0, crash_source="stderr", last_words=text)
    (finding,) = answers(builder.ends(exit_code=0))
    assert isinstance(finding, Finding)
    assert says(finding.title, f"train.py[{WORKER}]", "ValueError: no such row")
    assert (finding.severity, finding.subject.line) == ("note", 7)


def test_a_message_that_nobody_could_ask_for_is_on_stderr_and_cython_is_no_users_place(tmp_path: Path) -> None:
    trace = TRACE + '  File "numpy/random/mtrand.pyx", line 446, in numpy.random.mtrand.rand\n'
    name = "numpy._core._exceptions._ArrayMemoryError"
    builder = with_words(tmp_path, f"{trace}{name}: (its message was not read: that would run code)\n", type=name)
    stderr = f"{trace}{name}: Unable to allocate 1.50 GiB for an array\n"
    (finding,) = answers(builder.row("crash_text", 20.0, crash_source="stderr", last_words=stderr).ends(exit_code=1))
    assert isinstance(finding, Finding)
    assert "it asked for 1.5 GiB at once" in said(finding)
    assert (finding.subject.file, finding.subject.library) == ("/home/me/train.py", "numpy")


@pytest.mark.cases(2)
@pytest.mark.parametrize(
    "ending", [{"exit_code": 0}, {"signal": 15}, {"signal": 2}, {"signal": 9}], ids=["ok", "term", "int", "kill"]
)
def test_what_is_no_crash_is_ruled_out(tmp_path: Path, ending: dict[str, Any]) -> None:
    (answer,) = answers(trainer(tmp_path, leak=0).ends(**ending))
    assert isinstance(answer, RuledOut)


def test_an_exception_that_was_survived_is_no_crash(tmp_path: Path) -> None:
    """A notebook keeps the last error of a cell, and ends well."""
    (answer,) = answers(with_words(tmp_path, TRACE + "ValueError: x").ends(exit_code=0))
    assert isinstance(answer, RuledOut)


def test_a_status_without_words_says_how_to_keep_them(tmp_path: Path) -> None:
    (answer,) = answers(trainer(tmp_path, leak=0).ends(exit_code=3))
    assert isinstance(answer, Skipped)
    assert "--tee" in answer.reason


def test_a_status_that_the_program_chose_is_no_crash(tmp_path: Path) -> None:
    (answer,) = answers(trainer(tmp_path, leak=0).note(PID, 0.1, "loaded").ends(exit_code=3))
    assert isinstance(answer, RuledOut)


def test_ranks_that_fail_alike_are_one_finding(tmp_path: Path) -> None:
    builder = RecordingBuilder(tmp_path).process(1, "launcher", cmdline="torchrun train.py").samples(1, [MiB] * 4)
    for pid in (10, 11, 12):
        builder.process(pid, died_s=3.0)
        text = TRACE + "RuntimeError: CUDA error: device-side assert triggered"
        builder.row("crash_text", 2.9, pid, crash_source="exception", exception_type="RuntimeError", last_words=text)
    (finding,) = answers(builder.ends(exit_code=1))
    assert finding.evidence[-1].figures == {"pids": [10, 11, 12]}
    assert "not a lack of memory" in said(finding)


# ---- CUDA

OLD = "CUDA out of memory. Tried to allocate 20.00 MiB (GPU 1; 1.95 GiB total capacity; 763.17 MiB already allocated; "
NEW = (
    "CUDA out of memory. Tried to allocate 512.00 MiB. GPU 0 has a total capacity of 8.00 GiB of which 18.62 MiB is "
    "free. "
)
PYTORCH = "Of the allocated memory 6.00 GiB is allocated by PyTorch, "
UNUSED = "is reserved by PyTorch but unallocated. If reserved but unallocated memory is large try setting"
OOMS = {
    "1.0": (OLD + "6.31 MiB free; 28.83 MiB cached)", 1, 20, 6.31, 28.83),
    "1.8": (OLD + "6.31 MiB free; 790.00 MiB reserved in total by PyTorch)", 1, 20, 6.31, 26.83),
    "1.13": (OLD + "0 bytes free; 1.50 GiB allowed; 790.00 MiB reserved in total by PyTorch) If", 1, 20, 0, 26.83),
    "2.1": (NEW.replace("capacity", "capacty") + f"{PYTORCH}and 600.00 MiB {UNUSED}", 0, 512, 18.62, 600),
    "2.4": (NEW + "Process 77 has 1.00 GiB memory in use. Including non-PyTorch memory, this process has 6.98 GiB "
            f"memory in use. 7.00 GiB allowed; {PYTORCH}and 600.00 MiB {UNUSED}", 0, 512, 18.62, 600),
    "2.13": (f"{NEW}Including non-PyTorch memory, this process has 6.98 GiB memory in use. {PYTORCH}with 12.00 MiB "
             f"allocated in private pools (e.g., CUDA Graphs), and 20.00 MiB {UNUSED}", 0, 512, 18.62, 20),
    "rocm": (NEW.replace("CUDA", "HIP") + f"{PYTORCH}and 20.00 MiB {UNUSED}", 0, 512, 18.62, 20),
}  # fmt: skip


@pytest.mark.parametrize("version", OOMS)
def test_the_figures_of_every_torch_are_read(version: str) -> None:
    text, device, requested, free, unallocated = OOMS[version]
    oom = parse(f"torch.OutOfMemoryError: {text}")
    assert oom is not None
    mib = [oom.requested_bytes, oom.free_bytes, oom.unallocated_bytes]
    assert [None if b is None else round(b / MiB, 2) for b in mib] == [requested, free, unallocated]
    assert oom.device == device
    assert oom.total_bytes
    assert oom.allocated_bytes


def test_fragmentation_is_named_only_where_it_could_have_helped(tmp_path: Path) -> None:
    broken, whole = (
        found(tmp_path / v, f"torch.OutOfMemoryError: {OOMS[v][0]}") for v in _folders(tmp_path, "2.1", "2.13")
    )
    assert "expandable_segments:True" in broken.remedy[0]
    assert not whole.remedy
    assert "not fragmentation" in said(whole)
    assert says(whole.title, "GPU 0", "train.py[4242]", "512 MiB", "18.6 MiB free")
    assert whole.severity == "critical"


def test_what_others_hold_on_the_gpu_is_named(tmp_path: Path) -> None:
    finding = found(tmp_path, f"torch.OutOfMemoryError: {OOMS['2.4'][0]}")
    assert "other processes held 1.0 GiB" in said(finding)


def test_a_limit_that_the_program_set_itself_is_nobody_elses_doing(tmp_path: Path) -> None:
    """The message of torch 2.11 on an H100 of which the program allowed itself 3 GiB."""
    text = (
        "CUDA out of memory. Tried to allocate 20.00 MiB. GPU 0 has a total capacity of 79.18 GiB of which 62.82 GiB "
        "is free. Process 541 has 2.01 GiB memory in use. Including non-PyTorch memory, this process has 3.72 GiB "
        f"memory in use. 3.00 GiB allowed; {PYTORCH.replace('6.00', '3.00')}and 463.00 KiB {UNUSED}"
    )
    finding = found(tmp_path, f"torch.OutOfMemoryError: {text}")
    assert says(finding.title, "20.0 MiB", "limits itself to 3.0 GiB")
    assert "set_per_process_memory_fraction" in finding.remedy[0]
    assert not any("other processes" in text for text in finding.remedy)
    assert "other processes" not in said(finding)


def _folders(folder: Path, *names: str) -> list[str]:
    for name in names:
        (folder / name).mkdir()
    return list(names)


@pytest.mark.parametrize(
    "text", ["CUDA error: out of memory", "CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `x`"]
)
def test_gpu_memory_without_figures(tmp_path: Path, text: str) -> None:
    assert found(tmp_path, f"RuntimeError: {text}").title.startswith("GPU memory ran out")


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("cupy.cuda.memory.OutOfMemoryError: Out of memory allocating 8,589,934,592 bytes (allocated so far: 9 bytes).",
         "8.0 GiB"),
        ("jaxlib.xla_extension.XlaRuntimeError: RESOURCE_EXHAUSTED: Out of memory while trying to allocate 4194304 "
         "bytes.", "4.0 MiB"),
    ],
)  # fmt: skip
def test_how_much_of_a_gpu_was_asked_for_by_the_messages_of_others(tmp_path: Path, text: str, size: str) -> None:
    assert says(found(tmp_path, text).title, "GPU memory ran out", f"{size} asked for")


# ---- memory of the host


def test_a_limit_of_the_process_is_named(tmp_path: Path) -> None:
    builder = with_words(tmp_path, TRACE + "MemoryError", type="MemoryError")
    use = {"limit_name": "rlimit-as", "used_bytes": [380 * MiB, 390 * MiB], "limit_bytes": 400 * MiB}
    (finding,) = answers(builder.series("limit_samples", PID, from_s=18.0, **use).ends(exit_code=1))
    assert "limited to 400 MiB (ulimit -v)" in finding.title
    assert finding.remedy


def test_a_limit_that_was_reached_before_the_exception_let_go_is_named_too(tmp_path: Path) -> None:
    builder = with_words(tmp_path, TRACE + "MemoryError", type="MemoryError")
    use = {"limit_name": "rlimit-as", "used_bytes": [380 * MiB, 395 * MiB, 90 * MiB], "limit_bytes": 400 * MiB}
    (finding,) = answers(builder.series("limit_samples", PID, from_s=17.0, **use).ends(exit_code=1))
    assert "limited to 400 MiB (ulimit -v)" in finding.title
    assert "395 MiB of 400 MiB at most" in said(finding)


def test_memory_that_was_refused_is_told_before_the_leak_that_filled_it(tmp_path: Path) -> None:
    """With who filled it, its share, and what would have been enough: as a kill is."""
    words = {"crash_source": "exception", "exception_type": "MemoryError", "last_words": TRACE + "MemoryError"}
    source = "def main():\n    rows = []" + "\n" * 28 + "    rows.append(read())\n"
    builder = trainer(tmp_path).source(PID, "/home/me/train.py", source).row("crash_text", 19.9, PID, **words)
    rows = {
        "path": "main() rows", "root_kind": "frame", "edge_kind": "local", "variable": "rows", "owner": "main",
        "owner_module": "__main__", "owner_file": "/home/me/train.py", "is_user": True, "type_name": "list",
    }  # fmt: skip
    for number in range(1, 5):
        grown = {"deep_bytes": number * 45 * MiB, "length": 1000 * number}
        builder.take(PID, number, 4.5 * number, holders=[{**rows, **grown}])
    use = {"limit_name": "rlimit-as", "used_bytes": [380 * MiB, 395 * MiB], "limit_bytes": 400 * MiB}
    report = analyze(builder.series("limit_samples", PID, from_s=18.0, **use).ends(exit_code=1).open())
    first, second = report.findings[:2]
    assert (first.kind, second.kind) == ("crash", "retained-objects")
    assert first.subject.holder == second.subject.holder and first.subject.line == second.subject.line
    assert says(first.title, "train.py[4242]", "refused memory", "400 MiB", "% of what the process held")
    assert "would have been enough" in said(first)
    assert first.remedy[0] == second.remedy[0]
    assert report.verdict.headline.startswith(first.title)
    assert report.verdict.killed is False


def test_a_bus_error_in_a_full_dev_shm_is_lack_of_memory(tmp_path: Path) -> None:
    use = {"limit_name": "dev-shm", "used_bytes": [0, 63 * MiB, 0], "limit_bytes": 64 * MiB}
    builder = trainer(tmp_path, leak=0).series("limit_samples", PID, from_s=17.0, **use)
    (finding,) = answers(builder.ends(signal=7))
    assert says(finding.title, "train.py[4242]", "bus error", "/dev/shm", "63.0 MiB of 64.0 MiB")
    assert "not a lack of memory" not in said(finding)


def test_a_limit_that_the_program_sets_is_raised_there(tmp_path: Path) -> None:
    source = "import resource\n\n\nresource.setrlimit(resource.RLIMIT_AS, (400 << 20, 400 << 20))\n"
    builder = with_words(tmp_path, TRACE + "MemoryError", type="MemoryError").source(PID, "/home/me/limits.py", source)
    use = {"limit_name": "rlimit-as", "used_bytes": [380 * MiB, 390 * MiB], "limit_bytes": 400 * MiB}
    (finding,) = answers(builder.series("limit_samples", PID, from_s=18.0, **use).ends(exit_code=1))
    assert "limits.py:4" in finding.remedy[0] and "ulimit" not in finding.remedy[0]


@pytest.mark.parametrize(("held_mib", "line"), [(80, 30), (20, 7)])
def test_what_filled_the_memory_is_the_line_to_mend(tmp_path: Path, held_mib: int, line: int) -> None:
    """Where it took most of it; else all that is known is who asked for more."""
    source = "def main():\n    rows = []" + "\n" * 28 + "    rows.append(read())\n"
    builder = with_words(tmp_path, TRACE + "MemoryError", type="MemoryError").source(PID, "/home/me/train.py", source)
    rows = {
        "path": "main() rows", "root_kind": "frame", "edge_kind": "local", "variable": "rows", "owner": "main",
        "owner_module": "__main__", "owner_file": "/home/me/train.py", "is_user": True, "type_name": "list",
    }  # fmt: skip
    for number, share in enumerate((0.2, 1.0), 1):
        builder.take(PID, number, 9.0 * number, holders=[{**rows, "deep_bytes": int(share * held_mib * MiB)}])
    (finding,) = answers(builder.ends(exit_code=1))
    assert (finding.subject.variable == "rows") is (line == 30)
    assert finding.subject.line == line and finding.subject.type == "MemoryError"
    assert any("train.py:30" in advice for advice in finding.remedy) is (line == 30)
    assert "it was at /home/me/train.py:7" in said(finding)


def test_a_limit_that_was_far_away_is_a_doubt(tmp_path: Path) -> None:
    builder = with_words(tmp_path, TRACE + "MemoryError", type="MemoryError")
    use = {"limit_name": "rlimit-as", "used_bytes": [90 * MiB, 100 * MiB], "limit_bytes": 400 * MiB}
    (finding,) = answers(builder.series("limit_samples", PID, from_s=18.0, **use).ends(exit_code=1))
    assert "limited to" not in finding.title
    assert finding.doubts


def test_more_than_the_machine_has_is_named(tmp_path: Path) -> None:
    text = "numpy.core._exceptions._ArrayMemoryError: Unable to allocate 7.45 TiB for an array with shape (1000000,)"
    builder = with_words(tmp_path, TRACE + text).host([8 * GiB] * 20, 16 * GiB)
    (finding,) = answers(builder.ends(exit_code=1))
    assert says(finding.title, "train.py[4242]", "the machine has 16.0 GiB")


BUS_ERROR = (
    "RuntimeError: DataLoader worker (pid 4300) is killed by signal: Bus error. It is possible that dataloader's"
)
SHM = "ERROR: Unexpected bus error encountered in worker. This might be caused by insufficient shared memory (shm).\n"


@pytest.mark.parametrize(("used", "is_full"), [(63, True), (10, False)])
def test_a_full_dev_shm_is_told_from_the_mere_guess_of_torch(tmp_path: Path, used: int, is_full: bool) -> None:
    builder = with_words(tmp_path, f"{TRACE}{SHM}{BUS_ERROR}", type="RuntimeError")
    use = {"limit_name": "dev-shm", "used_bytes": [0, used * MiB, 0], "limit_bytes": 64 * MiB}
    (finding,) = answers(builder.series("limit_samples", None, from_s=15.0, **use).ends(exit_code=1))
    assert ("/dev/shm was full" in finding.title) is is_full
    assert bool(finding.remedy) is is_full
    assert bool(finding.doubts) is not is_full


@pytest.mark.parametrize("count", [0, 1])
def test_who_killed_a_worker_is_told_by_the_kernels_counter(tmp_path: Path, count: int) -> None:
    text = "RuntimeError: DataLoader worker (pid(s) 4300) exited unexpectedly"
    builder = with_words(tmp_path, TRACE + text)
    builder.process(WORKER, "dataloader-worker", died_s=19.0, exit_signal=9)
    builder.host([GiB] * 21, 16 * GiB, oom_kill_count=[5] * 18 + [5 + count] * 3)
    (finding,) = answers(builder.ends(exit_code=1))
    assert ("OOM killer ended train.py[4300]" in said(finding)) is bool(count)
    assert ("ended no process" in said(finding)) is not count


def test_the_end_of_its_pipe_is_the_end_of_a_worker(tmp_path: Path) -> None:
    """Torch hears of a worker's end by a signal, or, a moment before that, by the pipe."""
    frame = '  File "/usr/lib/python3/torch/utils/data/dataloader.py", line 1310, in _try_get_data\n    raise\n'
    builder = with_words(tmp_path, TRACE + frame + "EOFError")
    builder.process(WORKER, "dataloader-worker", died_s=19.0, exit_signal=9)
    (finding,) = answers(builder.ends(exit_code=1))
    assert finding.title.startswith("A DataLoader worker of train.py")
    assert "train.py[4300] was ended by SIGKILL" in said(finding)
    (tmp_path / "other").mkdir()
    (other,) = answers(with_words(tmp_path / "other", TRACE + "EOFError").ends(exit_code=1))
    assert "ended by EOFError" in other.title


# ---- fatal signals

SIGNAL_TEXTS = {
    "none-3.10": ("Fatal Python error: none_dealloc: deallocating None", 6, "None ran out of references"),
    "none-3.11": ("Fatal Python error: none_dealloc: deallocating None: bug likely", 6, "None ran out of references"),
    "heap": ("double free or corruption (!prev)", 6, "damaged the heap"),
    "bad-alloc": ("terminate called after throwing an instance of 'std::bad_alloc'\n  what():  x", 6, "refused memory"),
    "c++": ("terminate called after throwing an instance of 'c10::Error'\n  what():  no", 6, "uncaught C++ exception"),
    "unrelated": ("CUDA out of memory. (it was handled)", 11, "segmentation fault"),
    "nothing": ("", 11, "segmentation fault"),
}  # fmt: skip


@pytest.mark.cases(2)
@pytest.mark.parametrize("name", SIGNAL_TEXTS)
def test_a_fatal_signal_is_explained_by_what_stderr_says(tmp_path: Path, name: str) -> None:
    text, number, expected = SIGNAL_TEXTS[name]
    builder = trainer(tmp_path, leak=0)
    if text:
        builder.row("crash_text", 20.0, PID, crash_source="stderr", last_words=f"step 1\n{text}\n")
    (finding,) = answers(builder.ends(signal=number))
    assert expected in finding.title
    assert finding.severity == "critical"
    assert any("--tee" in doubt for doubt in finding.doubts) is not text


def test_the_place_of_a_fatal_signal_is_the_crashed_threads(tmp_path: Path) -> None:
    text = """Fatal Python error: Segmentation fault

Thread 0x00007f01 (most recent call first):
  File "/home/me/other.py", line 1 in wait

Current thread 0x00007f02 (most recent call first):
  File "/opt/venv/lib/python3.11/site-packages/decord/ffi.py", line 9 in call
  File "/home/me/data.py", line 44 in read
  File "/home/me/train.py", line 3 in <module>

Thread 0x00007f03 (most recent call first):
  File "/home/me/last.py", line 1 in wait
"""
    builder = trainer(tmp_path, leak=0).row("crash_text", 20.0, PID, crash_source="faulthandler", last_words=text)
    (finding,) = answers(builder.ends(signal=11))
    assert (finding.subject.file, finding.subject.line, finding.subject.library) == ("/home/me/data.py", 44, "decord")


# ---- leakscope's own agent on the stack

JOBS = '  File "/home/me/train.py", line 3 in <module>\n'
AGENTS = """  File "/home/me/.cache/leakscope/leakscope-run-0af3/agent/heap.py", line 120 in sweep
  File "/home/me/.cache/leakscope/leakscope-run-0af3/agent/main.py", line 300 in _take
"""
IDLE = "  <no Python frame>\n"
HANDS_ON = """  File "/opt/venv/lib/python3.11/site-packages/torch/serialization.py", line 9 in save
  File "/home/me/.cache/leakscope/leakscope-run-0af3/agent/phases.py", line 160 in train
"""


def fault(folder: Path, crashed: str | None, other: str, *, source: str = "faulthandler") -> RecordingBuilder:
    threads = f"Thread 0x00007f01 (most recent call first):\n{other}\n"
    if crashed is not None:
        threads += f"Current thread 0x00007f02 (most recent call first):\n{crashed}"
    text = f"Fatal Python error: Segmentation fault\n\n{threads}"
    builder = trainer(folder, leak=30 * MiB).row("crash_text", 20.0, PID, crash_source=source, last_words=text)
    return builder.ends(signal=11)


@pytest.mark.parametrize("source", ["faulthandler", "stderr"])
def test_a_crash_in_our_agent_is_the_first_thing_said(tmp_path: Path, source: str) -> None:
    report = analyze(fault(tmp_path, AGENTS + JOBS, IDLE, source=source).open())
    start = "leakscope's own agent was running when train.py[4242] crashed (SIGSEGV), and may be the cause"
    assert report.verdict.headline.startswith(f"{start}: leakscope record --agent off records without it. Memory leaks")
    first = report.findings[0]
    assert (first.kind, first.severity, first.subject.library) == ("crash", "critical", "leakscope")
    assert first.subject.file is None  # no line of the user's is to be edited
    assert "heap.py:120 in sweep" in first.evidence[0].text
    assert "leakscope record --agent off -- python train.py" in first.remedy[0]
    assert "no native code is blamed" in first.doubts[0]
    assert len(report.findings) > 1  # the leak is still told


@pytest.mark.cases(2)
@pytest.mark.parametrize(
    ("crashed", "other", "is_told"),
    [
        (JOBS, IDLE, False),
        (JOBS, AGENTS + IDLE, True),
        (HANDS_ON + JOBS, IDLE, False),
        ("  <no Python frame>\n", AGENTS + JOBS, True),
        (None, AGENTS + JOBS, True),
    ],
    ids=["nowhere", "another-thread", "only-hands-on", "finalizing", "no-thread-of-python"],
)
def test_our_agent_is_not_blamed_for_what_it_did_not_call(
    tmp_path: Path, crashed: str | None, other: str, is_told: bool
) -> None:
    report = analyze(fault(tmp_path, crashed, other).open())
    (finding,) = (finding for finding in report.findings if finding.kind == "crash")
    assert says(finding.title, "train.py[4242]", "segmentation fault")
    assert not report.verdict.headline.startswith("leakscope")
    assert finding.subject.library != "leakscope"
    assert ("in another thread (heap.py:120 in sweep)" in said(finding)) is is_told


@pytest.mark.cases(2)
@pytest.mark.parametrize("is_sampled", [True, False])
@pytest.mark.parametrize("words", ["", "malloc(): corrupted top size", "ValueError: 1"])
def test_the_sampling_of_allocations_is_doubted_where_native_code_crashed(
    tmp_path: Path, words: str, is_sampled: bool
) -> None:
    """It hooks malloc, on the job's own threads, where a traceback shows the job's calls alone."""
    builder = trainer(tmp_path, leak=0)
    if is_sampled:
        builder.row("allocation_stacks", 15.0, PID, allocator="malloc", stack="", live_bytes=1, settled_bytes=1)
    if words.startswith("ValueError"):
        builder.row("crash_text", 19.9, PID, crash_source="exception", exception_type="ValueError", last_words=words)
    elif words:
        builder.row("crash_text", 19.9, PID, crash_source="stderr", last_words=words)
    is_native = not words.startswith("ValueError")
    (finding,) = answers(builder.ends(signal=6) if is_native else builder.ends(exit_code=1))
    assert isinstance(finding, Finding)
    assert any("--no-sampling" in doubt for doubt in finding.doubts) is (is_sampled and is_native)


def test_it_is_doubted_before_the_first_samples_were_written(tmp_path: Path) -> None:
    """Within seconds; not where it was turned off, or could not begin."""
    doubts = {}
    refused = "refused", True, "no-allocation-samples"
    for case, sampling, note in ("on", True, "loaded"), ("off", False, "loaded"), refused:
        (tmp_path / case).mkdir()
        builder = trainer(tmp_path / case, leak=0).note(PID, 0.5, "loaded").note(PID, 1.0, note)
        builder.meta["options"] = {"sampling": sampling}
        (finding,) = answers(builder.ends(signal=11))
        assert isinstance(finding, Finding)
        doubts[case] = any("--no-sampling" in doubt for doubt in finding.doubts), finding.confidence
    assert [is_doubted for is_doubted, _ in doubts.values()] == [True, False, False]
    assert doubts["on"][1] < doubts["off"][1]


def test_a_library_of_ours_among_the_calls_of_c_is_the_first_thing_said(tmp_path: Path) -> None:
    text = f"""Fatal Python error: Segmentation fault

Current thread 0x00007f02 (most recent call first):
{JOBS}
Current thread's C stack trace (most recent call first):
  Binary file "/home/me/leakscope-run-0af3/agent/allocations/libleakscope_allocations.so", at +0x2a10 [0x7f1]
  Binary file "/usr/lib/x86_64-linux-gnu/libc.so.6", at +0x9caa4 [0x7f2]
"""
    builder = trainer(tmp_path, leak=0).row("crash_text", 20.0, PID, crash_source="faulthandler", last_words=text)
    (finding,) = answers(builder.ends(signal=11))
    assert isinstance(finding, Finding)
    assert finding.subject.library == "leakscope"
    assert "libleakscope_allocations.so" in finding.evidence[0].text
    assert "leakscope record --agent off -- python train.py" in finding.remedy[0]


def test_a_crash_of_a_child_in_our_agent_is_no_lesser_thing_because_the_job_went_on(tmp_path: Path) -> None:
    text = f"Fatal Python error: Aborted\n\nCurrent thread 0x00007f02 (most recent call first):\n{AGENTS}{JOBS}"
    builder = trainer(tmp_path, leak=0).process(WORKER, role="python-fork", died_s=8.0, exit_signal=6)
    builder.row("crash_text", 20.0, WORKER, crash_source="faulthandler", last_words=text)
    report = analyze(builder.ends(exit_code=0).open())
    assert report.verdict.headline.startswith("leakscope's own agent was running")
    assert report.findings[0].severity == "critical"


@pytest.mark.parametrize("has_agent", [True, False])
def test_none_that_runs_out_as_python_ends_may_be_our_agents_doing(tmp_path: Path, has_agent: bool) -> None:
    text = "Fatal Python error: none_dealloc: deallocating None\nPython runtime state: finalizing (tstate=0x1)\n"
    builder = trainer(tmp_path, leak=0).row("crash_text", 20.0, PID, crash_source="stderr", last_words=text)
    if has_agent:
        builder.note(PID, 0.1, "loaded")
    (finding,) = answers(builder.ends(signal=6))
    assert isinstance(finding, Finding)
    assert any("--agent off" in doubt for doubt in finding.doubts) is has_agent


def test_the_functions_that_only_hand_on_are_the_agents() -> None:
    for file, function in faults.HAND_ON - {("sitecustomize.py", "<module>")}:
        (path,) = AGENT.rglob(file)
        assert f"def {function}(" in path.read_text()


# ---- real programs


def recorded(folder: Path, program: str, *options: str) -> list[Finding]:
    """Findings about a real program, its stderr in a file as batch systems have it."""
    (folder / "train.py").write_text(program)
    command = [PYTHON, "-m", "leakscope", "record", "-q", *options, "--", PYTHON, "train.py"]
    with (folder / "log").open("w") as log:
        subprocess.run(command, cwd=folder, stdout=log, stderr=log, timeout=120, check=False)
    return list(asked(open_recording(folder / "run.parquet"), only=["crash"]).findings)


@pytest.mark.live
@pytest.mark.parametrize("options", [[], ["--agent", "off"]], ids=["inside", "outside"])
def test_real_an_exception(tmp_path: Path, options: list[str]) -> None:
    (finding,) = recorded(tmp_path, "def work(x):\n    return 1 / x\nwork(0)\n", *options)
    assert finding.severity == "note"
    assert finding.title.endswith("ended by ZeroDivisionError: division by zero")
    assert finding.subject.line == 2


@pytest.mark.live
def test_real_a_segfault(tmp_path: Path) -> None:
    (finding,) = recorded(tmp_path, "import ctypes\ndef read():\n    ctypes.string_at(0)\nread()\n")
    assert "segmentation fault" in finding.title
    assert (finding.subject.line, finding.subject.function) == (3, "read")


@pytest.mark.live
def test_real_a_crash_in_our_agent(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LEAKSCOPE_STRESS", "0.01")
    (finding,) = recorded(tmp_path, CRASHES_IN_A_TAKE)
    assert finding.title.startswith("leakscope's own agent was running when train.py")
    assert ".py:" in finding.evidence[0].text


@pytest.mark.slow
@pytest.mark.live
@pytest.mark.skipif(sys.version_info >= (3, 12), reason="None is immortal")
def test_real_none_runs_out_of_references(tmp_path: Path) -> None:
    program = (
        "import ctypes\ndrop = ctypes.pythonapi.Py_DecRef\ndrop.argtypes = [ctypes.py_object]\nwhile True: drop(None)\n"
    )
    (finding,) = recorded(tmp_path, program)
    assert "None ran out of references" in finding.title
    assert finding.subject.line == 4
    assert "3.12" in finding.remedy[0]


@pytest.mark.live
def test_real_a_limit_of_the_address_space(tmp_path: Path) -> None:
    program = """
import resource, time
resource.setrlimit(resource.RLIMIT_AS, (600 << 20,) * 2)
kept = [bytearray(400 << 20)]
time.sleep(2.5)  # the limit is looked at once a second
kept.append(bytearray(400 << 20))
"""
    (finding,) = recorded(tmp_path, program)
    assert "was refused memory" in finding.title
    assert "ulimit -v" in said(finding)


@pytest.mark.slow
@pytest.mark.torch
def test_real_a_loader_worker_that_is_killed(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    program = """
import os, signal, torch
class Data(torch.utils.data.Dataset):
    def __len__(self): return 100
    def __getitem__(self, i):
        if i == 20: os.kill(os.getpid(), signal.SIGKILL)
        return torch.zeros(4)
for batch in torch.utils.data.DataLoader(Data(), batch_size=4, num_workers=1): pass
"""
    (finding,) = recorded(tmp_path, program)
    assert finding.title.startswith("A DataLoader worker of train.py")
    assert finding.subject.file == str(tmp_path / "train.py")
