"""The line where a program itself has C hand out memory, from its source alone."""

from __future__ import annotations

import pytest

from leakscope.facts.code.foreign_calls import handing_out
from leakscope.facts.code.index import Source

OPENED = "import ctypes\nlibc = ctypes.CDLL(None)\nlibc.strdup.restype = ctypes.c_void_p\nlibc.srand(1)\n"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (OPENED + "for text in texts:\n    print(libc.strdup(text))\n", "print(libc.strdup(text))"),
        (OPENED + "def f(t):\n    p = libc.strdup(t)\n    libc.puts(p)\n", "p = libc.strdup(t)"),
        (OPENED + "def f(t):\n    p = libc.strdup(t)\n    libc.free(p)\n    libc.cfree(p)\n", "p = libc.strdup(t)"),
        (OPENED + "copy = libc.strdup\ndef f(t):\n    return copy(t)\n", "return copy(t)"),
        (
            "class A:\n def __init__(s): s.lib = ffi.dlopen('x')\n def f(s):\n  s.lib.image_new(3)\n",
            "s.lib.image_new(3)",
        ),
        (OPENED + "def f(t):\n    libc.strdup(t)\n    libc.malloc(3)\n", None),
        (OPENED + "libc.strdup(b'once, at import')\n", None),
        (OPENED + "def main():\n    libc.strdup(b'once')\nmain()\n", None),
        (OPENED + "def call(lib, t):\n    lib.strdup(t)\nwhile True:\n    call(libc, t)\n", "lib.strdup(t)"),
        ("import torch\ndef f(t):\n    torch.ones(3)\n", None),
        (OPENED + "for (\n", None),
    ],
)
def test_the_only_call_that_hands_out_memory(text: str, expected: str | None) -> None:
    line = handing_out([Source("train", "train.py", text)])
    assert (line and line.text) == expected
