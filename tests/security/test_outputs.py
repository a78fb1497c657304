"""Whatever a job calls its things: no output of ours lets it steer a terminal, a build's log, a page or a tracker."""

from __future__ import annotations

import csv
import io
import json
import re
import shutil
import xml.etree.ElementTree as xml
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
from markdown_it import MarkdownIt

from leakscope import analyze, open_recording, schema
from leakscope.answering import told
from leakscope.cli import main
from leakscope.exporting import names as export_formats
from leakscope.fleet import index as indexing
from leakscope.ignoring import Ignores
from leakscope.mcp_server._answers import Desk
from leakscope.pushing._tracker import outcome_of
from leakscope.renderers import render
from leakscope.viewing import Site
from leakscope.words import plain
from tests.builders import RecordingBuilder
from tests.security.poison import ALL, HARM, carrying, poisoned

RECORDINGS = Path(__file__).parents[1] / "golden" / "recordings"
# Among them they have a text in all columns that real recordings have it in.
REAL = (
    "retained_objects_two_at_once-leaky", "dataset_copies-leaky", "caption_list_in_workers-leaky",
    "features_under_an_rlimit-leaky", "compiled_for_every_length-leaky", "strings_of_a_c_library-leaky",
)  # fmt: skip
FORGE = MarkdownIt("commonmark").enable("table")


@pytest.fixture(
    scope="module", params=[pytest.param(1, id="one"), pytest.param(len(REAL), id="all", marks=pytest.mark.slow)]
)
def folder(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Poisoned recordings, and one of rows in every table, each text of them harmful."""
    folder = tmp_path_factory.mktemp("poisoned")
    for name in REAL[: request.param]:
        poisoned(RECORDINGS / f"{name}.parquet", folder / f"{name}.parquet")
    made_of_everything(folder)
    return folder


def made_of_everything(folder: Path) -> None:
    builder = RecordingBuilder(
        folder, "everything.parquet", command=["python", *HARM], cwd="/home/x" + ALL, host="h" + ALL,
        labels={"team": "a" + ALL}, notes=["n" + ALL], python="/usr/bin/python" + ALL,
    )  # fmt: skip
    builder.process(100, comm="c" + ALL, cmdline="python " + ALL, exe="/x" + ALL, cgroup="/job" + ALL)
    builder.samples(100, [(100 + 10 * i) * 1024**2 for i in range(40)])
    for at_s in (5.0, 20.0, 35.0):
        for table in schema.TABLES.values():
            if table.name in ("processes", "process_samples"):
                continue
            row: dict[str, Any] = {}
            for column in table.columns:
                texts = f"{column.name} {'xyz'[int(at_s) % 3]}{ALL}\ud800" if column.carries else "x"
                row[column.name] = {"int": int(at_s), "float": at_s, "bool": True, "str": texts}[column.type]
            has_process = row.pop("pid", None) is not None
            row.pop("start_ticks", None)
            row |= {column.name: column.name + ALL for column in schema.KEYS if column.carries}
            builder.row(table.name, at_s, 100 if has_process else None, **row)
    builder.ends(at_s=40.0, exit_code=0).open()


def runs(folder: Path) -> list[Path]:
    return sorted(folder.glob("*.parquet"))


def ranks(folder: Path) -> list[Path]:
    """One of them twice, as the ranks of a job."""
    job = folder / "job"
    job.mkdir(exist_ok=True)
    for number in range(2):
        shutil.copy(folder / f"{REAL[0]}.parquet", job / f"run.rank{number}.parquet")
    return sorted(job.iterdir())


def printed(capfd: pytest.CaptureFixture[str], *words: object) -> str:
    """What a command prints, on stdout and stderr; it ends as a command does."""
    capfd.readouterr()
    status = main([str(word) for word in words])
    out, err = capfd.readouterr()
    assert status in (0, 1, 3, 4), (words, err)
    assert "Traceback (most recent call last)" not in err
    assert_plain(err)
    return out


def assert_plain(text: str) -> None:
    odd = {c for c in text if not c.isprintable() and c not in "\n\t\u200b"}  # the last one keeps forges from linking
    assert not odd, (odd, excerpt(text, odd))
    for line in text.split("\n"):
        assert not re.match(r"\s*::", line), line[:200]
        assert "##[" not in line and "##vso[" not in line, line[:200]
    assert "\npwned" not in text


def excerpt(text: str, odd: set[str]) -> str:
    at = min(text.index(c) for c in odd)
    return repr(text[max(0, at - 100) : at + 100])


def assert_json(text: str) -> Any:
    assert not {c for c in text if not c.isprintable() and c != "\n"}
    return json.loads(text)


class Elements(HTMLParser):
    """What a browser makes of a page."""

    def __init__(self) -> None:
        super().__init__(convert_charrefs=False)
        self.scripts = self.handlers = 0
        self.links: list[str] = []
        self.inside = ""
        self.said: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.inside = tag
        for name, value in attrs:
            self.handlers += name.startswith("on")
            if name in ("href", "src"):
                self.links.append(value or "")

    def handle_data(self, data: str) -> None:
        if self.inside == "script" and data.strip().startswith("alert(1)"):
            self.scripts += 1


def assert_page(text: str) -> None:
    page = Elements()
    page.feed(text)
    assert not page.scripts and not page.handlers
    assert not [link for link in page.links if link.startswith("javascript:")]
    odd = {c for c in text if not c.isprintable() and c not in "\n\t\xa0\u2060\u200b\xad\u202f\u2009"}
    assert not odd, (odd, excerpt(text, odd))


def assert_markdown(text: str) -> None:
    odd = {c for c in text if not c.isprintable() and c not in "\n\u2060\u200b\u200d\xa0"}
    assert not odd, (odd, excerpt(text, odd))
    tokens = [part for token in FORGE.parse(text) for part in (token, *(token.children or ()))]
    html = "".join(token.content for token in tokens if token.type in ("html_block", "html_inline"))
    assert "script" not in html and "style" not in html
    assert not [token for token in tokens if token.type == "link_open" and "javascript" in str(token.attrs)]
    assert "@everyone" not in "\n".join(token.content for token in tokens if token.type == "text")
    for line in text.split("\n"):
        assert not re.match(r"\s*::", line) and "##vso[" not in line, line[:200]


def test_every_column_with_texts_of_the_users_is_among_those_that_are_poisoned(folder: Path) -> None:
    tables = open_recording(folder / "everything.parquet").tables
    unharmed = set(carrying())
    for name in schema.TABLES:
        rows = tables[name]
        unharmed -= {c for c in unharmed & set(rows.columns) if rows[c].astype(str).str.contains("pwned").any()}
    assert not unharmed


@pytest.mark.parametrize("format_name", ["terminal", "brief"])
def test_reports_are_plain(folder: Path, capfd: pytest.CaptureFixture[str], format_name: str) -> None:
    for run in runs(folder):
        assert_plain(printed(capfd, "report", run, "-f", format_name, *(["-v"] if format_name == "terminal" else [])))


def test_a_report_is_coloured_by_us_alone(folder: Path) -> None:
    for run in runs(folder):
        text = plain(render(analyze(open_recording(run)), "terminal", color=True))
        assert_plain(re.sub(r"\x1b\[[0-9;]*m", "", text))
        assert "\x1b[31m\\" not in text


def test_reports_as_json_sarif_junit_and_annotations_are_what_they_are(
    folder: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    for run in runs(folder):
        assert_json(printed(capfd, "report", run, "-f", "json", "--with-timeline"))
        json.loads(printed(capfd, "report", run, "-f", "sarif"))
        xml.fromstring(printed(capfd, "report", run, "-f", "junit"))
        for line in printed(capfd, "report", run, "-f", "github").splitlines():
            assert re.match(r"::(?:error|warning|notice)(?: [\w=,:./%\\$ -]|::)", line), line[:200]
            assert "::pwned" not in line.replace("\\", "") or not line.startswith("::error file=x"), line[:200]


def test_markdown_is_no_markup_of_the_jobs(folder: Path, capfd: pytest.CaptureFixture[str]) -> None:
    for run in runs(folder):
        assert_markdown(printed(capfd, "report", run, "-f", "markdown"))
    assert_markdown(printed(capfd, "compare", runs(folder)[0], runs(folder)[1], "-f", "markdown"))
    assert_markdown(printed(capfd, "report", *ranks(folder), "-f", "markdown"))


def test_pages_have_no_element_of_the_jobs(folder: Path, capfd: pytest.CaptureFixture[str]) -> None:
    for run in runs(folder):
        recording = open_recording(run)
        assert_page(render(analyze(recording), "html"))
        site = Site(run, Ignores())
        site.refresh()
        assert_page(site.page()[1].decode())
        assert_page(recording._repr_html_())
    assert_page(printed(capfd, "compare", runs(folder)[0], runs(folder)[1], "-f", "html"))
    assert_page(printed(capfd, "report", *ranks(folder), "-f", "html"))


def test_check_compare_heap_and_jobs_are_plain(folder: Path, capfd: pytest.CaptureFixture[str]) -> None:
    found = runs(folder)
    for run in found:
        for rules in ([], ["--max-rss", "1MB"], ["--no-oom", "--no-duplicates", "--max-growth", "1KB/hour"]):
            assert_plain(printed(capfd, "check", run, *rules))
        assert_plain(printed(capfd, "check", run, "--baseline", found[0]))
        assert_json(printed(capfd, "check", run, "-f", "json"))
        assert_plain(printed(capfd, "compare", found[0], run))
        assert_json(printed(capfd, "compare", found[0], run, "-f", "json"))
        for line in told(open_recording(run)).lines:
            assert_plain(line)
            assert "\n" not in line
    for words in ([], ["--diff"], ["--path", "x"]):
        for run in found:
            capfd.readouterr()
            main(["heap", str(run), *words])
            out, err = capfd.readouterr()
            assert_plain(out + err)
    assert_plain(printed(capfd, "report", *ranks(folder)))
    assert_json(printed(capfd, "report", *ranks(folder), "-f", "json"))


def test_watch_is_plain_where_there_is_no_terminal(folder: Path, capfd: pytest.CaptureFixture[str]) -> None:
    for run in runs(folder):
        assert_plain(printed(capfd, "watch", run))


@pytest.mark.live  # holders are worked out in a process of their own
def test_metrics_keep_to_their_format(folder: Path, capfd: pytest.CaptureFixture[str]) -> None:
    sample = re.compile(r'[a-zA-Z_:][\w:]*(?:\{(?:\w+="(?:[^"\\\n]|\\[\\n"])*",?)*\})? \S+')
    for run in runs(folder):
        for line in printed(capfd, "metrics", run).rstrip("\n").split("\n"):
            assert line.startswith("# ") or sample.fullmatch(line), line[:300]


def test_the_fleet_is_plain(folder: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    index = tmp_path / "fleet.parquet"
    for run in runs(folder):  # each by itself: several are read by processes that stay
        indexing.index([str(run)], index)
    assert_plain(printed(capfd, "fleet", "list", index, "-c", "all"))
    assert_json(printed(capfd, "fleet", "list", index, "-f", "json"))
    assert len(list(csv.reader(io.StringIO(printed(capfd, "fleet", "list", index, "-f", "csv"))))) == 1 + len(
        runs(folder)
    )
    assert_plain(printed(capfd, "fleet", "report", index))
    assert_json(printed(capfd, "fleet", "report", index, "-f", "json"))
    assert_page(printed(capfd, "fleet", "report", index, "-f", "html"))
    pytest.importorskip("duckdb")
    for sql in ("SELECT * FROM recordings", "SELECT url, title FROM findings", "SELECT cmdline, comm FROM processes"):
        for format_name in ("terminal", "csv"):
            assert_plain(printed(capfd, "fleet", "query", "-i", index, sql, "-f", format_name))
        assert_json(printed(capfd, "fleet", "query", "-i", index, sql, "-f", "json"))
    main(["fleet", "query", "-i", str(index), f"SELECT '{ALL}' FROM nothing"])
    assert_plain(capfd.readouterr().err)


def test_exports_parse(folder: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    for run in runs(folder):
        for name in export_formats():
            output = tmp_path / f"{run.stem}.{name}"
            capfd.readouterr()
            main(["export", str(run), "-f", name, "-o", str(output)])
            assert_plain("".join(capfd.readouterr()))
            if output.is_file() and name in ("speedscope", "perfetto"):
                data = output.read_bytes()
                assert json.loads(data) if data[:1] in (b"{", b"[") else True
            if output.is_file() and name == "collapsed":
                for line in output.read_text().rstrip("\n").split("\n"):
                    assert re.fullmatch(r"[^\x00-\x1f]* \d+", line), line[:200]


def test_answers_to_an_agent_are_plain(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(folder)
    pytest.importorskip("duckdb")
    desk = Desk(folder)
    assert_plain(desk.list_recordings())
    names = [run.name for run in runs(folder)]
    for name in names:
        assert_plain(desk.report(name))
        for ask in (
            lambda name=name: desk.explain_finding(name),
            lambda name=name: desk.heap_top(name),
            lambda name=name: desk.query(name, "SELECT * FROM processes", 50),
            lambda name=name: desk.query(name, f"SELECT '{HARM[0]}' AS \"{HARM[2]}\"", 50),
            lambda name=name: desk.compare(names[0], name),
        ):
            try:
                answer = ask()
            except Exception as error:
                answer = str(error)
            assert_plain(answer)


def test_what_a_tracker_is_told_is_plain(folder: Path) -> None:
    for run in runs(folder):
        report = analyze(open_recording(run))
        outcome = outcome_of(report, render(report, "markdown"), run)
        for text in (*outcome.summary.values(), outcome.headline, outcome.alarm):
            assert not isinstance(text, str) or text.isprintable(), text
        assert_markdown(outcome.text)


def test_oom_is_plain(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    log = tmp_path / "log"
    comm = "a\x1b]0;x\x07 ::error::b"
    log.write_text(
        f"[1.0] {comm} invoked oom-killer: gfp_mask=0x0, order=0, oom_score_adj=0\n"
        f"[1.0] Out of memory: Killed process 5 ({comm}) total-vm:8kB, anon-rss:8kB, file-rss:0kB, shmem-rss:0kB\n"
        f"[2.0] Memory cgroup out of memory: Killed process 6 (::error::pwned) total-vm:8kB, anon-rss:8kB\n"
    )
    assert_plain(printed(capfd, "oom", log))
    assert_json(printed(capfd, "oom", log, "-f", "json"))


@pytest.mark.parametrize("size", [1_000_000])
def test_a_name_of_a_megabyte_breaks_no_output(tmp_path: Path, capfd: pytest.CaptureFixture[str], size: int) -> None:
    run = poisoned(RECORDINGS / "dataset_copies-leaky.parquet", tmp_path / "long.parquet", "x" * 20_000)
    for format_name in ("terminal", "brief", "github"):
        assert len(printed(capfd, "report", run, "-f", format_name)) < 3_000_000
    assert_plain(printed(capfd, "check", run))
