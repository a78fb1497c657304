"""The agent's thread never changes how a process lives and dies: programs that end, are confined and crash as bare.

Each is run bare and recorded: its status, and what it said, must be the same.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sysconfig
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import pytest

from leakscope.agent.journal import read_blocks

from ..recorder.runs import PYTHON, environment, record_command

LIMIT_S = 60.0
RUNS_S = 1.8  # the agent's thread is there, and sleeps between two looks, of which it has one each half second

pytestmark = pytest.mark.live


class End(NamedTuple):
    status: int
    stdout: str


def run(folder: Path, words: list[str], is_recorded: bool, *options: str) -> End:
    done = subprocess.run(
        record_command("-q", *options, "--", *words) if is_recorded else words,
        cwd=folder, env=environment(), stdout=subprocess.PIPE, text=True, timeout=LIMIT_S,
    )  # fmt: skip
    return End(done.returncode, done.stdout)


def notes(folder: Path) -> list[str]:
    """What the agents had to say."""
    return [
        row["text"]
        for file in sorted((folder / "run.parquet.journal").glob("agent-*.jnl"))
        for table, block in read_blocks(str(file))
        if table == "agent_notes"
        for row in block
    ]


def both(folder: Path, program: str, *arguments: str, options: Sequence[str] = ()) -> tuple[End, End]:
    (folder / "program.py").write_text(program)
    words = [PYTHON, "program.py", *arguments]
    return run(folder, words, False), run(folder, words, True, *options)


# ---- a main thread that ends alone

EXIT = {"x86_64": 60, "aarch64": 93}.get(os.uname().machine, 0)  # ends a thread, where exit_group ends all
ENDS_ALONE = f"""
import ctypes, os, sys, threading, time
how, lasts_s, status = sys.argv[1], float(sys.argv[2]), int(sys.argv[3])
def work():
    time.sleep({RUNS_S} + 0.5)
    os.write(1, b"worker done\\n")
if how == "worker":
    threading.Thread(target=work).start()
kept = [[n] for n in range(1000)]
time.sleep(lasts_s)
os.write(1, b"main done\\n")
(ctypes.PyDLL if how == "with the GIL" else ctypes.CDLL)(None).syscall({EXIT}, status)
"""


@pytest.mark.cases(3)
@pytest.mark.parametrize(
    ("how", "lasts_s", "status"),
    [
        ("worker", 0.2, 0),
        ("alone", RUNS_S, 3),
        ("with the GIL", RUNS_S, 0),
        ("alone", 0.0, 0),
        ("with the GIL", 0.01, 4),
    ],
)
def test_a_process_ends_with_the_last_of_its_own_threads(tmp_path: Path, how: str, lasts_s: float, status: int) -> None:
    # Who dies with the GIL while another thread waits for it leaves that one waiting: not at a snapshot, then.
    options = ["--no-snapshots", "--no-sampling"] if how == "with the GIL" else []
    bare, recorded = both(tmp_path, ENDS_ALONE, how, str(lasts_s), str(status), options=options)
    assert recorded == bare
    assert bare.status == status and "main done" in bare.stdout


def test_what_was_recorded_of_it_is_written(tmp_path: Path) -> None:
    _, recorded = both(tmp_path, ENDS_ALONE, "alone", str(RUNS_S), "0")
    assert recorded.status == 0
    assert any("main thread ended before the others" in note for note in notes(tmp_path))


EMBEDS = r"""
#include <Python.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
static void at_exit(void) { printf("exit handlers were run\n"); }
int main(int argc, char **argv)
{
    atexit(at_exit);
    Py_Initialize();
    PyRun_SimpleString("import time\nkept = [[n] for n in range(1000)]\ntime.sleep(1.6)\n"
                       "print('python is done', flush=True)");
    if (argc > 1)
        PyEval_SaveThread();
    printf("main is done\n");
    pthread_exit(NULL);
}
"""


@pytest.mark.parametrize("lets_go", [True, False])
def test_a_program_in_c_with_python_in_it_ends_by_pthread_exit(tmp_path: Path, lets_go: bool) -> None:
    """The C library runs exit handlers, and writes what is buffered, as the last thread ends."""
    compiler, library = shutil.which("gcc"), sysconfig.get_config_var("LIBDIR")
    if compiler is None or not sysconfig.get_config_var("Py_ENABLE_SHARED"):
        pytest.skip("needs a compiler and a Python that is a shared library")
    (tmp_path / "embeds.c").write_text(EMBEDS)
    subprocess.run(
        [compiler, "embeds.c", "-o", "embeds", f"-I{sysconfig.get_paths()['include']}", f"-L{library}",
         f"-lpython{sysconfig.get_config_var('LDVERSION')}", f"-Wl,-rpath,{library}", "-lpthread"],
        cwd=tmp_path, check=True,
    )  # fmt: skip
    words = ["./embeds", *["lets go"] * lets_go]
    bare, recorded = run(tmp_path, words, False), run(tmp_path, words, True)
    assert recorded == bare
    assert bare == End(0, "python is done\nmain is done\nexit handlers were run\n")


# ---- system calls that are filtered

CONFINED = """
import ctypes, os, struct, sys, time
how, ends, lasts_s = sys.argv[1:]
libc = ctypes.CDLL(None, use_errno=True)
kept = [[n] for n in range(1000)]
time.sleep(float(lasts_s))
if how == "strict":
    assert libc.prctl(22, 1, 0, 0, 0) == 0
else:
    # Kills the process that opens a file, makes a socket, or starts a program or a thread.
    numbers = {"x86_64": (257, 2, 41, 59, 56, 435), "aarch64": (56, 198, 221, 220, 435)}[os.uname().machine]
    if ends == "forks":
        numbers = numbers[:-2]
    code = [struct.pack("HBBI", 0x20, 0, 0, 0)]
    code += [struct.pack("HBBI", 0x15, len(numbers) - at, 0, number) for at, number in enumerate(numbers)]
    code += [struct.pack("HBBI", 6, 0, 0, 0x7FFF0000), struct.pack("HBBI", 6, 0, 0, 0x80000000)]
    held = ctypes.create_string_buffer(b"".join(code))
    program = ctypes.create_string_buffer(struct.pack("HxxxxxxQ", len(code), ctypes.addressof(held)))
    assert libc.prctl(38, 1, 0, 0, 0) == 0
    assert libc.syscall({"x86_64": 317, "aarch64": 277}[os.uname().machine], 1, how == "all", program) == 0
if ends == "forks":
    pid = os.fork()
    if not pid:
        os.write(1, b"child\\n")
        sys.exit(5)
    os.write(1, b"%d\\n" % os.waitpid(pid, 0)[1])
for _ in range(0 if ends == "at once" else 12_000_000):
    pass
os.write(1, b"survived\\n")
if ends == "hard":
    os._exit(0)
sys.exit(7)
"""


@pytest.mark.cases(4)
@pytest.mark.parametrize(
    ("how", "ends"),
    [
        ("all", "hard"),
        ("strict", "hard"),
        ("one", "at once"),
        ("one", "forks"),
        ("all", "in order"),
        ("strict", "in order"),
        ("one", "in order"),
        ("one", "hard"),
    ],
)
def test_a_filter_of_system_calls_meets_none_of_ours(tmp_path: Path, how: str, ends: str) -> None:
    if os.uname().machine not in ("x86_64", "aarch64"):
        pytest.skip("the numbers of its system calls are not known here")
    # Strict mode kills a thread as soon as another waits for the GIL: at a snapshot that is just being made, too.
    options = ["--no-snapshots", "--no-sampling"] if how == "strict" else []
    bare, recorded = both(tmp_path, CONFINED, how, ends, str(RUNS_S), options=options)
    assert recorded == bare
    assert bare.status in (0, 7, -signal.SIGKILL, -signal.SIGSEGV, -signal.SIGSYS)
    assert "survived" in bare.stdout or bare.status == -signal.SIGSYS  # where forking itself opens a file


# ---- signals


HANDLER = r"""
#define _GNU_SOURCE
#include <dirent.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>
static volatile int answers;
static void handler(int number) { (void)number; __atomic_add_fetch(&answers, 1, __ATOMIC_SEQ_CST); }
void begin(void) { struct sigaction action = {0}; action.sa_handler = handler; sigaction(SIGUSR2, &action, NULL); }
/* The number of threads that did not answer within two seconds each. */
int ask_all_held(void)
{
    int lost = 0;
    DIR *all = opendir("/proc/self/task");
    for (struct dirent *one; (one = readdir(all));) {
        int thread = atoi(one->d_name), before = answers;
        if (!thread)
            continue;
        syscall(SYS_tgkill, getpid(), thread, SIGUSR2);
        for (int i = 0; i < 2000 && answers == before; i++)
            nanosleep(&(struct timespec){0, 1000000}, NULL);
        lost += answers == before;
    }
    closedir(all);
    return lost;
}
"""


@pytest.mark.cases(1)
@pytest.mark.parametrize("held_s", [0.0, 0.7])
def test_each_thread_answers_a_signal_that_is_sent_to_it_alone(tmp_path: Path, held_s: float) -> None:
    """So torch asks for the stack of each when a fatal signal has come, by a thread that may have the GIL for ever."""
    if (compiler := shutil.which("gcc")) is None:
        pytest.skip("no compiler")
    (tmp_path / "handler.c").write_text(HANDLER)
    subprocess.run([compiler, "-shared", "-fPIC", "handler.c", "-o", "handler.so"], cwd=tmp_path, check=True)
    program = f"""
import ctypes, os, time
handles = ctypes.PyDLL(os.path.abspath("handler.so"))  # with the GIL, as a handler of a fatal signal may have it
handles.begin()
kept = [[n] for n in range(1000)]
time.sleep({RUNS_S})
ctypes.PyDLL(None).usleep({int(held_s * 1e6)})  # so long that the agent's thread wants it, too
print(handles.ask_all_held(), "lost")
"""
    bare, recorded = both(tmp_path, program)
    assert recorded == bare == End(0, "0 lost\n")


WAITS_FOR_SIGNALS = f"""
import ctypes, os, signal, threading, time
ctypes.CDLL(os.path.abspath("handler.so")).begin()  # a handler in C, which must not come to see what is waited for
signal.pthread_sigmask(signal.SIG_BLOCK, {{signal.SIGUSR2}})
time.sleep({RUNS_S})
caught = 0
ends = time.monotonic() + 1.5
while time.monotonic() < ends:
    os.kill(os.getpid(), signal.SIGUSR2)
    caught += signal.sigwait({{signal.SIGUSR2}}) == signal.SIGUSR2
    time.sleep(0.001)
print("all", caught > 100, ctypes.CDLL(os.path.abspath("handler.so")).answered())
"""


def test_a_signal_that_the_job_waits_for_is_the_jobs(tmp_path: Path) -> None:
    if (compiler := shutil.which("gcc")) is None:
        pytest.skip("no compiler")
    (tmp_path / "handler.c").write_text(HANDLER + "int answered(void) { return answers; }\n")
    subprocess.run([compiler, "-shared", "-fPIC", "handler.c", "-o", "handler.so"], cwd=tmp_path, check=True)
    bare, recorded = both(tmp_path, WAITS_FOR_SIGNALS)
    assert recorded == bare == End(0, "all True 0\n")


TORCH_STACKS = """
import os, signal, threading, time, torch
torch._C._set_print_stack_traces_on_fatal_signal(True)
for _ in range(3): threading.Thread(target=time.sleep, args=(60,), daemon=True).start()
time.sleep(2)
os.kill(os.getpid(), signal.SIGSEGV)
time.sleep(60)
"""


@pytest.mark.slow
def test_torch_prints_the_stacks_of_all_threads_at_a_fatal_signal(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    (tmp_path / "program.py").write_text(TORCH_STACKS)
    counts = []
    for words in ([PYTHON, "program.py"], record_command("-q", "--", PYTHON, "program.py")):
        done = subprocess.run(
            words, cwd=tmp_path, env=environment(), stderr=subprocess.PIPE, text=True, timeout=LIMIT_S, errors="replace"
        )
        assert done.returncode == -signal.SIGSEGV
        assert "signal lost" not in done.stderr
        counts.append(done.stderr.count("frame #0:"))
    assert counts[1] == counts[0] + 1  # ours


# ---- priorities

STEPS_BACK = f"""
import os, time
time.sleep({RUNS_S})
os.nice(7)
def of_all():
    return sorted(os.getpriority(os.PRIO_PROCESS, int(task)) for task in os.listdir("/proc/self/task"))
ends = time.monotonic() + 10
while set(of_all()) != {{os.nice(0)}} and time.monotonic() < ends: time.sleep(0.05)
print(set(of_all()) == {{os.nice(0)}})
"""


def test_our_thread_steps_back_with_the_job(tmp_path: Path) -> None:
    bare, recorded = both(tmp_path, STEPS_BACK)
    assert recorded == bare == End(0, "True\n")
