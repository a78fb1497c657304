"""How long one piece of the agent's work may hold the GIL: known before it begins. Runs in the job.

All objects are read in one call of C code, in which no other thread runs and which nobody can interrupt: a service with
millions of objects would answer nobody meanwhile. So the objects are counted first, and counting ends where the pause
would. Where there are more, a part is read that fits (``most_nodes``).

Where the graph cannot be read, a sweep (``census.sweep``) is as long, and nothing counts objects for it. Each is a
block of Python's allocator at least, and those are counted. Where even that many would take too long no sweep is made.

Times are CPU time: on a crowded machine the pause lasts longer, and so does everything else.
"""

from __future__ import annotations

import gc
import sys
from time import monotonic, thread_time

from ..interpreter import doors
from ..interpreter.frozen import FROZEN_S
from ..native.allocators import malloc_in_use_bytes

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from ..graph.heap_graph import Call

# Unless the user says so. In a service somebody waits for an answer; a script that serves nobody ends a little later.
# Where torch is loaded an answer takes its time anyway; and torch and what comes with it are half a million objects,
# which read in part do not tell what autograd keeps: a script with it that seems to serve nobody (an evaluation, a loop
# without an optimizer) may be held up for longer. Where an optimizer steps nobody waits at all, one step comes later.
# The share of time is bounded elsewhere.
SERVICE_S, PLAIN_S, TORCH_S, TRAINING_S = 0.1, 0.25, 0.5, 1.0
# Seen on the stack of a thread: whatever it serves, its loop is there. To have been imported says nothing, since
# SQLAlchemy and many others import asyncio.
LOOPS = (
    "asyncio", "socketserver", "gevent", "eventlet", "tornado", "twisted", "grpc", "zmq", "tkinter", "uvloop",
    "uvicorn", "hypercorn", "gunicorn", "waitress", "cheroot",
)  # fmt: skip
SILENT_LOOPS = ("PyQt5", "PyQt6", "PySide2", "PySide6")  # run in C: no function of theirs is on a stack
# Measured (2 cores of a server of 2023, Python 3.11, a million objects): a pass 100 to 150 ns an object, a list of all
# objects 16 to 35 ns.
PASS_S = 150e-9
COUNT_S = 40e-9
# Where the graph was not read yet: a block of Python's allocator, of which three in four are nodes.
BLOCK_S = 100e-9
SAFETY = 1.25  # of what the last sweep cost an object: objects of long ago lie farther apart
MEANINGFUL = 50000  # objects: what a smaller sweep cost tells nothing of a large one
SWEEP_SHARE = 0.8  # of the pause: the rest is for what is looked at afterwards, which mostly takes a few milliseconds
COUNT_SHARE = 0.5
COUNT_AGAIN = 1.5  # times the blocks of the last count
FROZEN_SHARE = 0.25
# Of what is left then, where torch is asked: for its tensors; until models and optimizers were asked for theirs; until
# what is followed one by one has to end.
TENSORS_SHARE, MODELS_SHARE, FOLLOWING_SHARE = 0.4, 0.55, 0.75
BYTES_EACH = 100  # of an object at least, where Python runs on malloc and counts no blocks


class Pauses:
    """Of one process. ``asked_s``: the user's limit, or None. Only the thread that takes snapshots calls it."""

    def __init__(self, asked_s: float | None = None) -> None:
        self._asked_s = asked_s
        self._tracked: int | None = None
        self._blocks: int | None = None  # at the last sweep or count
        self._object_s = PASS_S  # of a pass, for each object
        self._began = 0.0
        self._blocks_now = 0
        self.limit_s = SERVICE_S
        self.refused_s: float | None = None  # what a sweep that was left out would have taken
        self._serves: bool | None = None  # when stacks were last looked at
        self._read: tuple[int, int, float] | None = None  # nodes, blocks, and when the graph was last read whole
        self._usual_per_s = 0.0  # blocks that came between the last two such graphs
        self._usual_share = 1.0  # of those, how many became nodes: of what C code forgets none does
        self._too_many: tuple[float, int] | None = None  # the limit and the blocks when the graph did not fit last

    def limit(self, is_training: bool = False) -> float:
        """Seconds."""
        if self._asked_s is not None:
            return self._asked_s
        serves = self._serves
        if serves is None:
            serves = any(map(sys.modules.__contains__, LOOPS))
        serves = serves or any(map(sys.modules.__contains__, SILENT_LOOPS))
        has_torch = "torch" in sys.modules
        if is_training:
            return TRAINING_S
        if has_torch:
            return PLAIN_S if serves else TORCH_S
        return SERVICE_S if serves else PLAIN_S

    def look(self, running: Mapping[int, Sequence[Call]]) -> None:
        """What other threads run, before a snapshot (``HeapGraph.running``); nothing where nobody could tell."""
        if running:
            self._serves = any(_is_of_loop(call[0]) for calls in running.values() for call in calls)

    def begin(self, limit_s: float) -> None:
        """A piece of work begins now, on this thread."""
        self._began = thread_time()
        self._blocks_now = _blocks()
        self.limit_s = limit_s
        self.refused_s = None

    def allows_sweep(self, passes: float = 1) -> bool:
        """Whether so many passes over all objects fit into what is left of the sweeps' share."""
        left_s = self._began + SWEEP_SHARE * self.limit_s - thread_time()
        cost_s = self.tracked_at_most() * self._object_s * passes
        if cost_s > left_s and self._is_worth_a_count():
            count = _count()
            self.counted(count)
            left_s = self._began + SWEEP_SHARE * self.limit_s - thread_time()
            cost_s = count * self._object_s * passes
        self.refused_s = cost_s if cost_s > left_s else None
        return self.refused_s is None

    def most_objects(self, object_s: float, node_s: float) -> float:
        """How many objects may be read that cost ``object_s`` each, and ``node_s`` each node of what hangs on them; 0
        where it is known that there are more. A dict of a million numbers is one object, and a million blocks.

        Blocks that come as fast as between the last two graphs are taken for what they were then. Any more of them may
        be nodes, all of them.
        """
        if self._too_many is not None and self.limit_s <= self._too_many[0] and self._blocks_now >= self._too_many[1]:
            return 0.0
        left_s = max(0.0, self._began + SWEEP_SHARE * self.limit_s - thread_time())
        if self._read is None:
            cost_s = self._blocks_now * BLOCK_S
        else:
            nodes, blocks, at_s = self._read
            new = max(0, self._blocks_now - blocks)
            usual = min(new, self._usual_per_s * (monotonic() - at_s))
            cost_s = (nodes + self._usual_share * usual + new - usual) * node_s
        if cost_s > left_s:
            self.refused_s = cost_s
            return 0.0
        return left_s / object_s

    def most_nodes(self, node_s: float) -> float:
        """How many may be read of a graph that is sampled, at ``node_s`` each.

        1, and so the least that says anything, where a busy machine used up the pause before: with none a small
        ``--max-pause`` would show nothing at all.
        """
        return max(1.0, (self._began + SWEEP_SHARE * self.limit_s - thread_time()) / node_s)

    def too_many(self) -> None:
        """There were more objects than fit: to count them again is of no use until there are fewer."""
        self._too_many = self.limit_s, self._blocks_now
        self.refused_s = self._blocks_now * self._object_s

    def _is_worth_a_count(self) -> bool:
        """Most blocks may be numbers and text. All of them listed must fit, too; if a sweep does not after that, the
        next snapshot knows."""
        blocks = self._blocks_now
        is_new = self._blocks is None or blocks >= COUNT_AGAIN * self._blocks
        return is_new and thread_time() + blocks * COUNT_S <= self._began + COUNT_SHARE * self.limit_s

    def allows_frozen_count(self) -> bool:
        """Whether to count what ``gc.freeze()`` hides fits, even if that is all there is."""
        return self._blocks_now * FROZEN_S <= FROZEN_SHARE * self.limit_s

    def read(self, nodes: int) -> None:
        """A graph of so many nodes was read whole."""
        now_s, blocks = monotonic(), self._blocks_now
        if self._read is not None:
            nodes_then, blocks_then, then_s = self._read
            more = max(0, blocks - blocks_then)
            self._usual_per_s = more / max(1e-3, now_s - then_s)
            self._usual_share = min(1.0, max(0, nodes - nodes_then) / more) if more else 1.0
        self._read = nodes, blocks, now_s

    def counted(self, count: int) -> None:
        """So many objects the collector tracks."""
        self._tracked, self._blocks = count, self._blocks_now

    def swept(self, count: int, cost_s: float, passes: float = 1) -> None:
        """What a sweep has cost, and found."""
        self.counted(count)
        if count >= MEANINGFUL:
            self._object_s = max(PASS_S, SAFETY * cost_s / count / passes)

    def tracked_at_most(self) -> int:
        """Objects that the collector tracks. Wrong only if numbers have made way for as many containers since."""
        blocks = self._blocks_now
        if self._tracked is None or self._blocks is None:
            return blocks
        return min(blocks, self._tracked + max(0, blocks - self._blocks))

    def bounds_of_tensors(self, tensor_s: float) -> tuple[float, float]:
        """(how many may be looked at that cost ``tensor_s`` each, the instant at which models are asked no more)."""
        now = thread_time()
        left_s = max(0.0, self._began + self.limit_s - now)
        return TENSORS_SHARE * left_s / tensor_s, now + MODELS_SHARE * left_s

    def following_ends(self, at_most_s: float) -> float:
        """The instant (thread_time) at which what is followed one by one from now on is cut."""
        now = thread_time()
        return now + min(at_most_s, max(0.0, FOLLOWING_SHARE * (self._began + self.limit_s - now)))

    def refusal(self, what_was_left: str) -> str | None:
        """A sentence for the report where there were too many objects to read them all, else None."""
        if self.refused_s is None:
            return None
        needs_s = self.refused_s / SWEEP_SHARE
        text = (
            f"{what_was_left}: to read all objects, up to {_rounded(self.tracked_at_most())}, would stop this process "
        )
        text += f"for up to {1e3 * self.refused_s:.0f} ms (--max-pause {1.05 * needs_s:.2g}s allows that)"
        return text


def unlimited() -> Pauses:
    """For whom a pause hurts nobody: a test, an interpreter that ends."""
    pauses = Pauses(float("inf"))
    pauses.begin(pauses.limit())
    return pauses


def _is_of_loop(file: str) -> bool:
    parts = file.replace(".", "/").split("/")[-4:]
    return any(map(parts.__contains__, LOOPS))


def _rounded(count: int) -> str:
    return f"{count / 1e6:.1f} million" if count >= 1e6 else f"{round(count / 1e3)},000"


def _blocks() -> int:
    """**Cost** 1 us for each 100 KB of small objects."""
    return doors.allocated_blocks() or (malloc_in_use_bytes() or 0) // BYTES_EACH


def _count() -> int:
    # Only C code runs while a list of all objects exists: see heap.py.
    return sum(map(len, map(gc.get_objects, range(3))))
