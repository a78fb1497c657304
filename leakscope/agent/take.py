"""One take: an inventory of the Python heap. Runs at a safe point, on the thread that owns it.

A take pauses its thread and keeps the collector from running in between (its own allocations must not decide when the
job's garbage is collected). When it returns it holds no object of the job: only rows of numbers and strings remain.
"""

import gc
import sys
import types
from functools import lru_cache
from time import perf_counter, thread_time

from . import autograd, frameworks, gradients, heap, loaders, names, openers, referrers, roots, tensors, walk
from .memory import rss_bytes
from .probes import compile_counters, data_forms, frozen, holders, object_types, orphans, threads
from .probes import tensors as tensor_rows
from .probes import weights as weight_rows
from .sampling import SAMPLE, spread

# data_forms first: it holds containers, and orphans counts references.
PROBES = (data_forms, object_types, holders, orphans, frozen, threads, tensor_rows, weight_rows, compile_counters)
_SUSPENDED = frozenset((types.GeneratorType, types.CoroutineType, types.AsyncGeneratorType))
_TORCH = ("Tensor", "Module", "Optimizer", "Iterator")
_LRU_CACHE = type(lru_cache(repr))
LARGE_LENGTH = 1000  # a container of a library this long is remembered, so that its growth is seen at the next take
LIBRARY_GROWTH = 16  # members that a library's container gained since the last take, or a fifth of what it had
HIDDEN_FRACTION = 0.5  # of the growth of resident memory: when the walk explains less, libraries are looked into
IMPORTING = 1.03  # more modules than that times those at the last take: the program is still starting up
HIDDEN_MIN_BYTES = 8 * 1024 * 1024


class Take(object):
    """``run`` gives (table, row) pairs; ``memory`` is what the taker remembers between takes: numbers and names."""

    def __init__(
        self, number, pause_s, memory, main_thread, agent_thread, safe_point, batch_storages=(), with_torch=True
    ):
        self.number = number
        self.memory = memory
        self.main_thread = main_thread
        self.agent_thread = agent_thread
        self.safe_point = safe_point
        self.pause_s = pause_s
        self.batch_storages = batch_storages
        # Off the training thread nothing of torch is looked at.
        self.looks_into_torch = with_torch and safe_point != "agent-thread"
        self.inventory = None
        self.labels = {}  # id of a model or optimizer -> the path that holds it
        self.other_rows = []
        self.walk = None
        self.census = None
        self.frozen_count = 0
        self.threads = None
        self.summary = {}

    def run(self):
        """Take it. Returns [(table, row), …]; the row of ``takes`` is ``self.summary``."""
        collecting = gc.isenabled()
        tracer = sys.gettrace()
        if tracer is not None:
            sys.settrace(None)  # a debugger or coverage must not step through us
        if collecting:
            gc.disable()
        try:
            return self._run()
        finally:
            self.walk = self.census = self.threads = self.inventory = None
            if collecting:
                gc.enable()
            if tracer is not None:
                sys.settrace(tracer)

    def _run(self):
        begin, begin_cpu = perf_counter(), thread_time()
        rss = rss_bytes()
        self._note_imports()
        looks = self.looks_into_torch
        kinds_of = {name: tensors.types_of(name) if looks else frozenset() for name in _TORCH}
        states = frameworks.types()
        wanted = _SUSPENDED.union({_LRU_CACHE}, states, *kinds_of.values())
        outside = self._classes_held_outside()
        wanted |= frozenset(outside)
        least_length = LARGE_LENGTH if self._looks_for_large_containers() else None
        self.frozen_count = gc.get_freeze_count()  # as dear as to count the others, which they are missing from
        is_wanted = autograd.is_node if kinds_of["Tensor"] else None
        self.census, picked, large = heap.sweep(wanted, is_wanted, least_length)
        self._look_into_torch(picked, kinds_of)
        if states:
            texts = frameworks.look([obj for obj in picked if type(obj) in states], states)
            self.other_rows += [("marks", {"text": text}) for text in texts[:4]]
        suspended = [obj for obj in picked if type(obj) in _SUSPENDED]
        caches = [obj for obj in picked if type(obj) is _LRU_CACHE and obj.cache_info()[3] >= LARGE_LENGTH]
        graph_nodes = frozenset(id(obj) for obj in picked if type(obj) not in wanted)
        held_outside = {cls: [obj for obj in picked if type(obj) is cls] for cls in outside}
        del picked
        self.deadline = thread_time() + self.pause_s
        inventory = self.inventory
        self.walk = walk.Walk(
            self.deadline,
            with_tensors=looks,
            reads_saved=self._is_backward_impossible(),
            landmarks=() if inventory is None else inventory.roots,
            graph_nodes=graph_nodes,
        )
        self.walk.held = frozenset(id(obj) for alike in (large, *held_outside.values()) for obj in alike)
        lengths = self.memory.setdefault("registry_lengths", {})
        self.threads = roots.feed(self.walk, self.main_thread, self.agent_thread, suspended, lengths)
        self._library_caches(caches)
        self._library_containers(large)
        for cls, alike in held_outside.items():
            self._held_outside(cls, alike, outside[cls])
        cls = alike = None
        del suspended, caches, large, held_outside
        self.walk.finish(self.census)
        if inventory is not None:
            tensors.settle(inventory, self.walk)
        rows = [(table, dict(row, take=self.number)) for table, row in self._named(self.other_rows)]
        for probe in PROBES:
            try:
                rows += [(probe.TABLE, dict(row, take=self.number)) for row in probe.rows(self)]
            except Exception as error:  # what one probe cannot tell must not cost what the others can
                if names.is_foreign(error):
                    raise
                text = "%s: %s: %s" % (probe.TABLE, type(error).__name__, error)
                rows.append(("agent_notes", {"note": "failed", "text": text}))
        nodes = self.walk.nodes
        explained = sum(n.deep for n in nodes if n.parent is None)
        self._note_hidden_growth(rss, explained)
        array_bytes = sum(n.deep_array for n in nodes if n.parent is None)
        held_tensor_bytes = sum(n.deep_tensor for n in nodes if n.parent is None)
        self.summary = {
            "gc_object_count": sum(self.census.values()),
            "gc_frozen_count": self.frozen_count,
            "visited_count": self.walk.visited,
            "reached_count": int(sum(n.count for n in nodes)),
            "truncated": self.walk.is_cut_short(),
            "python_bytes": int(explained - array_bytes - held_tensor_bytes),
            "array_bytes": int(array_bytes),
            "tensor_bytes": 0 if inventory is None else inventory.bytes_on(host=True),
            "tensor_device_bytes": 0 if inventory is None else inventory.bytes_on(host=False),
            "allocated_blocks": sys.getallocatedblocks(),
            "take_cpu_s": thread_time() - begin_cpu,
            "duration_s": perf_counter() - begin,
        }
        return rows

    def _look_into_torch(self, picked, kinds_of):
        """What is read of live tensors, models, optimizers and loaders before the walk, and none of it kept."""
        if not kinds_of["Tensor"]:
            return
        alike = {name: [obj for obj in picked if type(obj) in kinds] for name, kinds in kinds_of.items()}
        if len(alike["Module"]) > tensors.MOST_MODULES:
            alike["Module"] = []
        try:
            self.inventory = tensors.look(
                kinds_of["Tensor"], alike["Tensor"], alike["Module"], alike["Optimizer"], self.batch_storages,
                self.memory, with_values=True,
            )  # fmt: skip
            self.other_rows += [("loaders", row) for row in loaders.look(alike["Iterator"])]
            if self.inventory is not None and self.safe_point == "optimizer-step":
                self.other_rows += [("gradients", row) for row in gradients.look(self.inventory.parameters)]
        except Exception as error:
            if names.is_foreign(error):
                raise
        finally:
            if self.inventory is not None:
                self.inventory.parameters = []

    def _named(self, rows):
        """Rows in which ids of models have become the paths that the walk found."""
        for table, row in rows:
            root = row.get("weight_set")
            if type(root) is int:
                row["weight_set"] = weight_rows.label_of(self, root)
            yield table, row

    def _is_backward_impossible(self):
        """Nobody can be inside autograd's backward now: it is this thread's turn, and no other could have called it."""
        if self.safe_point == "optimizer-step":
            return True
        others = [ident for ident in sys._current_frames() if ident not in (self.main_thread, self.agent_thread)]
        return self.safe_point in ("pending-call", "exit") and not others

    def _library_caches(self, caches):
        """lru_caches that no user's name leads to: a cached method of a library keeps its objects alive."""
        for cache in caches:
            function = cache.__dict__.get("__wrapped__")
            code = names.getattr_code(function)
            if code is not None and id(cache) not in self.walk.seen:
                self.walk.root(
                    "library", "%s.%s" % (function.__module__, function.__qualname__), openers.CACHE, cache, None
                )
        self.walk.run()

    def _library_containers(self, large):
        """Containers no user's name leads to that grew since the last take: walked then, and at every take after.

        Small ones are known by their name in a library, large ones by who refers to them. Only numbers and names are
        remembered from take to take.
        """
        memory = self.memory
        if not memory.get("hidden"):
            return
        growing = memory.setdefault("growing_libraries", set())
        before, now = memory.get("library_lengths"), {}
        for label, named, obj in roots.library_containers():
            now[label] = len(obj)
            if before is not None and now[label] - before.get(label, 0) >= max(
                LIBRARY_GROWTH, before.get(label, 0) // 5
            ):
                growing.add(label)
            if label in growing and id(obj) not in self.walk.seen:
                memory["hidden_growth_is_named"] = True  # and stays looked at, though no longer hidden
                self.walk.root("library", label, openers.GLOBAL, obj, named)
                self.walk.run()
        obj = None
        memory["library_lengths"] = now
        if self._looks_for_large_containers():
            self._large_containers(large)

    def _classes_held_outside(self):
        """{class: (file, line)} of the user's, whose objects the take before found held by nothing in Python."""
        found = {}
        for (module, name), place in list(self.memory.get("outside", {}).items()):
            cls = names.getattr_plain(sys.modules.get(module), name.rsplit(".", 1)[-1])
            if type in names.mro_of(type(cls)) and names.is_plain_class(cls):
                found[cls] = place
        return found

    def _held_outside(self, cls, alike, place):
        """What only C code holds (exit handlers, a table of an extension) begins at the objects themselves."""
        alike = [obj for obj in alike if id(obj) not in self.walk.seen]
        name = names.type_name(cls)
        named = (name.rsplit(".", 1)[-1], None, names.namespace_of(cls).get("__module__"), place[0], place[1], True)
        sample = spread(alike, len(alike), min(SAMPLE, len(alike)), self.walk.next_phase()) if alike else []
        weight = len(alike) / float(len(sample) or 1)
        while sample:
            obj = sample.pop()
            self.walk.push(obj, None, name + " objects outside Python", openers.GLOBAL, weight, "outside", named)
        obj = None
        self.walk.run()

    def _looks_for_large_containers(self):
        memory = self.memory
        return memory.get("library_names") or (memory.get("hidden") and not memory.get("hidden_growth_is_named"))

    def _large_containers(self, large):
        before = self.memory.get("large")
        unseen = [obj for obj in large if id(obj) not in self.walk.seen]
        self.memory["large"] = {id(obj): len(obj) for obj in unseen}
        known = self.memory.setdefault("library_names", {})
        grown = []
        for obj in unseen if before is not None else ():
            length = before.get(id(obj), 0)
            if id(obj) in known or (length and len(obj) - length >= max(LARGE_LENGTH // 4, length // 20)):
                grown.append(obj)
        grown.sort(key=lambda obj: (id(obj) not in known, -len(obj)))
        own = (id(large), id(unseen), id(grown))
        for obj in grown[:5]:
            if id(obj) not in known:
                chain = referrers.chain_to(obj, self.memory, own, self.deadline + self.pause_s)
                if chain is None or chain.named is None:
                    continue
                known[id(obj)] = (chain.label, chain.named)
            label, named = known[id(obj)]
            self.memory["hidden_growth_is_named"] = True
            if id(obj) not in self.walk.seen:
                self.walk.root("library", label, openers.GLOBAL, obj, named)
                self.walk.run()

    def _note_imports(self):
        """Imports fill the libraries' own tables (torch's registries of operators): that is no growth to look into."""
        memory = self.memory
        modules = len(sys.modules)
        if modules > IMPORTING * memory.get("module_count", 0):
            memory["module_count"] = modules
            for known in ("first", "last", "library_lengths", "large", "hidden"):
                memory.pop(known, None)

    def _note_hidden_growth(self, rss, explained):
        """Does memory grow that the walks do not see? Then the next take also looks into libraries.

        ``rss`` is of the moment when the walk began, whose sum is ``explained``: both of one instant, or what grew in
        between would look hidden.
        """
        memory = self.memory
        if rss is None or memory.get("hidden_growth_is_named"):
            return
        now = (rss, explained)
        since = (memory.setdefault("first", now), memory.get("last", now))
        memory["last"] = now
        # Since the first alone, what steps need at first (pools, a backend's code) would stay hidden growth.
        memory["hidden"] = rss - since[0][0] > HIDDEN_MIN_BYTES and all(
            explained - explained_then < HIDDEN_FRACTION * (rss - rss_then) for rss_then, explained_then in since
        )
