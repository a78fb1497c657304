"""Whatever is done to a log: the reader ends, and invents no kill."""

from __future__ import annotations

import re
from pathlib import Path

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from leakscope import oom

FIXTURES = Path(__file__).parents[2] / "fixtures" / "oom-logs"
TEXTS = [path.read_text() for path in sorted(FIXTURES.iterdir()) if path.suffix in (".log", ".kmsg")]
LINES = [line for text in TEXTS for line in text.splitlines()]
SETTINGS = settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck), derandomize=True)
NUMBERS = ("uid", "total_vm_kb", "anon_rss_kb", "file_rss_kb", "shmem_rss_kb", "pgtables_kb", "cgroup")


def assert_nothing_invented(text: str) -> None:
    dense = re.sub(r"\s", "", text)
    for event in oom.read(text).events:
        if event.pid is not None:
            assert any(f"{before}{event.pid}" in dense for before in ("process", "pid:", ",pid="))
        if event.comm is not None:
            assert re.sub(r"\s", "", event.comm) in dense
        time_s = event.kernel_time_s  # not always that of the whole log: it may tell of one kill twice
        assert time_s is None or f"{time_s:.6f}" in dense or f"{time_s * 1e6:.0f}" in dense
        assert oom.describe(event)


@SETTINGS
@given(st.sampled_from(TEXTS), st.data())
def test_a_cut_text_gives_the_same_numbers_or_none(text: str, data: st.DataObject):
    dense = re.sub(r"\s", "", text)  # of a process that a log kills twice, a cut may leave the second time
    whole = {event.pid: event for event in oom.read(text).events if dense.count(f"Killedprocess{event.pid}(") < 2}
    start = data.draw(st.integers(0, len(text)))
    cut = text[start : data.draw(st.integers(start, len(text)))]
    assert_nothing_invented(cut)
    for event in oom.read(cut).events:
        if event.is_kernel and not event.pid_is_intended_only and event.pid in whole:
            for name in NUMBERS:
                assert getattr(event, name) in (None, getattr(whole[event.pid], name))


@SETTINGS
@given(st.lists(st.sampled_from(LINES), max_size=60))
def test_any_mixture_of_lines(lines: list[str]):
    assert_nothing_invented("\n".join(lines))


@SETTINGS
@given(st.sampled_from(TEXTS), st.lists(st.tuples(st.integers(0, 10_000), st.text(max_size=5)), max_size=8))
def test_any_damage(text: str, damage: list[tuple[int, str]]):
    for position, put in damage:
        text = text[: position % len(text)] + put + text[position % len(text) + len(put) :]
    oom.as_text(oom.read(text))


@SETTINGS
@given(st.binary(max_size=2000) | st.text(max_size=2000))
def test_anything_at_all(data: bytes | str):
    assert oom.read(data).events == []
    oom.as_json(oom.read(data))
