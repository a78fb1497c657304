"""Which calls of a package are handed what a line makes."""

from __future__ import annotations

import pytest

from leakscope.facts.code.handed_over import handed_over
from leakscope.facts.code.index import Source, index_of

PROGRAM = """\
import voices

class Cutter:
    def __init__(self):
        self.vad = voices.Vad()

    def pieces(self, sound):
        for start in range(0, len(sound), 2):
            yield sound[start : start + 2]

    def run(self, sound):
        name = sound.name.upper()
        for piece in self.pieces(sound):
            self.vad.hear(piece)
        last = head(sound)
        voices.play(volume=3, sound=last)
        self.vad.hear(b"end")
        print(name)

def head(sound):
    return sound[:9]
"""


@pytest.mark.parametrize(
    ("line", "calls"),
    [(9, [14]), (21, [16]), (12, []), (15, [16])],
    ids=["by-a-generator", "returned", "to-nobody", "in-a-variable"],
)
def test_what_a_line_makes_is_followed_to_calls_of_the_package(line: int, calls: list[int]) -> None:
    index = index_of([Source("cutter", "/home/me/cutter.py", PROGRAM)], "import")
    assert [call.lineno for _, call, _ in handed_over(index, "voices", "/home/me/cutter.py", line)] == calls
