"""Recordings and reports that show themselves, parts of a recording, and what a cell leaves behind."""

from __future__ import annotations

import dataclasses
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest

import leakscope
from leakscope import findings
from leakscope.api import Recording, Report
from leakscope.errors import BadInput, UnreadableRecording
from leakscope.jupyter import _cell
from tests.builders import RecordingBuilder

MiB = 1024**2


def a_recording(folder: Path, **meta: Any) -> Recording:
    """Twenty seconds: a trainer that passes a step a second, and a helper that lives from 2 s to 6 s."""
    seconds = range(20)
    builder = (
        RecordingBuilder(folder, **meta)
        .process(7)
        .process(8, role="other", born_s=2.0, died_s=6.0)
        .samples(7, rss=[(100 + second) * MiB for second in seconds])
        .samples(8, rss=[MiB] * 4, from_s=2.0)
        .sentinels(7, step=list(seconds), rss_bytes=[100 * MiB] * 20)
        .ends(at_s=20.0, exit_code=0)
    )
    builder.open()
    return leakscope.open_recording(builder.path)


def test_a_recording_shows_what_is_in_it(tmp_path: Path):
    html = a_recording(tmp_path)._repr_html_()
    assert "python train.py" in html
    assert "exit status 0" in html
    assert "process_samples" in html
    assert ">24<" in html, "rows of both processes"


def test_what_the_job_is_called_cannot_be_markup(tmp_path: Path):
    recording = a_recording(tmp_path, command=["python", "<img src=x onerror=alert(1)>\u202e"])
    html = recording._repr_html_()
    assert "<img" not in html
    assert "\u202e" not in html
    assert "<img" not in recording.report()._repr_html_()


def test_describe_names_what_was_written_with_its_unit(tmp_path: Path):
    described = a_recording(tmp_path).describe().set_index(["table", "column"])
    assert described.loc[("process_samples", "rss_bytes"), "unit"] == "bytes"
    assert described.loc[("process_samples", "time_s"), "unit"] == "s"
    assert ("process_samples", "cpu_s") not in described.index, "nobody wrote it"
    assert (described["meaning"] != "").all()


def test_the_tables_are_tidy(tmp_path: Path):
    recording = a_recording(tmp_path)
    for name in recording.names():
        frame = recording.tables[name]
        assert frame.columns[0] == "time_s"
        assert frame["time_s"].dtype == np.float64
        assert "table" not in frame
        assert not any(str(dtype) == "object" for dtype in frame.dtypes), name


def test_a_part_by_time(tmp_path: Path):
    part = a_recording(tmp_path).between(time_s=(10, None))
    assert part.tables.process_samples["time_s"].min() == 10.0
    assert part.tables.process_samples["time_s"].max() == 19.0
    assert list(part.tables.processes["pid"]) == [7], "the helper had ended"
    assert isinstance(part, Recording)
    assert any("a part of the recording" in note for note in part.report().recording.notes)


def test_a_part_by_step_keeps_the_clock_of_the_whole(tmp_path: Path):
    part = a_recording(tmp_path).between(step=(4, 9))
    assert list(part.tables.sentinels["step"]) == [4, 5, 6, 7, 8, 9]
    assert part.tables.sentinels["time_s"].iloc[0] == 4.0
    assert set(part.tables.processes["pid"]) == {7, 8}
    assert len(part.between(time_s=(None, 5.0)).tables.sentinels) == 2


def test_a_part_is_seen_from_inside_as_the_whole_is(tmp_path: Path):
    builder = RecordingBuilder(tmp_path).process(7, exe="/usr/bin/python3").samples(7, rss=[100 * MiB] * 40)
    builder.row("agent_notes", 0.5, 7, note="loaded", text="Python 3.11.7").ends(at_s=40.0, exit_code=0).open()
    part = leakscope.open_recording(builder.path).between(time_s=(20, None))
    assert "from outside" not in part.report().verdict.headline


@pytest.mark.parametrize(
    ("limits", "says"),
    [
        ({}, "either"),
        ({"time_s": (0, 1), "step": (0, 1)}, "either"),
        ({"time_s": (5, 1)}, "the first comes after the last"),
        ({"step": "a"}, "'a' is no part of a run: write"),
        ({"time_s": 10}, "10 is no part of a run: write"),
        ({"step": (100, 200)}, "they run from 0 to 19"),
        ({"time_s": (100, None)}, "they are from 0.0 s to 19.0 s"),
    ],
)
def test_a_part_that_cannot_be(tmp_path: Path, limits: dict[str, Any], says: str):
    with pytest.raises(BadInput, match=says):
        a_recording(tmp_path).between(**limits)


def test_a_part_by_step_needs_steps(tmp_path: Path):
    builder = RecordingBuilder(tmp_path).process(7).samples(7, rss=[MiB] * 3).ends(at_s=3.0, exit_code=0)
    builder.open()
    with pytest.raises(BadInput, match="no training step was recorded"):
        leakscope.open_recording(builder.path).between(step=(0, 1))


def with_finding(report: Report) -> Report:
    """The same with one finding, and with a ledger of ten rows."""
    finding = findings.Finding(
        "retained-objects",
        "history <grows>",
        "critical",
        0.97,
        50 * MiB,
        findings.Subject(process="train.py[7]", holder="history", file="train.py", line=88),
        evidence=[findings.Evidence("it held more each time")],
        remedy=["clear it"],
    )
    excerpt = findings.Excerpt("train.py", 88, 87, ["for x in y:", "    history.append(<x>)"])
    ledger = [findings.LedgerRow(f"account-{n}", "train.py[7]", 0, n * MiB, n * MiB) for n in range(10)]
    return dataclasses.replace(report, findings=[finding], ledger=ledger, excerpts=[excerpt])


def test_a_report_shows_the_page_with_its_charts_and_lines(tmp_path: Path):
    html = with_finding(a_recording(tmp_path).report())._repr_html_()
    for expected in ("history &lt;grows&gt;", "train.py:88", "50.0 MiB", "it held more each time", "clear it",
                     "history.append(&lt;x&gt;)", "+45.0 MiB"):  # fmt: skip
        assert expected in html
    assert '<svg class="chart"' in html, "memory over time"
    without_script, *_ = re.split(r"<script>(.*)</script>", html, flags=re.DOTALL)
    assert "<html" not in html and "<script" not in without_script
    assert not re.search(r' (id|href)="', without_script), "several may stand in one notebook"


def test_the_style_of_a_report_leaves_the_notebook_alone(tmp_path: Path):
    style = re.search(r"<style>(.*?)</style>", a_recording(tmp_path).report()._repr_html_(), re.DOTALL)[1]
    assert style.startswith(".leakscope")
    depths = [style[:at].count("{") - style[:at].count("}") for at, letter in enumerate(style) if letter == "}"]
    assert depths.count(1) == 1, "all is below our own class"
    assert not re.search(r"(^|\s)(:root|body) \{", style)


def test_findings_are_a_list_that_becomes_a_frame(tmp_path: Path):
    recording = a_recording(tmp_path)
    report = with_finding(recording.report())
    (finding,) = report.findings
    assert (finding.kind, finding.subject.line) == ("retained-objects", 88)
    (row,) = report.findings.to_pandas().to_dict("records")
    assert (row["kind"], row["bytes"], row["file"], row["line"]) == ("retained-objects", 50 * MiB, "train.py", 88)
    assert row["evidence"] == ["it held more each time"] and row["remedy"] == ["clear it"]
    assert report.findings.to_pandas().attrs["units"]["bytes"] == "bytes"
    none = recording.report(only=["oom-kill"]).findings
    assert none == [] and "holder" in none.to_pandas()
    assert "history <grows>" in repr(report)
    assert '"leakscope.report/1"' in leakscope.render(report, "json")
    assert {"verdict", "timeline", "to_html"} <= set(dir(report))
    assert report.verdict.headline


def test_a_path_is_analysed_as_an_open_recording_is(tmp_path: Path):
    recording = a_recording(tmp_path)
    by_path = leakscope.analyze(recording.path, only=["oom-kill"])
    assert by_path == leakscope.analyze(str(recording.path), only=["oom-kill"])
    assert by_path == recording.report(only=["oom-kill"])
    assert type(by_path) is type(recording.report())
    with pytest.raises(UnreadableRecording, match=r"there is no file .*none\.parquet"):
        leakscope.analyze(tmp_path / "none.parquet")


def test_a_recording_is_closed_by_with(tmp_path: Path):
    path = a_recording(tmp_path).path
    with leakscope.open_recording(path) as recording:
        assert len(recording.tables.sentinels) == 20
    assert len(recording.tables.sentinels) == 20, "what was read stays"
    with pytest.raises(BadInput, match="closed before table process_samples was read"):
        _ = recording.tables.process_samples
    recording.close()


def test_what_a_recording_offers_is_for_its_user(tmp_path: Path):
    recording = a_recording(tmp_path)
    offered = {name for name in dir(recording) if not name.startswith("_")}
    assert offered == {
        "between", "bill", "close", "compare", "complete", "describe", "ended", "goes_on", "heap", "location", "meta",
        "names", "notes", "path", "plot", "report", "tables", "units", "whole_heaps",
    }  # fmt: skip


def test_a_report_is_written_as_a_page(tmp_path: Path):
    report = a_recording(tmp_path).report()
    assert report.to_html(tmp_path / "page.html") is None
    assert (tmp_path / "page.html").read_text(encoding="utf-8") == report.to_html()
    assert report.to_html().startswith("<!doctype html>")


def test_tables_complete_by_name_and_know_their_units(tmp_path: Path):
    recording = a_recording(tmp_path)
    assert {"process_samples", "sentinels"} <= set(dir(recording.tables))
    assert "host_samples" not in recording.tables._ipython_key_completions_(), "nobody wrote it"
    assert recording.tables.process_samples.attrs["units"]["rss_bytes"] == "bytes"
    assert recording.units["time_s"] == "s" and recording.units["rss_bytes"] == "bytes"
    assert "pid" not in recording.units


def test_a_later_run_is_compared(tmp_path: Path):
    recording = a_recording(tmp_path)
    compared = recording.compare(recording.path)
    assert compared.verdict == recording.compare(recording).verdict == "same"
    assert "recorded" in repr(compared) and '<div class="leakscope"' in compared._repr_html_()
    with pytest.raises(UnreadableRecording, match=r"there is no file .*none\.parquet"):
        recording.compare(tmp_path / "none.parquet")


def test_the_whole_report_is_made_once(tmp_path: Path):
    recording = a_recording(tmp_path)
    assert recording.report() is recording.report()
    assert recording.report(only=["oom-kill"]) is not recording.report()


KINDS = ("timeline", "processes", "ledger", "bill", "holders", "heap", "laps", "devices", "tensors")


def test_every_chart_shows_itself_or_says_why_it_cannot(tmp_path: Path):
    recording = a_recording(tmp_path)
    plot = recording.plot
    assert all(kind in repr(plot) for kind in KINDS)
    for kind in KINDS:
        chart = getattr(plot, kind)()
        shown = chart._repr_mimebundle_()
        assert chart.title in shown["text/html"], kind
        is_drawn = "image/png" in shown or "image/svg+xml" in shown
        assert is_drawn == (kind in ("timeline", "processes", "ledger", "bill", "laps"))
        assert is_drawn == (not chart.table.empty), kind
        assert is_drawn or chart._sentence in shown["text/html"]


def test_a_chart_has_the_figures_of_the_recording(tmp_path: Path):
    chart = a_recording(tmp_path).plot.processes()
    assert chart.table.index.name == "time_s"
    assert chart.table.sum(axis=1).iloc[-1] == 119 * MiB
    assert chart.table.attrs["units"] == dict.fromkeys(chart.table.columns, "bytes")


def test_a_chart_is_written_as_what_its_name_says(tmp_path: Path):
    chart = a_recording(tmp_path).plot.timeline()
    for name in ("chart.svg", "chart.html"):
        chart.save(tmp_path / name)
    svg = (tmp_path / "chart.svg").read_text(encoding="utf-8")
    assert ElementTree.fromstring(svg).tag == "{http://www.w3.org/2000/svg}svg"
    assert "var(" not in svg, "not every program that draws SVG knows variables"
    assert "Memory of the process tree" in svg and "MiB" in svg
    assert (tmp_path / "chart.html").read_text(encoding="utf-8").startswith("<!doctype html>")
    with pytest.raises(BadInput, match=r"\.svg, \.png or \.html"):
        chart.save(tmp_path / "chart.gif")


def test_a_chart_in_pixels(tmp_path: Path):
    pytest.importorskip("resvg_py")
    a_recording(tmp_path).plot.ledger().save(tmp_path / "chart.png")
    assert (tmp_path / "chart.png").read_bytes().startswith(b"\x89PNG")


def test_without_resvg_a_chart_is_still_a_picture(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setitem(sys.modules, "resvg_py", None)
    chart = a_recording(tmp_path).plot.timeline()
    shown = chart._repr_mimebundle_()
    assert "image/png" not in shown and shown["image/svg+xml"].startswith("<svg")
    assert "data:image/svg+xml;base64," in shown["text/html"]
    with pytest.raises(BadInput, match=r"pip install (matplotlib|resvg-py)"):
        chart.save(tmp_path / "chart.png")


def test_a_chart_that_is_not_there_is_no_picture(tmp_path: Path):
    plot = a_recording(tmp_path).plot
    with pytest.raises(BadInput, match="No snapshot saw a tensor"):
        plot.tensors().to_svg()
    with pytest.raises(BadInput, match=r"process 'train\.py\[9\]'"):
        plot.holders(process="train.py[9]")


@pytest.mark.live  # the first time matplotlib looks for fonts, it asks fc-list
def test_charts_are_drawn_on_axes_of_matplotlib(tmp_path: Path):
    pyplot = pytest.importorskip("matplotlib.pyplot")
    pyplot.switch_backend("agg")
    recording = a_recording(tmp_path)
    figure, (above, below) = pyplot.subplots(2)
    assert recording.plot.processes(ax=above) is above
    roof = max(path.vertices[:, 1].max() for band in above.collections for path in band.get_paths())
    assert roof == 119 * MiB
    assert above.get_title() and "MiB" in above.yaxis.get_major_formatter()(100 * MiB, 0)
    recording.plot.ledger(ax=below)
    assert sum(bar.get_width() for bar in below.patches) == sum(
        row.growth_bytes for row in recording.report().ledger if row.in_total
    )
    figure.savefig(tmp_path / "both.png")
    assert recording.plot.laps().to_axes().lines, "axes of its own"
    pyplot.close("all")


def test_the_bill_of_a_chart_adds_up_to_what_the_job_held(tmp_path: Path):
    pyplot = pytest.importorskip("matplotlib.pyplot")
    pyplot.switch_backend("agg")
    recording = a_recording(tmp_path)
    bills = {bill.moment: bill for bill in recording.report().bill}
    for moment, bill in bills.items():
        axes = recording.plot.bill(moment=moment).to_axes()
        assert sum(bar.get_width() for bar in axes.patches) == bill.total_bytes > 0
        assert set(recording.plot.bill(moment=moment).table["moment"]) == {moment}
    assert recording.plot.bill().title.endswith("peak")
    with pytest.raises(BadInput, match="of the level or the peak"):
        recording.plot.bill(moment="end")
    pyplot.close("all")


def test_without_matplotlib_axes_say_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(BadInput, match=r"pip install (matplotlib|resvg-py)"):
        a_recording(tmp_path).plot.timeline().to_axes()


def test_tensors_are_divided_by_owner(tmp_path: Path):
    builder = RecordingBuilder(tmp_path).process(7)
    for take in (1, 2):
        builder.take(7, take, at_s=5.0 * take)
        for owner, size in (("parameter", 4 * MiB), ("user-held", take * MiB)):
            builder.row(
                "tensors", 5.0 * take, 7, take=take, moment="take", tensor_owner=owner, device="cpu", storage_bytes=size
            )
    builder.ends(at_s=11.0, exit_code=0).open()
    table = leakscope.open_recording(builder.path).plot.tensors().table
    assert list(table.columns) == ["parameter", "user-held"]
    assert table.to_numpy().tolist() == [[4 * MiB, MiB], [4 * MiB, 2 * MiB]]


# ---- what a cell leaves behind


class Trainer:
    def __init__(self) -> None:
        self.history: list[bytearray] = []


def rows_of(growth: _cell.Growth, namespace: dict[str, Any]) -> list[tuple[str, str, str]]:
    """Of the notebook's names: other modules of this process hold what tests before these left to them."""
    return [row for row in growth.rows() if row[0].partition(".")[0] in namespace]


@pytest.fixture
def other_module() -> Iterator[ModuleType]:
    """A module of the user's that is loaded beside the notebook."""
    module = ModuleType("other_module")
    module.__file__ = "/tmp/job/other_module.py"
    sys.modules[module.__name__] = module
    yield module
    del sys.modules[module.__name__]


def test_what_a_cell_left_is_told_by_its_names(other_module: ModuleType):
    """In one cell, for a look reads all that this process has: each of these names grows in a way of its own."""
    pages = [np.ones(10**5) for _ in range(4)]
    vars(other_module).update(PAGES=[*pages])
    namespace: dict[str, Any] = {
        "trainer": Trainer(),
        "level": [bytearray(1000) for _ in range(1000)],
        "Out": {},
        "_": None,
        "old": tuple(bytearray(1000) for _ in range(3000)),
        "pages": [*pages],
    }
    del pages
    watch = _cell.Watch(namespace)
    namespace["trainer"].history.extend(bytearray(1000) for _ in range(3000))  # at the end of its path
    namespace["array"] = np.ones(10**6)
    namespace["Out"][3] = namespace["_"] = namespace["_3"] = bytearray(5 * MiB)  # what only the notebook keeps
    del namespace["old"]
    namespace["new"] = [bytearray(1000) for _ in range(3000)]  # where others lay before
    vars(other_module)["PAGES"].clear()  # it let go of what is held here still
    namespace["pages"].append(np.ones(2 * MiB // 8))
    growth = watch.growth()
    rows = {name: (bytes, length) for name, bytes, length in rows_of(growth, namespace)}
    assert rows.keys() == {"array", "trainer.history", "Out", "new", "pages"}
    assert rows["trainer.history"][1] == rows["new"][1] == "0 → 3,000"
    assert rows["pages"][0] == "+2.0 MiB"
    assert "malloc in use +" in growth.heading()  # resident: what others freed may be used anew
    assert "trainer.history" in growth._repr_html_()


@pytest.mark.further
def test_what_another_let_go_of_is_no_growth_of_who_holds_it_still(other_module: ModuleType):
    rules = [bytearray(1000) for _ in range(3000)]
    pages = [np.ones(10**5) for _ in range(4)]
    vars(other_module).update(RULES={"all": list(rules)}, PAGES=[*pages])
    namespace: dict[str, Any] = {"rules": list(rules), "pages": [*pages]}
    del rules, pages
    watch = _cell.Watch(namespace)
    vars(other_module)["RULES"].clear()
    del namespace["pages"]
    growth = watch.growth()
    assert [row for row in growth.rows() if row[0].startswith(("rules", "other_module"))] == []


@pytest.mark.further
def test_nothing_new_is_nothing_to_show():
    namespace: dict[str, Any] = {"level": [bytearray(1000) for _ in range(1000)]}
    growth = _cell.Watch(namespace).growth()
    assert rows_of(growth, namespace) == []
    assert any("run the cell again" in line for line in growth.lines())


IN_IPYTHON = """
from IPython.core.interactiveshell import InteractiveShell

shell = InteractiveShell.instance()
shell.run_line_magic("load_ext", "leakscope")
shell.run_cell("%%leakscope\\nkept = [bytearray(1000) for _ in range(3000)]\\nlen(kept) * 7")
failed = shell.run_cell("%%leakscope\\nmore = bytearray(9_000_000)\\n1 / 0")
print(type(failed.error_in_exec).__name__)
"""


@pytest.mark.live
def test_the_magic_shows_what_a_cell_leaves_and_its_value(tmp_path: Path):
    pytest.importorskip("IPython")
    environment = {**os.environ, "IPYTHONDIR": str(tmp_path), "PYTHONPATH": str(Path(leakscope.__file__).parents[1])}
    command = [sys.executable, "-c", IN_IPYTHON]
    shown = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=120).stdout
    assert "kept  +3.0 MiB  0 → 3,000" in shown
    assert "21000" in shown, "the value of the last line, as without the magic"
    assert "more  +8.6 MiB" in shown, "a cell that failed is shown as well"
    assert shown.rstrip().endswith("ZeroDivisionError")


@pytest.mark.live
def test_other_tools_read_the_file_as_the_docs_say(tmp_path: Path):
    """What the page shows is run as it stands, beside a recording of that name."""
    if None in (find_spec("duckdb"), find_spec("polars")):
        pytest.skip("DuckDB and Polars come with the extra `test`")
    Path(a_recording(tmp_path).path).rename(tmp_path / "run.parquet")
    page = Path(__file__).parents[1].joinpath("docs", "notebooks.md").read_text(encoding="utf-8")
    example = re.search(r"```python\n(import duckdb, polars\n.*?)```", page, re.DOTALL)[1]
    *_, by_duckdb, by_polars = (line for line in example.splitlines() if line)
    program = f"import duckdb, polars\nprint(sorted({by_duckdb}.fetchall()))\nprint({by_polars}.height)"
    done = subprocess.run([sys.executable, "-c", program], cwd=tmp_path, capture_output=True, text=True, timeout=120)
    assert done.stdout.splitlines() == [str([(7, 119 * MiB), (8, MiB)]), "24"], done.stderr
