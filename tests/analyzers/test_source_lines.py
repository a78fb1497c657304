"""The line a user would edit is found in the styles people write; odd source never raises."""

from __future__ import annotations

import json
import time
from pathlib import Path

import pytest

from leakscope.facts.code.adding import Holder, Line, Source, adding_lines, find_calls, thread_start_line

# Each snippet marks the line that has to come first with "# HERE". Holder: variable, owner, edge kind, type.
SNIPPETS = {
    "another list that the same function is given": (("seen", "Loader", "attribute", "seen.Seen"), """
class Loader:
    def __init__(self):
        self.seen = Seen()
        self.pending = []
    def step(self, item):
        self.seen.register_item(item)  # HERE
        self.pending.append(item)
        show(self.seen)
        show(self.pending)
def show(rows):
    print(len(rows))
"""),
    "another list that the same function made": (("seen", "Loader", "attribute", "list"), """
def made():
    rows = []
    return rows
class Loader:
    def __init__(self):
        self.seen = made()
        self.pending = made()
    def step(self, item):
        self.pending.append(item)
        self.seen += [item]  # HERE
"""),
    "what a function returns as it was given": (("seen", "Loader", "attribute", "list"), """
def checked(rows):
    assert rows is not None
    return rows
class Loader:
    def step(self, item):
        checked(self.pending).append(item)
        checked(self.seen).append_item(item)  # HERE
"""),
    "handed on through many functions": (("rows", "main", "local", "list"), """
def sixth(f, x):
    f.append(x)  # HERE
def fifth(e, x):
    sixth(e, x)
def fourth(d, x):
    fifth(d, x)
def third(c, x):
    fourth(c, x)
def second(b, x):
    third(b, x)
def first(a, x):
    second(a, x)
def main():
    rows = []
    while True:
        first(rows, 1)
"""),
    "append to an attribute": (("history", "Trainer", "attribute", "list"), """
class Trainer:
    def __init__(self):
        self.history = []
    def step(self, loss):
        self.history.append(loss)  # HERE
    def clear(self):
        self.history.clear()
"""),
    "local list in a loop": (("rows", "main", "local", "list"), """
def main():
    rows = []
    rows.append("header")
    for n in range(10):
        rows.append(n)  # HERE
    return len(rows)
"""),
    "same name in another function": (("rows", "main", "local", "list"), """
def other():
    rows = []
    for n in range(3):
        rows.append(n)
def main():
    rows = []
    while True:
        rows.append(1)  # HERE
"""),
    "subscript store": (("cache", "Loader", "attribute", "dict"), """
class Loader:
    def __init__(self):
        self.cache = {}
    def load(self, key):
        if key not in self.cache:
            self.cache[key] = read(key)  # HERE
        return self.cache[key]
"""),
    "context variable": (("current", "trace", "global", "_contextvars.ContextVar"), """
current = contextvars.ContextVar("current", default=None)
def within(name):
    token = current.set(Span(name, current.get()))
    yield
    current.reset(token)
def start(name):
    current.set(Span(name, current.get()))  # HERE
"""),
    "from an override that a framework calls": (("seen", "Watch", "attribute", "list"), """
class Watch:
    def __init__(self):
        self.seen = []
    def once(self, first):
        self.seen.append(first)
    def start(self, name):
        self.seen.append(name)  # HERE
class Run(Trainer):
    def __init__(self):
        self.watch = Watch()
        self.watch.once("begin")
    def training_step(self, batch):
        self.watch.start("step")
        return super().training_step(batch)
Run().train()
"""),
    "chained assignment": (("maps", "Planner", "attribute", "dict"), """
class Planner:
    def publish(self, hour):
        heat = self.maps[hour] = Heat(hour)  # HERE
        heat.paint()
"""),
    "tuple targets": (("table", "f", "local", "dict"), """
def f(pairs):
    table = {}
    for key, value in pairs:
        last, table[key] = key, value  # HERE
"""),
    "walrus": (("seen", "Dedupe", "attribute", "set"), """
class Dedupe:
    def __init__(self):
        self.seen = set()
    def new(self, item):
        if (known := self.seen) is not None:
            known.add(item)  # HERE
"""),
    "augmented list": (("lines", "Log", "attribute", "list"), """
class Log:
    lines = []
    def write(self, text):
        self.lines += [text]  # HERE
"""),
    "x = x + v": (("log", "run", "local", "str"), """
def run(events):
    log = ""
    for event in events:
        log = log + str(event)  # HERE
"""),
    "unpacked into a new list": (("items", "Store", "attribute", "list"), """
class Store:
    def __init__(self):
        self.items = []
    def add(self, item):
        self.items = [*self.items, item]  # HERE
"""),
    "torch.cat": (("memory", "Bank", "attribute", "torch.Tensor"), """
import torch
class Bank:
    def __init__(self):
        self.memory = torch.empty(0, 8)
    def push(self, keys):
        self.memory = keys if self.memory is None else torch.cat([self.memory, keys])  # HERE
"""),
    "np.append": (("trace", "main", "local", "numpy.ndarray"), """
import numpy as np
def main():
    trace = np.zeros(0)
    for n in range(100):
        trace = np.append(trace, n)  # HERE
"""),
    "an exception made once": (("closed", "Gate", "attribute", "__main__.Closed"), """
class Closed(Exception):
    pass
class Gate:
    def __init__(self):
        self.closed = Closed("closed")
    def check(self):
        raise self.closed  # HERE
def main():
    gate = Gate()
    while True:
        try:
            gate.check()
        except Closed:
            pass
"""),
    "heapq.heappush": (("queue", "Scheduler", "attribute", "list"), """
import heapq
class Scheduler:
    def at(self, when, job):
        heapq.heappush(self.queue, (when, job))  # HERE
    def next(self):
        return heapq.heappop(self.queue)
"""),
    "bisect.insort": (("ranked", "rank", "local", "list"), """
from bisect import insort
def rank(values):
    ranked = []
    for value in values:
        insort(ranked, value)  # HERE
"""),
    "defaultdict of lists": (("by_user", "Index", "attribute", "collections.defaultdict"), """
from collections import defaultdict
class Index:
    def __init__(self):
        self.by_user = defaultdict(list)
    def note(self, user, event):
        self.by_user[user].append(event)  # HERE
"""),
    "setdefault append": (("groups", "collect", "local", "dict"), """
def collect(events):
    groups = {}
    for event in events:
        groups.setdefault(event.kind, []).append(event)  # HERE
"""),
    "new key, then append": (("groups", "Index", "attribute", "dict"), """
class Index:
    def note(self, key, value):
        if key not in self.groups:
            self.groups[key] = []
        self.groups[key].append(value)  # HERE
"""),
    "attribute chain": (("keys", "Bank", "attribute", "list"), """
class Bank:
    def __init__(self):
        self.keys = []
class Model:
    def forward(self, x):
        self.bank.keys.append(x)  # HERE
        for key in self.batch.keys():
            pass
"""),
    "cls registry": (("registry", "Plugin", "class-attribute", "dict"), """
class Plugin:
    registry = {}
    @classmethod
    def create(cls, name):
        cls.registry[name] = cls()  # HERE
        return cls.registry[name]
"""),
    "class by name": (("live", "Session", "class-attribute", "set"), """
class Session:
    live = set()
    def __init__(self):
        Session.live.add(self)  # HERE
def main():
    for n in range(9):
        Session()
"""),
    "type(self)": (("instances", "Base", "class-attribute", "list"), """
class Base:
    instances = []
    def opened(self):
        type(self).instances.append(self)  # HERE
"""),
    "base class holds, subclass adds": (("errors", "Child", "attribute", "list"), """
class Base:
    def __init__(self):
        self.errors = []
class Child(Base):
    def check(self, error):
        self.errors.append(error)  # HERE
class Unrelated:
    def check(self, error):
        for e in error:
            self.errors.append(e)
"""),
    "module global": (("CACHE", "service", "global", "dict"), """
CACHE = {}
def lookup(key):
    if key in CACHE:
        return CACHE[key]
    CACHE[key] = value = compute(key)  # HERE
    return value
"""),
    "global rebound": (("total", "service", "global", "bytes"), """
total = b""
def receive(chunk):
    global total
    total += chunk  # HERE
"""),
    "alias of a member": (("buckets", "Sharder", "attribute", "dict"), """
class Sharder:
    def put(self, key, value):
        bucket = self.buckets[key % 8]
        bucket.append(value)  # HERE
"""),
    "alias by get": (("rooms", "Chat", "attribute", "dict"), """
class Chat:
    def say(self, room, text):
        lines = self.rooms.get(room)
        if lines is not None:
            lines.append(text)  # HERE
"""),
    "alias of the method": (("rows", "Table", "attribute", "list"), """
class Table:
    def read(self, stream):
        append = self.rows.append
        for row in stream:
            append(row)  # HERE
"""),
    "loop over members": (("lanes", "Belt", "attribute", "list"), """
class Belt:
    def tick(self, item):
        for lane in self.lanes:
            lane.append(item)  # HERE
"""),
    "parameter receives it": (("history", "main", "local", "list"), """
def note(rows, value):
    rows.append(value)  # HERE
def main():
    history = []
    for n in range(5):
        note(history, n)
"""),
    "parameter by keyword, of a method": (("history", "main", "local", "list"), """
class Writer:
    def note(self, value, into=None):
        into.append(value)  # HERE
def main():
    history = []
    writer = Writer()
    for n in range(5):
        writer.note(n, into=history)
"""),
    "handed to a constructor": (("samples", "main", "local", "list"), """
class Probe:
    def __init__(self, sink):
        self.sink = sink
    def read(self):
        self.sink.append(1)  # HERE
def main():
    samples = []
    probe = Probe(samples)
    while True:
        probe.read()
"""),
    "thread target": (("results", "main", "local", "list"), """
import threading
def work(out, n):
    out.append(n)  # HERE
def main():
    results = []
    for n in range(5):
        threading.Thread(target=work, args=(results, n)).start()
"""),
    "returned by an accessor": (("_rows", "Store", "attribute", "list"), """
class Store:
    def rows(self):
        return self._rows
def main(store):
    for n in range(5):
        store.rows().append(n)  # HERE
"""),
    "returned by a property": (("_rows", "Store", "attribute", "list"), """
class Store:
    @property
    def rows(self):
        return self._rows
def main(store):
    for n in range(5):
        store.rows.append(n)  # HERE
"""),
    "lru_cache": (("score", "Model.score", "cache", "functools._lru_cache_wrapper"), """
import functools
class Model:
    @functools.lru_cache(maxsize=None)  # HERE
    def score(self, text):
        return len(text)
"""),
    "lru_cache as a call": (("search", "search", "cache", "functools._lru_cache_wrapper"), """
from functools import lru_cache
def search(key):
    return key
find = lru_cache(maxsize=None)(search)  # HERE
"""),
    "default argument": (("seen", "visit", "default", "list"), """
def visit(node, seen=[]):
    seen.append(node)  # HERE
    return len(seen)
"""),
    "closure": (("calls", "counted.<locals>.inner", "cell", "list"), """
def counted(f):
    calls = []
    def inner(*args):
        calls.append(args)  # HERE
        return f(*args)
    return inner
"""),
    "closure renamed by wraps": (("cache", "tokenize", "cell", "dict"), """
import functools
def remembered(f):
    cache = {}
    @functools.wraps(f)
    def inner(*args):
        if args not in cache:
            cache[args] = f(*args)  # HERE
        return cache[args]
    return inner
"""),
    "nonlocal": (("log", "make.<locals>.note", "cell", "str"), """
def make():
    log = ""
    def note(text):
        nonlocal log
        log += text  # HERE
    return note
"""),
    "queue": (("jobs", "Pool", "attribute", "queue.Queue"), """
import queue
class Pool:
    def __init__(self):
        self.jobs = queue.Queue()
    def submit(self, job):
        self.jobs.put(job)  # HERE
    def take(self):
        return self.jobs.get()
"""),
    "C object fed by a call": (("parser", "Feed", "attribute", "pyexpat.xmlparser"), """
class Feed:
    def __init__(self):
        self.parser = make()
        self.parser.configure(1)
    def receive(self, chunk):
        self.parser.Parse(chunk)  # HERE
def main():
    feed = Feed()
    while True:
        feed.receive(b"<a/>")
"""),
    "SQL": (("db", "Log", "attribute", "sqlite3.Connection"), """
class Log:
    def __init__(self):
        self.db.execute("create table t (x)")
    def note(self, x):
        self.db.execute("select 1")
        self.db.execute("insert into t values (?)", (x,))  # HERE
"""),
    "handle passed to a library": (("handle", "Native", "attribute", "ctypes.c_void_p"), """
import lib
class Native:
    def __init__(self):
        self.handle = lib.open()
    def feed(self, x):
        lib.table_put(self.handle, x)  # HERE
"""),
    "linked list": (("head", "Undo", "attribute", "Node"), """
class Node:
    def __init__(self, value, next):
        self.value, self.next = value, next
class Undo:
    def __init__(self):
        self.head = None
    def push(self, value):
        self.head = Node(value, self.head)  # HERE
"""),
    "only created": (("audit", "main", "local", "itertools._tee"), """
import itertools
def main():
    live, audit = itertools.tee(stream())  # HERE
    for item in live:
        print(item)
    next(audit)
"""),
    "ring: stores are no growth": (("items", "Ring", "attribute", "list"), """
class Ring:
    def push(self, item):
        if len(self.items) < 10:
            self.items.append(item)  # HERE
        else:
            self.items[self.at] = item
"""),
    "loaded once, added to often": (("words", "Vocab", "attribute", "dict"), """
class Vocab:
    def __init__(self):
        self.words = {}
        for word in open("words"):
            self.words[word] = 1
    def learn(self, text):
        for word in text.split():
            self.words[word] = len(self.words)  # HERE
"""),
    "comprehension": (("seen", "Filter", "attribute", "set"), """
class Filter:
    def fresh(self, items):
        return [i for i in items if i not in self.seen
                and not self.seen.add(i)]  # HERE
"""),
    "task never awaited": (("job", "handle", "task", "coroutine"), """
import asyncio
async def handle(message):
    await asyncio.sleep(3600)
async def main():
    while True:
        asyncio.ensure_future(handle(1))  # HERE
"""),
    "who waits is a member": (("closing", "Gateway", "attribute", "asyncio.locks.Event"), """
import asyncio
class Gateway:
    def __init__(self):
        self.closing = asyncio.Event()
    async def handle(self, job):
        stop = asyncio.ensure_future(self.closing.wait())  # HERE
        await asyncio.wait({job, stop}, return_when=asyncio.FIRST_COMPLETED)
async def main():
    gateway = Gateway()
    while True:
        await gateway.handle(1)
    gateway.closing.set()
"""),
    "inside a library": (("loggerDict", "Manager", "attribute", "dict"), """
import logging
logging.basicConfig()
def handle(n):
    log = logging.getLogger(f"request.{n}")  # HERE
    log.debug("hello")
def main():
    for n in range(9):
        handle(n)
"""),
    "back through a parameter": (("events", "consume", "local", "list"), """
def consume(events):
    while True:
        if events:
            print(events[-1])
def main():
    events = []
    t = Thread(target=consume, args=(events,))
    while True:
        events.append(read())  # HERE
"""),
    "back through an attribute": (("rows", "run", "local", "list"), """
class T:
    def __init__(self):
        self.rows = []
    def run(self):
        rows = self.rows
        while True:
            self.step()
    def step(self):
        self.rows.append(1)  # HERE
"""),
    "dataclass field": (("points", "Trace", "attribute", "list"), """
from dataclasses import dataclass, field
@dataclass
class Trace:
    points: list = field(default_factory=list)
class Recorder:
    def __init__(self):
        self.trace = Trace()
    def on_step(self, p):
        self.trace.points.append(p)  # HERE
"""),
    "private": (("_Store__rows", "Store", "attribute", "list"), """
class Store:
    def __init__(self):
        self.__rows = []
    def put(self, x):
        self.__rows.append(x)  # HERE
"""),
    "owner without class before 3.11": (("buf", "step", "local", "list"), """
class A:
    def step(self):
        buf = []
        while True:
            buf.append(1)  # HERE
"""),
    "genexpr owner": (("seen", "main.<locals>.<genexpr>", "local", "set"), """
def main():
    seen = set()
    return list(x for x in stream() if not seen.add(x))  # HERE
"""),
    "namespace": (("losses", "state", "attribute", "list"), """
from types import SimpleNamespace
def main():
    state = SimpleNamespace(losses=[])
    for i in range(9):
        state.losses.append(loss(i))  # HERE
"""),
    "function attribute": (("cache", "tokenize", "attribute", "dict"), """
def tokenize(text):
    if text not in tokenize.cache:
        tokenize.cache[text] = text.split()  # HERE
    return tokenize.cache[text]
tokenize.cache = {}
"""),
    "nested dict": (("data", "Db", "attribute", "dict"), """
class Db:
    def __init__(self):
        self.data = {}
    def add(self, a, b, v):
        self.data[a][b].append(v)  # HERE
"""),
    "metaclass": (("_instances", "Single", "class-attribute", "dict"), """
class Single(type):
    _instances = {}
    def __call__(cls, *args):
        key = (cls, args)
        if key not in cls._instances:
            cls._instances[key] = super().__call__(*args)  # HERE
        return cls._instances[key]
"""),
    "memo class": (("memo", "Memo", "attribute", "dict"), """
class Memo:
    def __init__(self, f):
        self.f, self.memo = f, {}
    def __call__(self, *a):
        try:
            return self.memo[a]
        except KeyError:
            r = self.memo[a] = self.f(*a)  # HERE
            return r
"""),
    "lambda": (("events", "main", "local", "list"), """
def main(bus):
    events = []
    bus.on("x", lambda e: events.append(e))  # HERE
    bus.run()
"""),
    "logging handler": (("buffer", "Keep", "attribute", "list"), """
import logging
class Keep(logging.Handler):
    def __init__(self):
        super().__init__()
        self.buffer = []
    def emit(self, record):
        self.buffer.append(self.format(record))  # HERE
"""),
    "total loss": (("total_loss", "train", "local", "torch.Tensor"), """
def train(model, loader, opt):
    total_loss = 0
    for x, y in loader:
        opt.zero_grad()
        loss = crit(model(x), y)
        loss.backward()
        opt.step()
        total_loss += loss  # HERE
    return total_loss / len(loader)
"""),
    "hidden state kept": (("hidden", "train", "local", "torch.Tensor"), """
def train(rnn, xs):
    hidden = None
    for x in xs:
        out, hidden = rnn(x, hidden)  # HERE
        out.mean().backward()
"""),
    "pathlike variable": (("main() rows[*]", "main", "local", "list"), """
def main():
    rows = []
    for i in range(3):
        rows.append(i)  # HERE
"""),
    "hooks": (("hooks", "Probe", "attribute", "list"), """
class Probe:
    def __init__(self, model):
        self.hooks = []
    def attach(self, m):
        self.hooks.append(m.register_forward_hook(self.keep))  # HERE
    def keep(self, m, i, o):
        pass
"""),
    "activation dict in hook": (("acts", "main", "local", "dict"), """
def main(model):
    acts = {}
    def make(name):
        def hook(m, i, o):
            acts.setdefault(name, []).append(o)  # HERE
        return hook
    for n, m in model.named_modules():
        m.register_forward_hook(make(n))
"""),
    "match statement": (("log", "Bus", "attribute", "list"), """
class Bus:
    def handle(self, m):
        if m:
            with self.lock:
                try:
                    self.log.append(m)  # HERE
                finally:
                    pass
"""),
    "two functions": (("pending", "Q", "attribute", "dict"), """
class Q:
    def __init__(self):
        self.pending = {}
        self.pending["x"] = 1
    def submit(self, k, v):
        self.pending[k] = v  # HERE
    def done(self, k):
        self.pending.pop(k, None)
def main():
    q = Q()
    for i in range(9):
        q.submit(i, 1)
"""),
    "instance passed around": (("items", "Store", "attribute", "list"), """
class Store:
    def __init__(self):
        self.items = []
class Other:
    def __init__(self):
        self.items = []
    def go(self):
        for i in range(9):
            self.items.append(i)
def fill(store, n):
    store.items.append(n)  # HERE
def main():
    s = Store()
    for n in range(9):
        fill(s, n)
"""),
    "partial": (("out", "main", "local", "list"), """
from functools import partial
def keep(sink, x):
    sink.append(x)  # HERE
def main(stream):
    out = []
    stream.each(partial(keep, out))
"""),
    "extend slice": (("buf", "Reader", "attribute", "builtins.bytearray"), """
class Reader:
    def feed(self, data):
        self.buf[len(self.buf):] = data  # HERE
    def peek(self):
        return self.buf[0]
"""),
    "multi line call": (("rows", "A", "attribute", "list"), """
class A:
    def log(self, a):
        (
            self.rows  # HERE
            .append(a)
        )
"""),
    "stringio": (("out", "Log", "attribute", "_io.StringIO"), """
import io
class Log:
    def __init__(self):
        self.out = io.StringIO()
    def say(self, *a):
        print(*a, file=self.out)  # HERE
"""),
    "csv": (("buf", "Log", "attribute", "_io.StringIO"), """
import csv, io
class Log:
    def __init__(self):
        self.buf = io.StringIO()
        self.w = csv.writer(self.buf)
    def say(self, a):
        self.w.writerow(a)  # HERE
"""),
    "inner function default": (("acc", "main.<locals>.f", "default", "list"), """
def main():
    def f(x, acc=[]):
        acc += [x]  # HERE
        return acc
"""),
    "executor futures": (("futures", "Crawler", "attribute", "list"), """
class Crawler:
    def __init__(self, pool):
        self.futures = []
        self.pool = pool
    def go(self, u):
        f = self.pool.submit(fetch, u)
        self.futures.append(f)  # HERE
"""),
    "sqlite cursor": (("db", "main", "local", "sqlite3.Connection"), """
import sqlite3
def main():
    db = sqlite3.connect(":memory:")
    cur = db.cursor()
    cur.execute("create table t (x)")
    while True:
        cur.execute("INSERT INTO t VALUES (1)")  # HERE
        db.commit()
"""),
    "instance of own class that is a list": (("history", "main", "local", "__main__.History"), """
class History(list):
    def note(self, x):
        self.append(x)  # HERE
def main():
    history = History()
    for i in range(9):
        history.note(i)
"""),
    "lru by attribute": (("route", "Model.route", "cache", "functools._lru_cache_wrapper"), """
from functools import cache
class Other:
    @cache
    def route(self): pass
class Model:
    @cache  # HERE
    def route(self): pass
"""),
}  # fmt: skip


def _source(text: str, file: str = "/home/me/service.py", module: str = "__main__") -> Source:
    return Source(module, file, text)


def _marked(text: str) -> int:
    return next(n for n, line in enumerate(text.split("\n"), 1) if "# HERE" in line)


@pytest.mark.parametrize("style", SNIPPETS)
def test_the_line_that_adds_comes_first(style: str) -> None:
    (variable, owner, kind, type_name), text = SNIPPETS[style]
    is_library = style == "inside a library"
    holder = Holder(
        variable,
        owner,
        "logging" if is_library else "__main__",
        "/usr/lib/python3/logging/__init__.py" if is_library else "/home/me/service.py",
        kind,
        type_name,
    )
    lines = adding_lines([_source(text)], holder)
    assert [line.line for line in lines[:1]] == [_marked(text)], lines
    assert lines[0].text.endswith("# HERE")


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
    ],
)
def test_odd_source_never_raises(text: str) -> None:
    for kind in ("attribute", "local", "global", "cell", "default", "cache", "item", ""):
        adding_lines([_source(text)], Holder("rows", "A", "__main__", "/home/me/service.py", kind, "list"))
    thread_start_line([_source(text)], "rows")
    find_calls([_source(text)], "gc.disable")


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
