"""What fills up to a limit of its own is no leak, and the report says where it levels out."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from leakscope.findings import Finding, Report
from leakscope.reporting import analyze

from ..builders import RecordingBuilder
from ..sentences import says

MB = 1_000_000
CACHE = """
MOST = 4 * 1000


class Cache:
    def __init__(self, most=MOST):
        self.most = most
        self.entries = {}

    def put(self, key, value):
        self.entries[key] = value
        if len(self.entries) > self.most:
            self.entries.pop(next(iter(self.entries)))
"""
UNLIMITED = CACHE.replace("            self.entries.pop(next(iter(self.entries)))\n", "            print('many')\n")
FROM_OUTSIDE = CACHE.replace("most=MOST", "most=read_settings()")


def row(path: str, **columns: Any) -> dict[str, Any]:
    known = {
        "path": path, "parent_path": None, "root_kind": "frame", "edge_kind": "attribute", "variable": "entries",
        "owner": "Cache", "owner_module": "__main__", "owner_file": "/job/serve.py", "is_user": True,
        "type_name": "dict", "object_count": 1.0, "member_type": "bytes",
    }  # fmt: skip
    return known | columns


def run(
    folder: Path,
    source: str = CACHE,
    *,
    members: int = 2400,
    other_mb: int = 0,
    available_mb: int = 0,
    beside: str | None = None,
    **columns: Any,
) -> Report:
    """24 s in which ``Cache.entries`` gains 240 MB by ``members``, and a list beside it ``other_mb``.

    ``beside``: numbers among the attributes of the cache.
    """
    rate = 10 + other_mb / 24
    rss = [50 * MB + round(rate * MB * i / 4) for i in range(96)]
    builder = RecordingBuilder(folder).process(100).samples(100, rss, every_s=0.25)
    builder.source(100, "/job/serve.py", source)
    if available_mb:
        builder.host([available_mb * MB] * 25, 100_000 * MB)
    for number, at_s in enumerate((3.0, 7.0, 11.0, 15.0, 19.0, 23.0), 1):
        share = at_s / 24
        length = round(members * share)
        holders = [row("main() cache.entries", deep_bytes=round(240 * MB * share), length=length, **columns)]
        if beside:
            known = {"edge_kind": "local", "variable": "cache", "owner": "main", "type_name": "__main__.Cache"}
            holders.insert(0, row("main() cache", deep_bytes=holders[0]["deep_bytes"], limits=beside, **known))
        if other_mb:
            log = row("main() log", edge_kind="local", variable="log", owner="main", type_name="list")
            holders.append(log | {"deep_bytes": round(other_mb * MB * share), "length": round(1e5 * share)})
        builder.take(100, number, at_s, holders=holders, rss_bytes=50 * MB + round(rate * MB * at_s))
    return analyze(builder.ends(24.0, exit_code=0).open())


def only(report: Report) -> Finding:
    (finding,) = report.findings
    return finding


def test_a_cache_that_the_program_keeps_small_is_no_leak(tmp_path: Path) -> None:
    report = run(tmp_path)
    finding = only(report)
    assert report.verdict.leaking is False
    assert (finding.kind, finding.severity) == ("filling", "note")
    assert (finding.subject.variable, finding.subject.line) == ("entries", 12)
    assert says(finding.title, "4,000", "381 MiB")  # 230 MB of 2,300 members: 400 MB of 4,000
    assert says(report.verdict.headline, "4,000", "381 MiB")


@pytest.mark.parametrize("columns", [{"length_limit": 4000}, {"length_limit": 2300}])
def test_a_container_with_a_limit_of_its_own_is_none_either(tmp_path: Path, columns: dict[str, Any]) -> None:
    report = run(tmp_path, "", **columns)
    assert report.verdict.leaking is False
    assert says(only(report).title, f"{columns['length_limit']:,}")


def test_a_length_that_is_only_looked_at_is_no_limit(tmp_path: Path) -> None:
    report = run(tmp_path, UNLIMITED)
    assert report.verdict.leaking is True and only(report).kind == "retained-objects"
    assert "filling" in {ruled_out.kind for ruled_out in report.ruled_out}


def test_a_limit_that_was_exceeded_is_none(tmp_path: Path) -> None:
    assert run(tmp_path, members=9000).verdict.leaking is True


def test_a_limit_that_needs_more_memory_than_there_is_does_not_help(tmp_path: Path) -> None:
    report = run(tmp_path, available_mb=100)
    assert report.verdict.leaking is True and report.findings[0].kind == "retained-objects"
    assert any(says(evidence.text, "4,000", "381 MiB") for evidence in report.findings[0].evidence)
    assert run(tmp_path, available_mb=1000).verdict.leaking is False


def test_a_limit_of_unknown_height_leaves_it_open(tmp_path: Path) -> None:
    report = run(tmp_path, FROM_OUTSIDE)
    assert report.verdict.leaking is None
    assert "serve.py:12" in report.verdict.headline


def test_far_from_a_limit_that_is_many_times_the_process_nobody_can_tell(tmp_path: Path) -> None:
    report = run(tmp_path, members=200)
    assert report.verdict.leaking is None
    assert (only(report).kind, only(report).severity) == ("filling", "note")
    assert says(report.verdict.headline, "4.8%", "GiB", "7 min 35 s")


def test_a_leak_beside_it_is_told_first(tmp_path: Path) -> None:
    report = run(tmp_path, other_mb=200)
    assert report.verdict.leaking is True
    assert [(f.kind, f.subject.variable) for f in report.findings] == [
        ("retained-objects", "log"), ("filling", "entries")
    ]  # fmt: skip


def test_members_that_become_larger_are_no_filling(tmp_path: Path) -> None:
    """A bounded table of lists: it has hardly more members, and each of them grows."""
    builder = RecordingBuilder(tmp_path).process(100).source(100, "/job/serve.py", CACHE)
    builder.samples(100, [50 * MB + round(10 * MB * i / 4) for i in range(96)], every_s=0.25)
    for number, at_s in enumerate((3.0, 7.0, 11.0, 15.0, 19.0, 23.0), 1):
        holders = [row("main() cache.entries", deep_bytes=round(10 * MB * at_s), length=1000 + number)]
        builder.take(100, number, at_s, holders=holders, rss_bytes=50 * MB + round(10 * MB * at_s))
    assert analyze(builder.ends(24.0, exit_code=0).open()).verdict.leaking is True


def test_results_count_to_the_cache_that_refers_to_them_beside_its_dict(tmp_path: Path) -> None:
    builder = (
        RecordingBuilder(tmp_path).process(100).samples(100, [(50 + i // 4 * 10) * MB for i in range(96)], every_s=0.25)
    )
    builder.source(100, "/job/serve.py", "import functools\n\n\n@functools.lru_cache(10_000)\ndef load(key): ...\n")
    for number, at_s in enumerate((3.0, 11.0, 19.0, 23.0), 1):
        share = at_s / 24
        results = row(
            "serve.load", edge_kind="cache", variable="load", owner="load", type_name="functools._lru_cache_wrapper",
            deep_bytes=round(240 * MB * share), length_limit=10_000,
        )  # fmt: skip
        known = row(
            "serve.load.<dict>", edge_kind="reference", variable=None, deep_bytes=round(24 * MB * share),
            length=round(2400 * share),
        )  # fmt: skip
        builder.take(100, number, at_s, holders=[results, known], rss_bytes=50 * MB + round(10 * MB * at_s))
    finding = only(analyze(builder.ends(24.0).open()))
    assert finding.kind == "filling" and says(finding.title, "23% of 10,000", "954 MiB")  # 230 MB of 2,300 results


def test_members_of_a_bounded_container_are_told_at_it(tmp_path: Path) -> None:
    """Each came whole, and is no holder that grows: the container says how many more there will be."""
    builder = RecordingBuilder(tmp_path).process(100).samples(100, [(50 + i) * MB for i in range(96)], every_s=0.25)
    for number, at_s in enumerate((3.0, 9.0, 15.0, 23.0), 1):
        states = row("main() guard.states", type_name="collections.deque", length=number, length_limit=12,
                     deep_bytes=24 * number * MB)  # fmt: skip
        parts = [row(f"main() guard.states[{at}]", edge_kind="item", variable=None, type_name="tuple", length=3,
                     deep_bytes=24 * MB) for at in range(number)]  # fmt: skip
        builder.take(100, number, at_s, holders=[states, *parts], rss_bytes=50 * MB + 24 * number * MB)
    report = analyze(builder.ends(24.0).open())
    finding = only(report)
    assert (finding.kind, finding.subject.holder) == ("filling", "Cache.entries (deque)")
    assert not report.verdict.leaking


SERVES = """

def main():
    cache = Cache()
    while True:
        cache.put(read(), answer())
"""


@pytest.mark.parametrize(("source", "kept_to"), [(CACHE, ", kept to 4,000 members"), (UNLIMITED, "")])
def test_what_filled_and_stopped_is_told_with_its_limit(tmp_path: Path, source: str, kept_to: str) -> None:
    """It is read, so that it is no waste; without it nobody knows what the rise was."""
    held = [min(200 * MB, 12 * MB * i // 4) for i in range(200)]
    builder = RecordingBuilder(tmp_path).process(100).samples(100, [50 * MB + size for size in held], every_s=0.25)
    text = source + SERVES
    builder.source(100, "/job/serve.py", text)
    seen = f"/job/serve.py:{len(text.splitlines())} main"
    for number, at_s in enumerate((2.0, 6.0, 12.0, 24.0, 36.0), 1):
        size = held[round(4 * at_s)]
        holders = [row("main() cache.entries", deep_bytes=size, length=size // 50_000)]
        builder.take(100, number, at_s, holders=holders, rss_bytes=50 * MB + size, seen_lines=seen)
    report = analyze(builder.ends(50.0, exit_code=0).open())
    assert report.verdict.leaking is False
    assert says(
        report.verdict.headline, "grew from", "238 MiB until 16.", f"then stood: Cache.entries (dict){kept_to}."
    )


def test_one_that_is_full_explains_growth_that_slows_down(tmp_path: Path) -> None:
    """Nobody could tell from memory alone whether it ends: it was still rising a moment ago."""
    held = [240 * MB * (1 - 0.5 ** (i / 40)) for i in range(96)]
    builder = RecordingBuilder(tmp_path).process(100).samples(100, [50 * MB + round(one) for one in held], every_s=0.25)
    builder.source(100, "/job/serve.py", CACHE)
    for number, at_s in enumerate((3.0, 7.0, 11.0, 15.0, 19.0, 23.0), 1):
        size = round(held[round(4 * at_s)])
        holders = [row("main() cache.entries", deep_bytes=size, length=round(4000 * size / held[92]))]
        builder.take(100, number, at_s, holders=holders, rss_bytes=50 * MB + size)
    report = analyze(builder.ends(24.0, exit_code=0).open())
    assert report.verdict.leaking is False
    assert says(only(report).title, "has filled up to its limit of 4,000 members")


def test_one_as_long_as_the_capacity_beside_it_is_full_whatever_is_compared(tmp_path: Path) -> None:
    """A replay buffer: the length of its queue of keys is compared with it, and a member goes with each key."""
    report = run(tmp_path, UNLIMITED, beside="capacity=2300")
    assert report.verdict.leaking is False
    assert only(report).kind == "filling"


BESIDE = CACHE.replace("self.entries = {}", "self.entries, self.keys = {}, []").replace(
    "        if len(self.entries) > self.most:\n            self.entries.pop(next(iter(self.entries)))\n",
    "        self.keys.append(key)\n        while len(self.keys) > self.most:\n            self.forget()\n\n"
    "    def forget(self):\n        self.entries.pop(self.keys.pop(0))\n",
)


def test_a_limit_of_what_is_filled_beside_it_is_its_own_where_both_are_emptied(tmp_path: Path) -> None:
    one, two = tmp_path / "one", tmp_path / "two"
    one.mkdir(), two.mkdir()
    assert says(only(run(one, BESIDE)).title, "57% of 4,000")
    others = run(two, BESIDE.replace("self.entries.pop(self.keys.pop(0))", "self.keys.pop(0)"))
    assert others.verdict.leaking, "what is in the cache stays"


def test_a_rise_in_memory_that_stands_is_not_said_to_stay_between_its_ends(tmp_path: Path) -> None:
    rss = [60 * MB + min(70 * MB, 2 * MB * i) for i in range(90)]
    report = analyze(RecordingBuilder(tmp_path).process(100).samples(100, rss).ends(90.0, exit_code=0).open())
    assert says(report.verdict.headline, "grew from", "124 MiB", "then stood")
    assert "stays" not in report.verdict.headline
