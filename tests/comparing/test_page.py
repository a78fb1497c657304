"""The page of a comparison: offline, harmless whatever the job calls its things, readable with and without scripts."""

from __future__ import annotations

import dataclasses
import json

import pytest

from leakscope.cli import main
from leakscope.comparing import Comparison, compare, render
from leakscope.comparing._comparison import FindingChange, History, Overlay, Run, RunCurve, Side, WorkerChange
from tests.comparing.runs import MiB, run
from tests.renderers.test_html import HOSTILE, Page
from tests.renderers.test_html_browser import ask, browse, needs_chromium, overflow

KiB = 1024
SIDE = Side(
    path="before.parquet", command=["python", "train.py"], duration_s=60.0, ended="exit", headline="Memory leaks.",
    process_count=1, grows=True, reason="", growth_bytes_per_step=512.0 * KiB, growth_bytes_per_step_low=500.0 * KiB,
    growth_bytes_per_step_high=520.0 * KiB, growth_bytes_per_hour=1e9, growth_bytes_per_hour_low=9e8,
    growth_bytes_per_hour_high=1.1e9, peak_bytes=500 * MiB, peak_in_range_bytes=400 * MiB, wasted_bytes=0,
)  # fmt: skip
FIXED = dataclasses.replace(
    SIDE, path="after.parquet", grows=False, growth_bytes_per_step=900.0, peak_bytes=210 * MiB, headline="No leak."
)
BETTER = Comparison(
    verdict="better",
    reason="memory no longer leaks: 512 KiB per step before, less than 5.0 KiB per step after",
    aligned_by="step",
    range_start=0,
    range_end=200,
    smallest_leak_bytes_per_step=5.0 * KiB,
    smallest_leak_bytes_per_hour=1e7,
    before=SIDE,
    after=FIXED,
    findings=[
        FindingChange(
            "gone", "retained-objects", "Trainer.history (list)", "critical", False, 300 * MiB, None, "train.py", 12
        ),
        FindingChange("still", "duplicate-model", "model twice", "warning", True, 90 * MiB, 91 * MiB, None, None),
    ],
    workers=[WorkerChange("dataloader-worker", 4, 1, 50 * MiB, 51 * MiB)],
    doubts=["only one of them counted steps"],
    overlay=Overlay(
        [0.0, 100.0, 200.0, 300.0],
        [200 * MiB, 250 * MiB, 300 * MiB, 350 * MiB],
        [200 * MiB, 201 * MiB, 202 * MiB, None],
    ),
)
LEAK = FindingChange(
    "new", "retained-objects", "Trainer.history (list)", "critical", False, None, 300 * MiB, "train.py", 12
)
HISTORY = History(
    verdict="worse",
    reason="memory leaks now: less than 5.0 KiB per step before, 512 KiB per step after",
    since=3,
    aligned_by="step",
    smallest_leak_bytes_per_step=5.0 * KiB,
    smallest_leak_bytes_per_hour=1e7,
    runs=[
        Run(dataclasses.replace(FIXED, path="ci/1.parquet"), None, ""),
        Run(dataclasses.replace(FIXED, path="ci/2.parquet"), "same", "neither run leaks"),
        Run(dataclasses.replace(SIDE, path="ci/3.parquet"), "worse", "memory leaks now", new=[LEAK]),
        Run(dataclasses.replace(SIDE, path="ci/4.parquet"), "worse", "memory leaks now"),
    ],
    doubts=["only one of them counted steps"],
    curves=[RunCurve([0.0, 100.0, 200.0], [200 * MiB, (200 + n * 20) * MiB, (200 + n * 50) * MiB]) for n in range(4)],
)
NOTHING = dataclasses.replace(BETTER, verdict="cannot-tell", findings=(), workers=(), doubts=(), overlay=None)


def hostile() -> Comparison:
    """Every string of the jobs is an attack, and long."""
    side = dataclasses.replace(SIDE, path=HOSTILE, command=[HOSTILE] * 3, headline=HOSTILE * 4, reason=HOSTILE)
    return dataclasses.replace(
        BETTER,
        reason=HOSTILE,
        before=side,
        after=side,
        findings=[dataclasses.replace(c, what=HOSTILE, kind=HOSTILE, file=HOSTILE) for c in BETTER.findings],
        workers=[WorkerChange(HOSTILE, 4, 1, 50 * MiB, 51 * MiB)],
        doubts=[HOSTILE],
    )


def test_the_verdict_comes_first_and_every_figure_is_there_without_a_script():
    html = render(BETTER, "html")
    page = Page(html)
    assert page.text.index("no longer leaks") < page.text.index("Side by side") < page.text.rindex("Gone")
    gone = page.text.index("Gone : Trainer.history (list), 300 MiB · train.py:12")
    assert gone < page.text.index("laid over each other")
    for part in (
        "+512 KiB → less than 5.0 KiB", "500 MiB → 210 MiB", "+512 KiB (500 to 520 KiB)", "Trainer.history (list)",
        "train.py:12", "90.0 MiB", "91.0 MiB", "4 x 50.0 MiB", "By training steps since each run's first",
        "A difference below 5.0 KiB per step would not have been seen", "But: only one of them counted steps",
    ):  # fmt: skip
        assert part in page.text, part
    chart = next(attributes for tag, attributes in page.tags if tag == "figure")
    assert "static" in chart["class"]
    assert "before: from 200 MiB to 350 MiB; after: from 200 MiB to 202 MiB" in page.text


def test_it_is_small_and_the_same_each_time():
    long = Overlay([float(n) for n in range(1600)], [700 * MiB + n for n in range(1600)], list(range(1600)))
    html = render(dataclasses.replace(BETTER, overlay=long), "html")
    assert len(html) < 300_000
    assert html == render(dataclasses.replace(BETTER, overlay=long), "html")


@pytest.mark.parametrize("name", ["html", "terminal", "markdown"])
def test_hostile_names_stay_text(name):
    text = render(hostile(), name)
    assert not {"\x00", "\u202e", "\u2028", "\udce9"} & set(text)
    if name == "html":
        page = Page(text)
        assert not any(tag in ("img", "iframe", "link") for tag, _ in page.tags)
        assert len(page.scripts) == 4
        assert not any(name.startswith("on") for _, attributes in page.tags for name in attributes)
        assert "{{7*7}}" in page.text


@pytest.mark.further
def test_runs_without_steps_are_laid_over_by_time_and_the_page_says_so(tmp_path):
    leaking = {"counts_steps": False, "leak_per_step": 0.5 * MiB}
    one, two = run(tmp_path / "a", **leaking).open(), run(tmp_path / "b", counts_steps=False).open()
    text = Page(render(compare(one, two), "html")).text
    assert "By time since each run began" in text
    assert "mark(step=...)" in text


@pytest.mark.further
def test_the_curves_begin_at_each_runs_own_first_step(tmp_path):
    """A run that goes on from a checkpoint, and is shorter, stands under the other one from the left edge on."""
    one = run(tmp_path / "a", leak_per_step=0.5 * MiB)
    two = run(tmp_path / "b", leak_per_step=0.5 * MiB, first_step=10_000, duration_s=20.0)
    overlay = compare(one.open(), two.open()).overlay
    at = {round(x): pair for x, *pair in zip(overlay.x, overlay.before_bytes, overlay.after_bytes)}
    assert min(at) == 0
    assert at[100][0] == pytest.approx(at[100][1], abs=2 * MiB)
    assert at[max(at)][0] > 300 * MiB
    assert at[max(at)][1] is None


def test_the_file_name_says_the_format(tmp_path, capsys):
    one = str(run(tmp_path / "a").write())
    page = tmp_path / "compare.html"
    assert main(["compare", one, one, "-o", str(page)]) == 0
    assert page.read_text(encoding="utf-8").startswith("<!doctype html>")
    assert not capsys.readouterr().out
    for output in ("compare.pdf", one):
        assert main(["compare", one, one, "-o", output]) == 2
        assert len(capsys.readouterr().err.splitlines()) == 1


def test_narrow_terminals_get_a_figure_a_line(monkeypatch):
    monkeypatch.setenv("COLUMNS", "50")
    lines = render(BETTER, "terminal").splitlines()
    assert max(map(len, lines)) <= 50
    assert "    before  +512 KiB (500 to 520 KiB)" in lines


@pytest.mark.further
def test_a_history_says_since_which_run_it_is_so(tmp_path, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "110")
    names = [f"{n}.parquet" for n in range(1, 5)]
    leaks = [0.0, 0.0, 0.4 * MiB, 0.4 * MiB]
    paths = [
        str(run(tmp_path / "ci", name, leak_per_step=leak, seed=n).write())
        for n, (name, leak) in enumerate(zip(names, leaks))
    ]
    assert main(["compare", *paths]) == 1
    text = capsys.readouterr().out
    assert text.startswith("Worse since run 3 3.parquet: memory leaks now")
    rows = [line.split() for line in text.splitlines() if line.startswith("  ") and ".parquet" in line]
    assert [row[2] for row in rows[1:4]] == ["Same", "Worse", "Worse"]
    assert "3 3.parquet: new Trainer.history (list)" in text
    assert main(["compare", *paths[:3], "-f", "json"]) == 1
    values = json.loads(capsys.readouterr().out)
    assert (values["schema"], values["since"], len(values["runs"])) == ("leakscope.history/1", 3, 3)
    assert main(["compare", paths[3], paths[2], paths[1], paths[0]]) == 0
    assert capsys.readouterr().out.startswith("Better since run 3 2.parquet: memory no longer leaks")
    assert main(["compare", paths[0]]) == 2
    assert "two recordings or more" in capsys.readouterr().err


def test_a_history_is_a_page_a_table_and_text_for_a_pull_request():
    page = Page(render(HISTORY, "html"))
    for part in (
        "Worse since run 3 3.parquet: memory leaks now", "By training steps since each run's first",
        "New : Trainer.history", "train.py:12", "3 3.parquet", "Peak of each run", "Growth per step of each run",
        "But: only one of them",
        "1 1.parquet: from 200 MiB to 200 MiB; 2 2.parquet: from 200 MiB to 250 MiB",
    ):  # fmt: skip
        assert part in page.text, part
    assert "| 3 3.parquet | Worse | yes |" in render(HISTORY, "markdown")


def test_a_history_in_a_narrow_terminal_has_a_figure_a_line(monkeypatch):
    monkeypatch.setenv("COLUMNS", "50")
    lines = render(HISTORY, "terminal").splitlines()
    assert max(map(len, lines)) <= 50
    assert "    against the first  Worse" in lines


@pytest.mark.cases(2)
@pytest.mark.live
@needs_chromium
@pytest.mark.parametrize("comparison", [BETTER, NOTHING, hostile()], ids=["full", "empty", "hostile"])
def test_the_browser_has_nothing_to_complain_about(tmp_path, comparison):
    dom, complaints = browse(tmp_path, render(comparison, "html"))
    assert not complaints
    assert ("<canvas" in dom) == (comparison.overlay is not None)


@pytest.mark.live
@needs_chromium
def test_the_keyboard_reads_out_both_runs(tmp_path):
    seen = ask(
        tmp_path,
        render(BETTER, "html"),
        """
        const readout = () => one(".readout").textContent;
        const values = () => all(".interactive .legend .value").map((v) => v.textContent);
        seen.at_end_of_both = readout();
        press("ArrowLeft"); seen.left = readout();
        press("End"); seen.end = readout(); seen.values = values();
        for (const key of ["+", "-", "0"]) { press(key); await drawn(); }
        """,
    )
    assert seen["at_end_of_both"] == "step 200 · 98.0 MiB less than before"
    assert seen["left"] == "step 100 · 49.0 MiB less than before"
    assert seen["end"] == "step 300"
    assert seen["values"] == ["350 MiB", "ended"]


@pytest.mark.cases(1)
@pytest.mark.live
@needs_chromium
@pytest.mark.parametrize("width", [390, 1280])
def test_nothing_is_wider_than_the_window(tmp_path, width):
    assert overflow(tmp_path, render(hostile(), "html"), width) <= 0
