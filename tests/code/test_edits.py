"""The edit that follows an advice: it is what it says, alone, and the source can still be read."""

from __future__ import annotations

import ast
import gc
import weakref
from typing import Any

import pytest

from leakscope.facts.code.editing import Asked, Edited, Unsure
from leakscope.facts.code.edits import edit, suitable
from leakscope.facts.code.index import Source
from tests.sentences import says

FILE = "/job/train.py"


def asked(text: str, marked: str, **about: Any) -> Asked:
    """``marked``: what stands on the line of the finding, once."""
    (line,) = (number for number, one in enumerate(text.split("\n"), 1) if marked in one)
    known: dict[str, Any] = {"variable": "rows", "type_name": "list", "most": 500, **about}
    return Asked([Source("__main__", FILE, text)], FILE, line, **known)


def edited(mechanism: str, text: str, marked: str, **about: Any) -> Edited:
    found = edit(mechanism, asked(text, marked, **about))
    assert isinstance(found, Edited), found
    ast.parse(found.text)
    assert found.before == text
    return found


def changed(found: Edited) -> tuple[list[str], list[str]]:
    """Lines that went, and lines that came."""
    before, after = found.before.split("\n"), found.text.split("\n")
    first = next(at for at, (one, two) in enumerate(zip(before, after)) if one != two)
    rest = next((at for at, (one, two) in enumerate(zip(before[::-1], after[::-1])) if one != two), len(before))
    rest = min(rest, len(before) - first, len(after) - first)
    return [one.strip() for one in before[first : len(before) - rest]], [
        one.strip() for one in after[first : len(after) - rest]
    ]


IN_A_LOOP = """import torch


def main(model, data):
    rows = []
    for batch in data:
        {line}
    return rows
"""


@pytest.mark.parametrize(
    ("mechanism", "line", "new", "about"),
    [
        ("autograd-history", "rows.append(loss)", "rows.append(loss.detach())", {}),
        (  # one list of several: the line may be given what is no tensor for the others
            "autograd-history",
            "rows[name].append(loss)",
            'rows[name].append(loss.detach() if hasattr(loss, "detach") else loss)',
            {"member": "list"},
        ),
        ("autograd-history", "total += loss", "total += loss.detach()", {}),
        ("autograd-history", "rows.append(loss + 1)", "rows.append((loss + 1).detach())", {}),
        ("autograd-history", "rows += [model(batch)]", "rows += [model(batch).detach()]", {}),
        ("autograd-history", "rows[batch.key] = loss", "rows[batch.key] = loss.detach()", {}),
        ("views", "rows.append(batch[0])", "rows.append(batch[0].clone())", {"type_name": "list of torch.Tensor"}),
        ("views", "rows.append(batch[0])", "rows.append(batch[0].copy())", {"type_name": "list of numpy.ndarray"}),
        ("values-with-more", "rows.append(batch.text)", "rows.append(str(batch.text))", {"base": "str"}),
        ("values-with-more", "rows.append(a or b)", "rows.append(float(a or b))", {"base": "float"}),
        ("stored-for-good", "batch.set('λ', model)", "pass  # batch.set('λ', model)", {}),
        ("collector-off", "gc.disable()", "pass  # the collector stays on", {}),
    ],
)
def test_the_one_statement_is_another(mechanism: str, line: str, new: str, about: dict[str, Any]) -> None:
    found = edited(mechanism, IN_A_LOOP.format(line=line), line, **about)
    assert changed(found) == ([line], [new])


@pytest.mark.parametrize(
    ("line", "kind", "new"),
    [
        ("rows.append(batch)", "list of Batch", ["del rows[:-500]"]),
        ("rows[batch.id] = batch", "dict of Batch", ["if len(rows) > 500:", "del rows[next(iter(rows))]"]),
    ],
)
@pytest.mark.parametrize("end", ["\n", "\r\n"], ids=["lf", "crlf"])
def test_a_container_keeps_its_latest_members(line: str, kind: str, new: list[str], end: str) -> None:
    text = IN_A_LOOP.format(line=line).replace("return rows", "return len(rows)").replace("\n", end)
    found = edited("unbounded-container", text, line, type_name=kind)
    gone, came = changed(found)
    assert (gone, came) == ([], new) and "500" in found.note
    assert found.text.count("\r\n") == (text.count("\r\n") + len(new) if end == "\r\n" else 0)


@pytest.mark.parametrize("read", ["return rows", "return sum(rows)", "for row in rows: show(row)"])
def test_what_is_read_as_a_whole_may_lose_nothing(read: str) -> None:
    """A mean over an epoch would be one of its last batches, and nobody would notice."""
    text = IN_A_LOOP.format(line="rows.append(batch)").replace("return rows", read)
    found = edit("unbounded-container", asked(text, "rows.append", type_name="list of Batch"))
    assert isinstance(found, Unsure) and "train.py:8 reads all that rows has" in found.why


@pytest.mark.parametrize(
    "look",
    ["if key not in rows:\n        ", "if key in rows:\n        return rows[key]\n    ",
     "hit = rows.get(key)\n    if hit is None:\n        ",
     "try:\n        return rows[key]\n    except KeyError:\n        "],
)  # fmt: skip
def test_what_is_looked_for_first_may_go_also_where_it_is_read_by_keys(look: str) -> None:
    text = f"rows = {{}}\n\n\ndef load(key):\n    {look}rows[key] = 2 * key  # add\n    return rows[key]\n"
    names: dict[str, Any] = {}
    exec(edited("keys-that-do-not-repeat", text, "# add", type_name="dict").text, names)
    assert [names["load"](key) for key in (*range(900), 3)] == [2 * key for key in (*range(900), 3)]
    assert len(names["rows"]) == 500


def test_what_is_edited_does_as_before_with_the_latest() -> None:
    text = "rows = []\nfor n in range(2000):\n    rows.append(n)  # é\nlast = rows[-1], sum(rows[-3:])\n"
    for read, kept in (("", 3), ("first = rows[0]\n", 500)):  # as many as are read, or as may be enough
        names: dict[str, Any] = {}
        exec(edited("unbounded-container", text + read, "append").text, names)
        assert (len(names["rows"]), names["last"]) == (kept, (1999, 1997 + 1998 + 1999))


@pytest.mark.parametrize(
    ("made", "kind", "new"),
    [
        ("deque()", "collections.deque of int", "deque(maxlen=500)"),
        ("collections.deque([1, 2])", "collections.deque", "collections.deque([1, 2], maxlen=500)"),
        ("queue.Queue()", "queue.Queue", "queue.Queue(maxsize=500)"),
    ],
)
def test_a_limit_is_set_where_it_is_made(made: str, kind: str, new: str) -> None:
    init = f"    def __init__(self):\n        self.rows = {made}\n"
    text = f"class Log:\n{init}\n    def add(self, row):\n        self.rows.put(row)\n"
    mechanism = "slow-consumer" if "Queue" in kind else "unbounded-container"
    found = edited(mechanism, text, "put(row)", type_name=kind)
    assert changed(found) == ([f"self.rows = {made}"], [f"self.rows = {new}"])


ROOM = """class Room:
    rows = []

    def __init__(self, name):
        "Begin."
        self.name = name

    def join(self, row):
        self.rows.append(row)
        serve(row)  # may raise
        self.rows.remove(row)
"""


def test_what_is_removed_at_the_end_is_removed_also_after_an_exception() -> None:
    names: dict[str, Any] = {"serve": lambda row: 1 // row}
    exec(edited("removal-not-reached", ROOM, "append").text, names)
    room = names["Room"]("a")
    room.join(1)
    with pytest.raises(ZeroDivisionError):
        room.join(0)
    assert room.rows == []


BROKER = """class Broker:
    def __init__(self):
        self.rows = {0: {}}

    def subscribe(self, topic, row):
        self.rows[topic][row] = print  # add

    def unsubscribe(self, topic, row):
        self.rows[topic].pop(row, None)


def handle(broker, row):
    broker.subscribe(0, row)
    try:
        serve(row)  # may raise
        broker.unsubscribe(0, row)
        done(row)
    except ZeroDivisionError:
        failed(row)
"""
FINALLY = "\n    finally:\n        close(row)\n"


@pytest.mark.parametrize("end", ["\n", FINALLY], ids=["no finally", "finally"])
def test_what_is_called_to_remove_again_is_called_also_after_an_exception(end: str) -> None:
    told: list[Any] = []
    names: dict[str, Any] = {"serve": lambda row: 1 // row} | dict.fromkeys(("done", "failed", "close"), told.append)
    exec(edited("removal-not-reached", BROKER.rstrip() + end, "# add").text, names)
    broker = names["Broker"]()
    for row in (1, 0):
        names["handle"](broker, row)
    assert broker.rows == {0: {}} and told == ([1, 0] if end == "\n" else [1, 1, 0, 0])


def test_who_counts_by_a_length_that_falls_is_told() -> None:
    filling = "def push(row):\n    rows.append(row)\n"
    counting = filling + "\ndef served():\n    return len(rows)\n"
    assert "train.py:5 reads how many" in edited("unbounded-container", counting, "append").note
    assert "reads how many" not in edited("unbounded-container", filling, "append").note


def test_of_two_statements_on_a_line_the_one_that_adds_is_asked() -> None:
    found = edit("finished-work", asked("task = spawn(); rows.add(task)", "add", type_name="set of _asyncio.Task"))
    assert isinstance(found, Unsure) and says(found.why, "shares its line")


CACHED = """import functools


class Profile:
    made = 0

    def __init__(self, factor):
        self.factor = factor

    @functools.lru_cache(maxsize=None)
    def affinity(self, category):
        Profile.made += 1
        return self.factor * category
"""


def test_a_cache_round_a_method_goes_with_its_object_as_the_advice_says() -> None:
    names: dict[str, Any] = {}
    exec(edited("cache-keeps-self", CACHED, "lru_cache").text, names)
    profile = names["Profile"](3)
    assert [profile.affinity(2), profile.affinity(2), names["Profile"](4).affinity(2)] == [6, 6, 8]
    assert names["Profile"].made == 2
    gone = weakref.ref(profile)
    del profile
    gc.collect()
    assert gone() is None


LISTS = """class Bank:
    def __init__(self):
        self.rows = {}

    def add(self, key, row):
        donors = self.rows.setdefault(key, [])
        donors.append(row)  # add
"""


def test_of_lists_in_a_dict_that_grow_each_keeps_the_latest() -> None:
    names: dict[str, Any] = {}
    about = {"type_name": "dict", "container": "dict", "member": "list", "most": 2}
    exec(edited("unbounded-container", LISTS, "# add", **about).text, names)
    bank = names["Bank"]()
    for row in range(5):
        bank.add(row % 2, row)
    assert bank.rows == {0: [2, 4], 1: [1, 3]}


READS = """import collections

rows = collections.defaultdict(complex)


def known(key):
    kind = rows[key]  # read
    return kind.real
"""


def test_what_is_only_read_makes_no_entry() -> None:
    names: dict[str, Any] = {}
    exec(edited("made-by-reading", READS, "# read").text, names)
    names["rows"]["b"] = 3j + 1
    assert [names["known"](key) for key in "ab"] == [0, 1] and list(names["rows"]) == ["b"]


HOOKED = """def features(layer, images):
    seen = []

    def keep(module, inputs, output):
        seen.append(output)

    layer.register(keep)
    layer.run(images)  # may raise
    return seen[0]
"""


def test_a_hook_that_a_function_made_goes_as_the_function_ends() -> None:
    class Layer:
        def __init__(self) -> None:
            self.hooks: list[Any] = []

        def register(self, hook: Any) -> Any:
            self.hooks.append(hook)
            return type("Handle", (), {"remove": lambda _: self.hooks.remove(hook)})()

        def run(self, images: int) -> None:
            for hook in self.hooks:
                hook(self, None, 1 // images)

    names: dict[str, Any] = {}
    exec(edited("hooks", HOOKED, "register").text, names)
    layer = Layer()
    assert names["features"](layer, 1) == 1
    with pytest.raises(ZeroDivisionError):
        names["features"](layer, 0)
    assert layer.hooks == []


def test_each_object_gets_a_container_of_its_own() -> None:
    names: dict[str, Any] = {}
    exec(edited("class-attribute", ROOM, "append").text, names)
    room = names["Room"]("a")
    assert (room.rows, room.name, names["Room"].__init__.__doc__) == ([], "a", "Begin.") and room.rows is not names[
        "Room"
    ].rows


def test_what_is_done_takes_itself_out() -> None:
    text = IN_A_LOOP.format(line="rows.add(task)")
    found = edited("finished-work", text, "add(task)", type_name="set of _asyncio.Task")
    assert changed(found) == ([], ["task.add_done_callback(rows.discard)"])


def test_a_part_of_a_buffer_is_kept_as_bytes() -> None:
    text = IN_A_LOOP.format(line="rows.append(view[:16])")
    found = edited("views", text, "append", type_name="list of memoryview")
    assert changed(found)[1] == ["rows.append(bytes(view[:16]))"]


@pytest.mark.parametrize(
    ("decorator", "new"),
    [
        ("@lru_cache(maxsize=None)", "@lru_cache(maxsize=500)"),
        ("@functools.lru_cache(None)", "@functools.lru_cache(500)"),
        ("@functools.cache", "@functools.lru_cache(maxsize=500)"),
    ],
)
def test_a_cache_gets_a_limit(decorator: str, new: str) -> None:
    found = edited("unbounded-cache", f"{decorator}\ndef load(path):\n    return read(path)\n", "def load")
    assert changed(found) == ([decorator], [new])


def test_a_default_value_is_made_for_each_call() -> None:
    text = 'def add(row, rows=[]):\n    """Add."""\n    rows.append(row)\n    return rows\n'
    names: dict[str, Any] = {}
    exec(edited("default-argument", text, "append").text, names)
    assert [names["add"](1), names["add"](2)] == [[1], [2]] and names["add"].__doc__ == "Add."


def test_a_default_value_that_an_object_keeps_is_made_for_each_object() -> None:
    text = "class Log:\n    def __init__(self, rows=[]):\n        self.rows = rows\n\n    def add(self, row):\n"
    names: dict[str, Any] = {}
    exec(edited("default-argument", f"{text}        self.rows.append(row)\n", "append").text, names)
    logs = [names["Log"]() for _ in range(2)]
    for one in logs:
        one.add(1)
    assert [one.rows for one in logs] == [[1], [1]]


@pytest.mark.parametrize(
    ("header", "new"),
    [
        ("async def send(writer, data):", ["await writer.drain()"]),
        ("def send(writer, data):", ["if writer.transport.get_write_buffer_size() < 1 << 20:", "writer.write(data)"]),
    ],
)
def test_a_writer_minds_who_reads(header: str, new: list[str]) -> None:
    found = edited("write-buffer", f"{header}\n    writer.write(data)\n    sent()\n", "writer.write")
    assert changed(found)[1] == new and found.note


@pytest.mark.parametrize(
    ("line", "gone", "came"),
    [
        ("rows.append(batch)", ["rows.append(batch)"], []),
        ("rows.append(read(batch))", ["rows.append(read(batch))"], ["read(batch)"]),
        ("if batch: rows.append(batch)", ["if batch: rows.append(batch)"], ["if batch: pass"]),
    ],
)
def test_what_nobody_reads_is_not_put_there(line: str, gone: list[str], came: list[str]) -> None:
    text = f"rows = []\nfor batch in data():\n    {line}\n    use(batch)\n"
    assert changed(edited("never-read", text, "rows.append")) == (gone, came)


@pytest.mark.parametrize("stored", ["{}", "Failure(name, {})", "Failure(name, error={})"])
def test_an_exception_is_kept_without_its_traceback(stored: str) -> None:
    line = f"errors.append({stored})"
    text = f"errors = []\ntry:\n    work()\nexcept ValueError as error:\n    {line.format('error')}\n"
    found = edited("tracebacks", text, "errors.append")
    assert changed(found) == ([line.format("error")], [line.format("error.with_traceback(None)")])


@pytest.mark.parametrize(
    ("made", "saved", "closed"),
    [
        ("fig, ax = plt.subplots()", "fig.savefig('a.png')", "plt.close(fig)"),
        ("plt.figure()", "plt.savefig('a.png')", "plt.close()"),
    ],
)
def test_a_figure_is_closed_where_it_was_last_used(made: str, saved: str, closed: str) -> None:
    text = f"import matplotlib.pyplot as plt\n\ndef plot(rows):\n    {made}\n    {saved}\n    show(rows)\n"
    assert changed(edited("library-registry", text, made)) == ([], [closed])


@pytest.mark.parametrize(
    ("mechanism", "text", "marked", "about"),
    [
        ("autograd-history", "rows.append(loss.item())", "append", {}),
        ("autograd-history", "rows.append((loss.shape, 1))", "append", {}),
        ("autograd-history", "rows[name].append(loss + 1)", "append", {"member": "list"}),
        ("autograd-history", "total += loss\ntotal.backward()", "+=", {}),
        ("unbounded-container", "rows.add(row)", "add", {"type_name": "set of Row"}),
        ("unbounded-container", "rows[key] = row\nprint(rows[other])", "= row", {"type_name": "dict"}),
        ("unbounded-container", "rows[key].append(row)", "append", {"type_name": "dict of list"}),
        ("unbounded-container", "made(key).append(row)", "append", {}),
        ("unbounded-container", "if row: rows.append(row)", "append", {}),
        ("unbounded-container", "for r in a:\n    rows.append(r)\n    labels.append(r.label)", "rows.append", {}),
        (
            "unbounded-container",
            "for r in a:\n    self.n += 1\n    self.x.append(r)\n    self.rows.append(r)",
            "rows.",
            {},
        ),
        ("unbounded-container", "rows.append(row); count += 1", "append", {}),
        ("slow-consumer", "rows = Queue(9)\nrows.put(1)", "put", {"type_name": "queue.Queue"}),
        ("slow-consumer", "rows = Queue()\nrows = Queue()\nrows.put(1)", "put", {"type_name": "queue.Queue"}),
        ("stored-for-good", "trial.set('scores', x)\nprint(trial.get('scores'))", "set(", {}),
        ("default-argument", "def add(row, rows=SHARED):\n    rows.append(row)", "append", {}),
        ("tracebacks", "errors.append(last())", "append", {}),
        ("library-keeps", "rows.append(row)", "append", {}),
        ("views", "rows.append(", "append", {}),
        ("views", "rows.append(match)", "append", {"type_name": "list of re.Match"}),
        ("removal-not-reached", "rows.append(row)\nrows.remove(row)", "append", {}),
        ("unbounded-container", LISTS, "# add", {"container": "dict"}),
        ("cache-keeps-self", CACHED.replace("self.factor = factor", "return"), "lru_cache", {}),
        ("cache-keeps-self", CACHED.replace("made = 0", '__slots__ = ("factor",)'), "lru_cache", {}),
        ("cache-keeps-self", CACHED.replace("__init__", "fill"), "lru_cache", {}),
        ("removal-not-reached", ROOM.replace("(row)  # may raise", '("""a\n""")'), "append", {}),
        ("removal-not-reached", BROKER.replace("serve(row)", "row = serve(row)"), "# add", {}),
        ("removal-not-reached", BROKER.replace("unsubscribe(0, row)", "unsubscribe(0, next(rows))"), "# add", {}),
        ("removal-not-reached", BROKER.replace("failed(row)", "broker.unsubscribe(0, row)"), "# add", {}),
        ("made-by-reading", READS.replace("kind.real", "kind"), "# read", {}),
        ("hooks", HOOKED.replace("(keep)", "(shown)"), "register", {}),
        ("hooks", HOOKED.replace("    layer.r", "    handle = seen = layer.r", 1), "handle =", {}),
        ("finished-work", "rows.append(submit())", "append", {"type_name": "list of Future"}),
        ("class-attribute", ROOM.replace("__init__", "named"), "append", {}),
    ],
)
def test_where_it_may_mean_something_else_nothing_is_edited(
    mechanism: str, text: str, marked: str, about: dict[str, Any]
) -> None:
    found = edit(mechanism, asked(text, marked, **about))
    assert isinstance(found, Unsure) and found.why


@pytest.mark.parametrize(("length", "limit"), [(0, 1), (7, 1), (90, 20), (450, 100), (2100, 500), (10**7, 1000)])
def test_a_limit_is_a_round_quarter_of_what_was_there(length: float, limit: int) -> None:
    assert suitable(length) == limit
