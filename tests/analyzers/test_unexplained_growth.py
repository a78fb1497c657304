"""What is left when nobody is to blame: the account, what it is not, and suspects whose inside cannot be seen."""

from __future__ import annotations

import pytest

from leakscope.agent.outbox import WATCHED
from leakscope.analyzers.unexplained_growth import findings as look
from leakscope.facts.case import Case
from leakscope.findings import Finding, RuledOut, Subject
from tests.builders import RecordingBuilder
from tests.sentences import says

from .asking import asked
from .leaks import PID, MiB, sentinels, trainer

PICKLER = {
    "path": "main() journal.pickler",
    "root_kind": "frame",
    "variable": "pickler",
    "owner": "Journal",
    "owner_module": "__main__",
    "edge_kind": "attribute",
    "owner_file": "/home/me/journal.py",
    "owner_line": 9,
    "is_user": True,
    "opaque": True,
    "type_name": "_pickle.Pickler",
}
KNOWN = {**PICKLER, "path": "main() journal.names", "variable": "names", "opaque": False, "type_name": "dict"}
STREAM = {**PICKLER, "path": "main() journal.stream", "variable": "stream", "type_name": "_io.BufferedWriter"}


def with_holders(builder, *holders, column="python_bytes", slope=0):
    for number, at_s in enumerate((4, 9, 17), 1):
        taken = {"python_bytes": 8 * MiB, "array_bytes": 0, "tensor_bytes": 0}
        taken[column] = 8 * MiB + slope * at_s
        builder.take(PID, number, at_s, holders=list(holders), **taken)
    return builder


def test_native_growth_names_the_object_that_may_hold_it(tmp_path):
    recording = with_holders(sentinels(trainer(tmp_path)), STREAM, PICKLER).open()
    (finding,) = asked(recording, only=["unexplained-growth"]).findings
    assert finding.kind == "retained-objects"
    assert "most likely held by Journal.pickler" in finding.title
    assert finding.subject.variable == "pickler"
    assert finding.subject.file == "/home/me/journal.py"
    assert 0.3 < finding.confidence < 0.8 and finding.doubts


def test_growth_in_python_objects_suspects_no_opaque_object(tmp_path):
    recording = with_holders(sentinels(trainer(tmp_path)), PICKLER, slope=10 * MiB).open()
    (finding,) = asked(recording, only=["unexplained-growth"]).findings
    assert finding.subject.variable is None
    assert "Python objects" in finding.title


def test_without_an_inside_view_the_process_is_named(tmp_path):
    (finding,) = asked(trainer(tmp_path).open(), only=["unexplained-growth"]).findings
    assert finding.subject.process == "train.py"
    assert finding.confidence <= 0.4
    assert "fewer than two snapshots" in finding.doubts[0]


def test_a_program_that_is_no_python_is_told_as_such(tmp_path):
    builder = RecordingBuilder(tmp_path).process(1, cmdline="python run.py")
    builder.process(PID, "other", exe="/usr/bin/node", comm="node", cmdline="node server.js --port 80")
    builder.samples(PID, [(100 + 3 * i) * MiB for i in range(80)], every_s=0.25)
    builder.take(1, 1, 4, holders=[PICKLER])
    report = asked(builder.open(), only=["unexplained-growth", "retained-objects"])
    (finding,) = report.findings
    assert says(finding.title, "node gained", "no Python")
    texts = " ".join(evidence.text for evidence in finding.evidence)
    assert says(texts, "node server.js --port 80", "started by run.py[1]")
    assert "longer" not in " ".join(finding.remedy)  # it would show no more
    assert [s.reason for s in report.skipped] == [f"node[{PID}], which grows, is no Python"]


def test_of_a_program_that_a_tool_looked_into_its_own_figures_are_told(tmp_path):
    """A heap profile of a server in C++: no Python, and not unseen."""
    builder = RecordingBuilder(tmp_path, imports=[{"file": "profile.pb.gz", "format": "pprof"}])
    builder.process(PID, exe="/usr/bin/served", comm="served", cmdline="served")
    builder.samples(PID, [(100 + 3 * i) * MiB for i in range(80)], every_s=0.25)
    (finding,) = asked(builder.open(), only=["unexplained-growth"]).findings
    assert not says(finding.title, "no Python")


@pytest.mark.parametrize(("share", "line"), [(0.5, 31), (0.1, None)])
def test_a_line_of_a_profile_is_named_where_it_has_much_of_the_growth(tmp_path, share, line):
    builder = RecordingBuilder(tmp_path, imports=[{"file": "profile.bin", "format": "memray"}])
    builder.process(PID, cmdline="python train.py")
    builder.samples(PID, [(100 + 3 * i) * MiB for i in range(80)], every_s=0.25)
    place = {"stack": "/home/me/train.py:31 load", "owner_file": "/home/me/train.py", "owner_line": 31}
    row = {**place, "allocator": "malloc", "function": "load", "sample_count": 99, "error_bytes": 0}
    for at_s, bytes in ((1.0, 0), (19.0, round(share * 240 * MiB))):
        sizes = {"live_bytes": bytes, "settled_bytes": bytes, "asked_bytes": bytes}
        builder.row("allocation_stacks", at_s, PID, **row, **sizes)
    (finding,) = asked(builder.open(), only=["unexplained-growth"]).findings
    assert finding.subject.line == line


STEPS = """class Trainer:
    def step(self, hidden):
        self.summary.append(hidden.clone())
        return hidden.mean()

def main():
    trainer.step(1)
"""


@pytest.mark.parametrize(
    ("settled", "function", "named"),
    [(1.0, "Trainer.step", "summary"), (0.1, "Trainer.step", None), (1.0, "<module>", None)],
)
def test_the_line_that_allocated_what_stays_is_told_with_what_it_is_put_into(tmp_path, settled, function, named):
    """A thirtieth of the growth, which lies between what is freed. Not what comes and goes, nor what imports made."""
    builder = trainer(tmp_path).source(PID, "/home/me/train.py", STEPS)
    for at_s in (1.0, 10.0, 19.0):
        live = int(at_s * MiB / 4)
        stack = "/home/me/train.py:7 main\n/home/me/train.py:3 " + function
        lives = {"settled_bytes": int(settled * live), "asked_bytes": int(live / settled)}
        builder.allocated(PID, at_s, live, stack, sample_count=40, **lives)
    (finding,) = asked(builder.open(), only=["unexplained-growth"]).findings
    assert finding.subject.variable == named
    assert says(finding.title, "allocated at train.py:3 and put into") is (named is not None)


QUERIES = """import columnar
import pandas as pd

class Features:
    def __init__(self):
        self.connection = columnar.connect()

    def load(self, day):
        return pd.DataFrame({"day": [day]})

    def compute(self, day):
        frame = self.load(day)
        self.connection.register(f"day_{day}", frame)

def main():
    Features().compute(1)
"""


def test_what_is_given_to_an_object_of_a_library_is_told_with_the_call_that_gives_it(tmp_path):
    """The line to edit is not the one that makes it."""
    builder = trainer(tmp_path).source(PID, "/home/me/train.py", QUERIES)
    stack = "/home/me/train.py:16 main\n/home/me/train.py:12 Features.compute\n/home/me/train.py:9 Features.load"
    for at_s in (1.0, 10.0, 19.0):
        live = int(at_s * MiB / 4)
        builder.allocated(PID, at_s, live, stack, sample_count=40, settled_bytes=live, asked_bytes=live)
    (finding,) = asked(builder.open(), only=["unexplained-growth"]).findings
    subject = finding.subject
    assert (subject.holder, subject.library, subject.line) == ("Features.connection", "columnar", 13)
    assert says(finding.remedy[0], "what undoes Features.connection.register()", "train.py:13")


@pytest.mark.parametrize(
    ("notes", "told"), [(["throttled"], "--max-overhead 12%"), ([], "leakscope snapshot")], ids=["postponed", "none"]
)
def test_growth_after_the_last_snapshot_is_said_to_be_unseen(tmp_path, notes, told):
    """And is not told to be of small objects in many places, nor ruled out by who looked before it came."""
    builder = sentinels(trainer(tmp_path))
    for number, at_s in enumerate((1.0, 2.0), 1):
        builder.take(PID, number, at_s, holders=[KNOWN], take_cpu_s=0.75)
    for note in notes:
        builder.note(PID, 9.0, note, "a snapshot costs 0.75 s of CPU")
    report = asked(builder.open(), only=["unexplained-growth", "retained-objects", "held-memory", "filling"])
    (finding,) = report.findings
    (doubt,) = finding.doubts
    assert says(doubt, "last snapshot", "at 2.0 s", "came after it")
    assert any(told in remedy for remedy in finding.remedy)
    unchecked = {one.kind: one.reason for one in report.skipped}
    for kind in ("retained-objects", "held-memory", "filling"):
        assert says(unchecked[kind], "last snapshot", "at 2.0 s")


def test_what_is_freed_as_the_program_ends_was_allocated_all_the_same(tmp_path):
    """Also beside what a library reserved, and which nobody ever frees."""
    builder = trainer(tmp_path).source(PID, "/home/me/train.py", STEPS)
    for at_s in (1.0, 10.0, 19.0, 20.5):
        live = int(at_s * MiB / 4) if at_s < 20 else 0
        stack = "/home/me/train.py:7 main\n/home/me/train.py:3 Trainer.step"
        builder.allocated(PID, at_s, live, stack, sample_count=40, settled_bytes=live)
        reserved = {"allocator": "mmap", "sample_count": 1, "settled_bytes": 1024 * MiB}
        builder.allocated(PID, at_s, 1024 * MiB, "/home/me/train.py:1 <module>", **reserved)
    builder.note(PID, 20.2, "exit", "the interpreter shuts down")
    (finding,) = asked(builder.open(), only=["unexplained-growth"]).findings
    assert (finding.subject.file, finding.subject.line) == ("/home/me/train.py", 3)


def test_it_yields_to_findings_that_explain_half_of_the_growth(tmp_path):
    recording = trainer(tmp_path).open()

    def named(bytes, wasted=False):
        return Finding("retained-objects", "t", "critical", 0.9, bytes, Subject(), wasted=wasted)

    (ruled_out,) = look(Case(recording), so_far=[named(90 * MiB)])
    assert isinstance(ruled_out, RuledOut)
    (little,) = look(Case(recording), so_far=[named(20 * MiB)])
    assert isinstance(little, Finding) and little.bytes < 160 * MiB
    (wasted,) = look(Case(recording), so_far=[named(500 * MiB, wasted=True)])
    assert isinstance(wasted, Finding)


@pytest.mark.parametrize("asker", ["words", "codec"])
def test_native_memory_of_the_library_whose_object_fills_is_of_that_object(tmp_path, asker):
    """spaCy's StringStore: Python sees the addresses of strings, and no strings. A parser lies about, too."""
    pipe = {**KNOWN, "path": "main() pipe", "variable": "pipe", "type_name": "words.pipe.Pipe"}
    store = {**KNOWN, "path": "main() pipe.store", "variable": "store", "owner": "Pipe", "is_user": False,
             "owner_module": "words.pipe", "type_name": "words.Store"}  # fmt: skip
    table = {**store, "path": "main() pipe.store.<dict>", "variable": None, "edge_kind": None, "type_name": "dict"}
    builder = with_holders(sentinels(trainer(tmp_path)), PICKLER, pipe, store, table)
    for at_s in (5, 10, 15, 20):
        library = f"/env/lib/python3.11/site-packages/{asker}/_strings.so"
        builder.allocated(PID, at_s, 8 * MiB * at_s, "/home/me/read.py:4 main", sample_count=60, native_library=library)
    subject = Subject(pid=PID, holder="main() pipe", path=table["path"], file="/home/me/read.py", line=4)
    case = Case(builder.source(PID, "/home/me/read.py", "def main():\n  for text in texts:\n\n    pipe(text)\n").open())
    told = list(look(case, so_far=[Finding("retained-objects", "t", "critical", 0.9, 20 * MiB, subject)]))
    if asker == "words":
        (ruled_out,) = told
        assert isinstance(ruled_out, RuledOut) and "main() pipe" in ruled_out.reason
    else:
        assert isinstance(told[0], Finding) and told[0].subject.variable == "pickler"


def test_silent_where_nothing_grows(tmp_path):
    report = asked(trainer(tmp_path, leak=0).open(), only=["unexplained-growth"])
    assert not report.findings and report.ruled_out


def test_it_says_what_the_ledger_lacks(tmp_path):
    recording = trainer(tmp_path).open()
    (ruled_out,) = look(
        Case(recording), so_far=[Finding("retained-objects", "t", "critical", 0.9, 150 * MiB, Subject())]
    )
    assert "is not explained" in ruled_out.reason and "--agent off" in ruled_out.reason


GRADIENTS = """from torch.profiler import profile

def step(critic, x):
    score = critic(x).sum()
    score.backward({given})
    return x.grad.norm()

def main(critic):
    with profile({profiled}) as p:
        step(critic, 1)
"""
_PROFILER = "libtorch_cpu.so:_ZN5torch8profiler4impl19ThreadLocalSubqueue8begin_opERKN2at14RecordFunctionE"


def of_gradients(builder, given="", profiled="schedule=every", native_stack=""):
    builder = builder.source(PID, "/home/me/train.py", GRADIENTS.format(given=given, profiled=profiled))
    for at_s in (1.0, 10.0, 19.0):
        for line, share in ((4, 0.6), (5, 0.4)):
            stack = f"/home/me/train.py:10 main\n/home/me/train.py:{line} step"
            builder.allocated(PID, at_s, int(share * at_s * MiB), stack, sample_count=40, native_stack=native_stack)
    return builder


@pytest.mark.parametrize(
    ("code", "line", "advice"),
    [
        ({"given": "create_graph=True"}, 5, "torch.autograd.grad"),
        ({"given": "create_graph=False"}, None, None),
        ({"profiled": "record_shapes=True", "native_stack": _PROFILER}, 9, "schedule"),
        ({"profiled": "record_shapes=True"}, None, None),
        ({"native_stack": _PROFILER}, None, None),
        ({"profiled": "**options", "native_stack": _PROFILER}, 9, "schedule"),
        ({"profiled": "**options"}, None, None),
    ],
)
def test_what_a_library_is_known_to_keep_is_told_where_it_asked_for_what_stays(tmp_path, code, line, advice):
    """By the argument that makes it do so, or for want of the one that bounds it; else it is a call like others."""
    (finding,) = asked(of_gradients(trainer(tmp_path), **code).open(), only=["unexplained-growth"]).findings
    if line is None:
        assert not says(" ".join(finding.remedy), "schedule") and finding.mechanism is None
    else:
        assert (finding.subject.line, finding.mechanism) == (line, "library-registry")
        assert says(finding.title, "torch", f"train.py:{line}") and says(finding.remedy[0], advice)
        assert len(finding.remedy) == 1


@pytest.mark.parametrize("profiled", ["with_stack=True", "with_stack=True, schedule=every"])
def test_a_profiler_without_a_schedule_is_told_where_nothing_was_seen_while_it_traced(tmp_path, profiled):
    """And the first step that was counted once it had ended was none of the first: memory grew while it trained."""
    builder = sentinels(trainer(tmp_path), step=[0] * 18 + [1, 2])
    builder.source(PID, "/home/me/train.py", GRADIENTS.format(given="", profiled=profiled))
    (finding,) = asked(builder.note(PID, 3.0, *WATCHED).open(), only=["unexplained-growth"]).findings
    told = [one.text for one in finding.evidence]
    assert (finding.subject.line == 9) is ("schedule" not in profiled)
    assert any("traces the program" in text for text in told) is ("schedule" not in profiled)
