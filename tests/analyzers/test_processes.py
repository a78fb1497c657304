"""The table of processes, compile workers, and children that pile up: by counts, PSS and private memory, not RSS."""

from __future__ import annotations

import pytest

from leakscope import analyze
from leakscope.facts.case import Case
from tests.builders import RecordingBuilder

from .asking import asked

MiB = 1024**2
COUNT = 80
PID = 100
SIDECAR = "python /site-packages/torch/_inductor/compile_worker/__main__.py --workers=4"


def recorded(tmp_path, rss=None, **columns):
    """A trainer sampled for 20 s; its own memory is flat unless ``rss`` says otherwise."""
    builder = RecordingBuilder(tmp_path).process(PID)
    return builder.samples(PID, rss or [500 * MiB] * COUNT, every_s=0.25, **columns)


def with_children(builder, births, life_s, command="convert page.pdf", role="other", each=4 * MiB):
    for number, born_s in enumerate(births):
        died_s = born_s + life_s if born_s + life_s < 20.0 else None
        columns = {"comm": command.split()[0], "cmdline": command}
        builder.process(200 + number, role, ppid=PID, born_s=born_s, died_s=died_s, **columns)
        samples = max(2, int((min(20.0, born_s + life_s) - born_s) / 0.25))
        builder.samples(200 + number, [each] * samples, every_s=0.25, from_s=born_s)
    return builder


def looked(builder, kind):
    report = asked(builder.open(), only=[kind])
    return report.findings, report.ruled_out


def test_children_that_never_end_are_found_with_their_command_and_cost(tmp_path):
    builder = with_children(recorded(tmp_path), [0.5 * n for n in range(38)], life_s=99)
    (finding,), _ = looked(builder, "process-pileup")
    assert "convert" in finding.title
    assert finding.evidence[0].figures["last_count"] == 38
    assert finding.bytes > 60 * MiB
    assert finding.severity == "critical"


def test_the_line_that_starts_them_is_named(tmp_path):
    text = "import subprocess\ndef work(page):\n    subprocess.run(['ls'])\n    subprocess.Popen(['convert', page])\n"
    builder = with_children(recorded(tmp_path), [0.5 * n for n in range(38)], life_s=99)
    (finding,), _ = looked(builder.source(PID, "/home/me/scan.py", text), "process-pileup")
    assert (finding.subject.file, finding.subject.line) == ("/home/me/scan.py", 4)


def test_what_keeps_them_is_named_by_the_source(tmp_path):
    body = "    def start(self):\n        self.process = Popen('convert')\n"
    text = f"from subprocess import Popen\nclass Helper:\n{body}"
    builder = with_children(recorded(tmp_path), [0.5 * n for n in range(38)], life_s=99)
    (finding,), _ = looked(builder.source(PID, "/home/me/scan.py", text), "process-pileup")
    assert finding.subject.variable == "process" and "each Helper.process" in finding.subject.holder
    assert "not observed" in finding.doubts[0]


def test_workers_of_loaders_that_are_kept_are_ended_with_the_loader(tmp_path):
    builder = with_children(recorded(tmp_path), [0.5 * n for n in range(38)], life_s=99, role="dataloader-worker")
    (finding,), _ = looked(builder, "process-pileup")
    assert "DataLoader" in finding.remedy[0]


@pytest.mark.cases(1)
@pytest.mark.parametrize(
    ("births", "life_s"),
    [
        ([0.25 * n for n in range(78)], 0.5),  # one a step, each ends
        ([2.0 + 0.01 * n for n in range(16)], 99),  # a pool that stays
        ([4.0 * epoch + 0.1 * n for epoch in range(5) for n in range(8)], 3.5),  # loader workers anew each epoch
    ],
    ids=["each-step", "pool", "each-epoch"],
)
def test_innocent_children_are_ruled_out(tmp_path, births, life_s):
    findings, (ruled_out,) = looked(with_children(recorded(tmp_path), births, life_s), "process-pileup")
    assert not findings
    assert ruled_out.figures["process_count"] == len(births) + 1


def test_ended_children_nobody_waits_for_are_found(tmp_path):
    builder = recorded(tmp_path)
    for look in range(1, 10):
        builder.row("unreaped", 2.0 * look, PID, zombie_count=5 * look, zombie_comm="convert")
    (finding,), _ = looked(builder, "process-pileup")
    assert "never waited for" in finding.title
    assert finding.bytes == 0


def with_compile_workers(builder, cpu=0.0, each=60 * MiB, rss=300 * MiB):
    builder.process(300, "compile-sidecar", ppid=PID, born_s=2.0, cmdline=SIDECAR)
    for pid in range(300, 305):
        if pid > 300:
            builder.process(pid, "compile-worker", ppid=300, born_s=2.0, cmdline=SIDECAR)
        shares = {"pss_bytes": each, "pss_anon_bytes": each, "uss_bytes": 4 * MiB}
        used = [1.0 + cpu * n * 0.25 for n in range(72)]
        builder.samples(pid, [rss] * 72, every_s=0.25, from_s=2.0, cpu_s=used, **shares)
    return builder


def test_idle_compile_workers_are_waste_by_their_pss(tmp_path):
    (finding,), _ = looked(with_compile_workers(recorded(tmp_path)), "compile-workers")
    assert finding.wasted
    assert finding.bytes == pytest.approx(5 * 60 * MiB, rel=0.05)
    assert "TORCHINDUCTOR_COMPILE_THREADS" in finding.remedy[0]
    assert any("5.0x" in evidence.text for evidence in finding.evidence)


def test_the_work_of_ending_itself_makes_no_worker_busy(tmp_path):
    builder = with_compile_workers(recorded(tmp_path))
    builder.samples(300, [300 * MiB] * 2, every_s=0.25, from_s=19.5, cpu_s=[1.5, 2.0])
    (finding,), _ = looked(builder, "compile-workers")
    assert finding.wasted


@pytest.mark.parametrize("changes", [{"cpu": 0.9}, {"each": 4 * MiB}], ids=["working", "cheap"])
def test_compile_workers_at_work_or_cheap_are_ruled_out(tmp_path, changes):
    findings, (ruled_out,) = looked(with_compile_workers(recorded(tmp_path), **changes), "compile-workers")
    assert not findings
    assert ruled_out.figures["worker_count"] == 5


def test_forked_workers_that_keep_the_trainers_old_pages(tmp_path):
    """The trainer rewrites 300 MiB that it shares with two workers: its own copy is new, theirs is the old one."""
    share = [0.4 + 0.6 * n / COUNT for n in range(COUNT)]
    pss = [int(600 * MiB * s) for s in share]
    builder = recorded(tmp_path, rss=[600 * MiB] * COUNT, pss_bytes=pss, pss_anon_bytes=pss)
    for pid in (301, 302):
        builder.process(pid, "python-fork", ppid=PID, born_s=0.25)
        half = [int(200 * MiB * s) for s in share]
        builder.samples(pid, [500 * MiB] * COUNT, every_s=0.25, pss_bytes=half, pss_anon_bytes=half, uss_bytes=4 * MiB)
    builder.row("compile_counters", 3.0, PID, unique_graph_count=1, compile_worker_pids="301,302")
    (finding,), _ = looked(builder, "compile-workers")
    assert any("that they shared with the trainer before" in evidence.text for evidence in finding.evidence)
    assert finding.bytes > 200 * MiB
    assert finding.subject.variable == "AsyncCompile"


@pytest.mark.parametrize("noticed", [0, 2], ids=["at once", "half a second later"])
def test_workers_that_the_job_ends_before_itself_are_measured_while_they_lived(tmp_path, noticed):
    """Once its forks are gone the sidecar alone counts all that they shared."""
    builder = recorded(tmp_path).process(300, "compile-sidecar", ppid=PID, born_s=2.0, cmdline=SIDECAR)
    for pid in range(300, 305):
        if pid > 300:
            builder.process(pid, "compile-worker", ppid=300, born_s=2.0, died_s=18.5, cmdline=SIDECAR)
        pss = [60 * MiB] * (66 - noticed) + ([250 * MiB] * (6 + noticed) if pid == 300 else [])
        columns = {"pss_bytes": pss, "pss_anon_bytes": pss, "uss_bytes": 4 * MiB, "cpu_s": 1.0}
        builder.samples(pid, [300 * MiB] * len(pss), every_s=0.25, from_s=2.0, **columns)
    (finding,), _ = looked(builder, "compile-workers")
    assert finding.evidence[0].figures["worker_count"] == 5
    assert finding.bytes == pytest.approx(5 * 60 * MiB, rel=0.05)


def test_workers_that_ended_once_all_was_compiled_cost_nothing_more(tmp_path):
    builder = recorded(tmp_path)
    for pid in (301, 302):
        builder.process(pid, "compile-worker", ppid=PID, born_s=2.0, died_s=12.0, cmdline=SIDECAR)
        builder.samples(pid, [300 * MiB] * 40, every_s=0.25, from_s=2.0, cpu_s=1.0)
    findings, (ruled_out,) = looked(builder, "compile-workers")
    assert not findings
    assert ruled_out.figures == {"worker_count": 2}


def test_without_compile_workers_it_says_so(tmp_path):
    _, (ruled_out,) = looked(recorded(tmp_path), "compile-workers")
    assert ruled_out.reason == "no compile worker was ever alive"


def test_the_report_lists_processes_by_role(tmp_path):
    builder = with_compile_workers(recorded(tmp_path))
    rows = {row.role: row for row in analyze(builder.open()).processes}
    workers = rows["compile-worker"]
    assert (workers.count, workers.most_at_once) == (4, 4)
    assert workers.rss_bytes == 5 * workers.pss_bytes
    assert workers.busy_share < 0.1
    assert rows["trainer"].pss_bytes == 500 * MiB


def test_workers_are_called_by_who_forked_them(tmp_path):
    builder = recorded(tmp_path)
    for pid, forker in ((601, "datasets"), (602, "a pool"), (603, "the program")):
        builder.process(pid, ppid=PID, role="python-fork", cmdline="python train.py", comm="python")
        builder.samples(pid, rss=[4 * MiB] * 40)
        builder.row("agent_notes", 1.0, pid, note="forked", text=f"forked by {forker}: it takes no inventory")
    roles = {row.role for row in analyze(builder.open()).processes}
    assert {"datasets-worker", "pool-worker", "python-fork"} <= roles


def test_a_process_that_came_after_the_last_sample_has_lived_as_long_as_it_did(tmp_path):
    builder = recorded(tmp_path)  # samples end at 20 s
    builder.process(300, "compile-worker", ppid=PID, born_s=24.0, died_s=26.0)
    report = analyze(builder.ends(30.0).open())
    assert {row.role: row.lifetime_s for row in report.processes}["compile-worker"] == 2.0


def test_no_process_lived_less_than_nothing(tmp_path):
    """Ranks that left a snapshot each: nothing was sampled, and the last was born when the others were long seen."""
    builder = RecordingBuilder(tmp_path)
    for rank in range(3):
        builder.process(10 + rank, ppid=1, cmdline=f"python rank{rank}.py", born_s=1200.0 * rank, rank=rank)
    rows = analyze(builder.open()).processes
    assert len(rows) == 3
    assert all(row.lifetime_s >= 0 and row.last_s >= row.first_s for row in rows)


def test_what_multiprocessing_starts_afresh_is_called_as_who_started_it(tmp_path):
    """A fork of a spawned child, too; of what a user gives to ``python -c`` nobody else's name is told."""
    spawned = (
        "python -c 'from multiprocessing.spawn import spawn_main; spawn_main(tracker_fd=5)' --multiprocessing-fork"
    )
    builder = recorded(tmp_path)
    for pid, ppid, command in ((201, PID, spawned), (202, 201, spawned), (203, PID, "python -c 'import job'")):
        builder.process(pid, "python-spawn", ppid=ppid, cmdline=command)
        builder.samples(pid, [50 * MiB] * COUNT, every_s=0.25)
    rows = analyze(builder.open()).processes
    assert {(row.process, row.role, row.count) for row in rows} == {
        ("train.py", "trainer", 1),
        ("train.py", "python-spawn", 2),
        ("python -c", "python-spawn", 1),
    }


def test_a_process_is_called_by_its_whole_title_and_one_of_several_of_a_command_by_what_it_does(tmp_path):
    """The kernel keeps 15 characters of a name."""
    env = "/env/bin/python3 /env/bin/"
    builder = RecordingBuilder(tmp_path).process(PID, comm="app", cmdline=f"{env}app standalone")
    for pid, comm, cmdline in (
        (201, "app", f"{env}app scheduler --verbose"),
        (202, "app api_server ", "'app api_server -- host:0.0.0.0'"),
        (203, "ENGINE::EngineC", "ENGINE::EngineCore"),
        (204, "python", "python -m work api grpc"),
        (205, "python", "python -m work serve"),
        (206, "once", f"{env}once run"),
    ):
        builder.process(pid, "python", ppid=PID, comm=comm, cmdline=cmdline).samples(pid, [9 * MiB] * 20)
    table = Case(builder.samples(PID, [50 * MiB] * 20).open()).processes
    assert {process.pid: process.name for process in table} == {
        PID: "app standalone", 201: "app scheduler", 202: "app api_server", 203: "ENGINE::EngineCore",
        204: "work api", 205: "work serve", 206: "once",
    }  # fmt: skip
