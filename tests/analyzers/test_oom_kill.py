"""Who was killed for lack of memory, how sure that is, and who was not."""

from __future__ import annotations

import signal
from pathlib import Path
from typing import Any

import pytest

from leakscope import analyze
from leakscope.analyzers import kinds, oom_kill
from leakscope.facts.case import Case
from leakscope.findings import Finding, Report, Subject
from tests.builders import START_MONO_NS, RecordingBuilder

MiB = 1024**2
GiB = 1024**3
PID, WORKER = 4242, 4300
END_S = 20.0
LIMIT = 900 * MiB


def job(folder: Path, *, step: int = 40 * MiB, exit_signal: int | None = 9, **process: Any) -> RecordingBuilder:
    """train.py in the cgroup /job, 100 MiB and ``step`` more each second, ended at 20 s."""
    builder = RecordingBuilder(folder).process(PID, cmdline="python train.py", **process)
    builder.samples(PID, [100 * MiB + step * s for s in range(20)], virtual_bytes=[GiB + step * s for s in range(20)])
    return builder.ends(END_S, signal=exit_signal) if exit_signal else builder.ends(END_S)


def counted(builder: RecordingBuilder, *, host: int, own: int | None, oom: int | None = None) -> RecordingBuilder:
    """Counters of the machine and of /job, which rose by so much at the end."""
    flat = [0] * 20
    builder.host([50 * GiB] * 21, 100 * GiB, oom_kill_count=[7 + f for f in [*flat, host]])
    if own is None:
        return builder
    used = [100 * MiB + 40 * MiB * s for s in range(20)] + [10 * MiB]
    hits = {} if oom is None else {"oom_count": [0] * 20 + [oom]}
    return builder.cgroup(used, LIMIT, oom_kill_count=[0] * 20 + [own], cgroup_file_bytes=0, **hits)


def logged(builder: RecordingBuilder, *lines: str, at_s: float = END_S, source: str = "kmsg") -> RecordingBuilder:
    for i, text in enumerate(lines):
        kernel_time_s = START_MONO_NS / 1e9 + at_s + i * 1e-6
        builder.row("kernel_log", at_s + i * 1e-6, log_source=source, kernel_time_s=kernel_time_s, text=text)
    return builder


def kill_lines(
    pid: int = PID,
    comm: str = "python",
    cgroup: str = "/job",
    limit: str = "/job",
    vm_mib: int = 1784,
    anon_mib: int = 860,
) -> tuple[str, str]:
    return (
        f"oom-kill:constraint=CONSTRAINT_MEMCG,nodemask=(null),cpuset=/,mems_allowed=0,oom_memcg={limit},"
        f"task_memcg={cgroup},task={comm},pid={pid},uid=0",
        f"Memory cgroup out of memory: Killed process {pid} ({comm}) total-vm:{vm_mib * 1024}kB, "
        f"anon-rss:{anon_mib * 1024}kB, file-rss:4096kB, shmem-rss:0kB, UID:0 pgtables:556kB oom_score_adj:0",
    )


def answer(builder: RecordingBuilder, *, whole: bool = False) -> Report:
    """The report on this kind alone, which is quicker, or the ``whole`` one."""
    return analyze(builder.open(), None if whole else ["oom-kill"])


def found(report: Report) -> Finding:
    (finding,) = [f for f in report.findings if f.kind == "oom-kill"]
    return finding


def other_answer(report: Report) -> str:
    assert "oom-kill" not in [f.kind for f in report.findings]
    assert report.verdict.killed is False
    (text,) = [r.reason for r in (*report.ruled_out, *report.skipped) if r.kind == "oom-kill"]
    return text


def test_a_line_of_the_log_that_fits_is_certain(tmp_path: Path) -> None:
    report = answer(logged(counted(job(tmp_path), host=1, own=1), *kill_lines()), whole=True)
    kill = found(report)
    assert kill.confidence >= 0.99
    assert kill.severity == "critical"
    assert kill.bytes == 860 * MiB
    assert "train.py[4242] at the cgroup limit 900 MiB" in kill.title
    assert report.findings[0] is kill
    assert report.verdict.killed
    assert report.verdict.headline.startswith(kill.title)
    assert report.recording.ended == "oom-killed"


def test_the_culprit_of_the_other_analyzers_is_named(tmp_path: Path) -> None:
    builder = logged(counted(job(tmp_path), host=1, own=1), *kill_lines())
    for number, at_s in enumerate((4.0, 10.0, 16.0), 1):
        size = round(80 * MiB + 40 * MiB * at_s)
        path = "main() trainer.history"
        attribute = {"variable": "history", "owner": "Trainer", "owner_module": "__main__", "edge_kind": "attribute"}
        holders = [
            {"path": path, "is_user": True, "root_kind": "frame", "deep_bytes": size, "type_name": "list",
             "object_count": 1, "length": at_s * 100, **attribute},
            {"path": f"{path}[*]", "parent_path": path, "root_kind": "frame", "deep_bytes": size, "edge_kind": "item",
             "type_name": "bytes", "object_count": at_s * 100},
        ]  # fmt: skip
        builder.take(PID, number, at_s, holders=holders, rss_bytes=100 * MiB + round(40 * MiB * at_s), step=number)
    builder.sentinels(PID, step=list(range(0, 400, 20)))
    report = answer(builder, whole=True)
    kill = found(report)
    assert "Trainer.history grew" in kill.title
    assert kill.title.endswith("; without it 67.5 MiB would have been enough")  # 900 less 80 and 18.8 s of 40
    assert kill.evidence[0].text.startswith("main() trainer.history held")  # the title has who killed it already
    assert "(step 380)" in kill.title
    assert (kill.subject.variable, kill.subject.pid) == ("history", PID)
    (holder,) = [f for f in report.findings if f.kind == "retained-objects"]
    assert kill.mechanism == holder.mechanism  # whose advice it gives


def test_what_was_held_most_is_not_said_to_grow(tmp_path: Path) -> None:
    """Killed after two seconds: no trend, one inventory."""
    builder = RecordingBuilder(tmp_path).process(PID, cmdline="python train.py")
    builder.samples(PID, [800 * MiB, 850 * MiB]).ends(2.0, signal=9)
    counted(builder, host=1, own=1)
    holder = {"path": "rows", "root_kind": "module", "deep_bytes": 700 * MiB, "type_name": "list", "object_count": 1,
              "variable": "rows", "owner": "train", "edge_kind": "global", "is_user": True}  # fmt: skip
    builder.take(PID, 1, 1.0, holders=[holder], rss_bytes=800 * MiB)
    report = answer(builder)
    kill = found(report)
    assert "too short" in report.verdict.headline, "and not that what was killed is gone"
    assert "train.rows held most: 700 MiB" in kill.title
    assert "grew" not in kill.title and "enough" not in kill.title  # it may need what it has
    assert kill.subject.variable == "rows"
    assert report.verdict.leaking is None


def test_what_was_filling_up_when_it_died_early_is_told_before_what_merely_lay_there(tmp_path: Path) -> None:
    builder = RecordingBuilder(tmp_path).process(PID, cmdline="python train.py")
    builder.samples(PID, [500 * MiB, 600 * MiB, 700 * MiB, 800 * MiB]).ends(4.0, signal=9)
    counted(builder, host=1, own=1)
    rows = {"root_kind": "module", "is_user": True, "edge_kind": "global", "owner": "train", "type_name": "list"}
    for number, size in enumerate((100 * MiB, 300 * MiB), 1):
        holders = [
            {"path": "table", "variable": "table", "deep_bytes": 400 * MiB, "object_count": 1, **rows},
            {"path": "seen", "variable": "seen", "deep_bytes": size, "object_count": 1, "length": size // MiB, **rows},
            {"path": "seen[*]", "parent_path": "seen", "root_kind": "module", "deep_bytes": size, "type_name": "bytes",
             "edge_kind": "item", "object_count": size // MiB},
        ]  # fmt: skip
        builder.take(PID, number, float(number), holders=holders, rss_bytes=400 * MiB + size)
    report = answer(builder)
    kill = found(report)
    assert "train.seen grew from 100 MiB to 300 MiB in 1.0 s" in kill.title
    assert kill.subject.variable == "seen"
    assert report.verdict.leaking is None


def test_the_counter_of_its_cgroup_is_enough_without_a_log(tmp_path: Path) -> None:
    kill = found(answer(counted(job(tmp_path), host=1, own=1, oom=1)))
    assert 0.8 < kill.confidence < 0.99
    assert "at the cgroup limit 900 MiB" in kill.title
    assert any("log was not readable" in doubt for doubt in kill.doubts)
    assert any("journalctl -k" in remedy for remedy in kill.remedy)


def test_a_kill_by_another_limit_than_its_own_is_not_put_down_to_its_own(tmp_path: Path) -> None:
    kill = found(answer(counted(job(tmp_path), host=1, own=1, oom=0)))
    assert "900 MiB" not in kill.title
    assert any("its own limit was not reached" in evidence.text for evidence in kill.evidence)


def test_in_a_container_the_pid_is_another_and_name_and_size_tell(tmp_path: Path) -> None:
    lines = kill_lines(pid=900_001, cgroup="/docker/0123abcd", limit="/docker/0123abcd")
    kill = found(answer(logged(job(tmp_path, cgroup="/"), *lines)))
    assert 0.5 < kill.confidence < 0.9
    assert "train.py[4242]" in kill.title


def elsewhere(vm_mib: int, anon_mib: int) -> tuple[str, str]:
    """A kill as the kernel tells it of a container: pid and cgroup are not those that the recorder saw."""
    cgroup = "/docker/0123abcd"
    return kill_lines(900_001, cgroup=cgroup, limit=cgroup, vm_mib=vm_mib, anon_mib=anon_mib)


@pytest.mark.parametrize(
    ("sizes", "is_sure"),
    [
        ((1800, 950), True),  # it grew on between the last look and the kill
        ((1784, 1400), False),
        ((2500, 860), False),
    ],
)
def test_in_a_container_another_size_leaves_a_possibility(
    tmp_path: Path, sizes: tuple[int, int], is_sure: bool
) -> None:
    report = answer(logged(job(tmp_path, cgroup="/"), *elsewhere(*sizes)))
    assert (found(report).confidence > 0.5) is is_sure
    assert report.verdict.killed is is_sure


@pytest.mark.parametrize("sizes", [(1784, 200), (600, 860)])
def test_in_a_container_one_of_the_same_name_and_far_smaller_is_another(tmp_path: Path, sizes: tuple[int, int]) -> None:
    other_answer(answer(logged(job(tmp_path, cgroup="/"), *elsewhere(*sizes))))


def test_the_clock_of_a_log_that_nobody_followed_may_be_off_by_what_it_drifts(tmp_path: Path) -> None:
    """By 25 s at most, 14 hours after the machine started."""
    kill = found(answer(logged(job(tmp_path), *kill_lines(), at_s=END_S + 15.0, source="journal")))
    assert kill.confidence >= 0.99


def test_a_pid_that_is_the_same_by_chance_is_not_believed(tmp_path: Path) -> None:
    lines = kill_lines(comm="java", cgroup="/elsewhere", limit="/elsewhere", vm_mib=9000, anon_mib=8000)
    text = other_answer(answer(logged(counted(job(tmp_path), host=1, own=0), *lines)))
    assert "stayed at 0" in text


def test_what_filled_the_limit_is_named_though_the_kernel_chose_another_process(tmp_path: Path) -> None:
    """Two workers grow, and the parent of the same size, which did not, is the victim."""
    builder = RecordingBuilder(tmp_path).process(PID, cmdline="python train.py").samples(PID, [300 * MiB] * 20)
    for worker in (WORKER, WORKER + 1):
        builder.process(worker, role="dataloader-worker", comm="pt_data_worker", ppid=PID)
        builder.samples(worker, [100 * MiB + 12 * MiB * s for s in range(20)])
    builder = logged(counted(builder.ends(END_S, signal=9), host=1, own=1), *kill_lines(anon_mib=300))
    case = Case(builder.open())
    subject = Subject(
        pid=WORKER, role="dataloader-worker", holder="Scans.cache (dict)", file="/home/me/train.py", line=9
    )
    each = {"severity": "critical", "confidence": 0.9, "subject": subject, "bytes_per_hour": 24.0 * MiB * 3600}
    workers = Finding(
        "dataloader-workers", "Each keeps more", bytes=456 * MiB, means=kinds()["dataloader-workers"], **each
    )
    (kill,) = oom_kill.findings(case, so_far=[workers])
    assert isinstance(kill, Finding) and f"killed train.py[{PID}]" in kill.title
    assert (kill.subject.holder, kill.subject.line) == ("Scans.cache (dict)", 9)
    assert "Scans.cache grew" in kill.title and "without it 444 MiB would have been enough" in kill.title


def test_a_worker_that_was_killed_though_the_job_exited_in_order(tmp_path: Path) -> None:
    builder = job(tmp_path, step=0, exit_signal=None)
    builder.process(WORKER, role="dataloader-worker", comm="pt_data_worker", died_s=10.0, exit_signal=9)
    builder.samples(WORKER, [500 * MiB] * 10)
    logged(counted(builder, host=1, own=1), *kill_lines(WORKER, "pt_data_worker", anon_mib=500), at_s=9.9)
    report = answer(builder)
    assert f"[{WORKER}]" in found(report).title
    assert report.verdict.killed
    assert report.recording.ended == "exit"


def test_what_fell_as_a_worker_was_killed_was_not_given_back(tmp_path):
    def of(folder: Path, *, is_killed: bool) -> Report:
        folder.mkdir()
        builder = job(folder, step=0, exit_signal=None)
        for number, born_s in enumerate((0.0, 5.0, 10.0, 15.0)):  # each is made anew when the last is gone
            pid, died_s = WORKER + number, born_s + 4.9
            how = {"exit_signal": 9} if is_killed else {"exit_code": 0}
            builder.process(pid, role="python-spawn", born_s=born_s, died_s=died_s, **how)
            builder.samples(pid, [(100 + 180 * n) * MiB for n in range(5)], from_s=born_s)
            if is_killed:
                logged(builder, *kill_lines(pid, anon_mib=820), at_s=died_s)
        return analyze(counted(builder, host=4 * is_killed, own=4 * is_killed).open())

    verdict = of(tmp_path / "killed", is_killed=True).verdict
    assert verdict.leaking is None and "killed 3 processes" in verdict.headline
    ended = of(tmp_path / "ended", is_killed=False).verdict  # 40 MiB below its limit
    assert ended.leaking is None and "would have filled cgroup /job" in ended.headline


def nearly_all_libraries(builder: RecordingBuilder, pid: int, *, gained: int) -> RecordingBuilder:
    """Snapshots of 600 MiB, of which 200 came by the second; between the last two ``gained`` of 30 MiB are a list's."""
    for number, (at_s, rss, size) in enumerate(((2.0, 400, 0), (6.0, 600, 0), (16.0, 630, gained)), 1):
        rows = {"path": "rows", "root_kind": "module", "deep_bytes": size * MiB, "type_name": "list", "object_count": 1,
                "variable": "rows", "owner": "train", "edge_kind": "global", "is_user": True}  # fmt: skip
        builder.take(pid, number, at_s, holders=[rows], rss_bytes=rss * MiB)
    return builder


@pytest.mark.parametrize(("gained", "is_named"), [(20, True), (2, False)])
def test_what_filled_the_rest_is_named_however_much_libraries_hold(tmp_path: Path, gained: int, is_named: bool) -> None:
    """In a small container most is libraries, and most of what came since the start is their imports."""
    builder = logged(counted(job(tmp_path), host=1, own=1), *kill_lines())
    kill = found(answer(nearly_all_libraries(builder, PID, gained=gained)))
    assert ("train.rows grew from 0 B to 20.0 MiB" in kill.title) is is_named
    assert kill.subject.variable == ("rows" if is_named else None)


def test_a_worker_that_filled_up_is_named_where_another_process_was_killed(tmp_path: Path) -> None:
    builder = job(tmp_path)
    builder.process(WORKER, role="dataloader-worker", comm="pt_data_worker", died_s=END_S)
    builder.samples(WORKER, [500 * MiB] * 20)
    logged(counted(builder, host=1, own=1), *kill_lines())
    kill = found(answer(nearly_all_libraries(builder, WORKER, gained=20)))
    assert "train.rows grew from 0 B to 20.0 MiB" in kill.title and f"[{WORKER}]" in kill.title
    assert kill.subject.pid == WORKER


def test_nothing_is_called_stable_if_what_would_not_show_fills_the_limit(tmp_path: Path) -> None:
    """Memory that moves by 100 MiB says nothing of a leak of some MiB; 30 MiB below the limit that matters at once."""

    def verdict(folder: Path, limit: int) -> bool | None:
        folder.mkdir()
        held = [(500 + 100 * (s % 2)) * MiB for s in range(80)]
        builder = RecordingBuilder(folder).process(PID, cmdline="python train.py").samples(PID, held)
        builder.host([50 * GiB] * 80, 100 * GiB).cgroup(held, limit, cgroup_file_bytes=0)
        return analyze(builder.open()).verdict.leaking

    assert verdict(tmp_path / "wide", 8 * GiB) is False
    assert verdict(tmp_path / "tight", 602 * MiB) is None


def test_who_was_killed_is_not_who_held_most(tmp_path: Path) -> None:
    builder = job(tmp_path, exit_signal=None)
    builder.process(WORKER, role="other", cmdline="/bin/pause", comm="pause", died_s=19.5, exit_signal=9)
    builder.samples(WORKER, [MiB] * 19)
    kill = found(answer(logged(builder, *kill_lines(WORKER, "pause", vm_mib=1, anon_mib=1), at_s=19.4)))
    assert "pause[4300]" in kill.title
    assert "train.py[4242] held most" in kill.title
    assert kill.subject.pid == PID


def test_a_kill_whose_victim_nobody_saw_end(tmp_path: Path) -> None:
    """Before Linux 6.15 the status of a worker that its parent reaped is not known."""
    builder = job(tmp_path, step=0, exit_signal=None).process(WORKER, role="python-fork", died_s=10.0)
    kill = found(answer(counted(builder.samples(WORKER, [500 * MiB] * 10), host=1, own=1)))
    assert f"[{WORKER}]" in kill.title
    assert kill.confidence < 0.9


def test_a_kill_in_its_cgroup_of_nobody_that_was_seen_is_less_sure(tmp_path: Path) -> None:
    kill = found(answer(counted(job(tmp_path, exit_signal=None), host=1, own=1)))
    assert 0.5 < kill.confidence < 0.8
    assert any("may not belong to the job" in doubt for doubt in kill.doubts)


def test_several_victims_are_one_finding(tmp_path: Path) -> None:
    builder = job(tmp_path, step=0, exit_signal=None)
    for pid in (4301, 4302):
        builder.process(pid, role="python-fork", died_s=10.0, exit_signal=9).samples(pid, [300 * MiB] * 10)
    kill = found(answer(counted(builder, host=2, own=2)))
    assert "and 1 more process of the job" in kill.title


@pytest.mark.parametrize("own", [0, None])
def test_sigkill_and_counters_that_stood_still(tmp_path: Path, own: int | None) -> None:
    report = answer(counted(job(tmp_path), host=0, own=own))
    text = other_answer(report)
    assert "ended by SIGKILL, but not by the kernel" in text
    assert report.recording.ended == "signal"


def test_sigkill_while_somebody_else_was_killed_on_the_machine(tmp_path: Path) -> None:
    lines = kill_lines(pid=77, comm="java", cgroup="/elsewhere", limit="/elsewhere", vm_mib=9000, anon_mib=8000)
    other_answer(answer(logged(counted(job(tmp_path), host=1, own=None), *lines)))


def test_sigkill_and_a_kill_on_the_machine_that_no_log_explains_is_a_possibility(tmp_path: Path) -> None:
    report = answer(counted(job(tmp_path), host=1, own=None))
    kill = found(report)
    assert kill.confidence < 0.5
    assert "may have killed" in kill.title
    assert report.verdict.killed is False
    assert report.recording.ended == "signal"


def test_sigkill_alone_proves_nothing(tmp_path: Path) -> None:
    assert "who sent it is not known" in other_answer(answer(job(tmp_path)))


@pytest.mark.parametrize("exit_signal", [None, signal.SIGSEGV, signal.SIGTERM, signal.SIGABRT])
def test_another_end_is_none_even_while_the_kernel_kills_others(tmp_path: Path, exit_signal: int | None) -> None:
    assert "none of the job" in other_answer(answer(counted(job(tmp_path, exit_signal=exit_signal), host=3, own=0)))


def test_a_kill_long_before_the_end_took_somebody_else(tmp_path: Path) -> None:
    text = other_answer(answer(logged(counted(job(tmp_path), host=1, own=0), *kill_lines(), at_s=1.0)))
    assert "stayed at 0" in text


def test_when_the_recorder_died_too_the_report_says_how_near_the_limit_it_was(tmp_path: Path) -> None:
    builder = RecordingBuilder(tmp_path).process(PID).samples(PID, [890 * MiB] * 20)
    text = other_answer(answer(builder.cgroup([895 * MiB] * 20, LIMIT, oom_kill_count=[0] * 20)))
    assert "99% of the limit" in text


@pytest.mark.parametrize(("used_mib", "last_mib"), [([800] * 20 + [10], 800), ([800] * 5 + [90] * 16, 90)])
def test_how_near_its_limit_it_was_is_said_of_the_last_seconds(
    tmp_path: Path, used_mib: list[int], last_mib: int
) -> None:
    """What it held is free at the very end, and what it had long before was given back."""
    builder = job(tmp_path).host([99 * GiB] * 21, 100 * GiB, oom_kill_count=7)
    builder.cgroup([mib * MiB for mib in used_mib], LIMIT, oom_kill_count=0, cgroup_file_bytes=0)
    (ruled_out,) = answer(builder).ruled_out
    assert ruled_out.figures["used_bytes"] == last_mib * MiB


def test_kills_of_an_earlier_boot_are_none_of_this_job(tmp_path: Path) -> None:
    builder = counted(job(tmp_path), host=0, own=0)
    builder.row("kernel_log", END_S + 1, log_source="journal", kernel_time_s=100.0, log_boot_id="b" * 32,
                text=kill_lines()[1])  # fmt: skip
    assert not answer(builder).findings


def test_a_kill_explains_no_growth(tmp_path: Path) -> None:
    """Without inventories nobody can say what held it; that it was killed does not settle that."""
    report = answer(logged(counted(job(tmp_path), host=1, own=1), *kill_lines()), whole=True)
    assert "unexplained-growth" in [finding.kind for finding in report.findings]


OUR_OWN = 5151
OUR_OWN_LINE = (
    f"Memory cgroup out of memory: Killed process {OUR_OWN} (python) total-vm:300000kB, anon-rss:24000kB, "
    "file-rss:4096kB, shmem-rss:0kB, UID:0 pgtables:556kB oom_score_adj:1000"
)


@pytest.mark.parametrize("pid", [OUR_OWN, 77], ids=["same-namespace", "container"])
def test_a_kill_of_leakscopes_own_process_is_nobodys(tmp_path: Path, pid: int) -> None:
    """The recorder leaves it out of the counters that it writes down; the kernel's log still has its line."""
    builder = counted(job(tmp_path, exit_signal=None), host=0, own=0)
    builder.row("events", 10.0, event="helper-killed", pid=pid, text="x")
    text = other_answer(answer(logged(builder, OUR_OWN_LINE, at_s=10.0)))
    assert text.startswith("the kernel killed no process on this machine")


def test_a_kill_of_leakscopes_own_process_explains_none_of_the_jobs(tmp_path: Path) -> None:
    """Without its line SIGKILL to the job is no mystery of the log's: the machine counted one more."""
    builder = counted(job(tmp_path), host=1, own=None)
    builder.row("events", 10.0, event="helper-killed", pid=OUR_OWN, text="x")
    finding = found(answer(logged(builder, OUR_OWN_LINE, at_s=10.0)))
    assert "train.py" in finding.title


@pytest.mark.parametrize("is_killed", [True, False])
def test_that_a_limit_was_reached_is_a_note_where_a_kill_at_it_is_told(tmp_path: Path, is_killed: bool) -> None:
    """Also of a worker, after which the job goes on."""
    builder = job(tmp_path, step=0, exit_signal=None)
    signals = {"exit_signal": 9} if is_killed else {}
    builder.process(WORKER, role="dataloader-worker", comm="pt_data_worker", died_s=19.0, **signals)
    builder.samples(WORKER, [100 * MiB + 40 * MiB * s for s in range(19)])
    counted(builder, host=int(is_killed), own=int(is_killed))
    if is_killed:
        logged(builder, *kill_lines(WORKER, "pt_data_worker"), at_s=18.9)
    report = answer(builder, whole=True)
    assert report.verdict.killed is is_killed
    (pressure,) = [f for f in report.findings if f.kind == "memory-pressure"]
    assert (pressure.severity == "note") is is_killed


def burst(tmp_path: Path, *, asked: bool) -> Finding:
    """260 MiB for 18 s, and 600 MiB that were asked for in one piece, of which 240 MiB had come as it was killed."""
    level, limit = 260 * MiB, 500 * MiB
    builder = RecordingBuilder(tmp_path).process(PID, cmdline="python train.py").ends(END_S, signal=9)
    sizes = [level] * 19 + [level + 150 * MiB]
    builder.samples(PID, sizes, virtual_bytes=[GiB] * 19 + [GiB + 600 * MiB])
    builder.host([50 * GiB] * 21, 100 * GiB, oom_kill_count=[0] * 20 + [1])
    builder.cgroup([*sizes, 10 * MiB], limit, oom_kill_count=[0] * 20 + [1], cgroup_file_bytes=0)
    held = {"root_kind": "module", "deep_bytes": 200 * MiB, "type_name": "list", "object_count": 1, "is_user": True}
    table = {"path": "table", "variable": "table", "owner": "train", "edge_kind": "global", **held}
    builder.take(PID, 1, 8.0, holders=[table], rss_bytes=level)
    if asked:
        builder.allocated(PID, 19.5, 600 * MiB, "/home/me/train.py:50 main\n/home/me/train.py:34 largest_batch")
    return found(answer(logged(builder, *kill_lines(vm_mib=1024 + 600, anon_mib=500))))


def test_a_kill_says_what_came_last_beside_what_was_there(tmp_path: Path) -> None:
    kill = burst(tmp_path, asked=True)
    assert "240 MiB came in the last" in kill.title
    assert "largest_batch() (train.py:34)" in kill.title
    assert "train.table held most: 200 MiB" in kill.title


def test_that_nobody_saw_who_asked_is_said(tmp_path: Path) -> None:
    kill = burst(tmp_path, asked=False)
    assert "240 MiB came in the last" in kill.title
    (told,) = [one.text for one in kill.evidence if "what requested it is not known" in one.text]
    assert "600 MiB had been requested" in told
    assert "the last was at 8.0 s" in told


def test_what_would_have_fitted_is_the_first_remedy_and_counts_what_was_still_to_come(tmp_path: Path) -> None:
    """860 MiB were needed, not the 500 that were seen; without the burst 260, and a tenth of the limit stays free."""
    (first, *_) = burst(tmp_path, asked=True).remedy
    assert first.startswith("to fit into 500 MiB: take at most 190 MiB at once in largest_batch() (train.py:34)")
    assert first.endswith("860 MiB → 450 MiB")


def test_what_a_kill_proposes_is_not_proposed_twice(tmp_path: Path) -> None:
    builder = logged(counted(job(tmp_path), host=1, own=1), *kill_lines())
    (pressure,) = [f for f in answer(builder, whole=True).findings if f.kind == "memory-pressure"]
    assert not pressure.remedy


def test_what_grew_all_the_time_did_not_come_at_last(tmp_path: Path) -> None:
    builder = logged(counted(job(tmp_path), host=1, own=1), *kill_lines())
    assert "came in the last" not in found(answer(builder, whole=True)).title
