"""The line a user would edit is found in the styles people write; odd source never raises."""

from __future__ import annotations

import json
import time
from pathlib import Path

import pytest

from leakscope.facts.code.adding import Holder, Line, Source, adding_lines, find_calls, thread_start_line
from leakscope.facts.code.keeping import kept_as

# One style of program each. Its first line says what holds the memory, "# HERE" marks the line that has to come first.
STYLES = sorted((Path(__file__).parents[1] / "code" / "adding").glob("*.py"), key=lambda path: path.name)


def _source(text: str, file: str = "/home/me/service.py", module: str = "__main__") -> Source:
    return Source(module, file, text)


def _marked(text: str) -> int:
    return next(n for n, line in enumerate(text.split("\n"), 1) if "# HERE" in line)


@pytest.mark.parametrize("style", STYLES, ids=lambda path: path.stem)
def test_the_line_that_adds_comes_first(style: Path) -> None:
    text = style.read_text(encoding="utf-8")
    first = text.split("\n", 1)[0].removeprefix("# holder: ")
    variable, owner, kind, type_name, *library = first.split(", ")
    module, file = library or ("__main__", "/home/me/service.py")
    lines = adding_lines([_source(text)], Holder(variable, owner, module, file, kind, type_name))
    assert [line.line for line in lines[:1]] == [_marked(text)], lines
    assert lines[0].text.endswith("# HERE")


def test_styles_are_there() -> None:
    assert len(STYLES) > 80


def test_a_line_names_file_function_and_how_it_was_found() -> None:
    text = "class A:\n    def add(self, x):\n        self.rows.append(x)\n"
    holder = Holder("rows", "A", "__main__", "/home/me/service.py", "attribute", "builtins.list")
    line = adding_lines([_source(text)], holder)[0]
    assert (line.file, line.line, line.function) == ("/home/me/service.py", 3, "A.add")
    assert (line.text, line.kind) == ("self.rows.append(x)", "adds")


def test_where_nothing_adds_the_creation_is_named_as_such() -> None:
    line = adding_lines([_source("def main():\n    x = make()\n")], Holder("x", "main", edge_kind="local"))[0]
    assert (line.line, line.kind) == (2, "creates")


@pytest.mark.parametrize(
    "user",
    [
        "import store\ndef f(x):\n    store.ROWS.append(x)  # HERE\n",
        "import store as s\ndef f(x):\n    s.ROWS[x] = x  # HERE\n",
        "from store import ROWS\ndef f(x):\n    ROWS.append(x)  # HERE\n",
        "from store import ROWS as R\ndef f(x):\n    R.append(x)  # HERE\n",
        "from lib import store\ndef f(x):\n    store.ROWS.append(x)  # HERE\n",
    ],
)
def test_a_global_is_added_to_from_another_module(user: str) -> None:
    sources = [_source("ROWS = {}\n", "/home/me/store.py", "store"), _source(user, "/home/me/app.py", "__main__")]
    lines = adding_lines(sources, Holder("ROWS", "store", "store", "/home/me/store.py", "global", "dict"))
    assert (lines[0].file, lines[0].line) == ("/home/me/app.py", 3)


def test_a_function_of_another_module_receives_the_holder() -> None:
    helper = _source("def note(rows, x):\n    rows.append(x)\n", "/home/me/helper.py", "helper")
    main = _source("import helper\ndef main():\n    kept = []\n    while True:\n        helper.note(kept, 1)\n")
    lines = adding_lines([main, helper], Holder("kept", "main", "__main__", main.file, "local", "list"))
    assert (lines[0].file, lines[0].line) == (helper.file, 2)


def test_a_name_that_is_nowhere_gives_nothing() -> None:
    assert adding_lines([_source("x = 1\n")], Holder("rows", "A", "__main__", "/home/me/service.py")) == []
    assert adding_lines([], Holder("rows")) == []


@pytest.mark.cases(2)
@pytest.mark.parametrize(
    "text",
    [
        "",
        "\ufeff",
        "\0\0\0",
        "print 'python 2'\n",
        "def f(:\n",
        "'''never closed\n",
        "x = " + "(" * 500,
        "x = " + "+".join(["rows"] * 20_000),
        "\x0c\nclass A:\n\tdef f(self):\n  \tself.rows.append(1)\n",
        "\udcff = 1\n",
        "def A():\n    rows = " + " + ".join(["rows"] * 900),
        "def A():\n    rows = f(rows" + ".next()" * 300 + ")",
        "def A():\n    rows = " + "rows if x else " * 90 + "rows",
        "rows: int\nfor rows[0], *rows in rows: del rows\nrows()()\n",
        "class A(A): rows = property(lambda self: self.rows)\n",
        "from rows import *\nimport a.b as rows\nrows.c.d[0].e.add(1)\n",
        "def A():\n    rows" + "[0]" * 900 + " = 1",
        "for x in " + "f(" * 90 + "rows" + ")" * 90 + ": x = rows = x; rows.add(x)",
        "def f(x): return f(x)\nrows = f(f(rows)); rows.append(rows); f(*rows, **rows)\n",
        "class A:\n    def add(self): super().add(self); self.rows = self.rows.rows = self\nA.add(A)(A())\n",
    ],
)
def test_odd_source_never_raises(text: str) -> None:
    for kind in ("attribute", "local", "global", "cell", "default", "cache", "item", ""):
        adding_lines([_source(text)], Holder("rows", "A", "__main__", "/home/me/service.py", kind, "list"))
    thread_start_line([_source(text)], "rows")
    find_calls([_source(text)], "gc.disable")
    for number in range(1, 9):
        kept_as([_source(text)], Line("/home/me/service.py", number, None, "", "calls", 1.0))


def test_what_parses_is_used_where_the_rest_does_not() -> None:
    text = (
        "def f(:\n    pass\n\nclass A:\n    def add(self, x):\n        self.rows.append(x)\n\nclass B:\n    def cut_of"
    )
    lines = adding_lines([_source(text)], Holder("rows", "A", "__main__", "/home/me/service.py"))
    assert lines[0].line == 6


def test_lines_are_counted_as_python_counts_them() -> None:
    text = "A = '\x0c\u2028'\r\nrows = []\r\ndef f(x):\r\n    rows.append(x)\r\n"
    lines = adding_lines([_source(text)], Holder("rows", "service", "__main__", "/home/me/service.py", "global"))
    assert (lines[0].line, lines[0].text) == (4, "rows.append(x)")


@pytest.mark.slow
def test_a_large_program_is_read_within_seconds() -> None:
    body = "\n".join(f"def f{n}(x):\n    y = g(x)\n    rows{n} = [y, x]\n    rows{n}.append(y)\n" for n in range(4_000))
    sources = [_source(body, f"/home/me/big{n}.py", f"big{n}") for n in range(40)]
    mine = _source("rows = []\ndef f(x):\n    rows.append(x)\n")
    started = time.process_time()
    lines = adding_lines([*sources, mine], Holder("rows", "service", "__main__", mine.file, "global", "list"))
    assert lines[0].line == 3
    assert time.process_time() - started < 30


START = {
    "a subclass, started by its variable": ("Poller.run", """
import threading
class Poller(threading.Thread):
    def run(self):
        pass
class Service:
    def configure(self):
        poller = Poller()
        poller.start()  # HERE
"""),
    "a target": ("work", """
from threading import Thread
def work(n):
    pass
def main():
    for n in range(9):
        Thread(target=work, args=(n,), daemon=True).start()  # HERE
"""),
    "a method as the target, kept in an attribute": ("Watcher._watch", """
import threading
class Watcher:
    def _watch(self):
        pass
    def open(self):
        self.thread = threading.Thread(target=self._watch)
        self.thread.start()  # HERE
"""),
    "a process": ("child", """
import multiprocessing as mp
def child():
    pass
def main():
    while True:
        p = mp.Process(target=child)
        p.start()  # HERE
"""),
    "a timer": ("tick", """
from threading import Timer
def tick():
    timer = Timer(5.0, tick)
    timer.start()  # HERE
"""),
    "a list of them, started later": ("work", """
import threading
def work():
    pass
def main():
    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()  # HERE
"""),
    "an executor": ("fetch", """
def fetch(url):
    pass
def main(pool, urls):
    for url in urls:
        pool.submit(fetch, url)  # HERE
"""),
}  # fmt: skip


@pytest.mark.parametrize("style", START)
def test_where_threads_are_started(style: str) -> None:
    name, text = START[style]
    line = thread_start_line([_source(text)], name)
    assert line is not None
    assert line.line == _marked(text), line


def test_no_start_is_no_line() -> None:
    assert thread_start_line([_source("def work():\n    pass\nwork()\n")], "work") is None


def test_calls_are_found_under_every_name_they_were_imported_as() -> None:
    text = "import gc\nfrom gc import freeze as stop\ngc.disable()\n# gc.disable()\n"
    text += "def f():\n    stop()\n    x.disable()\n"
    lines = find_calls([_source(text)], "gc.disable", "gc.set_threshold", "gc.freeze")
    assert [(line.line, line.function) for line in lines] == [(3, None), (6, "f")]


# ---- whole programs, where they lie beside the project

PROGRAMS = Path(__file__).parents[3] / "shared" / "programs"
CULPRITS = {  # program: variable, owner, edge kind, type
    "hand-frames-shared-memory": ("segments", "FrameChannel", "attribute", "list"),
    "hand-dedupe-sqlite-memory": ("db", "Deduplicator", "attribute", "sqlite3.Connection"),
    "hand-event-writer-pickler": ("pickler", "Journal", "attribute", "_pickle.Pickler"),
    "hand-preview-numpy-views": ("previews", "Archive", "attribute", "list"),
    "hand-shipment-class-attr": ("by_tracking", "Shipment", "class-attribute", "dict"),
    "hand-tee-audit-branch": ("audit", "main", "local", "itertools._tee"),
    "hand-webhook-sessions-module": ("_BY_TOKEN", "sessions", "global", "dict"),
    "ml-album-workers": ("rows", "TilePairs", "attribute", "list"),
    "ml-clip-loader": ("frames", "ClipReader", "attribute", "dict"),
    "ml-dqn-frames": ("items", "ReplayMemory", "attribute", "list"),
    "ml-grad-sync": ("in_flight", "GradSync", "attribute", "list"),
    "ml-increment-heads": ("optimizer", "main", "local", "torch.optim.adam.Adam"),
    "ml-memory-bank": ("keys", "NegativeBank", "attribute", "list"),
    "ml-metric-logger": ("rows", "MetricLogger", "attribute", "list"),
    "ml-phrase-miner": ("counts", "Vocabulary", "attribute", "dict"),
    "ml-rollout-workers": ("trajectories", "Learner", "attribute", "list"),
    "ml-segment-val-history": ("curves", "Experiment", "attribute", "list"),
    "ml-skip-bad-batch": ("skipped", "Training", "attribute", "list"),
    "two-geo-lru-and-mmap": ("route", "route", "cache", "functools._lru_cache_wrapper"),
}


@pytest.mark.skipif(not PROGRAMS.is_dir(), reason="the sample programs are not beside the project")
@pytest.mark.parametrize("program", CULPRITS)
def test_the_culprit_of_a_whole_program(program: str) -> None:
    folder = PROGRAMS / program
    variable, owner, kind, type_name = CULPRITS[program]
    culprit = json.loads((folder / "truth.json").read_text())["culprit"]
    sources = [Source(f.stem if f.stem != "script" else "__main__", str(f), f.read_text()) for f in folder.glob("*.py")]
    holder = Holder(variable, owner, None, str(folder / culprit["file"]), kind, type_name)
    assert _place(adding_lines(sources, holder)) == (culprit["file"], culprit["line"])


def test_the_line_of_a_cache_in_an_attribute_is_the_one_that_makes_it():
    text = """class Lexicon:
    def __init__(self):
        self.vector = lru_cache(maxsize=12_000)(self._vector)

def main(lexicon):
    while True:
        print(lexicon.vector.cache_info().currsize)
"""
    holder = Holder("vector", "Lexicon", None, "/job/train.py", "attribute", "functools._lru_cache_wrapper")
    assert [line.line for line in adding_lines([_source(text)], holder)] == [3]


def test_a_call_is_found_by_its_whole_name_however_its_module_was_imported():
    text = """import torch
from torch import jit
import torch.jit as compiling


def main(model, trace):
    torch.jit.trace(model)
    jit.trace(model)
    compiling.trace(model)
    trace.jit.trace(model)
"""
    found = find_calls([_source(text)], "torch.jit.trace")
    assert [line.line for line in found] == [7, 8, 9]


def _place(lines: list[Line]) -> tuple[str, int] | None:
    return (Path(lines[0].file).name, lines[0].line) if lines else None


RECORD = """
class Run:
    def __init__(self):
        self.progress = {"loss": [], "samples": [], "maps": {"loss": []}}
    def step(self, loss, fake):
        self.progress["loss"].append(loss)
        samples = self.progress["samples"]
        samples.append(fake)
        self.progress["maps"]["loss"].append(fake)
        self.progress["last"] = loss
"""


@pytest.mark.parametrize(("key", "line"), [("loss", 6), ("samples", 8), ("maps", 9), ("last", 10)])
def test_of_a_record_the_member_that_grows_is_the_one_that_counts(key: str, line: int) -> None:
    holder = Holder("progress", "Run", "__main__", "/job/run.py", "attribute", "dict", key)
    found = adding_lines([Source("__main__", "/job/run.py", RECORD)], holder)
    assert (found[0].line, found[0].kind) == (line, "adds")


def test_lines_that_only_read_are_not_said_to_add():
    source = Source(
        "train",
        "/train.py",
        """
history = defaultdict(list)
def hook(p):
    g = history[p.name]
    g.append(p.grad.clone())
    p.smooth = torch.stack(g[-20:])
    log(torch.stack(history[p.name][-20:]).mean())
def main():
    global history
    while True:
        hook(param)
        history = sorted(history, key=len)
""",
    )
    holder = Holder("history", "train", "train", "/train.py", "global", "collections.defaultdict")
    lines = [line for line in adding_lines([source], holder) if line.kind == "adds"]
    assert lines[0].text == "g.append(p.grad.clone())"
    assert not any("smooth" in line.text or "sorted" in line.text for line in lines)


def test_taking_out_of_a_member_that_is_looked_up_is_not_said_to_add():
    source = _source(
        """
class Broker:
    def __init__(self):
        self.topics = defaultdict(dict)
    def subscribe(self, topic, sid, callback):
        self.topics[topic][sid] = callback
    def unsubscribe(self, topic, sid):
        self.topics[topic].pop(sid, None)
"""
    )
    holder = Holder("topics", "Broker", "__main__", source.file, "attribute", "collections.defaultdict")
    lines = [line.text for line in adding_lines([source], holder) if line.kind == "adds"]
    assert lines == ["self.topics[topic][sid] = callback"]


def test_taking_members_out_by_a_new_list_is_not_said_to_add():
    source = Source(
        "bus",
        "/bus.py",
        """
class Bus:
    def __init__(self):
        self._receivers = defaultdict(list)
    def connect(self, topic, receiver):
        self._receivers[topic].append(receiver)
    def disconnect(self, topic, receiver):
        self._receivers[topic] = [r for r in self._receivers[topic] if r is not receiver]
""",
    )
    holder = Holder("_receivers", "Bus", "bus", "/bus.py", "attribute", "collections.defaultdict")
    assert adding_lines([source], holder)[0].text == "self._receivers[topic].append(receiver)"
