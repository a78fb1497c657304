"""The lines that remove members of a holder."""

from __future__ import annotations

import pytest

from leakscope.facts.code.adding import Holder, Source, removing_lines

SERVER = """class Server:
    def __init__(self):
        self.unacked = {}
        self.seen = {}

    def send(self, seq, frame):
        self.unacked[seq] = frame
        print(self.unacked.get(seq), self.seen.pop(seq, None))

    def on_ack(self, seq):
        {removes}
"""
HOLDER = Holder("unacked", "Server", "server", "/app/server.py", "attribute")


@pytest.mark.parametrize(
    "removes",
    [
        "self.unacked.pop(str(seq), None)",
        "del self.unacked[seq]",
        "self.unacked.clear()",
        "heapq.heappop(self.unacked)",
        "waiting = self.unacked; waiting.popitem()",
    ],
)
def test_it_is_found_by_any_name(removes: str) -> None:
    sources = [Source("server", "/app/server.py", SERVER.replace("{removes}", removes))]
    (line,) = removing_lines(sources, HOLDER)
    assert (line.line, line.kind, line.function) == (11, "removes", "Server.on_ack")


def test_what_only_reads_or_removes_elsewhere_is_none() -> None:
    sources = [Source("server", "/app/server.py", SERVER.replace("{removes}", "return self.unacked[seq]"))]
    assert removing_lines(sources, HOLDER) == []
