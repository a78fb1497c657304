"""Sources that a report needs beside the user's files: code in no file, and modules of libraries that have grown."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import pytest

from leakscope.agent.interpreter import names

from .staging import environment_of, rows, run, stage

pytestmark = pytest.mark.live
HERE = __name__
CODE = "import time\nrows = []\ntime.sleep(3)  # a shorter program gets no snapshot\n"
LIBRARY = """class Meter:
    def __init__(self):
        self.labels = {}

    def remove(self, name):
        del self.labels[name]
"""
DERIVED = """import metering
class Clock(metering.Meter):
    pass
class Seen:
    rows = []
"""
GROWS = """
import time
import metering
meter = metering.Meter()
for n in range(8):
    for m in range(5000):
        meter.labels[n, m] = bytes(500)
    time.sleep(1)
"""


def test_the_source_of_a_command_is_that_of_main(tmp_path: Path) -> None:
    journal = stage(tmp_path)
    assert run(journal, "-c", CODE).returncode == 0
    assert ("<string>", CODE) in [(row["file"], row["source_text"]) for row in rows(journal)["sources"]]


def test_what_was_read_from_standard_input_is_read_again_where_it_is_a_file(tmp_path: Path) -> None:
    journal = stage(tmp_path)
    (tmp_path / "code.py").write_text(CODE)
    with (tmp_path / "code.py").open() as stdin:
        subprocess.run([sys.executable, "-"], stdin=stdin, env=environment_of(journal, {}), check=True)
    assert ("<stdin>", CODE) in [(row["file"], row["source_text"]) for row in rows(journal)["sources"]]


@pytest.mark.slow
def test_a_module_of_a_library_is_kept_once_an_object_of_it_has_grown(tmp_path: Path) -> None:
    library = tmp_path / "site-packages"
    library.mkdir()
    (library / "metering.py").write_text(LIBRARY)
    (tmp_path / "job.py").write_text(GROWS)
    journal = stage(tmp_path)
    done = run(journal, str(tmp_path / "job.py"), PYTHONPATH=str(library), LEAKSCOPE_STRESS="1")
    assert (done.returncode, done.stderr) == (0, "")
    assert [(row["module"], row["source_text"]) for row in rows(journal)["library_sources"]] == [("metering", LIBRARY)]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("line", "modules"),
    [("clocks.Seen.rows.append(bytes(500))", ["clocks"]), ("clock.labels[n, m] = bytes(500)", ["clocks", "metering"])],
    ids=["of a class", "of a base"],
)
def test_so_is_that_of_a_class_that_has_it_or_of_a_base(tmp_path: Path, line: str, modules: list[str]) -> None:
    library = tmp_path / "site-packages"
    library.mkdir()
    (library / "metering.py").write_text(LIBRARY)
    (library / "clocks.py").write_text(DERIVED)
    job = GROWS.replace("import metering\nmeter = metering.Meter()", "import clocks\nclock = clocks.Clock()")
    (tmp_path / "job.py").write_text(job.replace("meter.labels[n, m] = bytes(500)", line))
    journal = stage(tmp_path)
    assert run(journal, str(tmp_path / "job.py"), PYTHONPATH=str(library), LEAKSCOPE_STRESS="1").returncode == 0
    assert [row["module"] for row in rows(journal)["library_sources"]] == modules


SENT = "kept = []\ndef ask():\n    for _ in range(400):\n        kept.append(bytearray(200_000))\n"
RECEIVES = """
import ctypes, sys, time
names = {}
exec(compile(open(sys.argv[1]).read(), sys.argv[1], "exec"), names)  # a function that is of no module here
class Model:
    def __init__(self):
        self.handle = ctypes.c_void_p(5)
models = [Model() for _ in range(3)]
time.sleep(1.5)
names["ask"]()
time.sleep(2.5)
"""


@pytest.mark.slow
def test_a_file_that_only_lines_name_is_kept_and_who_has_an_address_of_c_is_told(tmp_path: Path) -> None:
    sent, job = tmp_path / "sent.py", tmp_path / "job.py"
    sent.write_text(SENT)
    job.write_text(RECEIVES)
    journal = stage(tmp_path)
    assert run(journal, str(job), str(sent), LEAKSCOPE_STRESS="1").returncode == 0
    found = rows(journal)
    assert ("sent", SENT) in [(row["module"], row["source_text"]) for row in found["sources"]]
    told = [row for row in found["heap_nodes"] if row["type_name"] == "ctypes.c_void_p"]
    assert told and all(row["opaque"] for row in told)


@pytest.mark.slow
def test_a_class_whose_metaclass_is_of_c_is_no_object_that_may_hold_memory(tmp_path: Path) -> None:
    """What it has is in its dict: nobody is to suspect it because the inside of such objects cannot be seen."""
    pytest.importorskip("google.protobuf")
    job = tmp_path / "job.py"
    job.write_text("import time\nfrom google.protobuf.struct_pb2 import Struct\nempty = Struct()\ntime.sleep(4)\n")
    journal = stage(tmp_path)
    assert run(journal, str(job), LEAKSCOPE_STRESS="1").returncode == 0
    nodes = [row for row in rows(journal)["heap_nodes"] if str(row["type_name"]).startswith("google._upb._message.")]
    assert any(row["opaque"] for row in nodes)
    assert not [row["owner"] for row in nodes if row["opaque"] and row["type_name"].endswith("MessageMeta")]


class Word(str):
    pass


class Pair(NamedTuple):
    one: int


@pytest.mark.parametrize(
    ("name", "base"),
    [
        (f"{HERE}.Word", "str"), (f"{HERE}.Pair", None), ("str", None), ("missing.Word", None), (f"{HERE}.rows", None),
    ],
)  # fmt: skip
def test_a_class_derived_from_a_value_is_known_by_its_name(name: str, base: str | None) -> None:
    assert names.value_base(name) == base
