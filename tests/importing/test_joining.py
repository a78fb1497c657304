"""Several files on one clock, and processes that several of them saw."""

from __future__ import annotations

from datetime import datetime, timezone
from pathlib import Path

import pytest

from leakscope import analyze
from leakscope.errors import BadInput
from leakscope.importing import Placing, placing
from leakscope.importing._facts import Fact
from leakscope.importing._joining import joined
from leakscope.importing._source import Source
from leakscope.importing._spool import Part

from .files import imported, written

MIB = 1 << 20
BEGAN_S = 1_795_600_000  # 2026-11-25 09:46:40 UTC


def _mprof(folder: Path, count: int = 40) -> Path:
    samples = [f"MEM {100 + 40 * i:.6f} {BEGAN_S + i:.4f}" for i in range(count)]
    return written(folder, "mprofile_1.dat", "CMDLINE python train.py", *samples)


def _utc(at_s: float, shape: str) -> str:
    return datetime.fromtimestamp(at_s, timezone.utc).strftime(shape)


def _kill(at: str, pid: int, mib: int) -> str:
    sizes = f"total-vm:{4 * mib * 1024}kB, anon-rss:{mib * 1024}kB, file-rss:0kB, shmem-rss:0kB"
    return (
        f"{at} host kernel: Out of memory: Killed process {pid} (python) {sizes}, UID:0 pgtables:100kB oom_score_adj:0"
    )


def test_a_series_without_a_pid_and_the_kernels_log_are_one_story(tmp_path: Path) -> None:
    log = written(tmp_path, "kern.log", _kill(_utc(BEGAN_S + 40, "%Y-%m-%dT%H:%M:%S+00:00"), 4242, 1700))
    report = analyze(imported(tmp_path, _mprof(tmp_path), log))
    assert report.verdict.killed and report.verdict.leaking is True
    kill = next(finding for finding in report.findings if finding.kind == "oom-kill")
    assert (kill.subject.pid, kill.subject.process) == (4242, "train.py")


@pytest.mark.parametrize(("after_s", "mib"), [(300, 1700), (40, 9000), (-20, 1700)])
def test_a_kill_of_another_time_or_size_is_not_taken_for_its(tmp_path: Path, after_s: int, mib: int) -> None:
    log = written(tmp_path, "kern.log", _kill(_utc(BEGAN_S + after_s, "%Y-%m-%dT%H:%M:%S+00:00"), 4242, mib))
    recording = imported(tmp_path, _mprof(tmp_path), log)
    own = recording.tables["processes"]
    assert own.loc[own["pid"] == 1, "exit_signal"].isna().all()


def test_local_time_is_placed_by_its_zone(tmp_path: Path) -> None:
    header = "timestamp, index, memory.used [MiB], memory.total [MiB]"
    rows = [f"{_utc(BEGAN_S + 3600 + i, '%Y/%m/%d %H:%M:%S')}.000, 0, {1000 + i} MiB, 40960 MiB" for i in range(40)]
    smi = written(tmp_path, "smi.csv", header, *rows)
    recording = imported(tmp_path, _mprof(tmp_path), smi, placing=placing("Europe/Berlin", ()))
    gpu, memory = recording.tables["gpu_samples"], recording.tables["process_samples"]
    assert gpu["time_s"].tolist() == memory["time_s"].tolist()
    assert gpu["time_unix_ns"].iloc[0] == BEGAN_S * 10**9
    assert set(gpu["origin"]) == {"smi.csv"} and set(memory["origin"]) == {"mprofile_1.dat"}


def test_what_counts_from_its_own_beginning_is_moved_by_an_offset(tmp_path: Path) -> None:
    lines = [f"{i:12.3f} {5:12.3f} {50 + i:12.3f} {90:12.3f}" for i in range(20)]
    log = written(tmp_path, "psrecord.txt", "# Elapsed time   CPU (%)     Real (MB)   Virtual (MB)", *lines)
    for offset, first_s in (((), 0.0), (("psrecord.txt=7s",), 7.0), ((f"psrecord.txt={BEGAN_S + 9}",), 9.0)):
        samples = imported(tmp_path, _mprof(tmp_path), log, placing=placing(None, offset)).tables["process_samples"]
        assert samples.loc[samples["origin"] == "psrecord.txt", "time_s"].min() == pytest.approx(first_s)


def test_seconds_since_boot_stand_where_the_killed_process_ended(tmp_path: Path) -> None:
    table = ["PID PPID RSS COMMAND", "4242 1 {} python train.py"]
    lines = [line.format(100_000 + 40_000 * i) for i in range(30) for line in (_utc(BEGAN_S + i, "%FT%TZ"), *table)]
    ps = written(tmp_path, "ps.log", *lines)
    sizes = "total-vm:2000000kB, anon-rss:1270000kB, file-rss:0kB, shmem-rss:0kB, UID:0 pgtables:100kB oom_score_adj:0"
    log = written(tmp_path, "dmesg.txt", f"[ 5000.100000] Out of memory: Killed process 4242 (python) {sizes}")
    recording = imported(tmp_path, ps, log)
    assert recording.tables["kernel_log"]["time_s"].iloc[0] == pytest.approx(29.0)
    assert recording.tables["kernel_log"]["kernel_time_s"].iloc[0] == pytest.approx(5000.1)
    assert analyze(recording).verdict.killed
    stranger = written(tmp_path, "dmesg2.txt", f"[ 5000.100000] Out of memory: Killed process 77 (java) {sizes}")
    with pytest.raises(BadInput, match=r"add --offset dmesg2\.txt="):
        imported(tmp_path, ps, stranger)
    placed = imported(tmp_path, ps, stranger, placing=placing(None, (f"dmesg2.txt={BEGAN_S - 4990}",)))
    assert placed.tables["kernel_log"]["time_s"].iloc[0] == pytest.approx(10.1)


def test_a_process_that_two_files_saw_has_one_series(tmp_path: Path) -> None:
    one = [f"{_utc(BEGAN_S + i, '%FT%TZ')}\nPID RSS COMMAND\n4242 {100_000 + i} python" for i in range(20)]
    other = [f"{_utc(BEGAN_S + i, '%FT%TZ')}\nPID RSS COMMAND\n4242 {90_000 + i} python" for i in range(5)]
    recording = imported(tmp_path, written(tmp_path, "a.log", *other), written(tmp_path, "b.log", *one))
    samples = recording.tables["process_samples"]
    assert samples["rss_bytes"].tolist() == [(100_000 + i) * 1024 for i in range(20)]
    assert recording.tables["imports"]["row_count"].tolist() == [5, 20]


def test_a_time_of_day_goes_past_midnight(tmp_path: Path) -> None:
    head = "  PID USER      PR  NI    VIRT    RES    SHR S  %CPU  %MEM     TIME+ COMMAND"
    lines = [
        line
        for at, res in (("23:59:59", 10_000), ("00:00:00", 11_000), ("00:00:01", 12_000))
        for line in (f"top - {at} up 1 day,  2 users", head, f"  42 root 20 0 90000 {res} 500 S 0.0 0.1 0:00.01 python")
    ]
    samples = imported(tmp_path, written(tmp_path, "top.log", *lines)).tables["process_samples"]
    assert samples["time_s"].tolist() == pytest.approx([0.0, 1.0, 2.0])


def test_of_a_whole_machine_small_processes_are_left_out(tmp_path: Path) -> None:
    rows = [f"{pid} 1 {500_000 if pid == 2000 else 900} p{pid}" for pid in range(2000, 2100)]
    lines = [line for i in range(3) for line in (_utc(BEGAN_S + i, "%FT%TZ"), "PID PPID RSS COMMAND", *rows)]
    recording = imported(tmp_path, written(tmp_path, "ps.log", *lines))
    assert recording.tables["processes"]["pid"].unique().tolist() == [2000]
    assert "99 small processes" in recording.tables["imports"]["text"].iloc[0]


def test_a_folder_is_all_that_is_known_in_it(tmp_path: Path) -> None:
    folder = tmp_path / "logs"
    folder.mkdir()
    _mprof(folder)
    written(folder, "notes.txt", "nothing that anybody knows")
    assert imported(tmp_path, folder).tables["imports"]["origin"].tolist() == ["mprofile_1.dat"]


def test_wrong_zones_and_offsets_are_told_in_one_line() -> None:
    for arguments in (("Mars/Olympus", ()), (None, ("x=yesterday",)), ("+99:00", ())):
        with pytest.raises(BadInput, match=r"^--(tz|offset) [^\n]+$"):
            placing(*arguments)


def test_files_of_one_rank_or_with_memory_at_the_same_addresses_are_of_one_process(tmp_path: Path) -> None:
    parts = [_part(tmp_path, rank, addresses) for rank, addresses in ((0, ()), (1, ()), (0, ()), (None, (1, 2, 3)))]
    parts += [_part(tmp_path, None, addresses) for addresses in ((2, 3, 4), (7, 8, 9))]
    recording = joined(parts, Placing())
    written_rows = [(fact.row["pid"], fact.row["snapshot"]) for _, fact in recording.facts()]
    assert written_rows == [(1, 1), (2, 2), (1, 3), (3, 4), (3, 5), (4, 6)]


def _part(folder: Path, rank: int | None, addresses: tuple[int, ...]) -> Part:
    source = Source(written(folder, "snapshot.pickle", "x"), addresses=frozenset(addresses))
    part = Part(source, "mprof", (folder / f"spool-{rank}-{addresses}").open("w+"))
    part.add(Fact("marks", 1.0, {"pid": source.unnamed("main", rank=rank), "snapshot": 0}))
    return part
