"""Which mechanism a recording and its sources prove, and that the advice is of that one."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from leakscope import analyze
from leakscope.findings import Finding
from tests.sentences import says

from .test_lines_of_holders import LIBRARY, told
from .test_retained import MB, TAKES_S, first, growing_run, place

Holders = Callable[[float], list[dict[str, Any]]]


def listed(variable: str = "main() rows", **columns: Any) -> Holders:
    def holders(f: float) -> list[dict[str, Any]]:
        deep, count, kind = 240 * MB * f, 2000 * f, columns.get("member_type", "Row")
        members = {"parent": variable, "edge_kind": "item", "object_count": count}
        return [
            place(variable, deep, length=count, **{"member_type": "Row", **columns}),
            place(f"{variable}[*]", 0.99 * deep, type_name=kind, **members),
        ]

    return holders


def rows_of(type_name: str) -> Holders:
    """``rows`` of ``kept``, a local of main()."""

    def holders(f: float) -> list[dict[str, Any]]:
        deep = 240 * MB * f
        own = {"length": 2000 * f, "member_type": "Row", "owner": "Kept", "type_name": type_name}
        return [place("main() kept", deep, type_name="__main__.Kept"), place("main() kept.rows", deep, **own)]

    return holders


def in_class(body: str, run: str = "kept.add(row())") -> str:
    lines = "".join(f"    {line}\n" if line else "\n" for line in body.split("\n"))
    return f"class Kept:\n{lines}\n\ndef main():\n    kept = Kept()\n    while True:\n        {run}\n"


SLOW = in_class("""def __init__(self):
    self.rows = queue.Queue()

def add(self, row):
    self.rows.put(row)

def work(self):
    while True:
        store(self.rows.get())""")
CACHE = in_class("""def __init__(self):
    self.rows = {}

def add(self, key):
    if key not in self.rows:
        self.rows[key] = read(key)
    return self.rows[key]""")
SHELF = in_class("""def __init__(self):
    self.rows = {}

def add(self, row):
    self.rows[row.name] = row
    show(self.rows)""")
COUNTS = in_class("""def __init__(self):
    self.rows = []
    self.count = 0

def add(self, row):
    self.rows.append(row)
    self.count += 1""")
LATEST = COUNTS.replace("self.count += 1", "print('rows', self.rows[-1], sum(self.rows[-3:]))")
TENSORS = """def main():
    rows = []
    while True:
        frames = batch()
        best = int(frames.argmax())
        rows.append(frames[best, :8])
        show(rows)
"""
COPIES = TENSORS.replace("frames[best, :8]", "frames[frames > 3]")


VANISH = in_class("""def __init__(self):
    self.rows = set()

def add(self, row):
    self.rows.add(row)
    serve(row)
    self.rows.remove(row)""")
EXPIRES = in_class("""def __init__(self):
    self.rows = {}

def get(self, key):
    if key in self.rows:
        since, value = self.rows[key]
        if clock() - since > 60:
            del self.rows[key]
            return None
        return value
    return None

def add(self, key):
    self.rows[key] = (clock(), show(self.get(key)))""")
READS = in_class("""def __init__(self):
    self.rows = defaultdict(Kind)

def add(self, key):
    kind = self.rows[key]
    return kind.name""")
CHANGES = READS.replace("kind.name", "kind.add(1)")
FUTURES = in_class("""def __init__(self):
    self.rows = []

def add(self, row):
    self.rows.append(row)
    show(self.rows)""")
ANEW = in_class("""def __init__(self):
    self.rows = pandas.DataFrame()

def add(self, row):
    self.rows = pandas.concat([self.rows, row])
    show(self.rows)""")
TEXT = in_class("""def __init__(self):
    self.rows = ""

def add(self, row):
    self.rows += str(row)
    show(self.rows)""")


EXPIRED = in_class("""def __init__(self):
    self.rows = {}

def add(self, row):
    # forget() is called each minute: self.forget(row)
    self.rows[row.name] = row
    show(self.rows)

def forget(self, name):
    del self.rows[name]""")
RESET = EXPIRED.replace("forget(self, name)", "forget(self)").replace("del self.rows[name]", "self.rows.clear()")
JOBS = in_class("""def __init__(self):
    self.rows = {}

def add(self, row):
    self.rows[row] = time()
    show(self.rows)""")
LISTS = JOBS.replace("self.rows[row] = ", "self.rows[row.id].append(row)  # ")
GROUPS = JOBS.replace("self.rows[row]", "self.rows.setdefault(row.user, {})[row.path]")


TOPICS = in_class(
    """def __init__(self):
    self.rows = defaultdict(dict)

def add(self, topic, row):
    self.rows[topic][row] = print

def leave(self, topic, row):
    self.rows[topic].pop(row, None)""",
    """row = next_row()
        kept.add("a", row)
        try:
            serve(row)
            kept.leave("a", row)
        except OSError:
            failed(row)""",
)
SELDOM = TOPICS.replace("serve(row)", "show(row)").replace("kept.leave", "if row.is_last: kept.leave")
FOUND = in_class("""def __init__(self):
    self.rows = {}

def add(self, key):
    if key in self.rows:
        return self.rows[key]
    self.rows[key] = read(key)
    return self.rows[key]""")


def of_topics(f: float) -> list[dict[str, Any]]:
    kept, rows = rows_of("collections.defaultdict")(f)
    inside = {"length": 2000 * f, "member_type": "method", "parent": "main() kept.rows", "edge_kind": "item"}
    topic = place("main() kept.rows['a']", 240 * MB * f, type_name="dict", **inside)
    return [kept, {**rows, "length": 3, "member_type": "dict"}, topic]


def of_members(kind: str) -> Holders:
    return lambda f: [{**one, "member_type": kind} for one in rows_of("list")(f)]


def of_failed(f: float) -> list[dict[str, Any]]:
    own = {"object_count": 2000 * f, "variable": None, "edge_kind": "item"}
    member = place("main() kept.rows[*]", 238 * MB * f, parent="main() kept.rows", type_name="_base.Future", **own)
    inside = {"object_count": 2000 * f, "parent": "main() kept.rows[*]", "type_name": "traceback"}
    return [*of_members("_base.Future")(f), member, place("main() kept.rows[*].error", 230 * MB * f, **inside)]


def of_jobs(f: float) -> list[dict[str, Any]]:
    return [{**one, "member_type": "_base.Future"} for one in rows_of("dict")(f)]


def of_views(f: float) -> list[dict[str, Any]]:
    rows, members = listed(member_type="torch.Tensor")(f)
    return [{**rows, "tensor_deep_bytes": int(239 * MB * f), "unshown_bytes": int(230 * MB * f)}, members]


def of_fixed_keys(f: float) -> list[dict[str, Any]]:
    """As many lists as there are samples, of which each gets longer."""
    kept, rows = rows_of("collections.defaultdict")(f)
    own = {"object_count": 4000, "variable": None, "edge_kind": "item", "parent": "main() kept.rows"}
    return [kept, {**rows, "length": 4000}, place("main() kept.rows[*]", 238 * MB * f, type_name="list", **own)]


def of_frame(f: float) -> list[dict[str, Any]]:
    kept, rows = rows_of("pandas.DataFrame")(f)
    inside = {"type_name": "numpy.ndarray", "variable": None, "edge_kind": "reference", "is_user": False}
    array = place("main() kept.rows.<ndarray>", 240 * MB * f, array_deep_bytes=int(240 * MB * f), **inside)
    return [kept, {**rows, "length": None, "member_type": None}, array]


def of_jobs_in_queue(f: float) -> list[dict[str, Any]]:
    """Each a dict, of which one entry weighs; a member that was looked into has a way to it."""
    inside = {"owner": "Queue", "owner_module": "queue", "is_user": False}
    jobs, deep = "main() kept.rows.queue", 240 * MB * f
    member = {"parent": jobs, "edge_kind": "item", "type_name": "dict", "variable": None, "is_user": False}
    return [
        *rows_of("queue.Queue")(f),
        place(jobs, deep, parent="main() kept.rows", type_name="collections.deque", length=2000 * f,
              member_type="dict", variable="queue", edge_kind="attribute", **inside),
        place(f"{jobs}[0]", MB, length=2, **member),
        place(f"{jobs}[0]['data']", 0.99 * MB, parent=f"{jobs}[0]", edge_kind="item", type_name="bytes",
              variable=None, is_user=False),
    ]  # fmt: skip


LISTENS = """class Kept:
    def __init__(self):
        self.rows = []

    def emit(self):
        return [finish() for finish in self.rows]


class Row:
    def __init__(self, kept):
        self.text = read()
        kept.rows.append(self.finish)

    def finish(self):
        return self.text


def main():
    kept = Kept()
    while True:
        Row(kept)
"""


@pytest.mark.parametrize(
    ("source", "holders", "mechanism", "words"),
    [
        (LISTENS, rows_of("list"), "kept-callables", ["take each method out of", "weakref.WeakMethod"]),
        (SLOW, rows_of("queue.Queue"), "slow-consumer", ["train.py:6", "train.py:10", "maxsize"]),
        (SLOW, of_jobs_in_queue, "slow-consumer", ["train.py:6", "train.py:10", "maxsize"]),
        (CACHE, rows_of("dict"), "keys-that-do-not-repeat", ["(key)", "lru_cache(maxsize=N)"]),
        (TOPICS, of_topics, "removal-not-reached",
         ["train.py:9 removes members of Kept.rows", "train.py:19 calls it", "finally of the try at train.py:17"]),
        (SELDOM, of_topics, "removal-not-reached", ["train.py:9", "train.py:19 calls it only if row.is_last"]),
        (FOUND, rows_of("dict"), "keys-that-do-not-repeat", ["(key)", "lru_cache(maxsize=N)"]),
        (SHELF, rows_of("dict"), "unbounded-container", ["row.name", "delete each entry"]),
        (COUNTS, rows_of("list"), "never-read", ["nothing in the sources reads Kept.rows", "train.py:7"]),
        (COUNTS.replace("+= 1", "= len(self.rows)"), rows_of("list"), "unbounded-container", ["del self.rows[:-N]"]),
        (LATEST, rows_of("list"), "unbounded-container", ["keep only the latest 3 of Kept.rows", "del self.rows[:-3]"]),
        (TENSORS, of_views, "views", ["that show", "keep a .clone() of each", "train.py:6"]),
        (COPIES, listed(member_type="torch.Tensor"), "unbounded-container", ["del rows[:-N]"]),
        (VANISH, rows_of("set"), "removal-not-reached", ["train.py:8", "finally", "train.py:6"]),
        (EXPIRES, rows_of("dict"), "removal-not-reached", ["train.py:9", "only if get() is asked", "train.py:15"]),
        (READS, rows_of("collections.defaultdict"), "made-by-reading", ["self.rows.get(key)", "train.py:6"]),
        (CHANGES, rows_of("collections.defaultdict"), "unbounded-container", ["delete each entry", "train.py:7"]),
        (FUTURES, of_members("_base.Future"), "finished-work", ["add_done_callback(self.rows.remove)"]),
        (COUNTS, of_members("_asyncio.Task"), "finished-work", ["add_done_callback(self.rows.remove)"]),
        (JOBS, of_jobs, "finished-work", ["add_done_callback(lambda _: self.rows.pop(row, None))"]),
        (EXPIRED, rows_of("dict"), "removal-not-reached", ["forget(), which nothing calls", "no longer needed"]),
        (RESET, rows_of("dict"), "removal-not-reached", ["forget(), which nothing calls", "once they have been used"]),
        (LISTS, of_fixed_keys, "unbounded-container", ["empty self.rows[row.id]", "del self.rows[row.id][:-N]"]),
        (GROUPS, rows_of("dict"), "unbounded-container", ["a new one for each row.user"]),
        (FUTURES, of_failed, "tracebacks", ["once it is done", "also where it failed", "clear_frames"]),
        (FUTURES, of_members("re.Match"), "views", [".group()"]),
        (FUTURES, of_members("lxml.etree._Element"), "views", ["its whole tree", "as its text", "copy.deepcopy()"]),
        (ANEW, of_frame, "rebuilt-with-more", ["self.rows", "train.py:6"]),
        (TEXT, rows_of("str"), "rebuilt-with-more", ["self.rows", "train.py:6"]),
    ],
    ids=["listeners", "queue", "jobs in a queue", "cache", "topics", "seldom", "found", "dict", "never read", "read",
         "latest", "views", "copies", "raised", "expires", "reads", "changes",
         "done", "unread", "jobs", "comment", "reset", "lists", "groups", "failed", "match", "element", "anew", "text"],
)  # fmt: skip
def test_the_advice_is_of_the_mechanism_that_is_proved(
    tmp_path: Path, source: str, holders: Holders, mechanism: str, words: list[str]
) -> None:
    found = told(tmp_path, source, holders)
    assert found.mechanism == mechanism and says(found.remedy[0], *words), found.remedy


METRICS = """class Metrics:
    def __init__(self):
        self.rows = defaultdict(list)

    def add(self, step, **values):
        for name, value in values.items():
            self.rows[name].append((step, value))


def main():
    metrics = Metrics()
    while True:
        loss = step()
        metrics.add(1, rate=0.1, entropy=loss)
        show(metrics.rows)
"""


def test_what_one_of_several_lists_has_is_told_by_its_key(tmp_path: Path) -> None:
    """What the line that adds to all of them is given for others is no tensor, which the edit asks."""

    def holders(f: float) -> list[dict[str, Any]]:
        deep, key = 240 * MB * f, "main() metrics.rows['entropy']"
        kind = "collections.defaultdict"
        inside = {"parent": "main() metrics.rows", "edge_kind": "item", "type_name": "list", "member_type": "tuple"}
        graph = {"edge_kind": "reference", "type_name": "torch autograd graph", "object_count": 4000 * f}
        return [
            place("main() metrics", deep, type_name="__main__.Metrics"),
            place("main() metrics.rows", deep, length=5, type_name=kind, owner="Metrics", member_type="list"),
            place(key, deep, length=2000 * f, **inside),
            place(f"{key}[*].grad_fn", 0.99 * deep, parent=key, **graph),
        ]

    found = told(tmp_path, METRICS, holders)
    assert (found.mechanism, found.subject.line) == ("autograd-history", 7)
    assert says(found.remedy[0], "'entropy' at train.py:7", "float()", "plain numbers"), found.remedy
    assert found.edit is not None and 'value.detach() if hasattr(value, "detach") else value' in (found.edit.diff or "")


PROFILES = """import functools


class Profile:
    def __init__(self, number):
        self.history = [number] * 400

    @functools.lru_cache(maxsize=None)
    def affinity(self, category):
        return len(self.history) * category


class Shop:
    def __init__(self):
        self.tasks = set()

    def emit(self, task):
        self.tasks.add(task)


def main():
    shop = Shop()
    while True:
        Profile(1).affinity(2)
        shop.emit(task())
"""


def test_the_line_that_allocated_what_one_holder_has_is_no_evidence_of_another(tmp_path: Path) -> None:

    def holders(f: float) -> list[dict[str, Any]]:
        cache = {"edge_kind": "cache", "variable": "affinity", "owner": "Profile.affinity", "root_kind": "module"}
        inside = {"edge_kind": "reference", "root_kind": "module", "parent": "train.affinity"}
        deep, kind = 180 * MB * f, "functools._lru_cache_wrapper"
        members = place("train.affinity[*]", deep, type_name="tuple", object_count=9000 * f, **inside)
        return [
            place("train.affinity", deep, parent=None, length=9000 * f, type_name=kind, **cache),
            members,
            place("main() shop", 60 * MB * f, type_name="__main__.Shop"),
            place("main() shop.tasks", 60 * MB * f, length=4000 * f, type_name="set", owner="Shop", member_type="Row"),
        ]

    builder = growing_run(tmp_path, PROFILES)
    for number, at_s in enumerate(TAKES_S, 1):
        builder.take(100, number, at_s, holders=holders(at_s / 24), rss_bytes=50 * MB + round(at_s * 10 * MB))
        stack = "/job/train.py:23 main\n/job/train.py:6 Profile.__init__"
        builder.allocated(100, at_s, int(at_s * 3 * MB), stack, sample_count=int(20 * at_s))
    findings = [f for f in analyze(builder.ends(24.0, exit_code=0).open()).findings if f.kind == "retained-objects"]
    assert findings[1].subject.variable == "tasks"
    allocated = [any("train.py:6 allocated" in one.text for one in found.evidence) for found in findings]
    assert allocated == [True, False]


def with_more(folder: Path, base: str | None) -> Finding:
    source = "def main():\n    rows = []\n    while True:\n        rows.append(cell().string)\n        show(rows)\n"
    builder = growing_run(folder, source)
    for number, at_s in enumerate(TAKES_S, 1):
        f = at_s / 24
        one = {"edge_kind": "item", "parent": "main() rows"}
        holders = [
            place("main() rows", 240 * MB * f, length=2000 * f, member_type="soup.Text"),
            place("main() rows[*]", 40 * MB * f, type_name="soup.Text", object_count=2000 * f, **one),
            place("main() rows[0].parent", 200 * MB * f, type_name="soup.Tag", object_count=9000 * f,
                  **{**one, "edge_kind": "attribute", "variable": "parent", "owner": "Text", "is_user": False}),
        ]  # fmt: skip
        types = [{"type_name": "soup.Text", "base": base, "object_count": 2000 * f}]
        builder.take(100, number, at_s, holders=holders, types=types, rss_bytes=50 * MB + round(at_s * 10 * MB))
    return first(analyze(builder.ends(24.0, exit_code=0).open()))


def test_a_string_that_keeps_its_page_is_to_be_kept_as_a_string(tmp_path: Path) -> None:
    found = with_more(tmp_path, "str")
    assert found.mechanism == "values-with-more" and says(found.remedy[0], "str() of each Text", "Tag objects")
    assert found.edit is not None and "+        rows.append(str(cell().string))" in (found.edit.diff or "")


def test_an_object_that_is_no_value_is_kept_whole(tmp_path: Path) -> None:
    assert with_more(tmp_path, None).mechanism == "unbounded-container"


LABELS = """import prom

TOKENS = prom.Histogram("tokens", ["user"])


def main():
    while True:
        TOKENS.labels(user()).observe(1)
"""
PROM = """class Histogram:
    def labels(self, *values):
        return self._metrics.setdefault(values, Child())
{method}
"""
REMOVES = "\n    def remove(self, *values):\n        del self._metrics[values]\n"


@pytest.mark.parametrize(
    ("method", "mechanism", "words"),
    [
        (REMOVES, "library-way-out", ["TOKENS.remove()", "user()"]),
        ("", "library-keeps", ["user()", "let these repeat"]),
    ],
)
def test_the_librarys_own_way_out_is_named_where_its_source_has_one(
    tmp_path: Path, method: str, mechanism: str, words: list[str]
) -> None:
    builder = growing_run(tmp_path, LABELS)
    own = {**LIBRARY, "owner_module": "prom", "owner": "Histogram"}
    for number, at_s in enumerate(TAKES_S, 1):
        f = at_s / 24
        holders = [
            place("train.TOKENS", 240 * MB * f, parent=None, type_name="prom.Histogram", root_kind="module",
                  edge_kind="global", owner="train", variable="TOKENS"),
            place("train.TOKENS._metrics", 240 * MB * f, type_name="dict", length=9000 * f, member_type="prom.Child",
                  **{**own, "root_kind": "module"}),
        ]  # fmt: skip
        builder.take(100, number, at_s, holders=holders, rss_bytes=50 * MB + round(at_s * 10 * MB))
    builder.row("library_sources", 3.0, 100, module="prom", file="/lib/prom.py", source_text=PROM.format(method=method))
    found = first(analyze(builder.ends(24.0, exit_code=0).open()))
    assert found.mechanism == mechanism and says(found.remedy[0], *words), found.remedy


NESTED = """import multiprocessing


class Board:
    def __init__(self, manager):
        self.manager = manager
        self.open = manager.dict()
        self.workers = [multiprocessing.Process(target=work, args=(self.open,)) for _ in range(2)]

    def submit(self, job):
        entry = self.manager.dict()
        entry["state"] = "queued"
        self.open[job] = entry


def main():
    with multiprocessing.Manager() as manager:
        board = Board(manager)
        while True:
            board.submit(job())
"""


def test_a_proxy_in_a_managed_dict_is_told_at_the_line_that_puts_it_there(tmp_path: Path) -> None:
    library = {"owner": "Server", "owner_module": "multiprocessing.managers", "owner_file": None, "is_user": False}
    path = "BaseManager._run_server() server.id_to_local_proxy_obj"

    def holders(f: float) -> list[dict[str, Any]]:
        own = {"variable": "id_to_local_proxy_obj", "edge_kind": "attribute", **library}
        return [place(path, 240 * MB * f, type_name="dict", length=2000 * f, member_type="tuple", **own)]

    found = told(tmp_path, NESTED, holders)
    assert (found.mechanism, found.subject.line) == ("library-registry", 13)
    assert says(found.remedy[0], "plain values")


BOTH = """import spacy


def main():
    nlp = spacy.blank("en")
    nlp.add_pipe("sentencizer")
    while True:
        clean(nlp, texts())


def clean(nlp, texts):
    for document in nlp.pipe(texts):
        count(document)
"""


def test_of_calls_of_a_librarys_object_one_that_runs_once_fills_nothing(tmp_path: Path) -> None:
    library = {**LIBRARY, "owner_module": None, "owner": None, "variable": None, "edge_kind": "reference"}

    def holders(f: float) -> list[dict[str, Any]]:
        deep, path = 240 * MB * f, "main() nlp"
        return [
            place(path, deep, type_name="spacy.lang.en.English"),
            place(f"{path}.<StringStore>", deep, type_name="spacy.strings.StringStore", **library),
            place(
                f"{path}.<StringStore>.<dict>", deep, type_name="dict", length=9000 * f, member_type="int", **library
            ),
        ]

    found = told(tmp_path, BOTH, holders)
    assert (found.mechanism, found.subject.line) == ("library-registry", 12)
    assert says(found.remedy[0], "nlp.memory_zone()")


PINGS = """import asyncio
from tornado.ioloop import PeriodicCallback


class Connection:
    def __init__(self):
        self.ping = PeriodicCallback(self.check, 9000)


async def main():
    while True:
        Connection()
        await asyncio.sleep(0.1)
"""


def test_what_the_program_makes_as_often_as_a_librarys_table_grows_is_the_line(tmp_path: Path) -> None:
    """Not any call of the table's own library: of a pause nothing stays."""
    builder = growing_run(tmp_path, PINGS)
    of_loop = {**LIBRARY, "owner_module": "asyncio.base_events", "owner": "BaseEventLoop", "variable": "_scheduled"}
    for number, at_s in enumerate(TAKES_S, 1):
        f = at_s / 24
        holders = [
            place("asyncio.events._loop._scheduled", 240 * MB * f, length=2000 * f,
                  member_type="asyncio.events.TimerHandle", parent=None, root_kind="module", **of_loop),
        ]  # fmt: skip
        made = [("tornado.ioloop.PeriodicCallback", 2000), ("__main__.Connection", 2000), ("tornado.ioloop.IOLoop", 1)]
        types = [{"type_name": name, "object_count": count * f} for name, count in made]
        builder.take(100, number, at_s, holders=holders, types=types, rss_bytes=50 * MB + round(at_s * 10 * MB))
    found = first(analyze(builder.ends(24.0, exit_code=0).open()))
    assert found.subject.line == 7
    assert found.mechanism == "timers" and says(found.remedy[0], "train.py:7", "stop()")


WARNS = """import warnings


def main():
    while True:
        warnings.warn(f"row {number()}")
"""


def test_texts_of_warnings_are_told_as_that(tmp_path: Path) -> None:
    def holders(f: float) -> list[dict[str, Any]]:
        own = {"owner": "train", "variable": "__warningregistry__", "edge_kind": "global", "root_kind": "module"}
        path = "train.__warningregistry__"
        return [place(path, 240 * MB * f, parent=None, type_name="dict", length=9000 * f, member_type="tuple", **own)]

    found = told(tmp_path, WARNS, holders)
    assert (found.mechanism, found.subject.line) == ("library-registry", 6)
    assert says(found.remedy[0], "a text that is the same each time")


BY_USER = in_class("""def __init__(self):
    self.rows = {}

def add(self, row):
    self.rows.setdefault(row.user, []).append(row)""")


def of_users(f: float) -> list[dict[str, Any]]:
    kept, rows = rows_of("dict")(f)
    inside = {"length": 2000 * f, "member_type": "Row", "parent": "main() kept.rows", "edge_kind": "item"}
    return [kept, {**rows, "length": 3, "member_type": "list"}, place("main() kept.rows['a']", 240 * MB * f, **inside)]


def test_a_list_behind_setdefault_is_named_as_it_can_be_written(tmp_path: Path) -> None:
    finding = told(tmp_path, BY_USER, of_users)
    assert "setdefault" not in finding.remedy[0] and "del self.rows[row.user][:-N]" in finding.remedy[0]
