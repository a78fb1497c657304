"""What keeps the result of a call is read from the source: a container, an attribute, also a caller's."""

from __future__ import annotations

import pytest

from leakscope.facts.code.adding import Line
from leakscope.facts.code.imports import package_named
from leakscope.facts.code.index import Index, Source
from leakscope.facts.code.keeping import kept_as

FILE = "/home/me/serve.py"

# The line with "# MADE" makes it; what keeps it, and whether that is a container.
KEPT = {
    "a list": ("self.files.append(open(path))  # MADE", "Server.files", True),
    "a dict, by a name": ("file = open(path)  # MADE\n        self.files[path] = file", "Server.files", True),
    "a record in a list": ("self.files.append({'file': open(path)})  # MADE", "Server.files", True),
    "an attribute": ("self.file = open(path)  # MADE", "Server.file", False),
    "a few at once": ("self.pair = [open(path)]  # MADE", "Server.pair", False),
    "a caller's list": ("return open(path)  # MADE\n    def all(self):\n        self.files.append(self.add(1))",
                        "Server.files", True),
    "another function's": ("remember(open(path))  # MADE", "ALL", True),
    "started, kept under its name": ("t = Thread()\n        self.all.append(t)\n        t.start()  # MADE",
                                     "Server.all", True),
    "nothing": ("open(path).read()  # MADE", None, None),
    "two lists, elsewhere": ("remember(open(path))  # MADE\ndef remember(it):\n    A.append(it)\n    B.append(it)",
                             None, None),
}  # fmt: skip


@pytest.mark.parametrize("style", KEPT)
def test_what_keeps_the_result_of_a_call(style: str) -> None:
    body, name, is_container = KEPT[style]
    text = f"ALL = []\ndef remember(it):\n    ALL.append(it)\nclass Server:\n    def add(self, path):\n        {body}\n"
    number = next(n for n, line in enumerate(text.split("\n"), 1) if "# MADE" in line)
    kept = kept_as([Source("serve", FILE, text)], Line(FILE, number, None, "", "calls", 1.0))
    found = kept and ".".join(filter(None, (kept.owner, kept.variable)))
    assert (found, kept and kept.is_container) == (name, is_container)


IMPORTS = """import json, helpers
from codec import (
    pack,
    unpack as read,
)
"""


@pytest.mark.parametrize(
    ("line", "package"),
    [
        ("read(raw)", "codec"),
        ("json.dumps(raw)", "codec"),  # no part of Python is meant: what else the file imports
        ("helpers.work(raw)", None),  # a module of the program's own
    ],
)
def test_the_package_that_a_line_names(line, package):
    index = Index([Source("serve", FILE, IMPORTS), Source("helpers", "/home/me/helpers.py", "import numpy\n")])
    assert package_named(index, FILE, line) == package
