"""What `leakscope export` writes, read back by those it is for: parsers of others where they are Python."""

from __future__ import annotations

import gzip
import json
from collections import Counter
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from leakscope import exporting
from leakscope.cli import main
from leakscope.errors import LeakscopeError, UnreadableRecording
from leakscope.storage import Recording
from tests.builders import START_UNIX_NS, RecordingBuilder

MiB = 1 << 20
TRAINER, WORKER = 100, 101
NAMES = exporting.names()
ONE_FILE = [name for name in NAMES if not exporting.is_by_table(name)]
BY_TABLE = [name for name in NAMES if exporting.is_by_table(name)]


def built(folder: Path) -> RecordingBuilder:
    """A trainer that leaks and evaluates at 20 s, with a worker that is killed; allocations were sampled."""
    memory = [200 * MiB + i * 4 * MiB for i in range(61)]
    stack = "/job/train.py:3 main\n/job/train.py:9 Store.add"
    return (
        RecordingBuilder(folder, recorder_pid=90)
        .process(TRAINER, cmdline="python train.py")
        .process(WORKER, "dataloader-worker", ppid=TRAINER, ns_pid=7, exit_signal=9, died_s=40.0)
        .samples(TRAINER, memory)
        .samples(WORKER, [50 * MiB] * 41)
        .sentinels(TRAINER, step=list(range(0, 610, 10)), malloc_in_use_bytes=memory)
        .host([10_000 * MiB - i * MiB for i in range(61)], 16_000 * MiB)
        .mark(TRAINER, 5.0, phase="train").mark(TRAINER, 20.0, phase="eval").mark(TRAINER, 30.0, phase="train")
        .take(TRAINER, 1, 10.0, duration_s=0.25, step=100)
        .series(
            "allocation_stacks", TRAINER, 10.0, 10.0, allocator="malloc", stack=stack, native_stack=(
                "libfast.so:_ZN4fast5allocEm\nlibpython3.11.so.1.0:?\nlibc.so.6:__libc_start_main"
            ), live_bytes=[i * 40 * MiB for i in range(1, 6)], settled_bytes=[i * 40 * MiB for i in range(1, 6)],
            error_bytes=MiB, sample_count=[i * 10 for i in range(1, 6)],
            asked_bytes=[i * 80 * MiB for i in range(1, 6)],
        )
        .event("alert", 50.0, text="rss>400MB: 401 MB")
        .ends(60.0)
    )  # fmt: skip


@pytest.fixture(scope="module")
def recording(tmp_path_factory: pytest.TempPathFactory) -> Recording:
    return built(tmp_path_factory.mktemp("recorded")).open()


@pytest.fixture(scope="module")
def trace(recording: Recording, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    return trace_of(recording, tmp_path_factory.mktemp("trace"))


def exported(recording: Recording, name: str, folder: Path, **options: Any) -> bytes:
    path = folder / ("out" + exporting.module_of(name).SUFFIX)
    exporting.export(recording, name, path, **options)
    content = path.read_bytes()
    return gzip.decompress(content) if path.name.endswith(".gz") else content


def trace_of(recording: Recording, folder: Path, **options: Any) -> dict[str, Any]:
    trace: dict[str, Any] = json.loads(exported(recording, "perfetto", folder, **options))
    return trace


# ---- the trace


def test_a_counter_has_each_figure_at_its_time(trace):
    rss = [e for e in trace["traceEvents"] if e["ph"] == "C" and (e["pid"], e["name"]) == (TRAINER, "rss_bytes")]
    assert [e["args"]["value"] for e in rss] == [200 * MiB + i * 4 * MiB for i in range(61)]
    assert trace["baseTimeNanoseconds"] + round(rss[10]["ts"] * 1000) == START_UNIX_NS + 10 * 10**9
    assert any(e["name"] == "host mem_available_bytes" for e in trace["traceEvents"])


def test_phases_steps_and_snapshots_are_slices_that_never_overlap(trace):
    start_us = (START_UNIX_NS - trace["baseTimeNanoseconds"]) / 1000
    slices = [e for e in trace["traceEvents"] if e["ph"] == "X"]
    told = {(e["name"], round((e["ts"] - start_us) / 1e6, 3), round(e["dur"] / 1e6, 3)) for e in slices}
    assert {("train", 5.0, 15.0), ("eval", 20.0, 10.0), ("train", 30.0, 30.0)} <= told
    assert ("steps 11 to 20", 1.0, 1.0) in told
    assert ("snapshot 1 (schedule)", 10.0, 0.25) in told
    for tid in {e["tid"] for e in slices}:
        own = sorted((e for e in slices if e["tid"] == tid), key=lambda e: e["ts"])
        assert all(a["ts"] + a["dur"] <= b["ts"] + 0.002 for a, b in zip(own, own[1:]))


def test_kills_alerts_and_findings_are_instants(trace):
    start_us = (START_UNIX_NS - trace["baseTimeNanoseconds"]) / 1000
    instants = {e["name"]: e for e in trace["traceEvents"] if e["ph"] == "i"}
    killed = next(e for name, e in instants.items() if "was ended by SIGKILL" in name)
    assert (round(killed["ts"] - start_us), killed["s"]) == (40_000_000, "g")
    assert any("rss>400MB" in name for name in instants)
    finding = next(e for name, e in instants.items() if e["args"].get("severity"))
    assert finding["args"]["bytes"] > 100 * MiB
    assert finding["args"]["evidence 1"]
    assert any(e["args"].get("leaking") is True for e in instants.values())


def test_every_event_keeps_to_the_trace_event_format(trace):
    """Rules of the format, and of what Perfetto makes of it: a track has a name, and a thread one process."""
    events = trace["traceEvents"]
    assert {e["ph"] for e in events} == {"M", "C", "X", "i"}
    for event in events:
        assert type(event["pid"]) is int and event["name"]
        if event["ph"] != "M":
            assert event["ts"] >= 0 and isinstance(event["args"], dict)
        if event["ph"] == "C":
            assert all(type(value) in (int, float) for value in event["args"].values())
        if event["ph"] == "i":
            assert event["s"] in "gpt"
        if event["ph"] == "X":
            assert event["dur"] >= 0
    names = {(e["pid"], e["tid"]) for e in events if e["name"] == "thread_name"}
    tracks = {(e["pid"], e["tid"]) for e in events if e["ph"] in "Xi"}
    assert tracks <= names
    assert max(Counter(tid for _, tid in names).values()) == 1
    assert {e["pid"] for e in events} == {e["pid"] for e in events if e["name"] == "process_name"}


def test_the_same_recording_gives_the_same_bytes(recording, tmp_path):
    one, two = tmp_path / "a.gz", tmp_path / "b.gz"
    for path in (one, two):
        exporting.export(recording, "speedscope", path)
    assert one.read_bytes() == two.read_bytes()


def test_a_trace_of_another_base_is_joined_on_its_clock(recording, tmp_path):
    base = START_UNIX_NS - 5 * 10**9
    theirs = {"ph": "X", "pid": 7, "tid": 7, "ts": 15e6, "dur": 1e6, "name": "MARK"}
    (tmp_path / "p.json").write_text(json.dumps({"baseTimeNanoseconds": base, "x": 1, "traceEvents": [theirs]}))
    trace = trace_of(recording, tmp_path, beside=tmp_path / "p.json")
    assert (trace["baseTimeNanoseconds"], trace["x"]) == (base, 1)
    assert theirs in trace["traceEvents"]
    # Theirs begins 10 s after the recording; the worker knows itself as 7, and so does their trace.
    worker = [e for e in trace["traceEvents"] if e["ph"] == "C" and e["pid"] == 7 and e["name"] == "rss_bytes"]
    assert worker[0]["ts"] == 5e6
    assert not [e for e in trace["traceEvents"] if e["pid"] == WORKER]


def test_the_events_stand_first_in_the_file(recording, tmp_path):
    """Perfetto's trace processor 24 read none that stood behind ``baseTimeNanoseconds``, and said nothing."""
    assert exported(recording, "perfetto", tmp_path).startswith(b'{"traceEvents": [\n{')


@pytest.mark.further
@pytest.mark.torch
def test_a_trace_of_torch_profiler_counts_from_the_same_moment(recording, trace, tmp_path, monkeypatch):
    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", str(tmp_path))  # which torch.profiler sets otherwise
    torch = pytest.importorskip("torch")
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as profiler:
        torch.ones(8).sum()
    profiler.export_chrome_trace(str(tmp_path / "torch.json"))
    theirs = json.loads((tmp_path / "torch.json").read_text())
    quarter_ns = 7_889_238 * 10**9
    assert theirs["baseTimeNanoseconds"] % quarter_ns == 0
    assert trace["baseTimeNanoseconds"] == START_UNIX_NS // quarter_ns * quarter_ns
    joined = trace_of(recording, tmp_path, beside=tmp_path / "torch.json")
    assert joined["baseTimeNanoseconds"] == theirs["baseTimeNanoseconds"]
    assert len(joined["traceEvents"]) > len(theirs["traceEvents"])


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (b"", "no trace that can be read"),
        (b"{", "no trace that can be read"),
        (b"\x1f\x8b" + b"\0" * 20, "no trace that can be read"),
        (b"[" * 200_000, "no trace that can be read"),
        (b'{"traceEvents": 4}', "is no trace"),
        (b'{"traceEvents": [4]}', "is no trace"),
        (b'{"traceEvents": [{"ts": 17}]}', "does not say what its times count from"),
        (b'{"traceEvents": [], "baseTimeNanoseconds": "x"}', "does not say what its times count from"),
    ],
)
def test_what_is_no_trace_is_told_in_a_line_and_leaves_no_file(recording, tmp_path, content, says):
    (tmp_path / "bad.json").write_bytes(content)
    with pytest.raises(UnreadableRecording, match=says):
        exporting.export(recording, "perfetto", tmp_path / "out.json", beside=tmp_path / "bad.json")
    assert not (tmp_path / "out.json").exists()


def test_a_recording_without_rows_and_with_a_strange_footer_is_a_trace_all_the_same(tmp_path):
    recording = RecordingBuilder(tmp_path, recorder_pid="x", start_unix_ns="y").write()
    assert main(["export", str(recording), "-o", str(tmp_path / "t.trace.json")]) == 0
    assert json.loads((tmp_path / "t.trace.json").read_text())["traceEvents"]


# ---- flame graphs


def test_collapsed_stacks_add_up_to_what_is_alive(recording, tmp_path):
    (line,) = exported(recording, "collapsed", tmp_path).decode().splitlines()
    stack, _, size = line.rpartition(" ")
    assert int(size) == 200 * MiB
    assert stack.split(";") == [
        "train.py[100]", "main (/job/train.py:3)", "Store.add (/job/train.py:9)", "fast::alloc (libfast.so)",
    ]  # fmt: skip


def test_speedscope_has_what_is_alive_and_what_was_gained(recording, tmp_path):
    file = json.loads(exported(recording, "speedscope", tmp_path))
    alive, gained = file["profiles"]
    frames = [file["shared"]["frames"][number]["name"] for number in alive["samples"][0]]
    assert frames == ["main", "Store.add", "fast::alloc (libfast.so)"]
    assert file["shared"]["frames"][1]["line"] == 9
    assert (alive["weights"], alive["unit"], alive["endValue"]) == ([200 * MiB], "bytes", 200 * MiB)
    assert 0 < gained["weights"][0] < 200 * MiB


def test_pprof_decodes_by_its_own_schema(recording, tmp_path):
    profile = _profile_class()()
    profile.ParseFromString(exported(recording, "pprof", tmp_path))
    strings = profile.string_table
    assert strings[0] == ""
    assert [(strings[t.type], strings[t.unit]) for t in profile.sample_type][:2] == [
        ("inuse_objects", "count"), ("inuse_space", "bytes"),
    ]  # fmt: skip
    (sample,) = profile.sample
    assert list(sample.value)[:2] == [50, 200 * MiB]
    locations = {location.id: location for location in profile.location}
    functions = {function.id: function for function in profile.function}
    leaf_first = [functions[locations[number].line[0].function_id] for number in sample.location_id]
    assert [strings[f.name] for f in leaf_first] == ["fast::alloc (libfast.so)", "Store.add", "main"]
    assert strings[leaf_first[1].filename] == "/job/train.py"
    assert locations[sample.location_id[1]].line[0].line == 9
    assert strings[sample.label[0].str] == "train.py[100]"
    assert strings[profile.default_sample_type] == "inuse_space"
    assert profile.time_nanos > START_UNIX_NS


def test_without_sampled_allocations_there_is_no_flame_graph(tmp_path):
    recording = RecordingBuilder(tmp_path).process(TRAINER).samples(TRAINER, [MiB] * 9).ends().open()
    for name in ("collapsed", "speedscope", "pprof"):
        with pytest.raises(LeakscopeError, match="no sampled allocations"):
            exporting.export(recording, name, tmp_path / "out")
        assert not (tmp_path / "out").exists()


def _profile_class() -> Any:
    """``perftools.profiles.Profile``: the fields of profile.proto that are written here, and one that is not."""
    descriptor_pb2 = pytest.importorskip("google.protobuf.descriptor_pb2")
    from google.protobuf import descriptor_pool, message_factory

    messages: dict[str, dict[str, tuple[int, str, bool]]] = {
        "ValueType": {"type": (1, "int64", False), "unit": (2, "int64", False)},
        "Label": {"key": (1, "int64", False), "str": (2, "int64", False)},
        "Sample": {"location_id": (1, "uint64", True), "value": (2, "int64", True), "label": (3, "Label", True)},
        "Line": {"function_id": (1, "uint64", False), "line": (2, "int64", False)},
        "Location": {"id": (1, "uint64", False), "mapping_id": (2, "uint64", False), "line": (4, "Line", True)},
        "Function": {"id": (1, "uint64", False), "name": (2, "int64", False), "filename": (4, "int64", False)},
        "Profile": {
            "sample_type": (1, "ValueType", True), "sample": (2, "Sample", True), "location": (4, "Location", True),
            "function": (5, "Function", True), "string_table": (6, "string", True), "time_nanos": (9, "int64", False),
            "period_type": (11, "ValueType", False), "period": (12, "int64", False),
            "default_sample_type": (14, "int64", False),
        },
    }  # fmt: skip
    field = descriptor_pb2.FieldDescriptorProto
    kinds = {"int64": field.TYPE_INT64, "uint64": field.TYPE_UINT64, "string": field.TYPE_STRING}
    file = descriptor_pb2.FileDescriptorProto(name="profile_of_test.proto", package="of_test", syntax="proto3")
    for name, fields in messages.items():
        message = file.message_type.add(name=name)
        for field_name, (number, kind, repeated) in fields.items():
            label = field.LABEL_REPEATED if repeated else field.LABEL_OPTIONAL
            is_message = kind not in kinds
            message.field.add(
                name=field_name, number=number, label=label, type=kinds.get(kind, field.TYPE_MESSAGE),
                type_name=f".of_test.{kind}" if is_message else None,
            )  # fmt: skip
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return message_factory.GetMessageClass(pool.FindMessageTypeByName("of_test.Profile"))


# ---- metrics and tables


def test_openmetrics_parse_by_the_client_of_prometheus(recording, tmp_path):
    parser = pytest.importorskip("prometheus_client.openmetrics.parser")
    text = exported(recording, "openmetrics", tmp_path).decode()
    families = {family.name: family for family in parser.text_string_to_metric_families(text)}
    rss = [s for s in families["leakscope_process_rss_bytes"].samples if s.labels["pid"] == str(TRAINER)]
    assert [s.value for s in rss] == [200 * MiB + i * 4 * MiB for i in range(61)]
    assert float(rss[10].timestamp) == pytest.approx(START_UNIX_NS / 1e9 + 10, abs=0.001)
    assert rss[0].labels["role"] == "trainer"
    assert families["leakscope_leaking"].samples[0].value == 1
    labels = families["leakscope_finding_bytes"].samples[0].labels
    assert labels["kind"] == "unexplained-growth" and "fingerprint" not in labels  # nothing is named


def test_names_of_a_job_cannot_break_the_text(tmp_path):
    parser = pytest.importorskip("prometheus_client.openmetrics.parser")
    name = 'a"b\\c\nd.py'
    recording = (
        RecordingBuilder(tmp_path, host='h"\n')
        .process(TRAINER, cmdline="", comm=name)
        .samples(TRAINER, [MiB] * 9)
        .ends()
        .open()
    )
    text = exported(recording, "openmetrics", tmp_path).decode()
    families = {family.name: family for family in parser.text_string_to_metric_families(text)}
    labels = families["leakscope_process_rss_bytes"].samples[0].labels
    assert (labels["process"], labels["host_name"]) == (name, 'h"\n')


@pytest.mark.parametrize("name", BY_TABLE)
def test_each_table_is_a_file_with_its_rows(recording, tmp_path, name):
    counts = exporting.export_tables(recording, name, tmp_path / "tables")
    suffix = exporting.module_of(name).SUFFIX
    assert counts["process_samples" + suffix] == 61 + 41
    assert {path.name for path in (tmp_path / "tables").iterdir()} == set(counts)
    read = pd.read_csv if name == "csv" else pd.read_parquet
    frame = read(tmp_path / "tables" / ("process_samples" + suffix))
    own = frame[frame["pid"] == TRAINER]
    assert own["rss_bytes"].tolist() == [200 * MiB + i * 4 * MiB for i in range(61)]
    assert own["time_s"].iloc[10] == 10.0
    assert "cpu_s" not in frame  # nobody wrote it


def test_a_parquet_file_says_the_units(recording, tmp_path):
    import pyarrow.parquet as pq

    exporting.export_tables(recording, "parquet", tmp_path)
    assert pq.read_schema(tmp_path / "process_samples.parquet").field("rss_bytes").metadata == {b"unit": b"bytes"}


def test_a_foreign_table_cannot_lead_out_of_the_folder(tmp_path):
    builder = RecordingBuilder(tmp_path).process(TRAINER).samples(TRAINER, [MiB] * 9)
    recording = builder.row("../../outside", 1.0, TRAINER, text="x").ends().open()
    exporting.export_tables(recording, "csv", tmp_path / "deep" / "tables")
    assert not list(tmp_path.glob("outside*"))


# ---- the command


@pytest.mark.cases(2)
@pytest.mark.parametrize("name", ONE_FILE)
def test_the_command_writes_beside_the_recording(recording, name, capsys):
    assert main(["export", str(recording.path), "-f", name]) == 0
    path = recording.path.with_name("run" + exporting.module_of(name).SUFFIX)
    assert path.stat().st_size > 50
    assert str(path) in capsys.readouterr().err
    assert exporting.format_of(path) == name
    path.unlink()


def test_a_live_recording_and_stdout(tmp_path, capfdbinary):
    assert main(["export", str(built(tmp_path).write_journal()), "-f", "collapsed", "-o", "-"]) == 0
    out, err = capfdbinary.readouterr()
    assert (out[:14], err) == (b"train.py[100];", b"")


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["-f", "csv"], "name a folder"),
        (["-f", "csv", "-o", "x.csv"], "name a folder"),
        (["-f", "perfetto", "--to", "d"], "--to is for csv and parquet"),
        (["-f", "pprof", "--with", "t.json"], "--with is for -f perfetto"),
        (["-o", "x.docx"], "no format is known"),
    ],
)
def test_wrong_use_is_one_line(recording, capsys, words, says):
    assert main(["export", str(recording.path), *words]) == 2
    err = capsys.readouterr().err
    assert says in err and err.count("\n") == 1
