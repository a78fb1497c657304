"""What a program begins, an edit ends: where its use ends, and nowhere if it goes elsewhere."""

from __future__ import annotations

from typing import Any

import pytest

from leakscope.facts.code.editing import Unsure
from leakscope.facts.code.edits import edit
from leakscope.facts.code.ending import freed_by, never_ended
from tests.code.test_edits import FILE, asked, edited

FILES = """def first(path, seen):
    handle = open(path)
    line = handle.readline()
    return line.strip()
"""
POOLS = """from concurrent.futures import ThreadPoolExecutor

pools = []


def best(score, given):
    pool = ThreadPoolExecutor(4)
    pools.append(pool)  # to be shut down
    later = [pool.submit(score, one) for one in given]
    return max(one.result() for one in later)


def end():
    for pool in pools:
        pool.shutdown()
"""
SESSIONS = """class Session:
    def __init__(self):
        self.jobs = queue.Queue()
        thread = threading.Thread(target=self.work)
        thread.start()

    def work(self):
        while self.jobs.get() is not None:
            pass

    def close(self):
        self.jobs.put(None)


def serve():
    for number in range(9):
        session = Session()
        session.jobs.put(number)
"""
BUS = """class Bus:
    def __init__(self):
        self.rows = []

    def subscribe(self, topic, handler):
        self.rows.append((topic, handler))  # add

    def unsubscribe(self, topic, handler):
        self.rows.remove((topic, handler))


class View:
    def __init__(self, bus, topic):
        self.bus, self.topic = bus, topic
        bus.subscribe(topic, self.shown)

    def shown(self):
        pass

    def close(self):
        self.open = False


def look(bus):
    view = View(bus, "cpu")
    view.close()
"""
BLOCKS = """class Block:
    def __init__(self, size):
        self.at = lib.block_new(size)

    def close(self):
        self.size = 0


def work():
    Block(9).close()
    lib.block_free.argtypes = [ctypes.c_void_p]
    lib.block_new.restype = ctypes.c_void_p
"""
COPIES = """libc.strdup.restype = ctypes.c_void_p


def words(text):
    copy = libc.strdup(text)
    found = ctypes.string_at(copy).split()
    libc.free.argtypes = [ctypes.c_void_p]
    return libc.strlen(copy) + len(found)
"""
EXPIRING = """class Tokens:
    def begin(self, token):
        self.rows[token] = now()  # add

    def sweep(self):
        for token in [one for one in self.rows if self.rows[one] < now()]:
            del self.rows[token]
"""
LAYERS = """def seen(layers, images):
    found = []
    for layer in layers:
        layer.register(lambda *given: found.append(given))
    run(images)
    return found[0]
"""
HANDLE = """def seen(layer, images):
    found = []
    handle = layer.register(lambda *given: found.append(given))
    return run(images)
"""
GIVEN_BACK = """def seen(layer):
    found = []
    handle = layer.register(lambda *given: found.append(given))
    return handle, found


def look(layer, images):
    handle, found = seen(layer)
    layer.run(images)
    return len(found)
"""
RELAY = """class Relay:
    def accept(self, peer):
        self.rows[peer] = Connection(peer)  # add

    def hang_up(self, peer):
        return self.rows[peer].sent
"""
STATE = """class Detector:
    def __call__(self, chunk):
        seen, self.rows = self.rnn(chunk, self.rows)  # add
        return seen
"""


@pytest.mark.parametrize(
    ("mechanism", "text", "marked", "new", "about"),
    [
        ("not-closed", FILES, "open(", ["with open(path) as handle:", "line = handle.readline()"], {}),
        (
            "not-ended",
            POOLS,
            "ThreadPoolExecutor(4)",
            [
                "with ThreadPoolExecutor(4) as pool:",
                "pools.append(pool)  # to be shut down",
                "later = [pool.submit(score, one) for one in given]",
                "return max(one.result() for one in later)",
            ],
            {},
        ),
        (
            "not-ended",
            SESSIONS,
            "thread.start()",
            ["try:", "session.jobs.put(number)", "finally:", "session.close()"],
            {},
        ),
        ("removal-not-reached", BUS, "# add", ["self.bus.unsubscribe(self.topic, self.shown)"], {}),
        ("removal-not-reached", EXPIRING, "# add", ["self.sweep()"], {}),
        ("not-freed", BLOCKS, "block_new(", ["lib.block_free(self.at)"], {}),
        ("not-freed", COPIES, "strdup(", ["return libc.strlen(copy) + len(found)", "finally:", "libc.free(copy)"], {}),
        ("hooks", LAYERS, "register", ["finally:", "for handle in handles:", "handle.remove()"], {}),
        ("hooks", HANDLE, "register", ["try:", "return run(images)", "finally:", "handle.remove()"], {}),
        (
            "hooks",
            GIVEN_BACK,
            "register",
            ["try:", "layer.run(images)", "return len(found)", "finally:", "handle.remove()"],
            {},
        ),
        ("unbounded-container", RELAY, "# add", ["return self.rows.pop(peer).sent"], {"type_name": "dict"}),
        ("autograd-history", STATE, "# add", ["self.rows = self.rows.detach()"], {"container": "Tensor"}),
        (
            "autograd-history",
            STATE,
            "# add",
            ["self.rows = tuple(one.detach() for one in self.rows)"],
            {"container": "tuple"},
        ),
        (
            "autograd-history",
            "for step in steps:\n    rows.append((step, loss, seen))\nprint(loss.item())",
            "append",
            ['rows.append((step, loss.detach(), seen.detach() if hasattr(seen, "detach") else seen))'],
            {},
        ),
        (
            "rebuilt-with-more",
            "for row in read():\n    rows = pd.concat([rows, row])  # add\n    show(rows.tail(10))",
            "# add",
            ["rows = rows.tail(10)"],
            {"container": "DataFrame"},
        ),
        (
            "rebuilt-with-more",
            "for row in read():\n    rows += row  # add\n    show(rows[-80:])",
            "# add",
            ["rows = rows[-80:]"],
            {"container": "str"},
        ),
    ],
)
def test_it_ends_where_its_use_ends(
    mechanism: str, text: str, marked: str, new: list[str], about: dict[str, Any]
) -> None:
    after = [one.strip() for one in edited(mechanism, text, marked, **about).text.split("\n")]
    at = after.index(new[0])
    assert after[at : at + len(new)] == new
    assert new[-1] not in text.split("\n")


@pytest.mark.parametrize(
    ("mechanism", "text", "marked"),
    [
        ("not-closed", FILES.replace("return line.strip()", "return handle"), "open("),
        ("not-closed", FILES.replace("return line.strip()", "return (one for one in handle)"), "open("),
        ("not-closed", FILES.replace("return line.strip()", "return csv.reader(handle)"), "open("),
        ("not-closed", FILES.replace("return line.strip()", "return lambda: handle.read()"), "open("),
        ("not-closed", FILES.replace("return line.strip()", "seen.append(handle)\n    return seen[0]"), "open("),
        ("not-ended", POOLS.replace("pool.shutdown()", "pool.submit(print)"), "ThreadPoolExecutor(4)"),
        ("not-ended", POOLS.replace("pool.submit(score, one)", "pool.map_async(one)"), "ThreadPoolExecutor(4)"),
        ("not-ended", SESSIONS.replace("session.jobs.put(number)", "kept[number] = session"), "thread.start()"),
        ("not-ended", SESSIONS.replace("self.jobs.put(None)", "pass"), "thread.start()"),
        ("removal-not-reached", BUS.replace("self.bus, self.topic = bus, topic", "self.bus = bus"), "# add"),
        ("removal-not-reached", BUS.replace("view.close()", "view.shown()"), "# add"),
        ("not-freed", COPIES.replace("return libc.strlen(copy) + len(found)", "return copy"), "strdup("),
        ("not-freed", COPIES.replace("c_void_p", "c_char_p", 1), "strdup("),
        ("not-freed", BLOCKS.replace("block_free", "page_free"), "block_new("),
        ("hooks", HANDLE.replace("return run", "kept.append(handle)\n    return run"), "register"),
        ("hooks", GIVEN_BACK.replace("return len(found)", "return handle"), "register"),
        ("unbounded-container", RELAY.replace("hang_up", "sent_by"), "# add"),
        ("unbounded-container", RELAY.replace("hang_up", "end_time"), "# add"),
        ("removal-not-reached", EXPIRING.replace("del self", "log(token)\n            del self"), "# add"),
        ("not-closed", FILES.replace("open(path)", "os.open(path)"), "open("),
        ("rebuilt-with-more", "rows = cat([rows, row], dim=1)  # add\nshow(rows[-1])", "# add"),
        ("rebuilt-with-more", "rows = cat([rows, row])  # add\nshow(rows[-1], len(rows))", "# add"),
    ],
)
def test_what_goes_elsewhere_is_not_ended(mechanism: str, text: str, marked: str) -> None:
    found = edit(mechanism, asked(text, marked, type_name="dict" if text.startswith("class Relay") else "list"))
    assert isinstance(found, Unsure) and found.why


def test_what_frees_memory_of_a_library_is_asked_of_the_sources() -> None:
    one = asked(COPIES, "strdup(")
    assert freed_by(one.sources, FILE, one.line) == "libc.free"
    assert freed_by(asked(COPIES.replace("libc.free.", "libc.puts."), "strdup(").sources, FILE, one.line) is None


CLIPS = """class Clip:
    def __init__(self, blob):
        self.stream = codec.begin(blob)

    def frames(self):
        return codec.inflate(self.stream)

    def close(self):
        codec.end(self.stream)


def open_clip(blob):
    return Clip(blob)


def load(blob):
    clip = open_clip(blob)
    return clip.frames()
"""


@pytest.mark.parametrize(
    ("text", "made"),
    [
        (CLIPS, 17),
        (CLIPS.replace("open_clip(blob)\n    return", "Clip(blob)\n    return"), None),  # in two places
        (CLIPS.replace("    return clip.frames()", "    yield clip.frames()\n    clip.close()"), None),
        (CLIPS.replace("def close", "def rewind"), None),
    ],
    ids=("never-closed", "made-in-two-places", "closed", "nothing-to-call"),
)
def test_objects_that_nothing_ends_are_told_with_what_would_and_where_they_are_made(
    text: str, made: int | None
) -> None:
    one = asked(text, "codec.inflate(")
    found = never_ended(one.sources, FILE, one.line)
    assert (found.line.line if found is not None else None) == made
    assert found is None or (found.owner, found.method) == ("Clip", "close")
