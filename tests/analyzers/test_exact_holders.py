"""Who holds what, where snapshots read the graph of the heap and nothing else: by whose name it is told."""

from __future__ import annotations

import pytest

from leakscope.facts.heap.comparable import heap_of
from leakscope.facts.heap.graph import graph_places

from ..sentences import says
from .leaks import LEAK_BYTES_PER_S, PID, MiB, sentinels, trainer
from .test_strays import TAKES_S, looked, node, with_graphs

JOBS = """\
class Uploader:
    def __init__(self):
        self.executor = ThreadPoolExecutor(2)

    def add(self, chunk):
        self.executor.submit(upload, chunk)

class Monitor:
    def __init__(self, source):
        self.live, self.replay = itertools.tee(source)

class Routes(dict):
    def __missing__(self, key):
        self[key] = compute(key)

def serve(requests):
    routes = Routes()
    for request in requests:
        routes[request]

async def remember(request, handler):
    history = request.app["history"]
    history.append(await handler(request))

def build(score):
    APP.router.add_post("/score", score)

def install(context):
    def handler(number, frame):
        context["seen"] = number
    signal.signal(signal.SIGUSR1, handler)

def keep(row, kept=[]):
    kept.append(row)
    time.sleep(1)
"""
SMALL = {"retained_bytes": 1000}
MODULE = [
    node(0, None, None, None, **SMALL, root_kind=None), node(1, 0, None, None, **SMALL),
    node(6, 1, None, None, type_name="dict", **SMALL), node(7, 6, "key", "['jobs']", type_name="module", **SMALL),
    node(8, 7, "namespace", None, type_name="dict", **SMALL),
]  # fmt: skip


def leaked(second):
    return LEAK_BYTES_PER_S * second


def recorded(tmp_path, *nodes):
    builder = with_graphs(sentinels(trainer(tmp_path)), nodes=[*MODULE, *nodes])
    return builder.source(PID, "/home/me/jobs.py", JOBS, module="jobs")


def test_what_a_thread_refers_to_as_well_has_the_name_that_the_program_gave_it(tmp_path):
    """The list of a queue hangs below nobody alone; its path leads by the program's own attribute."""
    builder = recorded(
        tmp_path,
        node(9, 8, "key", "['UPLOADER']", type_name="jobs.Uploader", **SMALL),
        node(10, 9, "attribute", "executor", type_name="concurrent.futures.thread.ThreadPoolExecutor", **SMALL),
        node(11, 10, "attribute", "_work_queue", type_name="_queue.SimpleQueue", **SMALL),
        node(12, 11, "reference", None, type_name="list", retained_bytes=leaked, length=leaked, dominator_node=0),
    )  # fmt: skip
    (finding,), _ = looked(builder, "retained-objects")
    assert finding.subject.holder == "Uploader.executor (ThreadPoolExecutor)"
    assert finding.subject.line == 6
    assert not any("None" in advice for advice in finding.remedy)


def test_a_default_argument_is_told_as_that_also_while_a_call_has_it(tmp_path):
    own = {"owner": "keep", "owner_file": "/home/me/jobs.py", "owner_line": 33}
    builder = recorded(
        tmp_path,
        node(2, 0, None, None, **SMALL, root_kind=None),
        node(9, 2, None, None, type_name="frame", root_kind="frame", **own, **SMALL),
        node(10, 8, "key", "['keep']", type_name="function", **own, **SMALL),
        node(11, 10, None, None, type_name="tuple", retained_bytes=leaked),
        node(12, 9, "local", "kept", type_name="list", retained_bytes=leaked, length=leaked, dominator_node=11,
             root_kind="frame"),
    )  # fmt: skip
    (finding,), _ = looked(builder, "retained-objects")
    assert finding.subject.holder == "default argument kept of keep() (list)"
    assert (finding.mechanism, finding.subject.line) == ("default-argument", 34)


def test_what_only_libraries_name_has_the_nearest_of_their_names(tmp_path):
    builder = recorded(
        tmp_path,
        node(9, 8, "item", None, type_name="xml.Parser", retained_bytes=leaked, dominator_node=0),
        node(10, 9, "attribute", "_parser", type_name="pyexpat.XMLParser", retained_bytes=leaked),
        node(11, 10, "reference", None, type_name="xml.Element", retained_bytes=leaked, length=leaked),
    )
    (finding,), _ = looked(builder, "retained-objects")
    assert finding.subject.holder == "Parser._parser (XMLParser)"
    assert "_parser" in finding.remedy[0]


def test_what_a_running_constructor_fills_may_be_a_load(tmp_path):
    found = {}
    for function in ("Corpus.__init__", "main"):
        folder = tmp_path / function
        folder.mkdir()
        builder = recorded(
            folder,
            node(2, 0, None, None, **SMALL, root_kind=None),
            node(9, 2, None, None, type_name="frame", owner=function, owner_file="/home/me/jobs.py", **SMALL),
            node(10, 9, "local", "self", type_name="jobs.Corpus", retained_bytes=leaked),
            node(11, 10, "attribute", "rows", type_name="list", retained_bytes=leaked, length=lambda s: 9000 * s),
        )
        (found[function],), _ = looked(builder, "retained-objects")
    in_constructor, in_main = found.values()
    assert in_constructor.subject.holder == in_main.subject.holder == "Corpus.rows (list)"
    assert in_constructor.confidence < in_main.confidence
    assert any(says(doubt, "Corpus.__init__()", "returns") for doubt in in_constructor.doubts)
    assert not any("returns" in doubt for doubt in in_main.doubts)


@pytest.mark.parametrize("others", [(), (20,)], ids=["alone", "beside another of its type"])
def test_an_attribute_that_got_a_new_value_before_its_name_was_read_has_the_name_it_had(tmp_path, others):
    """Each snapshot sees another object there, and of the last one no name: it was replaced by then."""
    builder = sentinels(trainer(tmp_path)).source(PID, "/home/me/jobs.py", JOBS, module="jobs")
    owner = node(9, 8, "key", "['MONITOR']", type_name="jobs.Monitor", retained_bytes=leaked)
    for number, second in enumerate(TAKES_S, 1):
        is_last = second == TAKES_S[-1]
        kind, name = (None, None) if is_last else ("attribute", "running")
        value = node(100 + number, 9, kind, name, type_name="jobs.Sum", retained_bytes=leaked, is_named=not is_last)
        beside = [node(one, 9, "attribute", "other", type_name="jobs.Sum", retained_bytes=64 * 1024) for one in others]
        with_graphs(builder, nodes=[*MODULE, owner, value, *beside], at_s=(second,), first=number)
    (finding,), _ = looked(builder, "retained-objects")
    assert (finding.subject.holder == "Monitor.running (Sum)") is (not others)


@pytest.mark.parametrize("first_share", [0.35, 0.65])
def test_lists_of_one_dict_that_all_grow_are_told_with_the_dict(tmp_path, first_share):
    """Whichever grows most; and what its class has of its own hides no member of it."""
    lists = [
        node(
            10 + n, 10, "key", f"['kind {n}']", type_name="list", length=lambda s: 10 * s, child_count=lambda s: 10 * s,
            retained_bytes=lambda s, share=share: share * leaked(s),
        )
        for n, share in ((1, first_share), (2, 1 - first_share))
    ]  # fmt: skip
    builder = recorded(
        tmp_path,
        node(9, 8, "key", "['MONITOR']", type_name="jobs.Monitor", retained_bytes=leaked, dominator_node=0),
        node(10, 9, "attribute", "problems", type_name="collections.defaultdict", retained_bytes=leaked, child_count=2),
        *lists,
    )
    (finding,), _ = looked(builder, "retained-objects")
    assert finding.subject.holder == "Monitor.problems (defaultdict)"
    assert finding.bytes >= 0.9 * LEAK_BYTES_PER_S * (TAKES_S[-1] - TAKES_S[0])
    assert says(finding.remedy[0], "Monitor.problems")
    assert not any("only" in doubt and "%" in doubt for doubt in finding.doubts)


def test_what_instances_of_one_class_gained_counts_together(tmp_path):
    """Three of them gained a third each: all three explain what grew, and no doubt is left."""

    def third(second):
        return leaked(second) // 3

    monitors = [node(10 + n, 9, "index", str(n), type_name="jobs.Monitor", retained_bytes=third) for n in range(3)]
    histories = [
        node(20 + n, 10 + n, "attribute", "replay", type_name="list", retained_bytes=third, length=lambda s: 10 * s)
        for n in range(3)
    ]
    above = node(9, 8, "key", "['MONITORS']", type_name="tuple", retained_bytes=leaked, child_count=3)
    (finding,), _ = looked(recorded(tmp_path, above, *monitors, *histories), "retained-objects")
    assert finding.subject.holder == "Monitor.replay (list)"
    (share,) = [one.figures for one in finding.evidence if "explained_bytes" in one.figures]
    assert share["explained_bytes"] > 100 * MiB  # of 120 between those snapshots
    assert not any("%" in doubt for doubt in finding.doubts)


def test_a_chain_of_few_heavy_links_is_one_holder(tmp_path):
    """Each link of an iterator's memory has 57 results and the next link: all of them together pile up."""
    link = "itertools._tee_dataobject"

    def below(number):
        return lambda second: max(0, leaked(second) - 2 * LEAK_BYTES_PER_S * number)

    links = range(1, 9)
    builder = recorded(
        tmp_path,
        node(9, 8, "key", "['MONITOR']", type_name="jobs.Monitor", retained_bytes=leaked, dominator_node=0),
        node(10, 9, "attribute", "replay", type_name="itertools._tee", retained_bytes=leaked),
        node(11, 10, "reference", None, type_name=link, retained_bytes=leaked, child_count=58),
        *(
            node(11 + i, 10 + i, "reference", None, type_name=link, retained_bytes=below(i), child_count=58)
            for i in links
        ),
    )  # fmt: skip
    for take, second in enumerate(TAKES_S, 1):
        for i in links:
            if below(i)(second):
                builder.row(
                    "heap_children", second, PID, take=take, node=10 + i, type_name=link, object_count=1,
                    retained_bytes=below(i)(second),
                )  # fmt: skip
    (finding,), _ = looked(builder, "retained-objects")
    assert finding.subject.holder == "Monitor.replay (_tee)"
    assert finding.bytes >= 0.9 * LEAK_BYTES_PER_S * (TAKES_S[-1] - TAKES_S[0])


def test_instances_within_each_other_are_no_chain_of_their_dicts(tmp_path):
    """The parts of a model have rows once what hangs on the innermost is heavy: they are no more than before."""

    def late(second):
        return leaked(second) if second > TAKES_S[0] else 0

    parts, number = [node(9, 8, "key", "['MODEL']", type_name="jobs.Model", retained_bytes=leaked, dominator_node=0)], 9
    for part in ("Encoder", "Layers", "Layer", "Attention", "Output", "Dense"):
        held = leaked if number == 9 else late
        parts.append(node(number + 1, number, "attribute", "_modules", type_name="dict", retained_bytes=held))
        name = part.lower()
        parts.append(node(number + 2, number + 1, "key", f"['{name}']", type_name=f"jobs.{part}", retained_bytes=late))
        number += 2
    hooks = {"type_name": "collections.OrderedDict", "retained_bytes": late, "length": late, "child_count": late}
    builder = recorded(tmp_path, *parts, node(number + 1, number, "attribute", "_forward_hooks", **hooks))
    places = graph_places(builder.open(), PID, range(1, len(TAKES_S) + 1))
    assert any(place.path.endswith("._forward_hooks") for place in places)
    assert not any(place.chained for place in places)


def test_a_chain_that_gets_a_new_first_link_each_time_held_what_the_first_of_then_did(tmp_path):
    """``last = Frame(previous=last)``: what is a link now was all of the chain before."""
    name = "jobs.Frame"
    builder = trainer(tmp_path)
    for take, second in enumerate(TAKES_S, 1):
        frames = [
            node(
                100 + n, 8 if n == second else 101 + n, "key" if n == second else "attribute",
                "['LAST']" if n == second else "previous", type_name=name, retained_bytes=leaked(n), child_count=2,
            )
            for n in range(1, second + 1)
        ]  # fmt: skip
        builder = with_graphs(builder, nodes=[*MODULE, *frames], at_s=(second,), first=take)
        for n in range(2, second + 1):
            builder.row(
                "heap_children", second, PID, take=take, node=100 + n, type_name=name, object_count=1,
                retained_bytes=leaked(n - 1),
            )  # fmt: skip
    builder.source(PID, "/home/me/jobs.py", JOBS, module="jobs")
    recording = sentinels(builder).open()
    places = {place.path: place for place in graph_places(recording, PID, range(1, len(TAKES_S) + 1))}
    assert places["jobs.LAST"].deep_bytes.tolist() == [leaked(second) for second in TAKES_S]


def test_chains_that_hang_on_one_context_variable_are_one_holder(tmp_path):
    """Each of two tasks sets another value, which keeps the one that the task had before it."""
    name, variable = "jobs.Span", 90
    builder = trainer(tmp_path)
    for take, second in enumerate(TAKES_S, 1):
        above = {"path_node": variable, "dominator_node": 8}
        spans = [
            node(
                task + n, task + n + 1, "attribute" if n < second else "reference", "parent" if n < second else None,
                type_name=name, retained_bytes=leaked(n) / 2, child_count=2, **(above if n == second else {}),
            )
            for task in (1000, 2000)
            for n in range(1, second + 1)
        ]  # fmt: skip
        var = node(variable, 8, "key", "['current_span']", type_name="_contextvars.ContextVar", retained_bytes=80)
        builder = with_graphs(builder, nodes=[*MODULE, var, *spans], at_s=(second,), first=take)
        for number in (task + n for task in (1000, 2000) for n in range(2, second + 1)):
            builder.row(
                "heap_children", second, PID, take=take, node=number, type_name=name, object_count=1,
                retained_bytes=leaked(number % 1000 - 1) / 2,
            )  # fmt: skip
    builder.source(PID, "/home/me/jobs.py", JOBS, module="jobs")
    recording = sentinels(builder).open()
    places = {place.path: place for place in graph_places(recording, PID, range(1, len(TAKES_S) + 1))}
    assert places["jobs.current_span.<Span>"].deep_bytes.tolist() == [leaked(second) for second in TAKES_S]
    assert "jobs.current_span.<Span> #2" not in places


def test_functions_that_c_code_keeps_and_that_keep_each_other(tmp_path):
    """The newest is another at each snapshot; what is before it hangs on a variable of it."""

    def link(i, kind):
        number = 3 * i + ("function", "tuple", "cell").index(kind)
        here = {"node": lambda s: 1000 * s + number}
        above = {"path_node": lambda s: 1000 * s + number - 1 if number else 4}
        more = {"owner": "install.<locals>.handler", "owner_file": "/home/me/jobs.py", "owner_line": 29}
        return node(
            0, 0, "reference", None, type_name=kind, root_kind="outside",
            retained_bytes=lambda s: leaked(s) - 9000 * number,
            **{**here, **above, "dominator_node": above["path_node"], "length": None if number else lambda s: 50 * s},
            **(more if kind == "function" else {}),
        )  # fmt: skip

    links = [link(i, kind) for i in range(20) for kind in ("function", "tuple", "cell")]
    builder = recorded(tmp_path, node(4, 0, None, None, root_kind="outside", retained_bytes=leaked), *links)
    (finding,), _ = looked(builder, "retained-objects")
    assert finding.subject.holder == "What C code holds of handler"
    assert (finding.subject.file, finding.subject.line) == ("/home/me/jobs.py", 31)
    assert finding.bytes > 100 * MiB


def another(name, number, **more):
    """What is at an attribute: another object at each snapshot."""
    return node(0, 9, "attribute", name, **{"node": lambda s: 1000 * s + number, **more})


MAKER = node(9, 8, "key", "['MONITOR']", type_name="jobs.Monitor", retained_bytes=leaked, dominator_node=0)


def test_a_list_that_is_made_anew_each_time_is_one_holder(tmp_path):
    """``self.live = self.live + [record]``: none of the lists grows, and the memory does."""
    live = another("live", 1, type_name="list", retained_bytes=leaked, length=leaked)
    (finding,), _ = looked(recorded(tmp_path, MAKER, live), "retained-objects")
    assert finding.subject.holder == "Monitor.live (list)"
    assert finding.bytes >= 0.9 * LEAK_BYTES_PER_S * (TAKES_S[-1] - TAKES_S[0])


def test_batches_that_follow_each_other_are_no_growth(tmp_path):
    batch = another("live", 1, type_name="list", retained_bytes=lambda s: (40 + s % 3) * MiB, length=100)
    findings, _ = looked(recorded(tmp_path, MAKER, batch), "retained-objects")
    assert not [finding for finding in findings if "live" in finding.title]


def test_two_that_are_there_at_once_are_two(tmp_path):
    """Members of a dict by the same kind of key, which nobody wrote down: no name says which became which."""
    members = [
        node(0, 9, "key", None, type_name="jobs.Route", retained_bytes=lambda s: 9 * MiB,
             **{"node": lambda s, i=i: 1000 * s + i})
        for i in range(3)
    ]  # fmt: skip
    findings, _ = looked(recorded(tmp_path, MAKER, *members), "retained-objects")
    assert all(finding.subject.holder == "jobs.MONITOR (Monitor)" for finding in findings)


def test_what_was_seen_below_a_frame_that_held_nothing_for_once_is_the_holder_all_the_same(tmp_path):
    """A timer or a task may be what keeps the same objects in one of the snapshots."""
    for_once = TAKES_S[-2]
    builder = recorded(
        tmp_path,
        node(20, 0, None, None, type_name="frame", root_kind="frame", owner="main", owner_file="/home/me/jobs.py",
             retained_bytes=lambda s: 100 if s == for_once else leaked(s)),
        node(21, 20, "local", "monitor", type_name="jobs.Monitor", root_kind="frame", retained_bytes=leaked),
        node(22, 21, "attribute", "live", type_name="list", root_kind="frame", retained_bytes=leaked, length=leaked),
    )  # fmt: skip
    (finding,), _ = looked(builder, "retained-objects")
    assert finding.subject.holder == "Monitor.live (list)"
    assert finding.bytes >= 0.9 * LEAK_BYTES_PER_S * (TAKES_S[-1] - TAKES_S[0])


def test_what_holds_it_for_the_first_time_as_the_program_ends_has_not_grown(tmp_path):
    """A timer is now what all hangs on. As it ended, nobody could tell the old name, which is good all the same."""
    last = TAKES_S[-1]
    builder = recorded(
        tmp_path,
        node(9, 8, "key", "['MONITOR']", type_name="jobs.Monitor",
             retained_bytes=lambda s: 100 if s == last else leaked(s)),
        node(10, 9, "attribute", "live", type_name="list", retained_bytes=leaked, child_count=lambda s: 10 * s,
             length=lambda s: 10 * s, is_named=lambda s: s != last,
             **{"dominator_node": lambda s: 30 if s == last else 9}),
        node(30, 8, "key", "['TIMER']", type_name="asyncio.TimerHandle",
             retained_bytes=lambda s: leaked(s) if s == last else 0, was_there=lambda s: False),
    )  # fmt: skip
    (finding,), _ = looked(builder, "retained-objects")
    assert finding.subject.holder == "Monitor.live (list)"


def test_what_was_put_into_a_librarys_object_by_a_key_is_added_to_where_the_key_stands(tmp_path):
    """Who calls ``remember`` with which request stands in no source: the library does."""
    builder = recorded(
        tmp_path,
        node(9, 8, "key", "['APP']", type_name="aiohttp.web_app.Application", retained_bytes=leaked),
        node(10, 9, "attribute", "_state", type_name="dict", retained_bytes=leaked),
        node(11, 10, "key", "['history']", type_name="list", retained_bytes=leaked, length=leaked),
    )
    (finding,), _ = looked(builder, "retained-objects")
    assert finding.subject.holder == "jobs.APP (Application)"
    assert finding.subject.line == 1 + JOBS.split("\n").index("    history.append(await handler(request))")


def test_a_length_that_was_not_read_is_that_of_before_with_what_came_since(tmp_path):
    last = TAKES_S[-1]
    builder = recorded(
        tmp_path,
        MAKER,
        node(10, 9, "attribute", "live", type_name="list", retained_bytes=leaked, child_count=lambda s: 10 * s,
             length=lambda s: None if s == last else 10 * s),
    )  # fmt: skip
    takes = range(1, len(TAKES_S) + 1)
    (place,) = (place for place in graph_places(builder.open(), PID, takes) if place.path.endswith(".live"))
    assert place.length[-1] == 10 * last


def test_two_by_one_name_are_told_without_a_mark(tmp_path):
    """The dicts of two threads behind one ``threading.local`` have one name; that one of them leaks is seen apart."""
    both = [
        node(10 + i, 9, "attribute", "live", type_name="list", retained_bytes=size, length=size)
        for i, size in enumerate((MiB, leaked))
    ]
    (finding,), _ = looked(recorded(tmp_path, MAKER, *both), "retained-objects")
    assert finding.subject.path == "jobs.MONITOR.live"
    assert not any(".live'" in evidence.text for evidence in finding.evidence)


def test_the_last_snapshot_knows_what_those_that_read_some_members_guessed(tmp_path):
    """A cache of a library: of its members a few were followed, and what each holds was taken for a sixth of it."""
    builder = trainer(tmp_path)
    for number, at_s in enumerate((2, 6, 10, 14, 18, 20), 1):
        is_sampled = 2 < at_s < 20
        kept = round(LEAK_BYTES_PER_S * at_s * (0.02 if is_sampled else 1))
        reason = "exit" if at_s == 20 else "schedule"
        columns = {
            "python_bytes": 8 * MiB,
            "array_bytes": 0,
            "tensor_bytes": 0,
            "rss_bytes": 100 * MiB + 10 * MiB * at_s,
        }
        builder.take(PID, number, at_s, reason=reason, truncated=is_sampled, **columns)
        builder.heap(PID, number, at_s, kept, 100 * at_s, is_sampled=is_sampled)
    (finding,), _ = looked(sentinels(builder), "retained-objects")
    assert finding.subject.variable == "KEPT" and finding.bytes > 100 * MiB


def test_a_snapshot_that_read_some_members_is_one_more_after_those_that_read_all(tmp_path):
    """The heap became too large to read all of it, or to weigh its tensors: what was seen before that still counts."""
    builder = trainer(tmp_path)
    for number, at_s in enumerate((2, 6, 10, 14, 18), 1):
        is_sampled, tensors = at_s == 18, 60 * MiB
        held = LEAK_BYTES_PER_S * at_s
        columns = {"python_bytes": held, "array_bytes": 0, "tensor_bytes": None if is_sampled else tensors}
        builder.take(PID, number, at_s, truncated=is_sampled, rss_bytes=100 * MiB + held, **columns)
        weighed = {"storage_bytes": 0 if is_sampled else tensors, "weighs_tensors": not is_sampled}
        kept = held + weighed["storage_bytes"]
        builder.heap(PID, number, at_s, kept, 100 * at_s, is_sampled=is_sampled, **weighed)
    (finding,), _ = looked(sentinels(builder), "retained-objects")
    assert finding.subject.variable == "KEPT" and finding.bytes > 100 * MiB
    # Tensors are left out of all four, so that they do not seem to be freed.
    assert any("3 of 3 intervals" in evidence.text for evidence in finding.evidence)
    assert any("held 60.0 MiB at " in evidence.text for evidence in finding.evidence)


@pytest.mark.parametrize("gives_back", [False, True])
def test_what_the_last_part_of_a_heap_does_not_list_is_still_held(tmp_path, gives_back):
    """Unless the process has given back as much since then."""
    builder = trainer(tmp_path)
    for number, at_s in enumerate((2, 6, 10, 14, 18), 1):
        is_last, held = at_s == 18, leaked(at_s)
        rss = 100 * MiB + (leaked(2) if is_last and gives_back else held)
        builder.take(PID, number, at_s, truncated=True, python_bytes=held, array_bytes=0, tensor_bytes=0, rss_bytes=rss)
        if is_last:
            builder.row("heap_graphs", at_s, PID, take=number, is_sampled=True, node_count=100, retained_bytes=20 * MiB)
            for at, above, kind, name, of in ((6, 1, None, None, "dict"), (7, 6, "key", "store", "module"),
                                              (8, 7, "namespace", None, "dict")):  # fmt: skip
                builder.row("heap_nodes", at_s, PID, take=number, **node(at, above, kind, name, type_name=of, **SMALL))
        else:
            builder.heap(PID, number, at_s, held, 100 * at_s, is_sampled=True)
    heap = heap_of(sentinels(builder).open(), PID, 0.0, 20.0)
    assert heap is not None
    (kept,) = (one for one in heap.places if one.reference.variable == "KEPT")
    assert kept.length.tolist() == [200, 600, 1000, 1400, 0 if gives_back else 1400]
    assert (kept.deep_bytes[-1] >= leaked(14)) is not gives_back


@pytest.mark.parametrize("is_sampled", [False, True])
def test_what_a_part_of_the_objects_does_not_tell_is_no_memory_of_c_code(tmp_path, is_sampled):
    """The first snapshot and the last read all objects; where the others read all, too, they are believed."""
    builder = trainer(tmp_path)
    for number, at_s in enumerate((2, 6, 10, 14, 18, 20), 1):
        reads_all = at_s in (2, 20)
        columns = {"python_bytes": 0, "array_bytes": 0, "tensor_bytes": 0, "rss_bytes": 100 * MiB + 10 * MiB * at_s}
        builder.take(PID, number, at_s, reason="exit" if at_s == 20 else "schedule", **columns)
        builder.heap(
            PID, number, at_s, 0, 1, retained_bytes=20 * MiB + leaked(at_s if reads_all else 0), array_bytes=0,
            is_sampled=is_sampled and not reads_all,
        )  # fmt: skip
    findings, _ = looked(sentinels(builder), "native-growth")
    assert bool(findings) is not is_sampled


def test_results_of_cells_are_one_thing_though_each_has_a_name_and_a_place_in_out(tmp_path):
    """Held by two, each hangs below neither: they are told at the module whose variables they are."""
    main = [
        node(0, None, None, None, **SMALL, root_kind=None), node(1, 0, None, None, **SMALL),
        node(6, 1, None, None, type_name="dict", **SMALL),
        node(7, 6, "key", "['__main__']", type_name="module", **SMALL),
        node(8, 7, "namespace", None, type_name="dict", length=lambda s: 30 + 2 * s, **SMALL),
    ]  # fmt: skip
    results = [
        node(
            20 + n, 8, "key", f"['_{n}']", type_name="numpy.ndarray", dominator_node=6, child_count=0,
            retained_bytes=lambda s, n=n: LEAK_BYTES_PER_S if s > n else 0,
        )
        for n in range(3, 18)
    ]  # fmt: skip
    builder = with_graphs(sentinels(trainer(tmp_path)), nodes=[*main, *results])
    builder.source(PID + 1, "/home/me/notebooks.py", "NOTEBOOKS = []")  # who started the kernel
    (finding,), _ = looked(builder, "retained-objects")
    assert finding.subject.holder == "IPython's Out (results of cells)"
    assert finding.bytes >= 100 * MiB
    assert any("semicolon" in advice for advice in finding.remedy)


@pytest.mark.parametrize("given_back_mb", [0, 150])
def test_a_part_that_met_few_members_takes_nothing_from_what_became_longer(tmp_path, given_back_mb):
    """Its length is read as it is, what is in members is not: each new one has as much, as the process gained it."""
    builder = trainer(tmp_path)
    held = LEAK_BYTES_PER_S * 18
    for number, at_s in enumerate((2, 6, 10, 14, 18), 1):
        is_last = at_s == 18
        kept = held // 3 if is_last else LEAK_BYTES_PER_S * at_s
        rss = 300 * MiB + LEAK_BYTES_PER_S * at_s - (given_back_mb * MiB if is_last else 0)
        builder.take(
            PID, number, at_s, truncated=is_last, rss_bytes=rss, python_bytes=kept, array_bytes=0, tensor_bytes=0
        )
        builder.heap(PID, number, at_s, kept, 100 * at_s, is_sampled=is_last)
    heap = heap_of(sentinels(builder).open(), PID, 0.0, 30.0)
    (place,) = (place for place in heap.places if place.reference.variable == "KEPT")
    assert place.deep_bytes[-1] == pytest.approx(held // 3 if given_back_mb else held, abs=4096)
