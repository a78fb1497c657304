"""The page: offline, small, the same each time, and harmless whatever the job calls its things."""

from __future__ import annotations

import dataclasses
import math
import re
from html.parser import HTMLParser

import pytest

from leakscope.findings import (
    Band,
    DeviceMemory,
    Evidence,
    Excerpt,
    HeapHolder,
    HeapTake,
    HeapView,
    Lap,
    Laps,
    LedgerRow,
    Moment,
    ProcessRow,
    Report,
    RuledOut,
    Series,
    Skipped,
    Subject,
    Timeline,
)
from leakscope.pages import axes, charts
from leakscope.renderers import render
from leakscope.reporting import heap_view

from .reports import EMPTY, FULL, RETAINED, MiB, lap

HOSTILE = "</script><script>alert(1)</script><!--\"'`&amp;{{7*7}}\u2028\u202eexe.\x00\udce9<img src=x onerror=alert(2)>"
OUTSIDE = ("src", "href", "srcset", "action", "data", "poster", "background", "xlink:href")


class Page(HTMLParser):
    """What a browser makes of a page: its tags with their attributes, and its text without scripts and styles."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.words: list[str] = []
        self.scripts: list[str] = []
        self._inside = ""
        self._is_one_word = False
        self.feed(html)
        self.text = " ".join(" ".join(self.words).split())

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))
        self._is_one_word = tag == "wbr"
        if tag == "wbr":  # where a long word may break: it has no end
            return
        self._inside = tag
        if tag == "script":
            self.scripts.append("")

    def handle_endtag(self, tag):
        self._inside = ""

    def handle_data(self, data):
        if self._inside == "script":
            self.scripts[-1] += data
        elif self._inside != "style" and self._is_one_word:
            self.words[-1] += data
        elif self._inside != "style":
            self.words.append(data)
        self._is_one_word = False

    def count(self, tag):
        return sum(name == tag for name, _ in self.tags)


def hostile() -> Report:
    """A report in which the job chose every string, and chose badly."""
    name = HOSTILE
    finding = dataclasses.replace(
        RETAINED,
        title=name,
        subject=Subject(**{f.name: name for f in dataclasses.fields(Subject) if f.name not in ("pid", "line")}, line=3),
        evidence=[Evidence(name)],
        doubts=[name],
        remedy=[name],
        series=[Series(name, [0, 1], [2, 3], "s", name)],
    )
    holder = HeapHolder(name, None, name, [1, 2], [1, 1])
    take = HeapTake(1, 0.0, None, name, False)
    band = Band(name, [1, 2])
    return dataclasses.replace(
        FULL,
        recording=dataclasses.replace(FULL.recording, path=name, command=[name], notes=[name], started_at=name),
        verdict=dataclasses.replace(FULL.verdict, headline=name, limit=name),
        findings=[finding],
        ledger=[LedgerRow(name, name, 0, 1, 1)],
        ruled_out=[RuledOut(name, name)],
        skipped=[Skipped(name, name)],
        processes=[ProcessRow(name, name, 1, 1, 1.0, 0.5, 1, 1, 1, 1, 1, 0.0, 1.0)],
        timeline=Timeline([0.0, 1.0], [1, 2], [band], [band], [], [Moment("mark", 0.5, name)], {name: 3}),
        laps=Laps(name, "s", [Lap(name, 0.0, 1.0, 1, 2, [0.0, 1.0], [1, 2])] * 3),
        devices=[DeviceMemory(name, [0.0, 1.0], [1, 2], [2, 3], [], 4, [Moment("death", 0.5, name)])],
        heap=[
            HeapView(
                name,
                [take, dataclasses.replace(take, time_s=1.0)],
                [holder, dataclasses.replace(holder, path=name + name, parent=0)],
            )
        ],
        excerpts=[Excerpt(name, 3, 3, [name])],
    )


def test_holders_two_hundred_deep_are_shown():
    holders = [HeapHolder("x" + ".a" * n, n - 1 if n else None, "Part", [1, 2], [1, 1]) for n in range(200)]
    takes = [HeapTake(n, float(n), None, "schedule", False) for n in (1, 2)]
    page = render(dataclasses.replace(FULL, heap=[HeapView("a", takes, holders, exact=True)]), "html")
    assert page.count("data-holder=") == 200
    assert "could be freed with it" in page


def wave(count: int, processes: int) -> Report:
    """A long day: every band a noisy curve of its own."""

    def curve(seed: int) -> list[int]:
        return [int((2 + math.sin(i / 7 + seed)) * 3e9 + i * 1237 * seed) for i in range(count)]

    bands = [Band(f"worker_{n}.py[{10_000_000 + n}]", curve(n)) for n in range(processes)]
    total = [sum(values) for values in zip(*(b.value_bytes for b in bands))]
    time_s = [round(i * 86400 / count, 2) for i in range(count)]
    moments = [Moment("phase", t, "eval begins at step 123,456") for t in time_s[::14]]
    timeline = Timeline(time_s, total, bands[:7], bands, [i * 100 for i in range(count)], moments)
    series = [Series(f"bytes held by {n}", list(range(count)), curve(n)) for n in range(4)]
    findings = [dataclasses.replace(RETAINED, series=series, title=f"finding {n}") for n in range(12)]
    return dataclasses.replace(FULL, timeline=timeline, findings=findings)


@pytest.mark.parametrize("report", [FULL, EMPTY], ids=["full", "empty"])
def test_two_runs_give_the_same_bytes(report):
    assert render(report, "html") == render(report, "html")


def test_everything_a_report_says_is_in_the_page_without_javascript():
    text = Page(render(FULL, "html")).text
    for said in (
        "Leaking", FULL.verdict.headline, "python train.py", "21.4 s", "+642 MiB", "cgroup full in", "about 12 min",
        "Trainer.history keeps every loss tensor", "97% sure", "the list grew from 120 to 5,000 members",
        "sizes are estimated from a sample of the members", "store loss.item(): frees about 600 MiB",
        "self.history.append(loss)", "200 MiB wasted", "native", "+600 MiB",
        "eval begins at step 2,400", "worker[4250] was ended by SIGKILL", "7 more in the row “phases”",
        "12 laps of train and eval", "train 12, from step 1200 (6 min 00 s)", "940 MiB", "80.0 GiB, the limit",
        "cuda:0 had no room for 4.0 GiB at train.py:31", "78 GiB", "snapshot 2, 18.0 s, step 4,500",
        "main() trainer", ".history", "× 5,000", "+549 MiB", "31 smaller places",
        "activations", "900 MiB", "1.3 GiB", "cyclic-garbage", "calling gc.collect() will not help",
        "gpu-fragmentation", "no GPU in this recording", "output was lost after 3 s", "0.6% of a core",
    ):  # fmt: skip
        assert said in text, said


@pytest.mark.parametrize("renderer", ["html", "markdown", "terminal"])
def test_what_is_in_no_sum_of_processes_stands_below_it(renderer):
    beside = [
        LedgerRow("mapped-files", "train.py[4242]", 90 * MiB, 80 * MiB, -10 * MiB, in_total=False),
        LedgerRow("unmapped-shared-memory", "no process", 0, 256 * MiB, 256 * MiB, in_total=False),
    ]
    options = {"verbose": True} if renderer == "terminal" else {}
    shown = render(dataclasses.replace(FULL, ledger=[*FULL.ledger, *beside]), renderer, **options)
    text = Page(shown).text if renderer == "html" else " ".join(shown.split())
    assert "90.0 MiB → 80.0 MiB of mapped files" in text
    assert "0 B → 256 MiB of shared memory that no process maps" in text


def test_the_answer_stands_before_the_chart():
    """The line to edit, what holds it and what to do: nobody has to scroll for them."""
    html = render(FULL, "html")
    first = Page(html[: html.index('id="timeline"')]).text
    for said in ("train.py:88", "self.history.append(loss)", "Trainer.history (list)", "frees about 600 MiB"):
        assert said in first, said


def test_what_has_neither_place_nor_bytes_leaves_no_gap_and_no_zero():
    """Memory of others, say, or growth whose holder nobody saw: what to do then has the place of the line."""
    nobody = dataclasses.replace(FULL.findings[0], subject=Subject(), bytes=0, confidence=0.95, remedy=["look around"])
    html = render(dataclasses.replace(FULL, findings=[nobody]), "html")
    assert re.search(r'<div class="answer"[^>]*>\s*<div class="todo">', html)
    assert '<p class="amount">95% sure</p>' in html


def test_the_limit_is_told_with_its_time_of_day():
    assert "cgroup full 10:00 UTC, in about 12 s" in Page(render(FULL, "html")).text


def test_a_job_of_several_processes_is_shown_by_process_first():
    second = Band("worker.py[4250]", [1, 2, 3])
    timeline = dataclasses.replace(FULL.timeline, processes=[*FULL.timeline.processes, second])
    html = render(dataclasses.replace(FULL, timeline=timeline), "html")
    assert html.index(">By process</button>") < html.index(">By account</button>")


def test_a_path_breaks_behind_a_folder_and_not_within_the_number_of_a_line():
    subject = dataclasses.replace(RETAINED.subject, file="/home/<you>/job/train.py", line=123)
    html = render(dataclasses.replace(FULL, findings=[dataclasses.replace(RETAINED, subject=subject)]), "html")
    assert "<code>/home/<wbr>&lt;you&gt;/<wbr>job/<wbr>train.py:123</code>" in html


def test_processes_of_which_nothing_was_measured_are_no_table():
    """A snapshot of torch, imported alone: who wrote it is known, and no more."""
    row = ProcessRow("train.py", "trainer", 1, 1, 0.0, 0.0, 0, 0, 0, 0, 0, 0.0, 0.0)
    seen = dataclasses.replace(row, held_bytes=MiB)
    shown = ['id="processes"' in render(dataclasses.replace(FULL, processes=[one]), "html") for one in (row, seen)]
    assert shown == [False, True]


def test_processes_have_colours_that_read_as_gaps_last():
    greys = {4, 6, 11}
    slots = charts.slots([Band(f"worker.py[{n}]", [1]) for n in range(12)])
    assert len(set(slots)) == 12 and set(slots[-3:]) == greys


def test_moments_of_a_long_run_are_told_in_hours_and_days():
    verdict = dataclasses.replace(FULL.verdict, start_s=57960.0, end_s=338476.0)
    assert "16 h 06 min to 3.9 days" in Page(render(dataclasses.replace(FULL, verdict=verdict), "html")).text
    assert [tick.label for tick in axes.time_ticks(0, 3 * 86400)] == [
        "0 s",
        "12:00 h",
        "1 d",
        "1 d 12:00 h",
        "2 d",
        "2 d 12:00 h",
        "3 d",
    ]


def test_a_report_of_nothing_is_a_page_that_says_so():
    text = Page(render(EMPTY, "html")).text
    assert "Cannot tell" in text
    assert "The recording is not complete" in text
    assert "Recording cost: not measured." in text


@pytest.mark.parametrize("leaking, word", [(True, "Leaking"), (False, "Not leaking"), (None, "Cannot tell")])
def test_the_three_verdicts_do_not_look_alike(leaking, word):
    verdict = dataclasses.replace(FULL.verdict, leaking=leaking)
    assert f"<strong>{word}</strong>" in render(dataclasses.replace(FULL, verdict=verdict), "html")


def test_a_level_run_is_given_no_rate():
    report = dataclasses.replace(FULL, verdict=dataclasses.replace(FULL.verdict, leaking=False), findings=[])
    text = Page(render(report, "html")).text
    assert "+642 MiB" in text
    assert "An hour" not in text and "A step" not in text


def test_the_page_asks_nobody_for_anything():
    page = Page(render(FULL, "html"))
    outside = [(tag, name, value) for tag, attrs in page.tags for name, value in attrs.items() if name in OUTSIDE]
    assert all(value.startswith("#") for _, _, value in outside)
    assert not [tag for tag, _ in page.tags if tag in ("link", "iframe", "object", "embed", "base", "img")]
    style = re.search(r"<style>(.*?)</style>", render(FULL, "html"), re.S)[1]
    assert "@import" not in style and "url(" not in style


def test_the_policy_allows_the_page_its_own_script_and_nothing_else():
    page = Page(render(FULL, "html"))
    policy = next(a["content"] for tag, a in page.tags if tag == "meta" and "content-security" in str(a).lower())
    assert policy.startswith("default-src 'none'")
    assert "unsafe" not in policy and "*" not in policy
    assert not [a for _, a in page.tags if "style" in a or any(name.startswith("on") for name in a)]


def test_a_hostile_job_writes_no_markup():
    plain, bad = Page(render(FULL, "html")), Page(render(hostile(), "html"))
    assert bad.count("script") == plain.count("script") == 4
    assert bad.count("img") == 0
    assert not [name for _, attrs in bad.tags for name in attrs if name.startswith("on")]
    assert "alert(1)" not in bad.scripts[1] + bad.scripts[3]
    assert "49" not in re.findall(r"`&amp;(.{0,4})", bad.text)  # its braces are text, not a template


def test_a_hostile_job_hides_nothing():
    html = render(hostile(), "html")
    assert not re.search("[\u2028\u202e\x00\udce9]", html)
    assert "\\u202eexe" in Page(html).text
    html.encode("utf-8")


def test_the_licence_of_what_is_bundled_is_in_the_page():
    assert "Permission is hereby granted, free of charge" in Page(render(FULL, "html")).scripts[1]


def large_heap(holders: int) -> HeapView:
    """As many holders as are shown of one process, at as many snapshots."""
    found: list[HeapHolder] = []
    for number in range(holders):
        parent = number // 3 - 1 if number > 5 else None
        above = found[parent].path if parent is not None else f"main() part_{number}"
        size = [3 * 10**8 // (number + 1) + take * 10**6 for take in range(12)]
        found.append(HeapHolder(f"{above}.attribute_{number}", parent, f"package.Type{number}", size, [3] * 12))
    takes = [HeapTake(n, n * 7000.0, n * 1000, "schedule", False) for n in range(12)]
    return HeapView("worker.py[100000]", takes, found, 1000, True, [Band("python-objects", [4 * 10**9] * 12)])


def test_a_day_of_twenty_processes_stays_under_a_megabyte():
    report = wave(1700, 13)
    points = {"at": (), "value_bytes": ()}
    drawn = [lap(n) if n % 9 == 0 else dataclasses.replace(lap(n), **points) for n in range(200)]
    laps = Laps("train and eval", "s", drawn)
    heap = [large_heap(holders) for holders in heap_view.MOST_PATHS]
    assert len(render(dataclasses.replace(report, laps=laps, heap=heap), "html").encode()) < 1_000_000


def test_the_page_is_ascii_and_names_keep_their_letters():
    """A browser holds a page with any other letter in twice the memory, and takes longer to read it."""
    name = "caf\u00e9 \u8a13\u7df4 \U0001f525"
    html = render(dataclasses.replace(FULL, findings=[dataclasses.replace(RETAINED, title=name)]), "html")
    assert html.isascii()
    assert name in Page(html).text


def test_the_static_chart_keeps_a_peak_of_one_moment():
    report = wave(1700, 3)
    total = [5_000_000_000] * 1700
    total[801] = 9_000_000_000
    band = Band("tensors", total)
    timeline = dataclasses.replace(report.timeline, total_bytes=total, accounts=[band], processes=[band])
    html = render(dataclasses.replace(report, timeline=timeline, findings=[]), "html")
    path = re.search(r'class="area c0" d="M([^Z]*)Z"', html)[1]
    heights = [float(point.split()[1]) for point in path.split("L")]
    assert min(heights) < 0.6 * heights[0]


@pytest.mark.parametrize(
    "series",
    [
        Series("one point", [1.0], [2.0]),
        Series("none", [], []),
        Series("not numbers", [0.0, 1.0, 2.0], [float("nan"), float("inf"), 3.0]),
        Series("one moment", [1.0, 1.0], [2.0, 3.0]),
    ],
    ids=lambda one: one.name,
)
def test_what_is_no_curve_is_not_drawn(series):
    finding = dataclasses.replace(RETAINED, series=[series])
    html = render(dataclasses.replace(FULL, findings=[finding], timeline=None, laps=None, devices=[], heap=[]), "html")
    assert '<svg class="chart"' not in html


@pytest.mark.parametrize("values", [[0, 0], [5, 5], [-3, 4], [1e15, 1e15 + 1], [0.001, 0.002]], ids=str)
def test_any_curve_can_be_drawn(values):
    finding = dataclasses.replace(RETAINED, series=[Series("curve", [0, 1], values, "s", "count")])
    html = render(dataclasses.replace(FULL, findings=[finding], timeline=None, laps=None, devices=[], heap=[]), "html")
    assert 0 < html.count('class="grid"') < 12
    assert "nan" not in re.search(r'class="line c0" d="(.*?)"', html)[1]


def test_members_stand_below_what_holds_them_the_largest_first():
    html = render(FULL, "html")
    tree = html[html.index('<ul class="tree">') :]
    assert tree.index("main() trainer") < tree.index(".history") < tree.index("[*]") < tree.index("main() config")


def test_memory_of_a_run_that_takes_megabytes_is_never_shown_as_nothing():
    band = Band("tensors", [3 * MiB, 4 * MiB])
    timeline = Timeline([0.0, 1.0], [3 * MiB, 4 * MiB], [band], [band])
    assert "4 MiB" in Page(render(dataclasses.replace(FULL, timeline=timeline), "html")).text


def test_a_phase_with_an_end_is_a_span_and_one_without_is_a_tick():
    moments = [Moment("phase", 0.0, "train begins", "train", 10.0), Moment("phase", 10.0, "eval begins", "eval")]
    report = dataclasses.replace(FULL, timeline=dataclasses.replace(FULL.timeline, moments=moments, outlook=None))
    page = Page(render(report, "html"))
    spans = [attributes for tag, attributes in page.tags if tag == "rect" and "span" in attributes.get("class", "")]
    assert {(span["x"], span["width"]) for span in spans} == {("0.00%", "50.00%")}
    assert ("line", "moment phase") in {(tag, attributes.get("class")) for tag, attributes in page.tags}
    assert "phases: train" in page.text and "train begins, 10.0 s" in page.text
