"""Threads that pile up: counted from outside, named from inside, told from a pool that is merely filled."""

from __future__ import annotations

import pytest

from tests.sentences import says

from .asking import asked
from .leaks import PID, trainer

COUNT = 80
RISING = [5 + i for i in range(COUNT)]


def with_pollers(builder, **columns):
    for number, at_s in enumerate((4, 9, 17), 1):
        poller = {"function": "FeedPoller.run", "owner_file": "/home/me/rates.py", "owner_line": 16}
        other = {"function": "main", "owner_file": "/home/me/rates.py", "owner_line": 50, "object_count": 1.0}
        builder.take(PID, number, at_s, threads=[other, {**poller, "object_count": 20.0 * number}], **columns)
    return builder


def looked(recording):
    report = asked(recording, only=["thread-pileup"])
    return report.findings, report.ruled_out


def test_threads_that_never_end_are_found_and_named(tmp_path):
    (finding,), _ = looked(with_pollers(trainer(tmp_path, thread_count=RISING)).open())
    assert says(finding.title, "FeedPoller.run", "none", "seen to end")
    assert finding.subject.file == "/home/me/rates.py"
    assert finding.subject.function == "FeedPoller.run"
    assert finding.evidence[0].figures["last_count"] == RISING[-1]
    assert finding.bytes > 100 * 2**20


def test_it_is_said_how_many_ended(tmp_path):
    """Every ten looks three threads end: none of them may be said to run for ever."""
    counts = [5 + i - 3 * (i // 10) for i in range(COUNT)]
    (finding,), _ = looked(trainer(tmp_path, thread_count=counts).open())
    assert says(finding.title, "at least 14 ended")


def test_they_are_found_from_outside_too(tmp_path):
    (finding,), _ = looked(trainer(tmp_path, thread_count=RISING).open())
    (doubt,) = finding.doubts
    assert says(doubt, "what they run is not known")


def test_threads_that_the_job_ends_with_itself_were_a_pile(tmp_path):
    (finding,), _ = looked(trainer(tmp_path, leak=0, thread_count=[*RISING[:-5], *[5] * 5]).open())
    assert finding.subject.holder == f"{COUNT - 7} threads"  # more than the median of the first three


def test_a_pile_that_was_seen_half_taken_down_was_one(tmp_path):
    """It had never lost as many before."""
    (finding,), _ = looked(trainer(tmp_path, leak=0, thread_count=[*RISING[:-1], RISING[-2] - 12]).open())
    assert finding.subject.holder == f"{COUNT - 3} threads"


def test_a_pile_is_found_after_a_start_that_took_half_of_the_run(tmp_path):
    late = [4] * 40 + [4 + n for n in range(40)]
    builder = trainer(tmp_path, leak=0, thread_count=late).sentinels(PID, from_s=8.0, step=[1 + n for n in range(12)])
    assert looked(builder.open())[0]


def test_idle_threads_of_pools_are_named_by_the_line_that_makes_the_pool(tmp_path):
    source = "from concurrent.futures import ThreadPoolExecutor\ndef score(m):\n    pool = ThreadPoolExecutor(4)\n"
    builder = trainer(tmp_path, leak=0, thread_count=RISING).source(PID, "/home/me/score.py", source)
    for number, at_s in enumerate((4, 9, 17), 1):
        idle = {"function": "Thread._bootstrap", "owner_file": "/lib/threading.py", "object_count": 20.0 * number}
        builder.take(PID, number, at_s, threads=[idle])
    (finding,), _ = looked(builder.open())
    assert (finding.subject.file, finding.subject.line) == ("/home/me/score.py", 3)
    assert "_bootstrap" not in finding.title


def test_threads_of_a_library_are_named_by_what_they_run(tmp_path):
    builder = trainer(tmp_path, leak=0, thread_count=RISING)
    file = "/usr/lib/python3.11/multiprocessing/pool.py"
    for number, at_s in enumerate((4, 9, 17), 1):
        worker = {"function": "worker", "owner_file": file, "owner_line": 97, "object_count": 20.0 * number}
        builder.take(PID, number, at_s, threads=[worker])
    (finding,), _ = looked(builder.open())
    assert "multiprocessing.pool.worker()" in finding.title and finding.subject.file is None


def test_of_objects_that_are_made_under_a_line_the_one_in_hands_is_to_be_closed(tmp_path):
    """The client makes threads of a class of its own: it has to be closed, and no thread can be."""
    source = "import kube\n\n\nclass Jobs:\n    def __init__(self):\n        self.kube = kube.connect()\n"
    builder = trainer(tmp_path, thread_count=RISING).source(PID, "/home/me/score.py", source)
    file = "/opt/lib/python3.11/site-packages/kube/client.py"
    calls = [
        "/home/me/score.py:9 <module>", "/home/me/score.py:6 Jobs.__init__", f"{file}:50 connect",
        f"{file}:30 ApiClient.__init__", f"{file}:9 Sender.__init__",
    ]  # fmt: skip
    for number, at_s in enumerate((4, 9, 17), 1):
        run = {"function": "Sender.run", "owner_file": file, "owner_line": 12, "object_count": 20.0 * number}
        builder.take(PID, number, at_s, threads=[run])
        made = {"function": "Jobs.__init__", "owner_file": "/home/me/score.py", "owner_line": 6}
        builder.allocated(PID, at_s, number * 30 * 2**20, "\n".join(calls), **made)
    (finding,), _ = looked(builder.open())
    assert says(finding.remedy[0], "one ApiClient", "score.py:6")
    assert "Threads of ApiClient objects (kube.client.Sender.run())" in finding.title


def test_timers_that_were_not_cancelled_are_named_by_what_they_will_call(tmp_path):
    source = "class Poll:\n  def __init__(self):\n    Timer(900, self.expire).start()\n  def expire(self): ...\n"
    builder = trainer(tmp_path, thread_count=RISING).source(PID, "/home/me/poll.py", source)
    waits = {"function": "Poll.expire", "owner_file": "/home/me/poll.py", "owner_line": 4, "text": "threading.Timer"}
    for number, at_s in enumerate((4, 9, 17), 1):
        builder.take(PID, number, at_s, threads=[{**waits, "object_count": 20.0 * number}])
    (finding,), _ = looked(builder.open())
    assert "Poll.expire" in finding.title
    assert (finding.subject.line, finding.subject.function) == (3, "Poll.__init__")
    assert any("60 of them were a threading.Timer that waited to run" in e.text for e in finding.evidence)
    assert "cancel()" in finding.remedy[0]


def test_growth_that_others_hold_is_not_theirs(tmp_path):
    builder = with_pollers(trainer(tmp_path, thread_count=RISING))
    for number in (1, 2, 3):
        root = {"path": "FeedPoller.run()", "root_kind": "thread", "deep_bytes": 1000 * number}
        builder.holds(PID, number, 4.0 * number, [root])
    (finding,), _ = looked(builder.open())
    assert finding.bytes < 10 * 2**20
    assert finding.severity == "warning"


def test_what_each_holds_in_its_own_variables_counts_though_it_is_too_little_for_a_line(tmp_path):
    builder = with_pollers(trainer(tmp_path, thread_count=RISING))
    for number in (1, 2, 3):
        rates = {"path": "app.rates", "edge_kind": "global", "owner": "app", "deep_bytes": 1000, "type_name": "dict"}
        builder.holds(PID, number, 4.0 * number, [rates])
        frames = {"node": 2, "type_name": "frame", "object_count": 20.0 * number, "retained_bytes": 50_000_000 * number}
        group = {"node": 2, "path_node": 0, "dominator_node": 0, "root_kind": "thread", "is_named": True}
        held = {"retained_bytes": 50_000_000 * number, "shallow_bytes": 0, "child_count": 20 * number}
        builder.row("heap_nodes", 4.0 * number, PID, take=number, **group, **held)
        builder.row("heap_children", 4.0 * number, PID, take=number, **frames)
    (finding,), _ = looked(builder.open())
    assert finding.bytes > 90 * 2**20


def test_a_pile_is_reported_before_it_costs_memory(tmp_path):
    (finding,), _ = looked(trainer(tmp_path, leak=0, thread_count=RISING).open())
    assert finding.bytes == 0
    assert finding.severity == "warning"


@pytest.mark.cases(2)
@pytest.mark.parametrize(
    "counts",
    [
        [4] * COUNT,
        [min(40, 4 + 2 * i) for i in range(COUNT)],  # a pool of 40 that is full after 5 s
        [4 + (i // 10 % 2) * 30 for i in range(COUNT)],  # a pool per epoch, ended with it
        [100 + i // 10 for i in range(COUNT)],  # 8 more beside 100
        [4 + (i % 20) * 2 for i in range(COUNT - 1)] + [4],  # a pool per epoch that fills slowly, the last ended too
    ],
    ids=["steady", "pool", "pool-per-epoch", "few", "slow-pools"],
)
def test_innocent_threads_are_ruled_out_with_their_number(tmp_path, counts):
    findings, (ruled_out,) = looked(trainer(tmp_path, thread_count=counts).open())
    assert not findings
    assert ruled_out.figures["most_threads"] == max(counts)


@pytest.mark.parametrize(("kept", "is_named"), [(3, False), (RISING[-1], True)])
def test_a_dict_that_keeps_few_of_them_is_not_said_to_keep_them(tmp_path, kept, is_named):
    """Each new thread takes the place of another, which runs on: to empty the dict would end none."""
    source = (
        "class Service:\n    def __init__(self):\n        self.pollers = {}\n\n    def configure(self, feed):\n"
        "        poller = FeedPoller(feed)\n        poller.start()\n        self.pollers[feed] = poller\n"
        "\n\nclass FeedPoller(Thread):\n    def run(self):\n        pass\n"
    )
    builder = with_pollers(
        trainer(tmp_path, thread_count=RISING).source(PID, "/home/me/rates.py", source, module="rates")
    )
    row = {"root_kind": "module", "owner_module": "rates", "owner_file": "/home/me/rates.py", "is_user": True}
    for number, at_s in enumerate((4, 9, 17), 1):
        pollers = {"path": "rates.SERVICE.pollers", "edge_kind": "attribute", "variable": "pollers", "owner": "Service"}
        pollers |= {"type_name": "dict", "length": kept, "object_count": 1.0, "deep_bytes": 5000}
        builder.holds(PID, number, at_s, [row | pollers])
    (finding,), _ = looked(builder.open())
    assert ("Service.pollers" in (finding.subject.holder or "")) is is_named
