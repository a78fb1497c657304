"""The reader of the heap by itself, without the agent around it.

What it has read is looked up again only at the next look, when the program has gone on: what was there may be freed,
changed, or another's place by then.
"""

import ctypes
import random
import sys
import threading

ENOUGH_BYTES = 1 << 40
ALL = 1 << 31


def of_tensors(torch):
    """The address of the class of all tensors; where they have what is behind them, that its storage, that its size and
    device; and where what is behind them has the number of their members.
    """
    base = getattr(torch._C, "TensorBase", None) or torch._C._TensorBase
    tensors = [torch.zeros(1000 + 100 * n) for n in range(5)]
    ways = [
        [(id(t), t._cdata), (t._cdata, s._cdata), (s._cdata, s.nbytes())]
        for t in tensors
        for s in [t.untyped_storage()]
    ]
    places, kept = [], []
    for hops in zip(*ways):
        found = [{at for at in range(0, 80, 8) if ctypes.c_uint64.from_address(a + at).value == b} for a, b in hops]
        places.append(min(set.intersection(*found)))
    sizes = [(t._cdata, t.numel()) for t in (torch.zeros(3 + n, 7, 11) for n in range(5)) if kept.append(t) is None]
    found = [{at for at in range(0, 168, 8) if ctypes.c_uint64.from_address(a + at).value == b} for a, b in sizes]
    return (id(base), *places, places[2] - 8, min(set.intersection(*found)))


class Reader(object):
    """``look`` as often as you like, from any thread."""

    def __init__(self, folder, seed):
        sys.path.insert(0, folder)
        from agent.graph import heap_graph, rows, sketch, structures

        sys.path.remove(folder)
        self.rows, self.sketch, self.structures = rows, sketch, structures
        self.graph = heap_graph.HeapGraph()
        assert self.graph.refusal is None, self.graph.refusal
        self.graph.user_namespaces = [id(sys.modules["__main__"].__dict__)]
        if "torch" in sys.modules:
            self.graph.weigh_tensors(*of_tensors(sys.modules["torch"]))
        self.choose = random.Random(seed)
        self.lock = threading.Lock()
        self.waits = None  # (what was read, whether all of it has a row)
        self.past = None
        self.taken = self.labelled = self.short = 0  # short: of memory

    def look(self):
        if not self.lock.acquire(False):
            return  # a finalizer of the job's, or another thread
        try:
            self._look_up()
            self._read()
            if self.choose.random() < 0.5:
                self._look_up()
        finally:
            self.lock.release()

    def _read(self):
        left = self.choose.choice([ENOUGH_BYTES] * 9 + [self.choose.randrange(1 << 28)])
        # All of it, or a part.
        most, nodes = self.choose.choice([(1 << 40, 0), (1 << 40, 0), (1000, 60000), (1000, 1 << 20)])
        swept = self.graph.read(self.taken, most, left, [id(list), id(tuple), id(object)], nodes)
        if swept is None:
            self.short += 1
            return
        picked = [id(one) for one in swept[1][:5000]]
        del swept
        self.taken += 1
        self._add(picked)
        read = self.graph._read.pop()[0]
        has_all = self.choose.random() < 0.5
        limits = (0, ALL, 3) if has_all else (1024, 250, 3)
        if self.graph._analyse(read, self.past, *limits):
            self.waits = read, has_all
        else:
            self.short += 1
            self.graph._free(read)

    def _add(self, known):
        """Ties between objects, and to storages and graphs that are nowhere: only their numbers are used."""
        choose = self.choose
        made = [8 * number + 1 for number in range(choose.randrange(30))]
        ends = known + made + [choose.randrange(1 << 47) for _ in range(5)]
        kinds = [self.structures.OBJECT, self.structures.STORAGE, self.structures.AUTOGRAD]
        ties = [(choose.choice(ends), one, 100, kinds[2], choose.randrange(1 << 32)) for one in made]
        for _ in range(choose.choice([0, 10, 3000])):
            size = choose.choice([0, 4096, 1 << 63])
            ties.append((choose.choice(ends), choose.choice(ends), size, choose.choice(kinds), choose.randrange(1000)))
        marks = [choose.choice(ends) for _ in range(choose.choice([0, 100]))]
        self.graph.add(ties, marks, choose.randrange(len(marks) + 1))

    def _look_up(self):
        if self.waits is None:
            return
        (read, has_all), self.waits = self.waits, None
        largest = self.structures.Largest(least_bytes=self.choose.choice([0, 1000, 100000]))
        if self.graph._label(read, id(sys.modules), self.graph.recorder, ctypes.byref(largest)):
            self.labelled += 1
            for copy, _ in self.rows.copies_of(largest):
                self.sketch.rows_of_copy(copy)
            past, self.past = self.past, self.graph._make_past(read)
            if past:
                self.graph._free_past(past)
            if not has_all:
                numbers = self.graph._number(read.contents)
                assert list(self.rows.rows_of(read.contents, self.taken, numbers))
                list(self.rows.marks_of(read.contents, numbers))
        self.graph._free(read)
