"""The line of a program that calls a leaking library: from its source, and by what was seen while memory grew."""

from __future__ import annotations

import pytest

from leakscope.evidence.library_calls import Growth, library_calls, only_called
from leakscope.facts.code.index import Source

from .asking import asked
from .leaks import PID, MiB, sentinels, trainer

FILE = "/home/me/feed.py"

# Each program marks the one line that has to be found with "# HERE"; without a mark, none may be named.
PROGRAMS = {
    "a method of an attribute": """
import codec
class Keeper:
    def __init__(self):
        self.decoder = codec.json.Decoder(dict)
    def on_message(self, raw):
        return self.decoder.decode(raw)  # HERE
keeper = Keeper()
for raw in feed:
    keeper.on_message(raw)
""",
    "an import by another name": """
from codec.json import decode as read
def main():
    while True:
        read(line())  # HERE
main()
""",
    "a method by another name": """
import codec as c
encode = c.Encoder().encode
for row in rows:
    out.write(encode(row))  # HERE
""",
    "an object out of a dict of them": """
from codec import Type
class Catalog:
    def __init__(self, names):
        self.entries = {}
        for name in names:
            entry = Type()
            self.entries[name] = entry
    def size(self, name):
        return self.entries[name].context.byte_size()  # HERE
def main():
    catalog = Catalog(["a", "b"])
    for tick in range(1000):
        for name in "ab":
            catalog.size(name)
main()
""",
    "an argument": """
import codec
def strip(message):
    message.pop("key")  # HERE
def main():
    messages = {name: codec.Message(name) for name in names}
    while True:
        for message in messages.values():
            strip(message)
if __name__ == "__main__":
    main()
""",
    "a parameter with a type": """
import codec
def handle(reader: codec.Reader, raw):
    return reader.feed(raw)  # HERE
""",
    "a class derived from one of the library's": """
from codec import Struct
class Snapshot(Struct):
    seq: int
def on_message(raw):
    return Snapshot(raw)  # HERE
""",
    "what was prepared in a loop before": """
import codec
def feed():
    for n in range(100):
        yield codec.pack(n)
def main():
    raw = list(feed())
    for tick in range(1000):
        for part in raw:
            codec.unpack(part)  # HERE
main()
""",
    "a function that a thread runs": """
import codec, threading
def work():
    codec.poll()  # HERE
threading.Thread(target=work).start()
""",
    "two calls in one loop": """
import codec
for n in range(9):
    codec.pack(n)
    codec.unpack(n)
""",
    "a short loop at the end, no deeper than that before": """
import codec
for n in range(9):
    codec.pack(n)
for n in range(3):
    codec.summary(n)
""",
    "what gives memory back does not count": """
import codec
for n in range(9):
    handle = codec.open(n)  # HERE
    handle.close()
    codec.free(n)
""",
    "a beginning that runs once": """
import codec, click
codec.setup()
@click.command()
def main():
    session = codec.Session()
    session.start()
    for n in range(9):
        print(n)
""",
    "the user's own methods of the same name": """
import codec
class Decoder:
    def decode(self, raw):
        return raw
decoder = Decoder()
for raw in feed:
    decoder.decode(raw)
""",
    "a module of the user's of the same name": """
from codec_like import pack
for n in range(9):
    pack(n)
""",
    "functions that call each other": """
import codec
def ping(n):
    codec.pack(n)  # HERE
    pong(n)
def pong(n):
    ping(n)
""",
    "a source that cannot be read": "import codec\nfor (\n",
}


def source(text):
    return Source("feed", FILE, text)


def marked(text):
    return next((n for n, line in enumerate(text.split("\n"), 1) if line.endswith("# HERE")), None)


@pytest.mark.parametrize("name", PROGRAMS)
def test_the_call_that_is_repeated_is_found(name):
    line = library_calls([source(PROGRAMS[name])], "codec").line
    assert (line and line.line) == marked(PROGRAMS[name])


def test_a_module_of_the_users_is_no_library():
    own = Source("codec", "/home/me/codec.py", "def pack(n): ...\n")
    text = "import codec\nfor n in range(9):\n    codec.pack(n)\n"
    assert library_calls([own, source(text)], "codec").line is None


@pytest.mark.parametrize("module", ["google.protobuf.type_pb2", "google.cloud.storage"])
def test_only_the_named_part_of_a_shared_name_counts(module):
    text = f"import {module}\nfrom {module} import Type\nfor n in range(9):\n    x = {module}.Type()\n"
    found = library_calls([source(text)], "google.protobuf").line
    assert (found and found.line) == (4 if "protobuf" in module else None)


@pytest.mark.parametrize(
    ("imports", "loop", "expected"),
    [
        ("import codec, json, numpy", "json.dumps(codec.pack(n))", "codec"),
        ("import codec, numpy", "codec.pack(numpy.ones(n))", None),
        ("import codec, ctypes", "codec.pack(n)", None),  # what is loaded by hand may leak as well
        ("from .codec import pack", "pack(n)", None),  # the program's own
    ],
)
def test_of_several_packages_only_one_is_called_again_and_again(imports, loop, expected):
    text = f"{imports}\nfor n in range(9):\n    {loop}\n"
    assert only_called([source(text)]) == expected


TWO = """import codec
def main():
    for n in range(9):
        packed = codec.pack(n)
        codec.unpack(packed)
    for part in parts:
        codec.check(part)
main()
"""


def grown(line, grown_bytes, looks=5):
    return Growth(frozenset({(8, FILE), (line, FILE)}), grown_bytes, looks)


@pytest.mark.parametrize(
    ("growths", "line", "others"),
    [
        ([], None, (4, 5, 7)),
        ([grown(3, MiB)], None, (4, 5)),  # somewhere in the first loop
        ([grown(6, MiB)], 7, ()),  # in the second: one call
        ([grown(4, MiB), grown(5, 3 * MiB)], 5, (4,)),
        ([grown(4, MiB), grown(5, 3 * MiB, looks=1)], None, (4, 5)),
        ([grown(4, 2 * MiB), grown(5, 3 * MiB)], None, (4, 5)),
    ],
)
def test_what_was_seen_to_grow_tells_which_of_several(growths, line, others):
    found = library_calls([source(TWO)], "codec", growths)
    assert (found.line and found.line.line) == line
    assert tuple(other.line for other in found.others) == others


def leaking(folder, text):
    builder = sentinels(trainer(folder))
    for number, at_s in enumerate((4, 9, 17), 1):
        builder.take(PID, number, at_s, python_bytes=8 * MiB, array_bytes=0, tensor_bytes=0)
    return builder.source(PID, FILE, text)


def test_a_report_names_the_line_and_says_how_it_was_found(tmp_path):
    text = PROGRAMS["a method of an attribute"]
    (finding,) = asked(leaking(tmp_path, text).open(), only=["native-growth"]).findings
    assert (finding.subject.file, finding.subject.line) == (FILE, marked(text))
    assert finding.subject.function == "Keeper.on_message" and finding.subject.library == "codec"
    assert finding.confidence <= 0.5
    assert "not observed" in finding.doubts[0] and any("by its source" in e.text for e in finding.evidence)


def test_a_report_lists_the_calls_it_cannot_choose_from(tmp_path):
    (finding,) = asked(leaking(tmp_path, TWO).open(), only=["native-growth"]).findings
    assert finding.subject.line is None
    assert any(f"{FILE}:4, {FILE}:5, {FILE}:7" in e.text for e in finding.evidence)


def test_a_report_names_the_only_package_that_is_called_again_and_again(tmp_path):
    text = "import codec, numpy\nrows = numpy.ones(9)\nfor row in rows:\n    codec.pack(row)\n"
    (finding,) = asked(leaking(tmp_path, text).open(), only=["native-growth"]).findings
    assert (finding.subject.library, finding.subject.line) == ("codec", 4)
    assert any("only package that the program calls" in e.text for e in finding.evidence)


def test_a_line_that_only_leads_to_the_call_gives_way_to_it(tmp_path):
    text = "import codec\ndef pack(n):\n    return codec.pack(n)\nwhile True:\n    print(pack(1))\n"
    builder = leaking(tmp_path, text)
    for at_s in (5, 10, 15, 20):
        builder.allocated(PID, at_s, MiB * at_s, f"{FILE}:5 <module>")
    (finding,) = asked(builder.open(), only=["native-growth"]).findings
    assert (finding.subject.line, finding.subject.function) == (3, "pack")
