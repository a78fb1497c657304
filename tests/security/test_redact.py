"""``leakscope redact``: nothing of the user's is left in what is sent away, and the report says the same."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from leakscope import analyze, open_recording
from leakscope.cli import main
from leakscope.facts.endings.meanings import known
from leakscope.redacting import redact
from leakscope.redacting._source import Names, without_texts
from leakscope.redacting._texts import Texts
from leakscope.renderers import render
from tests.analyzers.leaks import PID, sentinels, trainer
from tests.analyzers.test_exact_holders import MODULE, SMALL, leaked
from tests.analyzers.test_strays import node, with_graphs
from tests.builders import RecordingBuilder
from tests.recorder.runs import PYTHON, environment, record_command
from tests.security.everything import texts_of_file

# Words that stand where a user's texts do; none is a word of ours, of Python's or of a library's.
USERS = {
    "argument": "zanzibar", "folder": "projectquokka", "user": "wilhelmina", "host": "gpubox77", "key": "customer_ada",
    "exception": "turnipmessage", "label": "labelvolga", "mark": "markbaikal", "comment": "commentdanube",
    "literal": "literalnile", "local": "secretformula", "phase": "phasevesuvius", "script_text": "dashcprogram",
    "guard": "guardvalue", "fstring": "formattedtext", "stderr": "stderrwords",
}  # fmt: skip
HOME = f"/home/{USERS['user']}/{USERS['folder']}"
SOURCE = f'''\
"""{USERS["literal"]}

more of {USERS["literal"]}
"""
import time  # {USERS["comment"]}

class Trainer:
    def __init__(self):
        self.history = []
        self.by = {{"{USERS["key"]}": []}}

    def step(self, {USERS["local"]}):
        print(f"{USERS["fstring"]} {{{USERS["local"]}}}")
        self.history.append([{USERS["local"]}, "{USERS["literal"]}", b"{USERS["literal"]}"])
        self.by["{USERS["key"]}"].append({USERS["local"]})
'''
LAST_WORDS = f'''\
Traceback (most recent call last):
  File "{HOME}/train.py", line 13, in Trainer.step
    print("{USERS["literal"]}")  # {USERS["comment"]}
RuntimeError: {USERS["exception"]} at {HOME}/train.py
'''
MiB = 1024**2


def leak(folder: Path, **meta: Any) -> RecordingBuilder:
    """A list that grows, in a program whose every text is one of USERS."""
    command = ["/usr/bin/python3", "-u", f"{HOME}/train.py", f"--name={USERS['argument']}", "--data", f"{HOME}/data"]
    builder = RecordingBuilder(
        folder,
        command=command,
        cwd=HOME,
        host=USERS["host"],
        labels={"team": USERS["label"]},
        python=f"{HOME}/.venv/bin/python",
        options={"output": f"{HOME}/run.parquet", "interval_s": None},
        **meta,
    )
    builder.process(PID, cmdline=" ".join(command), exe="/usr/bin/python3")
    builder.samples(PID, [100 * MiB + 10 * MiB * i for i in range(40)], every_s=0.5)
    sentinels(builder)
    builder.source(PID, f"{HOME}/train.py", SOURCE)
    owner = {
        "owner": "Trainer", "owner_module": "train", "owner_file": f"{HOME}/train.py", "owner_line": 7, "is_user": True,
        "parent_path": "main() trainer",
        "edge_kind": "attribute", "root_kind": "frame", "type_name": "list",
    }  # fmt: skip
    for number in range(1, 9):
        size = number * 20 * MiB
        grows = {"length": size / 1000, "deep_bytes": size, "shallow_bytes": size // 10, "object_count": 1.0}
        holders = [
            {"path": "main() trainer", "type_name": "train.Trainer", "root_kind": "frame", "edge_kind": "local",
             "variable": "trainer", "owner": "main", "deep_bytes": size, "shallow_bytes": 64, "is_user": True,
             "owner_file": f"{HOME}/train.py", "object_count": 1.0},
            {**owner, **grows, "path": "main() trainer.history", "variable": "history"},
            {**owner, "path": "main() trainer.by", "variable": "by", "type_name": "dict", "length": 1.0,
             "deep_bytes": 40000, "shallow_bytes": 64, "object_count": 1.0},
            {"path": f"main() trainer.by['{USERS['key']}']", "parent_path": "main() trainer.by", "edge_kind": "key",
             "type_name": "list", "length": 1.0, "deep_bytes": 40000, "shallow_bytes": 64, "object_count": 1.0},
        ]  # fmt: skip
        builder.take(PID, number, at_s=number * 2.4, holders=holders, python_bytes=size, array_bytes=0, tensor_bytes=0)
    builder.mark(PID, 1.0, step=1, phase=USERS["phase"], text=f"begins {USERS['mark']}")
    builder.row("memory_maps", 5.0, PID, map_kind="file", map_path=f"{HOME}/data/a.bin", map_rss_bytes=1, map_count=1)
    builder.row("crash_text", 19.0, PID, crash_source="exception", exception_type="RuntimeError", last_words=LAST_WORDS)
    builder.row("crash_text", 19.1, PID, crash_source="stderr", last_words=f"{USERS['stderr']}\n{LAST_WORDS}")
    reason = f"L['n'] == '{USERS['guard']}'  # {USERS['comment']}"
    builder.row("compile_counters", 5.0, PID, take=1, function="step", recompile_count=1, recompile_reason=reason)
    line = f'sending SIGTERM to process 1 "python": cmdline "python -c {USERS["script_text"]}", on {USERS["host"]}'
    builder.row("kernel_log", 6.0, log_source="journal", text=line)
    builder.note(PID, 2.0, "failed", f"snapshot: OSError: {HOME}/x: no such file")
    builder.row("something_new", 3.0, PID, of_a_later_version=f"{USERS['literal']}")
    return builder.ends(20.0, exit_code=1)


def safe_copy(run: Path) -> Path:
    safe = run.with_name("safe.parquet")
    redact(run, safe)
    return safe


def report(path: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(render(analyze(open_recording(path)), "json", with_timeline=True))
    return found


def figures(value: Any, key: str = "") -> Any:
    """A report without its texts, but for kinds; what the copy itself adds (a note, its size) left out."""
    if isinstance(value, dict):
        return {k: figures(v, k) for k, v in value.items() if k not in ("notes", "recording_bytes")}
    if isinstance(value, list):
        return [figures(member, key) for member in value]
    return value if key in ("kind", "severity", "account") or not isinstance(value, str) else "text"


def test_no_text_of_the_users_is_left(tmp_path):
    builder = leak(tmp_path)
    calls = f"{HOME}/train.py:7 step\n{HOME}/train.py:90 <module>"
    builder.row(
        "allocation_stacks", 12.0, PID, allocator="malloc", live_bytes=1 << 20, settled_bytes=1 << 20, sample_count=2,
        native_library=f"{HOME}/own/libown.so", native_function="own_make", native_stack="libown.so:own_make",
        function="step", owner_file=f"{HOME}/train.py", owner_line=7, stack=calls,
    )  # fmt: skip
    run = builder.write()
    before, after = texts_of_file(run), texts_of_file(safe_copy(run))
    assert {name for name, word in USERS.items() if word not in before} == set()
    assert {name for name, word in USERS.items() if word in after} == set()
    assert f"{HOME}/own/libown.so" in before


def test_the_report_has_the_same_kinds_and_figures(tmp_path):
    run = leak(tmp_path).write()
    here, there = report(run), report(safe_copy(run))
    assert [f["kind"] for f in here["findings"]][:1] == ["retained-objects"]
    assert here["findings"][0]["subject"]["line"] == 14  # found in the source
    assert figures(there) == figures(here)


def test_what_names_the_leak_stays(tmp_path):
    subject = report(safe_copy(leak(tmp_path).write()))["findings"][0]["subject"]
    assert (subject["variable"], subject["function"], subject["process"]) == ("history", "Trainer.step", "train.py")
    assert subject["file"].startswith("/home/") and subject["file"].endswith("/train.py")


def test_equal_texts_have_equal_placeholders(tmp_path):
    recording = open_recording(safe_copy(leak(tmp_path).write()))
    (file,) = set(recording.tables.sources["file"])  # by each name that its module has
    assert file in recording.meta["command"] and file.startswith(recording.meta["cwd"])
    path = next(p for p in recording.tables.heap_nodes["edge_name"].dropna() if "['" in p)
    key = path.split("'")[1]
    (source,) = filter(None, recording.tables.sources["source_text"])
    assert f'self.by["{key}"].append(' in source
    assert source.count("\n") == SOURCE.count("\n")
    compile(source, "x.py", "exec")


def test_a_recording_that_runs_is_copied_as_it_is_now(tmp_path):
    safe = tmp_path / "safe.parquet"
    redact(leak(tmp_path).write_journal(), safe)
    assert not open_recording(safe).tables.process_samples.empty


@pytest.mark.further
def test_a_holder_that_the_graph_of_the_heap_tells_is_found_as_before(tmp_path):
    """Names of the program's stand there as keys: of sys.modules, of a module, of an object."""
    service = "class Store:\n    def put(self, key):\n        self.entries[key] = make(key)\n\nSTORE = Store()\n"
    grows = {"retained_bytes": leaked, "length": leaked}
    nodes = [
        *MODULE,
        node(9, 8, "key", "['STORE']", type_name="jobs.Store", **SMALL),
        node(10, 9, "namespace", None, type_name="dict", **SMALL),
        node(11, 10, "key", "['entries']", type_name="dict", dominator_node=0, **grows),
        node(12, 11, "key", f"['{USERS['key']}']", type_name="list", **SMALL),
    ]
    run = with_graphs(sentinels(trainer(tmp_path)), nodes=nodes).source(PID, f"{HOME}/jobs.py", service, module="jobs")
    safe = safe_copy(run.ends(20.0).write())
    (finding,) = report(safe)["findings"]
    assert (finding["subject"]["variable"], finding["subject"]["line"]) == ("entries", 3)
    assert figures(report(safe)) == figures(report(run.path))
    assert USERS["key"] not in texts_of_file(safe)


@pytest.mark.live
@pytest.mark.slow
def test_a_real_program_is_told_alike(tmp_path):
    (tmp_path / "quokkaproject").mkdir()
    (tmp_path / "quokkaproject" / "job.py").write_text(
        "import time\nkept = {}\nuntil = time.monotonic() + 12\nwhile time.monotonic() < until:\n"
        "    kept[len(kept)] = ['literalnile'] * 2000\n    time.sleep(0.001)\n"
    )
    command = record_command("-q", "--", PYTHON, "quokkaproject/job.py", "--name", "zanzibar", finalize=True)
    subprocess.run(command, cwd=tmp_path, env=environment(), timeout=60, check=True)
    run = tmp_path / "run.parquet"
    safe = safe_copy(run)
    assert report(run)["findings"], "the test is of no use"
    assert figures(report(safe)) == figures(report(run))
    texts = texts_of_file(safe)
    assert not [word for word in ("quokkaproject", "zanzibar", "literalnile", str(tmp_path.parent)) if word in texts]


@pytest.mark.parametrize(
    "said",
    [
        "Fatal Python error: none_dealloc: deallocating None",
        "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 20.00 MiB. GPU 0 has a total of 15.78 GiB",
        "RuntimeError: DataLoader worker (pid 4243) is killed by signal: Killed.",
        "numpy._core._exceptions._ArrayMemoryError: Unable to allocate 7.45 GiB for an array with shape (1000,) and"
        " data type float64",
        "terminate called after throwing an instance of 'std::bad_alloc'",
        "RecursionError: maximum recursion depth exceeded",
        "OSError: [Errno 28] No space left on device: '/dev/shm/torch_1'",
        "free(): invalid pointer",
    ],
)
def test_what_the_runtime_says_of_memory_keeps_its_meaning(said):
    texts = Texts(Names([], set()), machines=[], users=[])
    redacted = texts.message(f"zanzibar\n{said}\n")
    meaning = known(said)
    assert meaning is not None and known(redacted) == meaning and "zanzibar" not in redacted


def test_sources_that_nobody_can_read_are_left_out():
    source = "def f(:\n    '''zanzibar\n"
    shown = without_texts(source, Names([source], set()), lambda kind, text: "p")
    assert "zanzibar" not in shown and shown.count("\n") == source.count("\n")


@pytest.mark.parametrize(
    ("arguments", "status", "line"),
    [
        (["run.parquet"], 2, "Missing option '-o'"),
        (["nowhere.parquet", "-o", "safe.parquet"], 3, "there is no file nowhere.parquet"),
        (["text.txt", "-o", "safe.parquet"], 3, "is not a recording"),
        (["run.parquet", "-o", "run.parquet"], 2, "run.parquet is there already"),
        (["run.parquet", "-o", "text.txt"], 2, "text.txt is there already"),
        (["run.parquet", "-o", "nowhere/safe.parquet"], 2, "there is no folder nowhere"),
    ],
)
def test_wrong_use_is_one_clear_line(tmp_path, monkeypatch, capsys, arguments, status, line):
    trainer(tmp_path).ends(20.0).write()
    (tmp_path / "text.txt").write_text("mine\n")
    monkeypatch.chdir(tmp_path)
    assert main(["redact", *arguments]) == status
    told = capsys.readouterr()
    assert told.out == "" and line in told.err and told.err.count("\n") == 1
    assert (tmp_path / "text.txt").read_text() == "mine\n" and open_recording(tmp_path / "run.parquet").complete
    assert not list(tmp_path.glob("*safe*")) and not list(tmp_path.glob(".*"))


def test_where_it_belongs_is_replaced_and_its_verdict_is_left_to_who_reads_the_copy(tmp_path: Path) -> None:
    belongs = {"job": "jobkrakatoa", "pod": "podkrakatoa", "rank": 3, "scheduler": "kubernetes"}
    verdict = {"leaking": True, "headline": "headkrakatoa"}
    path = leak(tmp_path, belongs=belongs, verdict=verdict, figures={"peak_bytes": 1}).write()
    redact(path, tmp_path / "copy.parquet")
    meta = open_recording(tmp_path / "copy.parquet").meta
    assert "krakatoa" not in json.dumps(meta)
    assert (meta["belongs"]["rank"], meta["belongs"]["scheduler"]) == (3, "kubernetes")
    assert meta["figures"] == {"peak_bytes": 1} and "verdict" not in meta
