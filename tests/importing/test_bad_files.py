"""Files that are cut, foreign or hostile: one line that names the file, exit status 3, and no output."""

from __future__ import annotations

import gzip
import json
import resource
import zlib
from collections.abc import Callable
from pathlib import Path

import pytest

from leakscope import cli, importing
from leakscope.errors import LeakscopeError, UnreadableInput

from .files import FIXTURES, imported, raw, written

MEM = "MEM 100.000000 1795600000.0000"


def _refused(tmp_path: Path, path: Path, **options: str) -> str:
    output = tmp_path / "refused.parquet"
    with pytest.raises(LeakscopeError) as error:
        importing.import_files([path], output, **options)  # type: ignore[arg-type]
    assert not output.exists() and not list(tmp_path.glob(".refused*"))
    line = str(error.value)
    assert error.value.exit_status == 3 and line.isprintable() and path.name in line
    return line


def test_the_command_says_it_in_one_line_and_exits_with_3(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for path in (tmp_path / "none.dat", written(tmp_path, "foreign.txt", "hello"), tmp_path):
        assert cli.main(["import", str(path), "-o", str(tmp_path / "run.parquet")]) == 3
        said = capsys.readouterr().err
        assert said.count("\n") == 1 and said.startswith("leakscope: ")


def test_an_output_that_is_there_is_kept(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    output = written(tmp_path, "run.parquet", "mine")
    command = ["import", str(FIXTURES / "mprof-clean.dat"), "-o", str(output)]
    assert cli.main(command) == 2
    assert output.read_text() == "mine\n" and "--force" in capsys.readouterr().err
    assert cli.main([*command, "--force"]) == 0
    assert cli.main(["import", str(output), "-o", str(tmp_path / "again.parquet")]) == 3  # no file of another tool


CASES: dict[str, Callable[[Path], Path]] = {
    "empty": lambda folder: raw(folder, "empty.dat", b""),
    "a format it is not": lambda folder: written(folder, "mprofile_1.dat", "CMDLINE python t.py", "MEM x y"),
    "no samples": lambda folder: written(folder, "mprofile_1.dat", "CMDLINE python t.py", "FUNC f 1 nan 2 inf"),
    "NaN, negative and huge": lambda folder: written(
        folder, "mprofile_1.dat", "MEM nan 1795600000", "MEM -5 1795600000", "MEM 1e300 1795600000", "MEM 5 1e99"
    ),
    "a long line": lambda folder: written(folder, "mprofile_1.dat", MEM, "MEM " + "9" * (2 << 20)),
    "JSON that is cut": lambda folder: written(folder, "p.json", '{"data":{"resultType":"matrix","res'),
    "JSON too deep": lambda folder: written(
        folder, "p.json", '{"resultType":"matrix","data":' + "[" * 100_000 + "]" * 100_000 + "}"
    ),
    "JSON of other shape": lambda folder: written(folder, "p.json", '{"data":{"resultType":"matrix"}}'),
    "JSON with wrong values": lambda folder: written(
        folder, "sar.json", '{"sysstat": {"hosts": [{"statistics": [{"memory": 5, "timestamp": []}, 7]}]}}'
    ),
    "an error of Prometheus": lambda folder: written(
        folder, "p.json", '{"status":"error","error":"bad query","data":{"resultType":"matrix"}}'
    ),
    "dmon without memory": lambda folder: written(
        folder, "dmon.log", "# gpu   pwr gtemp    sm", "# Idx     W     C     %", "    0    62    27     7"
    ),
    "nvidia-smi without use": lambda folder: written(folder, "g.csv", "timestamp, memory.total [MiB]", "1, 2"),
    "ps without times": lambda folder: written(folder, "ps.log", *["PID RSS COMMAND", "1 5 x"] * 3),
    "UTF-16": lambda folder: raw(folder, "mprofile_1.dat", "\ufeffMEM 1 1795600000".encode("utf-16")),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_a_bad_file_is_refused_in_one_line(tmp_path: Path, name: str) -> None:
    _refused(tmp_path, CASES[name](tmp_path))


def test_bad_lines_among_good_ones_are_counted(tmp_path: Path) -> None:
    path = written(tmp_path, "mprofile_1.dat", MEM, "MEM nan 1795600001", "MEM 5 -1", "MEM", "what is this", MEM)
    recording = imported(tmp_path, path)
    assert len(recording.tables["process_samples"]) == 2
    assert "4 lines or values" in recording.tables["imports"]["text"].iloc[0]


def test_a_torn_end_costs_the_last_line_only(tmp_path: Path) -> None:
    whole = (FIXTURES / "top-leaky.log").read_bytes()
    path = tmp_path / "top.log"
    path.write_bytes(whole[: len(whole) - 700])
    count = len(imported(tmp_path, path).tables["process_samples"])
    assert 30 <= count < len(imported(tmp_path, "top-leaky.log").tables["process_samples"])


def test_a_packed_file_is_read_and_a_bomb_is_not(tmp_path: Path) -> None:
    packed = tmp_path / "mprofile_1.dat.gz"
    packed.write_bytes(gzip.compress((FIXTURES / "mprof-clean.dat").read_bytes()))
    assert len(imported(tmp_path, packed).tables["process_samples"]) > 50
    packed.write_bytes(gzip.compress(b"CMDLINE x\nMEM 1 1795600000\nMEM " + b"0" * (20 << 20), 9))
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    assert "a line of more than 1 MiB" in _refused(tmp_path, packed)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 30_000  # KiB
    packed.write_bytes(packed.read_bytes()[:20])
    _refused(tmp_path, packed)


def test_packed_files_put_together_are_read_to_their_end(tmp_path: Path) -> None:
    """As logs are that were rotated: ``cat kern.log.2.gz kern.log.1.gz``."""
    whole = (FIXTURES / "mprof-clean.dat").read_bytes()
    half = whole.index(b"\n", len(whole) // 2) + 1
    path = raw(tmp_path, "mprofile_1.dat.gz", gzip.compress(whole[:half]) + gzip.compress(whole[half:]) + b"\0" * 512)
    expected = len(imported(tmp_path, "mprof-clean.dat").tables["process_samples"])
    assert len(imported(tmp_path, path).tables["process_samples"]) == expected


def test_a_packed_file_without_its_end_says_so(tmp_path: Path) -> None:
    packed = gzip.compress((FIXTURES / "mprof-clean.dat").read_bytes())
    recording = imported(tmp_path, raw(tmp_path, "mprofile_1.dat.gz", packed[: len(packed) * 2 // 3]))
    assert len(recording.tables["process_samples"]) > 20
    assert "its end is missing" in recording.tables["imports"]["text"].iloc[0]


def test_a_bomb_of_lines_is_refused_before_it_takes_minutes(tmp_path: Path) -> None:
    pack = zlib.compressobj(9, zlib.DEFLATED, zlib.MAX_WBITS | 16)
    content = [pack.compress(f"CMDLINE x\n{MEM}\n".encode()), *(pack.compress(b"\n" * (1 << 20)) for _ in range(3))]
    path = raw(tmp_path, "mprofile_1.dat.gz", b"".join([*content, pack.flush()]))
    assert "300 times its size" in _refused(tmp_path, path)


_RUNS = [" ", "\t", ",", " (", "(a) ", "0", "a ", "1 a ", " ,", "[", "1-1 ", "Killed process 1 ("]


@pytest.mark.parametrize("run", _RUNS)
def test_a_long_run_of_one_thing_is_looked_at_once(tmp_path: Path, run: str) -> None:
    """Expressions that begin anew at each of its places would take hours for such a line."""
    limit = resource.getrlimit(resource.RLIMIT_CPU)
    used = resource.getrusage(resource.RUSAGE_SELF)
    # SIGXCPU ends the tests, where it would have gone on for hours: nothing is measured that load could change.
    resource.setrlimit(resource.RLIMIT_CPU, (int(used.ru_utime + used.ru_stime) + 60, limit[1]))
    try:
        _refused(tmp_path, written(tmp_path, "x.log", run * (400_000 // len(run))))
        path = written(tmp_path, "nvidia.csv", "timestamp, memory.used [MiB]", "1795600000, 7", run * 60_000)
        assert len(imported(tmp_path, path).tables["gpu_samples"]) == 1
    finally:
        resource.setrlimit(resource.RLIMIT_CPU, limit)


def test_a_document_of_too_many_values_is_refused_unread(tmp_path: Path) -> None:
    path = tmp_path / "p.json"
    path.write_text('{"data":{"resultType":"matrix","result":[' + "[]," * 4_100_000 + "[]]}}")
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    assert "more than 4,000,000 values" in _refused(tmp_path, path)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 200_000  # KiB


def test_a_clock_that_jumps_is_no_reason_to_fail(tmp_path: Path) -> None:
    times = [1795600000, 1795600001, 1795500000, 1795600002, 946684800]
    path = written(tmp_path, "mprofile_1.dat", *(f"MEM 100 {at}" for at in times))
    assert len(imported(tmp_path, path).tables["process_samples"]) == len(times)


def test_secrets_of_a_command_line_are_masked(tmp_path: Path) -> None:
    path = written(tmp_path, "mprofile_1.dat", "CMDLINE python t.py --api-key sk_live_51HxxQ2eZvKYlo2C0abcdef", MEM)
    recording = imported(tmp_path, path)
    assert "sk_live" not in json.dumps(recording.meta)
    assert "masked_" in str(recording.tables["processes"]["cmdline"].iloc[0])


def test_another_format_than_it_is_may_be_said(tmp_path: Path) -> None:
    path = written(tmp_path, "x.dat", "MEM 100 1795600000")
    with pytest.raises(LeakscopeError, match="there is no such format"):
        importing.import_files([path], tmp_path / "o.parquet", form="excel")
    with pytest.raises(UnreadableInput):
        importing.import_files([path], tmp_path / "o.parquet", form="psrecord")
