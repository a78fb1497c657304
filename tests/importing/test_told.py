"""What an import did not read, or could not place, is said: skipped files, undated tables, processes without a pid."""

from __future__ import annotations

import math
from datetime import datetime, timezone
from pathlib import Path

import pytest

from leakscope.importing import import_files
from leakscope.importing._figures import moment

from .files import imported, raw, written

BEGAN_S = 1_795_600_000  # 2026-11-25 11:06:40 UTC


def _utc(at_s: float) -> str:
    return datetime.fromtimestamp(at_s, timezone.utc).strftime("%FT%TZ")


def _rss_kib(i: float) -> int:
    return 100_000 + int(3000 * i + 4000 * math.sin(i))


def _ps(folder: Path, *more: str) -> Path:
    rows = (
        line
        for i in range(20)
        for line in (_utc(BEGAN_S + i), "PID PPID RSS COMMAND", f"19150 1 {_rss_kib(i)} python train.py", *more)
    )
    return written(folder, "ps.log", *rows)


def _smaps(folder: Path, name: str = "smaps.txt", plus_kib: int = 0) -> Path:
    rows = (
        line
        for i in range(20)
        for line in (
            _utc(BEGAN_S + i),
            "55d000000000-7ffff0000000 ---p 00000000 00:00 0    [rollup]",
            f"Rss:  {_rss_kib(i) + plus_kib} kB",
            f"Pss:  {_rss_kib(i) + plus_kib} kB",
            f"Anonymous: {_rss_kib(i) + plus_kib} kB",
        )
    )
    return written(folder, name, *rows)


def test_one_process_of_two_files_is_counted_once(tmp_path: Path) -> None:
    files = [_ps(tmp_path), _smaps(tmp_path)]
    recording = imported(tmp_path, *files)
    assert recording.tables["processes"]["pid"].unique().tolist() == [19150]
    assert recording.tables["process_samples"]["pid"].unique().tolist() == [19150]
    assert len(recording.tables["process_samples"]) == 20
    lines = import_files(files, tmp_path / "again.parquet").lines
    assert "ps.log (19150)" in lines[1]


def test_a_process_that_may_be_another_is_counted_and_said(tmp_path: Path) -> None:
    files = [_ps(tmp_path), _smaps(tmp_path, plus_kib=90_000)]
    lines = import_files(files, tmp_path / "run.parquet").lines
    assert "does not name its process" in lines[1] and "pid into the name" in lines[1]
    recording = imported(tmp_path, *files)
    assert recording.tables["processes"]["pid"].nunique() == 2


def test_which_of_two_alike_it_is_nobody_decides(tmp_path: Path) -> None:
    twin = [
        f"{_utc(BEGAN_S + i)}\nPID PPID RSS COMMAND\n" + "\n".join(f"{pid} 1 {_rss_kib(i)} python" for pid in (50, 51))
        for i in range(20)
    ]
    files = [written(tmp_path, "ps.log", *twin), _smaps(tmp_path)]
    assert "does not name its process" in import_files(files, tmp_path / "run.parquet").lines[1]


def test_files_of_a_folder_that_are_not_read_are_named(tmp_path: Path) -> None:
    folder = tmp_path / "logs"
    folder.mkdir()
    _ps(folder)
    for i in range(7):
        written(folder, f"other{i}.xyz", "nothing that is known")
    lines = import_files([folder], tmp_path / "run.parquet").lines
    assert len(lines) == 2
    assert "other0.xyz" in lines[1] and "other4.xyz" in lines[1] and "2 more" in lines[1]


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-be", "utf-16-le"])
def test_text_in_utf_16_is_read(tmp_path: Path, encoding: str) -> None:
    text = _ps(tmp_path).read_text()
    mark = "" if encoding == "utf-16" else "\ufeff"
    other = raw(tmp_path, "powershell.log", (mark + text).encode(encoding))
    samples = imported(tmp_path, other).tables["process_samples"]
    assert samples["rss_bytes"].tolist() == [_rss_kib(i) * 1024 for i in range(20)]


def test_tables_without_a_time_are_counted(tmp_path: Path) -> None:
    table = ["PID RSS COMMAND", "42 100000 python", ""]
    log = written(tmp_path, "ps.log", _utc(BEGAN_S), *table, *table, *table, _utc(BEGAN_S + 1), *table)
    (line,) = import_files([log], tmp_path / "run.parquet").lines
    assert "2 tables do not say when" in line


AT_S = datetime(2025, 11, 27, 18, 2, 11, tzinfo=timezone.utc).timestamp()
DATES = (
    *(
        "jeu. nov. 27 18:02:11 2025",
        "Do Nov 27 18:02:11 2025",
        "jeu. 27 nov. 2025 18:02:11",
        "четверг ноя 27 18:02:11 2025",
    ),
    *(
        "Do 27. Nov 18:02:11 CET 2025",
        "四 11月 27 18:02:11 2025",
        "2025年 11月 27日 木曜日 18:02:11",
        "목 11월 27 18:02:11 2025",
    ),
    *("gio nov 27 18:02:11 2025", "jue nov 27 18:02:11 2025", "qui nov 27 18:02:11 2025", "czw lis 27 18:02:11 2025"),
    *("Čt lis 27 18:02:11 2025", "to marras 27 18:02:11 2025", "Чт ноя 27 18:02:11 2025", "Per Kas 27 18:02:11 2025"),
)


@pytest.mark.parametrize("text", DATES)
def test_dates_of_other_languages_are_read(text: str) -> None:
    found = moment(text)
    assert found is not None and found[0] == AT_S


@pytest.mark.parametrize(
    "text",
    ["Do Nov 26 18:02:11 2025", "lis 27 18:02:11 2025", "jeu. nov. 31 18:02:11 2025", "epoch 12 of 2025 took 18:02:11"],
)
def test_a_date_that_is_none_or_two_is_not_read(text: str) -> None:
    assert moment(text) is None


KILLED = "Out of memory: Killed process 4242 (python) total-vm:9kB, anon-rss:8kB, file-rss:0kB, shmem-rss:0kB"


@pytest.mark.parametrize("text", ["jeu. nov. 27 18:02:11 2025", "Do Nov 27 18:02:11 2025"])
def test_a_kernel_log_of_another_language_is_imported(tmp_path: Path, text: str) -> None:
    recording = imported(tmp_path, written(tmp_path, "dmesg.txt", f"[{text}] {KILLED}"))
    assert recording.tables["process_samples"]["time_unix_ns"].tolist() == [int(AT_S) * 10**9]


def test_a_time_that_is_not_read_is_shown(tmp_path: Path) -> None:
    from leakscope.errors import UnreadableInput

    with pytest.raises(UnreadableInput, match="Xyz"):
        imported(tmp_path, written(tmp_path, "dmesg.txt", f"[Xyz Abc 27 18:02:11 2025] {KILLED}"))


def test_a_log_of_a_killer_that_is_not_read_is_no_log_without_kills(tmp_path: Path) -> None:
    from leakscope.errors import UnreadableInput

    log = written(tmp_path, "nohang.log", "2025-03-11 10:11:12,300: Sending SIGTERM to the victim")
    with pytest.raises(UnreadableInput, match="not read yet"):
        imported(tmp_path, log, form="kernel-log")
