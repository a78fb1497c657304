"""What forked processes keep, told from the code that ran in them while their memory grew."""

from __future__ import annotations

import textwrap
from pathlib import Path

import pytest

from leakscope.analyzers import retained_objects
from leakscope.facts.case import Case
from leakscope.facts.code.index import Index, Source
from leakscope.facts.code.kept import kept_by
from leakscope.findings import Finding
from leakscope.units import MiB
from tests.builders import RecordingBuilder

FILE = "/home/u/score.py"


def kept_in(text: str, *functions: str) -> list[str]:
    index = Index([Source("__main__", FILE, textwrap.dedent(text))])
    seen = {scope: 1.0 for scope in index.scopes if scope.qualname in functions}
    assert len(seen) == len(functions)
    return [f"{kept.holder.owner}.{kept.holder.variable}" for kept in kept_by(index, seen)]


@pytest.mark.parametrize(
    "adds, holder",
    [
        ("self.rows[key] = value", "Worker.rows"),
        ("self.rows.setdefault(key, []).append(value)", "Worker.rows"),
        ("heapq.heappush(self.rows, (key, value))", "Worker.rows"),
        ("self.rows += [value]", "Worker.rows"),
        ("SEEN.append(value)", "__main__.SEEN"),
        ("rows = self.rows; rows.append(value)", "Worker.rows"),
        ("remember(self.rows, value)", "Worker.rows"),
    ],
)
def test_containers_that_outlive_the_call_are_kept(adds, holder):
    text = f"""
    import heapq
    SEEN = []
    def remember(rows, value):
        rows.append(value)
    class Worker:
        def __init__(self):
            self.rows = {{}}
        def work(self, key, value):
            {adds}
    """
    assert kept_in(text, "Worker.work") == [holder]


@pytest.mark.parametrize(
    "made, adds, elsewhere",
    [
        ("deque(maxlen=9)", "self.rows.append(value)", "pass"),
        ("Counter()", "self.rows['all'] = value", "pass"),
        ("Counter()", "self.rows[key] += 1", "pass"),
        ("[]", "self.rows.append(value)", "self.rows.clear()"),
        ("[]", "self.rows.append(value)", "old = self.rows; old.clear()"),
        ("[]", "self.rows.append(value)", "self.rows = []"),
        ("[]", "self.rows.append(value)", "heapq.heappop(self.rows)"),
        ("{}", "self.rows[key] = value", "del self.rows[0]"),
        ("[]", "rows = []; rows.append(value)", "pass"),
    ],
)
def test_what_is_limited_emptied_or_local_is_not(made, adds, elsewhere):
    text = f"""
    class Worker:
        def __init__(self):
            self.rows = {made}
        def work(self, key, value):
            {adds}
        def rest(self):
            {elsewhere}
    """
    assert kept_in(text, "Worker.work") == []


def test_calls_decorators_and_the_loop_of_a_workers_main_are_followed():
    text = """
    def remember(function):
        known = {}
        def wrapper(*args):
            if args not in known:
                known[args] = function(*args)
            return known[args]
        return wrapper
    @remember
    def resampled(clip):
        return [clip] * 9
    def main(queue):
        done = []
        while True:
            done.append(resampled(queue.get()))
    """
    assert kept_in(text, "main") == ["main.done", "remember.known"]


@pytest.mark.parametrize(("gained_mib", "role"), [(0, "python-fork"), (90, "python-fork"), (90, "trainer")])
def test_growth_of_forks_is_put_down_to_what_their_code_keeps(tmp_path: Path, gained_mib, role):
    text = "KNOWN = {}\ndef score(document):\n    KNOWN[document] = document * 9\n"
    builder = RecordingBuilder(tmp_path).process(1).samples(1, [60 * MiB] * 80, every_s=0.25)
    builder.source(1, FILE, text)
    for pid in (11, 12):
        builder.process(pid, role=role, ppid=1).note(pid, 0.1, "forked", "forked by the program: no inventory")
        builder.samples(pid, [(40 + gained_mib * n / 80) * MiB for n in range(80)], every_s=0.25)
        stack = f"/lib/multiprocessing/process.py:314 BaseProcess._bootstrap\n{FILE}:3 score"
        for at_s in (1.0, 19.0):
            builder.allocated(pid, at_s, int(at_s * MiB), stack)
    builder.take(1, 1, 5.0, holders=[{"path": "main() x", "type_name": "list"}])
    found = [f for f in retained_objects.findings(Case(builder.open())) if isinstance(f, Finding)]
    assert len(found) == (gained_mib > 0)
    for finding in found:
        assert (finding.subject.variable, finding.subject.line) == ("KNOWN", 3)
        assert finding.bytes == pytest.approx(2 * gained_mib * MiB, rel=0.2)
        assert finding.confidence < 0.7
