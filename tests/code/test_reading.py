"""Which lines read what a name holds, and whether they may still run: by how far the program was seen to come."""

from __future__ import annotations

import pytest

from leakscope.facts.code.index import Source
from leakscope.facts.code.names import Holder
from leakscope.facts.code.reading import reads_of

FILE = "/job/train.py"
TEXT = """\
import numpy as np

class Data:
    def load(self):
        self.raw = np.zeros(9)

    def prepare(self):
        self.scaled = (self.raw - self.raw.mean()) / self.raw.std()
        self.labels = self.raw > 0

    def batch(self, at):
        return self.scaled[at : at + 64]

def report(data):
    print(len(data.labels))

def main():
    data = Data()
    data.load()
    data.prepare()
    loader = Loader(data.labels)
    for step in range(1000):
        train(data.batch(step))
    report(data)

main()
"""


def line_of(text: str) -> int:
    return 1 + next(number for number, line in enumerate(TEXT.splitlines()) if text in line)


def reads(attribute: str, main_at: int) -> list[tuple[int, bool | None, bool]]:
    holder = Holder(attribute, "Data", "__main__", FILE, "attribute", "numpy.ndarray")
    reached = {(FILE, None): line_of("main()") + 9, (FILE, "main"): main_at}
    reached[FILE, None] = len(TEXT.splitlines())
    found = reads_of([Source("__main__", FILE, TEXT)], holder, reached)
    return [(read.line.line, read.is_over, read.is_given) for read in found]


IN_THE_LOOP = line_of("train(data.batch")


def test_a_stage_that_is_over_reads_no_more() -> None:
    assert reads("raw", IN_THE_LOOP) == [(8, True, False), (9, True, False)]


def test_what_a_loop_reads_by_way_of_a_method_goes_on_being_read() -> None:
    assert (12, False, False) in reads("scaled", IN_THE_LOOP)


def test_what_is_certain_to_come_goes_on_reading_it() -> None:
    of_report = [read for read in reads("labels", IN_THE_LOOP) if read[0] == line_of("print(len")]
    assert of_report == [(line_of("print(len"), False, False)]


AHEAD = """\
def main():
    rows = read()
    for step in range(1000):
        train(step)
    {between}
    {report}
"""


@pytest.mark.parametrize(
    ("between", "report", "goes_on"),
    [
        ("save()", "print(rows.mean())", True),
        ("save()", "if verbose: print(rows.mean())", None),
        ("if failed(): return", "print(rows.mean())", None),
        ("if failed(): print()", "print(rows.mean())", True),
    ],
)
def test_what_is_still_to_come_reads_it_where_nothing_decides_otherwise(
    between: str, report: str, goes_on: bool | None
) -> None:
    source = Source("__main__", FILE, AHEAD.format(between=between, report=report))
    holder = Holder("rows", "main", "__main__", FILE, "local", "numpy.ndarray")
    (read,) = reads_of([source], holder, {(FILE, "main"): 4})
    assert read.is_over is (None if goes_on is None else not goes_on)


def test_what_a_library_was_given_it_may_keep() -> None:
    assert (line_of("Loader("), True, True) in reads("labels", IN_THE_LOOP)


def test_before_the_stage_was_seen_to_end_nobody_can_tell() -> None:
    assert all(is_over is not True for _, is_over, _ in reads("raw", line_of("data.prepare()")))


@pytest.mark.parametrize(("key", "count"), [("a", 1), ("b", 2)])
def test_members_of_a_dict_are_read_by_their_keys(key: str, count: int) -> None:
    text = """\
def main():
    results = {}
    results["a"] = make()
    results["b"] = sort(results["a"])
    while True:
        use(results["b"])
        print(results["b"].shape)
"""
    holder = Holder("results", "main", "__main__", FILE, "local", "dict")
    found = reads_of([Source("__main__", FILE, text)], holder, {(FILE, "main"): 6, (FILE, None): 9}, key)
    assert len(found) == count
    assert [read.is_over for read in found] == ([True] if key == "a" else [False, False])


QUEUE = """\
class Feed:
    def fill(self):
        while True:
            self.frames.put(make())

    def take(self):
        return self.frames.get()

def main():
    feed = Feed()
    for _ in range(100):
        use(feed.take())
    while True:
        work()
"""


def test_who_only_puts_something_into_it_does_not_read_it() -> None:
    """A queue stands full: its producer waits at put(), and whoever took from it is done."""
    holder = Holder("frames", "Feed", "__main__", FILE, "attribute", "queue.Queue")
    reached = {(FILE, "fill"): 4, (FILE, "main"): 14}
    (taken,) = reads_of([Source("__main__", FILE, QUEUE)], holder, reached)
    assert (taken.line.line, taken.is_over) == (7, True)


def test_what_a_method_that_adds_gives_back_may_be_read() -> None:
    text = "def main():\n    groups = {}\n    while True:\n        use(groups.setdefault(key(), []))\n"
    holder = Holder("groups", "main", "__main__", FILE, "local", "dict")
    (read,) = reads_of([Source("__main__", FILE, text)], holder, {(FILE, "main"): 4})
    assert read.is_over is False


SHOWN = """\
def main():
    frame = read()
    table = frame.to_numpy()
    part = table[:100]
    columns = table.T
    own = table.copy()
    while True:
        step({read})
"""


@pytest.mark.parametrize(
    ("read", "type_name", "is_shared", "goes_on"),
    [
        ("part", "numpy.ndarray", False, True),
        ("columns[3]", "numpy.ndarray", False, True),
        ("part", "list", False, False),  # a slice of a list is a copy
        ("own", "numpy.ndarray", False, False),
        ("frame", "numpy.ndarray", True, True),  # the heap says that something shows its memory
        ("frame", "numpy.ndarray", False, False),
    ],
)
def test_an_array_is_read_by_what_shows_its_memory(read: str, type_name: str, is_shared: bool, goes_on: bool) -> None:
    holder = Holder("table", "main", "__main__", FILE, "local", type_name, is_shared=is_shared)
    found = reads_of([Source("__main__", FILE, SHOWN.format(read=read))], holder, {(FILE, "main"): 8})
    assert any(one.is_over is False for one in found) is goes_on


CHAINED = """\
class Study:
    def read(self):
        self.raw = make()
        return self

    def clean(self):
        self.tidy = self.raw.dropna()
        return self

    def fit(self):
        inputs = self.tidy.to_numpy()
        for epoch in range(400):
            step(inputs)

def main():
    {statement}

main()
"""


@pytest.mark.parametrize(
    "statement",
    [
        "Study().read().clean().fit()",
        "(Study()\n     .read().clean()\n     .fit())",
        "Study.fit(Study().read().clean())",
    ],
)
def test_a_call_is_over_once_the_call_that_needs_its_result_runs(statement: str) -> None:
    """Both are in one statement, which is not over."""
    source = Source("__main__", FILE, CHAINED.format(statement=statement))
    in_main = {(FILE, None): len(source.text.splitlines()), (FILE, "main"): 16}
    for attribute, line in (("raw", 7), ("tidy", 11)):
        holder = Holder(attribute, "Study", "__main__", FILE, "attribute", "pandas.DataFrame")
        found = reads_of([source], holder, {**in_main, (FILE, "fit"): 13})
        assert (line, True) in [(one.line.line, one.is_over) for one in found]
        assert all(one.is_over is not True for one in reads_of([source], holder, in_main)), "fit() was not seen to run"


def test_a_statement_of_several_lines_is_over_when_its_last_is() -> None:
    text = "def main():\n    rows = read()\n    train(\n        rows,\n        model(),\n    )\n    use(model)\n"
    holder = Holder("rows", "main", "__main__", FILE, "local", "list")
    for at, is_over in ((5, False), (7, True)):
        (read,) = reads_of([Source("__main__", FILE, text)], holder, {(FILE, "main"): at})
        assert read.is_over is is_over


@pytest.mark.parametrize(("loop", "is_over"), [("[dict(r) for r in rows]", True), ("make(r := rows[0])", False)])
def test_what_a_comprehension_calls_a_member_is_none_of_its_functions(loop: str, is_over: bool) -> None:
    """A loop that goes through something else by the same name reads none of what the comprehension went through."""
    text = f"def main():\n    rows = load()\n    good = {loop}\n    while True:\n        use(r)\n"
    holder = Holder("rows", "main", "__main__", FILE, "local", "list")
    found = reads_of([Source("__main__", FILE, text)], holder, {(FILE, "main"): 5})
    assert any(one.is_over is False for one in found) is not is_over


def test_a_loop_reads_what_it_goes_through() -> None:
    text = "def main():\n    rows = read()\n    for row in rows:\n        work()\n        step(row)\n    print()\n"
    holder = Holder("rows", "main", "__main__", FILE, "local", "list")
    for at, is_over in ((4, False), (6, True)):
        found = reads_of([Source("__main__", FILE, text)], holder, {(FILE, "main"): at})
        assert [one.is_over for one in found if one.line.line == 3] == [is_over]


PICKS = """\
class Study:
    def build(self):
        self.short = make()
        self.long = make()

def main():
    study = Study()
    study.build()
    options = parse()
    for step in range(900):
        for kind in kinds:
            use({read})
"""


@pytest.mark.parametrize(
    ("read", "goes_on"),
    [
        ("getattr(study, kind)", True),
        ("vars(study)[kind]", True),
        ('getattr(study, "long")', False),
        ("getattr(options, kind)", True),  # whose that is cannot be seen
        ("vars(options)[kind]", False),
        ("pickle.dumps(study)", True),
    ],
)
def test_an_attribute_may_be_read_by_a_name_that_is_worked_out(read: str, goes_on: bool) -> None:
    text = PICKS.format(read=read) + "\nmain()\n"
    holder = Holder("short", "Study", "__main__", FILE, "attribute", "numpy.ndarray")
    found = reads_of([Source("__main__", FILE, text)], holder, {(FILE, None): 14, (FILE, "main"): 12})
    assert any(one.is_over is False for one in found) is goes_on


HANDED_ON = """\
class Flow:
    def load(self):
        self.raw = make()

    def clean(self):
        self.tidy = self.raw.dropna()

    def run(self, stages):
        for stage in stages:
            stage()

def main():
    flow = Flow()
    {how}
    for step in range(900):
        {then}

main()
"""


@pytest.mark.parametrize(
    ("how", "then", "is_over"),
    [
        ("for stage in (flow.load, flow.clean): stage()", "train()", True),
        ("flow.run([flow.load, flow.clean])", "train()", True),
        ("stages = {'clean': flow.clean}", "stages[name()]()", False),
        ("Thread(target=flow.clean).start()", "train()", False),  # for how long is not known
        ("register(*[flow.clean])", "train()", False),
    ],
)
def test_a_function_is_over_with_those_that_call_it_by_another_name(how: str, then: str, is_over: bool) -> None:
    source = Source("__main__", FILE, HANDED_ON.format(how=how, then=then))
    holder = Holder("raw", "Flow", "__main__", FILE, "attribute", "pandas.DataFrame")
    (read,) = reads_of([source], holder, {(FILE, None): 18, (FILE, "main"): 16, (FILE, "clean"): 6})
    assert (read.line.line, read.is_over) == (6, is_over)


SHARED = """\
class Source:
    def __init__(self):
        self.cache = {{}}

    def kept(self, number):
        if number not in self.cache:
            self.cache[number] = self.fresh(number)
        return self.cache[number]

    def fresh(self, number):
        return make(number)

def main():
    source = Source()
    for number in range(9):
        use(source.kept(number))
    while True:
        use(source.{then}(1))

def use(one):
    print(one.mean())
"""


@pytest.mark.parametrize(("then", "goes_on"), [("fresh", False), ("kept", True)])
def test_a_function_that_goes_on_reads_what_the_calls_that_go_on_give_it(then: str, goes_on: bool) -> None:
    holder = Holder("cache", "Source", "__main__", FILE, "attribute", "dict")
    reached = {(FILE, "main"): 18, (FILE, "use"): 21, (FILE, "kept"): 8, (FILE, "fresh"): 11}
    found = reads_of([Source("__main__", FILE, SHARED.format(then=then))], holder, reached)
    assert any(read.is_over is False for read in found) is goes_on
    assert (16 in {read.line.line for read in found}) is not goes_on, "the call that gave it is told"


@pytest.mark.parametrize(("report", "is_count"), [("print(len(rows))", True), ("print(len(rows), rows[0])", None)])
def test_a_line_that_asks_for_the_length_alone_is_told_apart(report: str, is_count: bool | None) -> None:
    source = Source("__main__", FILE, AHEAD.format(between="save()", report=report))
    holder = Holder("rows", "main", "__main__", FILE, "local", "list")
    counts = {read.is_count for read in reads_of([source], holder, {(FILE, "main"): 4})}
    assert counts == ({True} if is_count else {True, False})


GENERATOR = """\
class Corpus:
    def batches(self):
        yield self.words[:8]

def main():
    corpus = Corpus()
    {made}
    {loop}
        step()
    finish()
    report()
"""


@pytest.mark.parametrize(
    ("made", "loop"),
    [
        ("pass", "for batch in corpus.batches():"),
        ("pass", "for number, batch in enumerate(corpus.batches()):"),
        ("batches = corpus.batches()", "for batch in batches:"),
        ("batches = iter(corpus.batches())", "while next(batches):"),
    ],
)
@pytest.mark.parametrize(("at", "goes_on"), [(9, True), (11, False)])
def test_a_generator_goes_on_as_long_as_its_members_are_asked_for(made: str, loop: str, at: int, goes_on: bool) -> None:
    holder = Holder("words", "Corpus", "__main__", FILE, "attribute", "numpy.ndarray")
    source = Source("__main__", FILE, GENERATOR.format(made=made, loop=loop))
    (read,) = reads_of([source], holder, {(FILE, "main"): at, (FILE, "batches"): 3})
    assert read.is_over is not goes_on


OPTIONS = """\
import argparse

class Corpus:
    def __init__(self):
        self.buckets = {}

    def mark(self):
        print(self.buckets[1])

def main():
    options = argparse.ArgumentParser().parse_args()
    corpus = Corpus()
    corpus.mark()
    while True:
        print(options.buckets)
"""


def test_an_option_of_its_name_is_not_the_attribute() -> None:
    holder = Holder("buckets", "Corpus", "__main__", FILE, "attribute", "dict")
    found = reads_of([Source("__main__", FILE, OPTIONS)], holder, {(FILE, "main"): 15, (FILE, "mark"): 8})
    assert [(read.line.line, read.is_over) for read in found] == [(8, True)]


ASKED = """\
class Frontier:
    def __init__(self):
        self.seen = set()
        self.last = None

    def add(self, url):
        if url in self.seen:
            return
        self.seen.add(url)

def main():
    frontier = Frontier()
    while True:
        frontier.add(fetch())
        if frontier.last is None:
            rest()

main()
"""


def test_what_only_a_condition_looks_into_is_read_and_not_what_is_asked_whether_it_is_none() -> None:
    reached = {(FILE, None): 18, (FILE, "main"): 14, (FILE, "add"): 9}
    for attribute, expected in (("seen", [(7, False)]), ("last", [])):
        holder = Holder(attribute, "Frontier", "__main__", FILE, "attribute", "set")
        found = reads_of([Source("__main__", FILE, ASKED)], holder, reached)
        assert [(read.line.line, read.is_over) for read in found] == expected
