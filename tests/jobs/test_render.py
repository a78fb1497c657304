"""A job as text and as a page: readable with four ranks and with five hundred, harmless whatever things are called."""

from __future__ import annotations

import dataclasses
import json
import random

import pytest

from leakscope.findings import Evidence, Excerpt, Finding, Subject
from leakscope.jobs import (
    FORMATS,
    Account,
    Cluster,
    JobComparison,
    JobReport,
    JobVerdict,
    NodeRow,
    RankComparison,
    RankRow,
    render,
)
from leakscope.units import format_bytes
from tests.comparing.test_page import BETTER
from tests.renderers.test_html import HOSTILE, Page
from tests.renderers.test_html_browser import ask, browse, needs_chromium, overflow

MiB = 1024**2
SUBJECT = Subject(holder="Trainer.history (list)", file="/home/me/train.py", line=12, function="Trainer.step")
FINDING = Finding(
    "retained-objects", "Trainer.history (list) keeps growing: +90.0 MiB of tensors", "critical", 0.93, 90 * MiB,
    SUBJECT, evidence=[Evidence("it held 0 B in the first and 90.0 MiB in the last of 3 snapshots")],
    remedy=["bound history"],
    fingerprint="89d7a702482d88f06927ec18eac8083c",
)  # fmt: skip


def job(count: int, leaking: int, *, per_node: int = 8) -> JobReport:
    """Ranks of one job, of which one leaks."""
    noise = random.Random(7)
    time_s = [float(n) for n in range(120)]
    ranks = [
        RankRow(
            rank=rank, node=f"node{rank // per_node:03}", path=f"job/run.rank{rank}.parquet", leaking=rank == leaking,
            killed=False, reason="", ended="exit", exit_code=0, signal=None, duration_s=119.0,
            growth_bytes=90 * MiB if rank == leaking else 0,
            growth_bytes_per_hour=2700.0 * MiB if rank == leaking else 0.0,
            growth_bytes_per_step=None, peak_bytes=300 * MiB, wasted_bytes=0, offset_s=0.0,
            fingerprints=[FINDING.fingerprint] if rank == leaking else [],
            value_bytes=[
                round((200 + min(n, 20) + noise.random() + (n if rank == leaking else 0)) * MiB) for n in range(120)
            ],
        )
        for rank in range(count)
    ]  # fmt: skip
    nodes = [
        NodeRow(
            f"node{first // per_node:03}", list(range(first, min(first + per_node, count))), "steps", 200, 0.08, 0.0,
            90 * MiB if first <= leaking < first + per_node else 0, 2400 * MiB,
            [Account("tensors", 0, 90 * MiB, 90 * MiB, True)],
        )
        for first in range(0, count, per_node)
    ]  # fmt: skip
    steady = [rank for rank in range(count) if rank != leaking]
    excerpt = Excerpt("/home/me/train.py", 12, 11, ["def step(self):", "    self.history.append(out)"])
    cluster = Cluster(
        FINDING.fingerprint, FINDING.kind, FINDING.title, "critical", [leaking], [ranks[leaking].node], 90 * MiB,
        90 * MiB, FINDING, excerpt,
    )  # fmt: skip
    headline = f"Rank {leaking} leaks, the other {count - 1} do not: Trainer.history (list) keeps growing."
    return JobReport(
        "4711", ["torchrun", "train.py"], "2026-11-25T20:00:00Z", count, 119.0,
        JobVerdict(True, False, headline, [leaking], steady), ranks, nodes, [cluster], time_s,
    )  # fmt: skip


def test_the_terminal_says_who_leaks_what_and_where(monkeypatch):
    monkeypatch.setenv("COLUMNS", "110")
    text = render(job(4, 2), "terminal")
    lines = text.splitlines()
    assert lines[:2] == ["LEAKING", "Rank 2 leaks, the other 3 do not: Trainer.history (list) keeps growing."]
    for part in ("on rank 2 of 4: 90.0 MiB", "/home/me/train.py:12 in Trainer.step", "> 12 self.history.append(out)",
                 "do: bound history", "job 4711", "by 200 shared steps and marks"):  # fmt: skip
        assert part in text, part
    assert [line.split()[:3] for line in lines if line.startswith("  2 ")] == [["2", "node000", "leaks"]]
    assert max(map(len, lines)) <= 110


@pytest.mark.parametrize("form", ["terminal", "markdown", "html"])
def test_of_five_hundred_ranks_the_odd_one_is_shown_and_the_others_are_counted(form: str):
    text = render(job(512, 17), form)
    assert "Rank 17 leaks, the other 511 do not" in text
    if form == "html":
        page = Page(text)
        assert "511 ranks more" in page.text
        assert "The odd ranks, and the range of the other 511" in page.text
        assert len(text) < 900_000
    else:
        assert "511 more" in text
        assert len(text.splitlines()) < 60


def test_the_page_needs_no_script_and_asks_nobody():
    html = render(job(4, 2), "html")
    page = Page(html)
    assert page.text.index("Rank 2 leaks") < page.text.index("Memory of each rank") < page.text.index("Ranks")
    for part in ("rank 0", "/home/me/train.py:12", "On rank 2 of 4", "node000", "tensors ~", "+90.0 MiB"):
        assert part in page.text, part
    assert not any(tag in ("img", "iframe", "link") for tag, _ in page.tags)
    assert html == render(job(4, 2), "html")


def test_the_hottest_row_of_the_map_is_the_rank_that_leaks():
    """Its shades go up to the last, and those of the others do not."""
    html = render(job(4, 2), "html")
    figure = html[html.index('class="heat"') :]
    hottest = figure[figure.index('area c27" d="') :].split('"')[2]
    tops = {float(part.split(" ")[1].split("H")[0]) for part in hottest.split("M")[1:]}
    assert tops == {500.0}


@pytest.mark.live
@needs_chromium
def test_the_legend_says_of_each_rank_what_was_read_last_or_that_nothing_was(tmp_path):
    """Recordings of ranks end a moment apart: the last moment of the page is the last of one rank alone."""
    plain = job(4, 2)
    values = [list(row.value_bytes) for row in plain.ranks]
    values[0][-3:] = [None] * 3
    values[1][60:] = [None] * 60  # killed half-way
    values[3][:10] = [None] * 10  # started late
    ranks = [dataclasses.replace(row, value_bytes=read) for row, read in zip(plain.ranks, values)]
    seen = ask(
        tmp_path,
        render(dataclasses.replace(plain, ranks=ranks), "html"),
        """
        const values = () => all(".interactive .legend .value").map((v) => v.textContent);
        await drawn(); seen.end = values();
        press("Home"); seen.start = values();
        """,
    )
    assert seen["end"] == [format_bytes(values[0][-4]), "–", *(format_bytes(values[n][-1]) for n in (2, 3))]
    assert seen["start"] == [*(format_bytes(values[n][0]) for n in (0, 1, 2)), "–"]


def test_hostile_names_stay_text():
    subject = dataclasses.replace(SUBJECT, holder=HOSTILE, file=HOSTILE, function=HOSTILE)
    finding = dataclasses.replace(FINDING, title=HOSTILE, subject=subject, remedy=[HOSTILE])
    plain = job(4, 2)
    cluster = dataclasses.replace(plain.clusters[0], title=HOSTILE, finding=finding, nodes=[HOSTILE])
    hostile = dataclasses.replace(
        plain, job=HOSTILE, command=[HOSTILE], clusters=[cluster], notes=[HOSTILE], rest={HOSTILE: HOSTILE},
        verdict=dataclasses.replace(plain.verdict, headline=HOSTILE),
        ranks=[dataclasses.replace(row, node=HOSTILE, odd=HOSTILE) for row in plain.ranks],
        nodes=[dataclasses.replace(row, node=HOSTILE) for row in plain.nodes],
    )  # fmt: skip
    for form in FORMATS:
        text = render(hostile, form)
        assert not {"\x00", "\u202e", "\u2028", "\udce9"} & set(text.replace("\\u0000", "")) or form == "json"
    page = Page(render(hostile, "html"))
    assert not any(name.startswith("on") for _, attributes in page.tags for name in attributes)
    assert not any(tag in ("img", "iframe", "link") for tag, _ in page.tags)


def test_the_json_has_every_rank_and_every_field():
    found = json.loads(render(job(512, 17), "json"))
    assert found["schema"] == "leakscope.job/1"
    assert len(found["ranks"]) == 512
    assert {field.name for field in dataclasses.fields(JobReport)} <= found.keys()
    assert len(found["ranks"][0]["value_bytes"]) == len(found["time_s"])


def compared() -> JobComparison:
    """Two jobs of four ranks, of which one leaks no more."""
    same = dataclasses.replace(BETTER, verdict="same", reason="neither run leaks", findings=())
    ranks = [RankComparison(rank, BETTER if rank == 1 else same) for rank in range(4)]
    reason = "rank 1 is better (memory no longer leaks); ranks 0, 2 and 3 are the same (neither run leaks)"
    return JobComparison("better", reason, "before/", "after/", ranks, only_before=[4, 5])


@pytest.mark.parametrize("form", ["terminal", "markdown", "html"])
def test_two_jobs_side_by_side(form: str):
    text = render(compared(), form)
    text = Page(text).text if form == "html" else text
    for part in ("Better", "no longer leaks", "+512 KiB per step", "only before: ranks 4 and 5"):
        assert part in text, part


def test_two_jobs_of_a_service_are_told_by_its_requests():
    service = dataclasses.replace(BETTER, step_unit="request")
    job = dataclasses.replace(compared(), ranks=[RankComparison(0, service)])
    text = render(job, "terminal")
    assert "+500 MiB per 1,000 requests" in text
    assert "per step" not in text


@needs_chromium
@pytest.mark.live
@pytest.mark.slow
@pytest.mark.parametrize("count", [4, 512])
def test_the_page_fits_a_telephone_and_a_desk(count: int, tmp_path):
    html = render(job(count, 2), "html")
    dom, complaints = browse(tmp_path, html)
    assert not complaints
    assert "<canvas" in dom
    for width in (390, 1280):
        assert overflow(tmp_path, html, width) <= 0
