"""No single piece of the agent's work holds up a job longer than it may: known before it begins."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from leakscope.agent.snapshots import pause
from tests.recorder.runs import until

from .staging import holders, rows, run, stage, start

pytestmark = pytest.mark.live

# Says how long it stood still at most, while nothing of its own kept it from going on.
SERVICE = """
import gc, socketserver, sys, threading, time
server = socketserver.TCPServer(("127.0.0.1", 0), socketserver.BaseRequestHandler)
threading.Thread(target=server.serve_forever, args=[60], daemon=True).start()
class Session:
    def __init__(self, number): self.number, self.name = number, str(number)
kept = [Session(n) for n in range(int(sys.argv[1]))]
gc.freeze() if "frozen" in sys.argv else gc.collect()
gc.disable()  # its own collections are as long
ends, longest_s, last = time.monotonic() + 6, 0.0, time.thread_time()
while time.monotonic() < ends:
    time.sleep(0.001)
    now = time.thread_time()
    longest_s, last = max(longest_s, now - last), now
print(longest_s)
"""


def taken(tmp_path: Path, *arguments: str, **options: object) -> tuple[float, dict[str, list[dict[str, object]]]]:
    """(the longest pause of the main thread, in CPU time; what the agent recorded)."""
    journal = stage(tmp_path, **options)
    job = tmp_path / "job.py"
    job.write_text(SERVICE)
    done = run(journal, str(job), *arguments)
    assert done.returncode == 0, done.stderr
    return float(done.stdout), rows(journal)


def last_before_exit(found: dict[str, list[dict[str, object]]]) -> dict[str, object]:
    """By then the objects are there, also on a machine that needs seconds to make them."""
    return [take for take in found["takes"] if take["safe_point"] != "exit"][-1]


@pytest.mark.slow
def test_of_a_million_objects_some_are_read_and_it_is_said(tmp_path: Path) -> None:
    longest_s, found = taken(tmp_path, "1000000")
    assert longest_s < pause.SERVICE_S
    last = last_before_exit(found)
    assert last["gc_object_count"] is None
    (graph,) = [row for row in found["heap_graphs"] if row["take"] == last["take"]]
    assert graph["is_sampled"]
    (note,) = [note["text"] for note in found["agent_notes"] if note["note"] == "reduced-take"]
    assert "long containers were sampled" in str(note) and "--max-pause" in str(note)
    (kept,) = [row for row in holders(found) if row["path"] == "job.kept" and row["take"] == last["take"]]
    assert kept["length"] == 1_000_000
    exact = sys.getsizeof(object()) * 0 + 1_000_000 * (8 + 16 + 16 + 16 + 28 + 51)  # slot, heads, attributes, int, str
    assert 0.7 * exact < float(str(kept["deep_bytes"])) < 1.5 * exact


@pytest.mark.slow
def test_as_it_ends_nobody_waits_and_all_are_swept(tmp_path: Path) -> None:
    _, found = taken(tmp_path, "1000000")
    (last,) = [take for take in found["takes"] if take["safe_point"] == "exit"]
    assert float(str(last["gc_object_count"])) > 1_000_000


@pytest.mark.slow
def test_who_allows_more_gets_the_sweep(tmp_path: Path) -> None:
    _, found = taken(tmp_path, "1000000", max_pause_s=5.0)
    assert float(str(last_before_exit(found)["gc_object_count"])) > 1_000_000
    assert "reduced-take" not in {note["note"] for note in found["agent_notes"]}


@pytest.mark.cases(1)
@pytest.mark.parametrize("max_pause_s", [0.001, 0.01])
def test_the_least_pause_still_gives_inventories(tmp_path: Path, max_pause_s: float) -> None:
    """However long it takes on a busy machine: the job goes on until there are two, and would for ever."""
    journal = stage(tmp_path, max_pause_s=max_pause_s)
    job = start(journal, "-c", "import time\nkept = [[n] for n in range(1000)]\nwhile True: time.sleep(0.001)")
    try:
        until(lambda: len(rows(journal).get("takes", [])) >= 2)
    finally:
        job.kill()
        job.wait()


def test_numbers_are_blocks_too_but_cost_a_sweep_nothing() -> None:
    assert said_by("kept = [float(n) for n in range(900_000)]") == ["True", "counted"]
    assert said_by("kept = [[n] for n in range(100_000)]") == ["True", "not counted"]
    assert said_by("kept = [[n] for n in range(900_000)]") == ["False", "not counted"]


def said_by(program: str, **environment: str) -> list[str]:
    """Whether a sweep is allowed within 100 ms where ``program`` has run, and whether objects were counted for that."""
    program += """
import sys
from leakscope.agent.snapshots import pause
pauses = pause.Pauses(0.1)
pauses.begin(pauses.limit())
print(pauses.allows_sweep())
print("counted" if pauses.tracked_at_most() < sys.getallocatedblocks() / 2 else "not counted")
"""
    done = subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True, text=True, check=True)
    return done.stdout.splitlines()


@pytest.mark.slow
def test_growth_since_the_last_sweep_is_known_before_the_next() -> None:
    program = """
import gc
import subprocess
from leakscope.agent.snapshots import pause
pauses = pause.Pauses(0.02)
def allows():
    pauses.begin(pauses.limit())
    return pauses.allows_sweep()
allows()
pauses.swept(len(gc.get_objects()), 0.001)
print(allows())
rows = [[n] for n in range(2_000_000)]
print(allows(), "million" in pauses.refusal(""))
del rows
print(allows(), pauses.refusal(""))
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines() == ["True", "False True", "True None"]


def test_a_training_may_be_held_up_longer_than_a_service() -> None:
    pauses = pause.Pauses()
    plain_s = pauses.limit()
    training_s = pauses.limit(is_training=True)
    assert plain_s < training_s
    assert pause.Pauses(0.05).limit(is_training=True) == 0.05  # what the user says holds everywhere


SERVERS = {
    "asyncio": "asyncio.run(asyncio.sleep(60))",
    "socketserver": "socketserver.TCPServer(('127.0.0.1', 0), socketserver.BaseRequestHandler).serve_forever(60)",
}


@pytest.mark.parametrize("serves", SERVERS)
def test_a_service_is_told_by_the_loop_that_runs_and_a_script_with_torch_by_that_there_is_none(serves: str) -> None:
    program = f"""
import asyncio, socketserver, sys, threading, time
from leakscope.agent.graph.heap_graph import HeapGraph
from leakscope.agent.snapshots import pause
pauses, graph = pause.Pauses(), HeapGraph()
def look():
    pauses.look(graph.running())
    print(pauses.limit())
    sys.modules["torch"] = torch
    print(pauses.limit())
    del sys.modules["torch"]
torch = type(sys)("torch")
idle = threading.Thread(target=time.sleep, args=[60], daemon=True)
idle.start()
look()
threading.Thread(target=lambda: {SERVERS[serves]}, daemon=True).start()
for _ in range(500):  # until it is at work
    time.sleep(0.02)
    if any({serves!r} in call[0] for calls in graph.running().values() for call in calls):
        break
look()
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    limits = [pause.PLAIN_S, pause.TORCH_S, pause.SERVICE_S, pause.PLAIN_S]  # with torch the second and the last
    assert done.stdout.splitlines() == list(map(str, limits))


@pytest.mark.slow
def test_an_interpreter_that_counts_no_blocks_is_judged_by_its_memory() -> None:
    assert said_by("kept = [[n] for n in range(1_000_000)]", PYTHONMALLOC="malloc")[0] == "False"
    assert said_by("", PYTHONMALLOC="malloc")[0] == "True"


@pytest.fixture
def blocks(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[int]]:
    """How many blocks Python has handed out, as the last of these: this process has any number of its own."""
    counts = [100_000]
    monkeypatch.setattr(pause, "_blocks", lambda: counts[-1])
    yield counts


def test_what_did_not_fit_is_not_counted_again_until_it_is_less(blocks: list[int]) -> None:
    one = pause.Pauses(0.1)
    one.begin(0.1)
    assert one.most_objects(100e-9, 100e-9) > 500_000
    one.too_many()
    blocks.append(101_000)
    one.begin(0.1)
    assert one.most_objects(100e-9, 100e-9) == 0.0
    one.begin(1.0)  # as it ends more is allowed
    assert one.most_objects(100e-9, 100e-9) > 5_000_000
    blocks.append(99_000)
    one.begin(0.1)
    assert one.most_objects(100e-9, 100e-9) > 500_000


def test_what_no_collector_counts_is_known_by_its_blocks(blocks: list[int]) -> None:
    """A list of text is one object."""
    one = pause.Pauses(0.1)
    one.begin(0.1)
    assert one.most_objects(100e-9, 100e-9) > 500_000
    blocks.append(2_100_000)
    one.begin(0.1)  # nothing was read yet
    assert one.most_objects(100e-9, 100e-9) == 0.0
    one.begin(10.0)
    assert one.most_objects(100e-9, 100e-9) > 5_000_000
    one.read(2_000_000)
    one.begin(0.4)
    assert one.most_objects(100e-9, 100e-9) > 0.0
    blocks.append(3_500_000)
    one.begin(0.4)
    assert one.most_objects(100e-9, 100e-9) == 0.0
    assert "3.5 million" in (one.refusal("some was read") or "")


@pytest.mark.parametrize(
    ("nodes", "blocks_then", "fits"),
    [(80_000, 2_200_000, True), (80_000, 3_500_000, False), (600_000, 1_900_000, False)],
    ids=["as-before", "faster", "they-are-nodes"],
)
def test_blocks_that_were_no_nodes_are_not_feared(
    blocks: list[int], monkeypatch: pytest.MonkeyPatch, nodes: int, blocks_then: int, fits: bool
) -> None:
    """PyGLM 2.5.3 forgets 200,000 numbers a second: once they were feared, no graph was read whole any more."""
    now_s = [0.0]
    monkeypatch.setattr(pause, "monotonic", lambda: now_s[-1])
    one = pause.Pauses(0.1)
    for at_s, in_use, found in ((0.0, 100_000, 80_000), (10.0, 1_100_000, nodes)):
        now_s.append(at_s)
        blocks.append(in_use)
        one.begin(0.1)
        one.read(found)
    now_s.append(20.0)
    blocks.append(blocks_then)
    one.begin(0.1)
    assert (one.most_objects(100e-9, 100e-9) > 0) == fits
