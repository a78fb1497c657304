"""What doctor says of this machine, of a user who may read little, and of machines made of files."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from leakscope import doctor
from leakscope.doctor import computer, kernel_log, kills, limits, processes, programs
from leakscope.recorder import proc
from leakscope.recorder.sources import cgroup_memory

pytestmark = pytest.mark.live

ROOT = Path(__file__).resolve().parents[1]
NOBODY = 65534


def states(group, root=""):
    return {check.name: check for check in group.checks(str(root))}


@pytest.fixture
def machine(tmp_path, monkeypatch):
    """Makes files of another machine; what is found by running programs is not there."""
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))

    def files(**texts):
        for path, text in texts.items():
            file = tmp_path / path.replace("__", "/")
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text)
        return tmp_path

    return files


def journalctl(root, output):
    program = root / "bin" / "journalctl"
    program.parent.mkdir(exist_ok=True)
    program.write_text(f"#!/bin/sh\n/bin/cat <<'END'\n{output}\nEND\n")
    program.chmod(0o755)


@pytest.mark.live
def test_this_machine(capfd):
    done = subprocess.run([sys.executable, "-m", "leakscope", "doctor"], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    for words in ("kills on the host", "/dev/kmsg", "the job's own", "recordings", f"python 3.{sys.version_info[1]}"):
        assert words in done.stdout
    assert " kinds of evidence can be had in full here" in done.stdout.splitlines()[0]


def test_it_fits_a_terminal_of_80_columns(monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    assert max(map(len, doctor.as_text(doctor.examine()).splitlines())) <= 80


def test_json_has_every_check():
    found = json.loads(doctor.as_json(doctor.examine()))
    assert found["schema"] == "leakscope.doctor/1"
    assert {check["state"] for check in found["checks"]} <= {"ok", "limited", "missing"}
    assert {"group", "name", "state", "text", "remedy"} == set(found["checks"][0])
    assert len(found["checks"]) > 20


@pytest.mark.live
@pytest.mark.skipif(os.geteuid() != 0 or not shutil.which("setpriv"), reason="takes root, to become somebody else")
def test_a_user_without_rights_is_told_what_is_missing(tmp_path):
    """The same machine. What root is not denied is no claim about what this user may."""
    as_nobody = ["setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups", "--inh-caps=-all"]
    command = [*as_nobody, sys.executable, "-m", "leakscope", "doctor", "--format", "json"]
    environ = {**os.environ, "PYTHONPATH": str(ROOT), "HOME": "/"}
    done = subprocess.run(command, cwd="/", env=environ, capture_output=True, text=True, check=False)
    if "Permission denied" in done.stderr or "No module named" in done.stderr:
        pytest.skip("nobody may not read this checkout or its interpreter")
    checks = {check["name"]: check for check in json.loads(done.stdout)["checks"]}
    assert done.returncode == 0
    assert checks["of other users"]["state"] != "ok"
    assert checks["the job's own"]["state"] == "ok"
    assert checks["recordings"]["state"] == "missing"
    if os.path.exists("/dev/kmsg") and proc.read_text("/proc/sys/kernel/dmesg_restrict") == "1":
        assert checks["/dev/kmsg"]["state"] == "missing"
        assert "root" in checks["/dev/kmsg"]["remedy"]


def test_a_kernel_log_that_is_not_there_is_no_proof_of_anything(machine):
    found = states(kernel_log, machine())
    assert [found[name].state for name in ("/dev/kmsg", "journalctl -k")] == ["missing", "missing"]
    assert found["table of processes"].state == "limited"


def test_either_log_is_enough(machine):
    root = machine(dev__kmsg="6,1,0,-;hello\n", proc__sys__vm__oom_dump_tasks="0\n")
    found = states(kernel_log, root)
    assert found["/dev/kmsg"].state == "ok"
    assert found["journalctl -k"] == ("journalctl -k", "missing", "there is no systemd journal here", None)
    assert found["table of processes"].remedy == "sudo sysctl vm.oom_dump_tasks=1"


@pytest.mark.parametrize(
    ("output", "state"),
    [
        ('{"_TRANSPORT":"kernel","MESSAGE":"hello"}', "ok"),
        ("-- No entries --", "missing"),
        ('{"_TRANSPORT":"syslog","MESSAGE":"hello"}', "missing"),
        ("", "missing"),
    ],
)
def test_a_journal_counts_by_what_it_shows(machine, output, state):
    root = machine()
    journalctl(root, output)
    assert states(kernel_log, root)["journalctl -k"].state == state


def test_counters_and_pressure(machine):
    some = "some avg10=0.00 avg60=0.00 avg300=0.00 total=0\nfull avg10=0.00 avg60=0.00 avg300=0.00 total=0\n"
    root = machine(proc__vmstat="pgfault 1\noom_kill 3\n", proc__pressure__memory=some)
    (root / "proc/sys/vm").mkdir(parents=True)
    (root / "proc/sys/vm/panic_on_oom").write_text("1\n")
    found = states(kills, root)
    assert found["kills on the host"].state == "ok"
    assert "3 since" in found["kills on the host"].text
    assert found["memory pressure"].state == "ok"
    assert found["after an OOM"].state == "limited"


def test_an_old_kernel_counts_nothing(machine):
    found = states(kills, machine(proc__vmstat="pgfault 1\n"))
    assert found["kills on the host"].state == found["memory pressure"].state == "missing"


@pytest.mark.parametrize(("top", "state"), [("/", "ok"), ("/docker/abc", "ok")])
def test_the_nearest_limit_and_what_cannot_be_seen(machine, monkeypatch, top, state):
    root = machine()
    monkeypatch.setattr(cgroup_memory, "find_mount", lambda: cgroup_memory.Mount(str(root), top, True))
    monkeypatch.setattr(proc, "cgroup", lambda pid: f"{top.rstrip('/')}/job")
    (root / "job").mkdir()
    (root / "job" / "memory.current").write_text("1\n")
    (root / "job" / "memory.max").write_text("8589934592\n")
    found = states(limits, root)
    assert found["memory cgroup"].state == "ok"
    assert "8.0 GiB" in found["its limit"].text
    assert ("cannot be seen" in found["its limit"].text) == (top != "/")
    (root / "job" / "memory.events").write_text("oom 0\noom_kill 2\n")
    assert "2 so far" in states(kills, root)["kills in the cgroup"].text


def test_a_cgroup_that_counts_nothing_says_what_to_do(machine, monkeypatch):
    root = machine()
    monkeypatch.setattr(cgroup_memory, "find_mount", lambda: cgroup_memory.Mount(str(root), "/", True))
    monkeypatch.setattr(proc, "cgroup", lambda pid: "/")
    assert "systemd-run" in states(limits, root)["memory cgroup"].remedy
    assert "systemd-run" in states(kills, root)["kills in the cgroup"].remedy


def test_memory_that_is_refused_instead_of_killed_for(machine):
    meminfo = "SwapTotal: 2097152 kB\nCommitLimit: 1048576 kB\nCommitted_AS: 524288 kB\n"
    found = states(limits, machine(proc__sys__vm__overcommit_memory="2\n", proc__meminfo=meminfo))
    assert found["overcommit"].state == "limited"
    assert "1.0 GiB are promised (512 MiB are)" in found["overcommit"].text
    assert "2.0 GiB" in found["swap"].text


def test_shared_memory_of_a_container():
    assert limits._shared_memory(least_bytes=1 << 60).state == "limited"
    assert limits._shared_memory("/nowhere").state == "missing"


def test_who_is_hidden(machine):
    """CapEff of 0, /proc mounted so that others are invisible, a container, and a debugger that nobody may use."""
    root = machine(
        proc__mounts="proc /proc proc rw,nosuid,hidepid=invisible 0 0\n",
        proc__self__status="CapEff:\t0000000000000000\n",
        proc__sys__kernel__yama__ptrace_scope="1\n",
    )
    (root / "proc/self/ns").mkdir()
    (root / "proc/self/ns/pid").symlink_to("pid:[4026532201]")
    found = states(processes, root)
    assert found["of other users"].state == "missing"
    assert found["debuggers"].state == "limited"
    assert found["pid namespace"].state == "limited"
    (root / "proc/self/status").write_text("CapEff:\t000001ffffffffff\n")
    assert states(processes, root)["of other users"].state == "ok"


@pytest.mark.parametrize(
    ("answer", "state"),
    [
        ("3 11 1 1 0 cpython /x/python", "ok"),
        ("3 7 1 1 0 cpython /x/python", "limited"),
        ("3 13 0 1 0 cpython /x/python", "limited"),
        ("3 11 1 0 0 cpython /x/python", "limited"),
        ("3 11 1 1 1 cpython /x/python", "limited"),
        ("3 9 1 1 0 pypy /x/python", "limited"),
        ("", "missing"),
    ],
    ids=["usual", "old", "free-threaded", "isolated", "traced", "pypy", "broken"],
)
def test_interpreters_are_asked(machine, answer, state):
    root = machine(bin__python=f"#!/bin/sh\necho {answer}\n")
    (root / "bin" / "python").chmod(0o755)
    checks = [check for check in programs.checks(str(root)) if check.name.startswith("python")]
    assert [check.state for check in checks] == ["ok", state]


def test_a_gpu_without_its_driver(machine):
    if states(programs)["GPU"].state == "ok":
        pytest.skip("this machine has one that works")
    assert states(programs, machine())["GPU"].state == "missing"
    assert "NVIDIA_DRIVER_CAPABILITIES" in states(programs, machine(dev__nvidia0=""))["GPU"].remedy


def test_a_recording_in_memory_or_on_a_full_disk_is_warned_of(machine, tmp_path):
    root = machine(proc__mounts=f"/dev/sda / ext4 rw 0 0\ntmpfs {str(tmp_path)[:5]} tmpfs rw 0 0\n")
    (root / "proc/mounts").write_text(f"/dev/sda / ext4 rw 0 0\ntmpfs {tmp_path} tmpfs rw 0 0\n")
    (tmp_path / "runs").mkdir()
    assert computer._folder(str(root), str(tmp_path / "runs")).state == "limited"
    assert computer._folder(str(root), "/usr", least_bytes=0).state in ("ok", "missing")
    assert computer._folder(str(root), "/", least_bytes=1 << 60).state in ("limited", "missing")


def test_one_group_that_fails_leaves_the_others(monkeypatch):
    def fails(root):
        raise FileNotFoundError(2, "No usable temporary directory found")
        yield

    monkeypatch.setattr(programs, "checks", fails)
    groups = {group.title: group.checks for group in doctor.examine()}
    assert "No usable temporary directory" in groups[programs.TITLE][0].text
    assert len(groups) == 6
