"""README and docs/ say what the program does: they are compared with the code, exit codes are tried out.

Some pages of docs/ are made whole (``docs_pages.pages``). Others are written by hand and have sections between
``<!-- begin NAME -->`` and ``<!-- end NAME -->`` that are made.
``python -m tests.test_docs`` (``make docs``) renews both.
"""

from __future__ import annotations

import difflib
import json
import os
import re
import shlex
import subprocess
import sys
import textwrap
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import Any

import click
import pytest

import leakscope
from leakbench.table import BUSY, PEERS, REPEATED, SEALED
from leakbench.table import from_results as leakbench
from leakbench.table import how_sure as how_sure_it_is
from leakscope import cli, options, schema
from leakscope.errors import BadInput, LeakscopeError
from leakscope.facts.case import Case
from leakscope.fleet import asking
from leakscope.fleet import columns as index_columns
from leakscope.mcp_server._answers import Desk
from leakscope.mcp_server._tools import TOOLS
from leakscope.metering.families import FAMILIES
from leakscope.recorder.tree import Tree
from tests import docs_pages, kind_reports, pictures, tutorials
from tests.analyzers.leaks import PID, trainer
from tests.bench import fleet, heap, sampling
from tests.bench.figures import Results, as_markdown
from tests.builders import RecordingBuilder
from tests.fleet import scores
from tests.renderers.reports import FULL

ROOT = Path(__file__).parent.parent
README = ROOT / "README.md"
CHANGELOG = ROOT / "CHANGELOG.md"
DOCS = ROOT / "docs"
KINDS = DOCS / "kinds"


def record_options() -> str:
    rows = []
    for option in filter(lambda option: option.group, options.RECORD_OPTIONS):
        names = ", ".join(option.flags) + (f" {option.metavar}" if option.metavar else "")
        rows.append((_code(names), _code(option.default), option.help))
    return _table(("option", "default", "meaning"), rows)


def report_options() -> str:
    report = cli.cli.commands["report"]
    context = click.Context(report, info_name="report")
    records = [p.get_help_record(context) for p in report.params if isinstance(p, click.Option)]
    return _table(("option", "meaning"), [(_code(record[0]), record[1]) for record in records if record])


def tables() -> str:
    rows = [(_code(table.name), table.writer, table.meaning) for table in schema.TABLES.values()]
    return _table(("table", "written by", "a row is"), rows)


def whole_heap() -> str:
    rows = [(_code(c.name), c.type, c.unit, c.meaning) for c in schema.WHOLE_HEAP]
    return _table(("column", "type", "unit", "meaning"), rows)


START = tutorials.FOLDER / "start"


def brief_example() -> str:
    return f"````markdown\n{tutorials.printed('leakscope report before.parquet -f brief', START)}````\n"


def mcp_tools() -> str:
    rows = [(_code(tool.name), ", ".join(map(_code, tool.properties)), tool.description) for tool in TOOLS]
    return _table(("tool", "arguments", "what it answers"), rows)


def mcp_answers() -> str:
    calls: tuple[tuple[str, dict[str, Any]], ...] = (
        ("heap_path", {"recording": "before.parquet", "name": "seen"}),
        ("query", {"recording": "before.parquet", "sql": "SELECT max(rss_bytes) AS most FROM process_samples"}),
        ("compare", {"before": "before.parquet", "after": "after.parquet"}),
        ("report", {"recording": "../two-models/before.parquet"}),
    )
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(START)
        desk = Desk(START)
        return "\n".join(
            f"```text\n{tool}({_arguments(given)})\n\n{_answer(desk, tool, given)}\n```\n" for tool, given in calls
        )


def _arguments(given: dict[str, Any]) -> str:
    return ", ".join(f"{name}={value!r}" for name, value in given.items())


def _answer(desk: Desk, tool: str, given: dict[str, Any]) -> str:
    try:
        return desk.answer(tool, given).strip()
    except LeakscopeError as error:
        return f"error: {error}"


def metrics() -> str:
    rows = [
        (_code(family.sample_name), family.kind, ", ".join(map(_code, family.labels)), family.help)
        for family in FAMILIES
    ]
    return _table(("metric", "type", "labels", "meaning"), rows)


def fleet_columns() -> str:
    rows = [(_code(c.name), c.type, c.unit, c.meaning) for c in index_columns.COLUMNS]
    of_findings = [(_code(f"findings.{c.name}"), c.type, c.unit, c.meaning) for c in index_columns.FINDING]
    last = index_columns.REPORT
    report = (_code(last.name), last.type, last.unit, f"{last.meaning}: by `fleet analyze` alone")
    return _table(("column", "type", "unit", "meaning"), [*rows, *of_findings, report])


def fleet_views() -> str:
    return _table(("view", "what it has"), [(_code(name), meaning) for name, meaning in asking.VIEWS.items()])


SECTIONS: dict[str, Callable[[], str]] = {
    "example": docs_pages.example,
    "record-options": record_options,
    "report-options": report_options,
    "findings": docs_pages.kinds_table,
    "outputs": docs_pages.outputs_table,
    "costs": lambda: as_markdown(Results.load()),
    "heap-costs": lambda: as_markdown(Results.load(heap.RESULTS)),
    "sampling-costs": lambda: as_markdown(Results.load(sampling.RESULTS)),
    "tables": tables,
    "whole-heap": whole_heap,
    "brief-example": brief_example,
    "mcp-tools": mcp_tools,
    "mcp-answers": mcp_answers,
    "metrics": metrics,
    "fleet-columns": fleet_columns,
    "fleet-views": fleet_views,
    "fleet-scores": lambda: scores.as_markdown(json.loads(scores.RESULTS.read_text(encoding="utf-8"))),
    "fleet-costs": lambda: fleet.as_markdown(json.loads(fleet.RESULTS.read_text(encoding="utf-8"))),
    "leakbench": leakbench,  # measured: shown as the last whole run left it
    "side-by-side": lambda: leakbench(PEERS),
    "sealed": lambda: leakbench(SEALED),
    "repeated": lambda: leakbench(REPEATED),
    "repeated-busy": lambda: leakbench(BUSY),
    "calibration": how_sure_it_is,
    "exit-codes": lambda: exit_codes(),
}


EVERY_EXIT = (
    ("`record`", "as the command", "ended by a signal: `record` ends by the same signal"),
    ("`record`", "125", "leakscope could not begin: a wrong option, an output that cannot be written, something "
     "that the end needs and that is not installed"),
    ("`record`", "126", "the command cannot be executed"),
    ("`record`", "127", "the command was not found"),
    ("others", "0", "done"),
    ("others", "2", "wrong use: an unknown option, a file that cannot be written"),
    ("others", "3", "a recording that is missing, damaged or of another format"),
    ("others", "70", "a fault of leakscope itself, with what a report of it needs: it says nothing of the recording"),
)  # fmt: skip


def exit_codes() -> str:
    """Of every command, and after that what single commands say of their own."""
    own = [
        (f"`{name}`", str(status), means)
        for name, one in _commands(cli.cli)
        for status, means in getattr(one, "exits", {}).items()
    ]
    return _table(("command", "status", "meaning"), [*EVERY_EXIT, *own])


def _commands(group: click.Group, before: str = "") -> Iterator[tuple[str, click.Command]]:
    for name, one in sorted(group.commands.items()):
        yield f"{before}{name}", one
        if isinstance(one, click.Group):
            yield from _commands(one, f"{before}{name} ")


def _code(text: str) -> str:
    return f"`{text}`" if text else ""


def _table(head: tuple[str, ...], rows: list[tuple[str, ...]]) -> str:
    lines = [head, ("---",) * len(head), *(tuple(cell.replace("|", "/") for cell in row) for row in rows)]
    return "".join("| " + " | ".join(line) + " |\n" for line in lines)


def _section(name: str) -> re.Pattern[str]:
    return re.compile(rf"(<!-- begin {name}\b[^>]*-->\n)(.*?)(<!-- end {name} -->)", re.DOTALL)


made_pages = lru_cache(docs_pages.pages)  # most tests here ask which pages are made whole


def _written_by_hand() -> list[Path]:
    """README and the pages of docs/ that are not made whole. Those of kinds/ always are: a kind may be gone."""
    pages = {DOCS / name for name in made_pages()}
    return [README, *sorted(page for page in _pages() - pages if KINDS not in page.parents)]


def _pages() -> set[Path]:
    return set(DOCS.rglob("*.md"))


def _shown(name: str) -> str:
    found = [m.group(2) for page in _written_by_hand() for m in _section(name).finditer(page.read_text("utf-8"))]
    assert len(found) == 1, f"section {name} stands in {len(found)} pages"
    return found[0]


def write() -> None:
    made = docs_pages.pages()
    for name, page in made.items():
        (DOCS / name).parent.mkdir(parents=True, exist_ok=True)
        (DOCS / name).write_text(page, encoding="utf-8")
    for left in {one for one in KINDS.glob("reports/*") if one.stem not in kind_reports.SOURCES}:
        left.unlink()
    for page in set(KINDS.glob("*.md")) - {DOCS / name for name in made}:
        page.unlink()
    for page in _written_by_hand():
        text = page.read_text(encoding="utf-8")
        for name, generate in SECTIONS.items():
            if match := _section(name).search(text):
                text = text[: match.start(2)] + generate() + text[match.end(2) :]
        page.write_text(text, encoding="utf-8")
    for page in tutorials.pages():
        page.write_text(tutorials.renewed(page), encoding="utf-8")
    pictures.CAST.write_text(pictures.cast(), encoding="utf-8")
    pictures.HEAP.write_text(pictures.heap(), encoding="utf-8")


@pytest.mark.parametrize("name", SECTIONS)
def test_sections_say_what_the_program_has(name):
    assert _shown(name) == SECTIONS[name](), "a page is behind the program: run `make docs`"


def test_the_pages_say_what_the_program_has():
    pages = made_pages()
    missing_or_old = {DOCS / name for name in pages} ^ (_pages() - set(_written_by_hand()))
    assert not missing_or_old, "docs/ is behind the program: run `make docs`"
    written = {name: (DOCS / name).read_text(encoding="utf-8") for name in pages}
    behind = {
        name: list(difflib.unified_diff(written[name].splitlines(), page.splitlines(), lineterm="", n=0))
        for name, page in pages.items()
        if written[name] != page
    }
    assert not behind, "docs/ is behind the program: run `make docs`"


def test_no_page_waits_for_what_was_to_come():
    """A comment is the mark of a section that is made, or says where commands run: another is a place left empty."""
    known = re.compile(r"(?:begin|end) [\w-]+|run in \S+")
    waiting = {
        f"{page.relative_to(DOCS.parent)}: {found}"
        for page in (README, *_pages(), *DOCS.parent.glob("*.md"))
        for found in re.findall(r"<!--(.*?)-->", page.read_text("utf-8"), re.DOTALL)
        if not known.match(found.strip())
    }
    todo = {
        f"{page.relative_to(DOCS.parent)}: {found}"
        for page in _pages()
        for found in re.findall(r"\b(?:TODO|FIXME|TBD|XXX)\b", page.read_text("utf-8"))
    }
    assert waiting | todo == set()


def test_the_map_leads_to_every_page():
    found, todo = set(), [DOCS / "index.md"]
    while todo:
        page = todo.pop()
        if page not in found and page.suffix == ".md" and DOCS in page.parents:
            found.add(page)
            todo += [(page.parent / path).resolve() for path, _ in _links(page) if path]
    assert not _pages() - found, "docs/index.md leads to all pages"


def test_the_readme_is_short_and_explains_words_of_the_report_it_shows():
    text = README.read_text(encoding="utf-8")
    assert len(text.splitlines()) <= 200
    shown = " ".join(_shown("example").split())
    explained = re.search(r"^Line by line:\n(.*?)^\[", text, re.DOTALL | re.MULTILINE)[1]
    words = set(re.findall(r"\*\*([^*]+)\*\*", explained))
    assert len(words) > 8
    assert not {word for word in words if word not in shown}, "README explains what its report no longer says"


def test_every_kind_has_a_page_with_all_its_sections():
    for name, page in made_pages().items():
        if name.startswith("kinds/"):
            sections = re.split(r"^## (.+)$", page, flags=re.MULTILINE)[1:]
            assert sections[::2] == [
                "A report", *(["Before and after"] if "```diff" in page else []), "Why it matters",
                "When it is mistaken", "What to do",
            ], name  # fmt: skip
            assert f"](reports/{Path(name).stem}.svg)" in page, name
            assert all(len(words.split()) > 3 for words in sections[1::2]), name


@pytest.mark.golden
@pytest.mark.cases(3)
@pytest.mark.parametrize("kind", kind_reports.SOURCES)
def test_a_kinds_page_shows_what_its_recording_says(kind):
    shown = (kind_reports.REPORTS / f"{kind}.txt").read_text("utf-8")
    assert shown == kind_reports.excerpt(*kind_reports.report_of(kind)), "run `make docs`"


_COMMAND = re.compile(r"^(?:\s*- run: )?(?:\$ )?(?:[A-Z_]+=\S+ )*(?:srun |mpirun .*?|uv run )?(leakscope(?: .*)?)$")
_ENDS = ("|", "||", "&&", ";", ">", ">>", "2>", "<", "&", "#")
_OF_THE_RECORDER = {"record": options.parse_record, "attach": options.parse_attach}


def _printed_commands() -> Iterator[tuple[Path, list[str]]]:
    """Each command of ours in a block of README.md or a page that is written by hand, without what stands behind it."""
    for page in _written_by_hand():
        for language, block in re.findall(r"^ *```(\w*)[^\n]*\n(.*?)^ *```", page.read_text("utf-8"), re.M | re.S):
            if language not in ("", "bash", "console", "sh", "yaml"):
                continue
            for line in block.replace("\\\n", " ").splitlines():
                if (found := _COMMAND.match(line)) and not any(
                    found[1].count(mark) % 2 for mark in "'\""
                ):  # a query has lines
                    words = shlex.split(found[1], comments=True)
                    end = next((at for at, word in enumerate(words) if word in _ENDS or word.endswith(";")), len(words))
                    yield page, words[1:end]


def test_every_printed_command_is_one_that_the_program_takes():
    """As a reader types them: each has its command, its options, and values that these take."""
    seen, wrong = 0, []
    for page, words in _printed_commands():
        seen += 1
        if (said := _is_refused(words)) is not None:
            wrong.append(f"{page.relative_to(DOCS.parent)}: leakscope {shlex.join(words)}: {said}")
    assert seen > 60 and not wrong, "\n".join(wrong)


def _is_refused(words: list[str]) -> str | None:
    """Why; None where it is taken."""
    try:
        if words[:1] and words[0] in _OF_THE_RECORDER:
            _OF_THE_RECORDER[words[0]](words[1:], {})
            return None
        group: click.Command = cli.cli
        context = click.Context(group, info_name="leakscope")
        while isinstance(group, click.Group):
            name, group, words = group.resolve_command(context, words)
            context = click.Context(group, info_name=name, parent=context)
        group.make_context(group.name, list(words), parent=context.parent)
    except click.exceptions.Exit:  # --help, --version
        return None
    except (click.ClickException, LeakscopeError) as error:
        return error.format_message() if isinstance(error, click.ClickException) else str(error)
    return None


def test_no_option_is_shown_with_a_backslash():
    assert not [page for page in _pages() if re.search(r"^\|.*`[^`]*\\\|", page.read_text("utf-8"), re.MULTILINE)]


def test_every_output_has_a_suffix_of_its_own():
    suffixes = re.findall(r"FILE(\.\w+)", docs_pages.outputs_table())
    assert len(set(suffixes)) == len(suffixes) > 5


def _links(page: Path) -> Iterator[tuple[str, str]]:
    """(path, anchor) of each link of a page into this checkout."""
    text = re.sub(r"^ *```.*?^ *```|`[^`\n]*`", "", page.read_text(encoding="utf-8"), flags=re.DOTALL | re.MULTILINE)
    for target in re.findall(r"\]\((?!https?:)([^)\s]*)\)", text):
        path, _, anchor = target.partition("#")
        yield path, anchor


LINKING = [*ROOT.glob("*.md"), *(ROOT / ".github").rglob("*.md"), *(ROOT / "fixtures").glob("*.md"), *_pages()]


@pytest.mark.parametrize("page", sorted(LINKING), ids=lambda page: page.relative_to(ROOT).as_posix())
def test_links_lead_somewhere(page):
    for path, anchor in _links(page):
        linked = page.parent / path if path else page
        assert linked.exists(), f"{page} links to {path}"
        if anchor:
            headings = re.findall(r"^#+ (.+)$", linked.read_text(encoding="utf-8"), re.MULTILINE)
            anchors = {re.sub(r"[^\w -]", "", h).lower().replace(" ", "-") for h in headings}
            assert anchor in anchors, f"{page} links to {path}#{anchor}"


def _examples(language: str) -> list[str]:
    text = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    found = re.findall(rf"^ *```{language}\n(.*?)^ *```$", text, re.DOTALL | re.MULTILINE)
    return [textwrap.dedent(block) for block in found]


def test_tables_of_contributing_stand_among_others_as_they_are():
    tables = [block for block in _examples("") if block.startswith("Table(")]
    assert len(tables) == 2
    for block in tables:
        (table,) = eval(f"[{block}]", vars(schema).copy())
        assert table.name not in schema.TABLES and table.columns[-1].meaning


def test_a_renderer_as_in_contributing():
    (code,) = (block for block in _examples("python") if 'SUFFIX = ".slack"' in block)
    hostile = replace(FULL, verdict=replace(FULL.verdict, headline="<!channel> & \u202e"))
    said = _run(code, "leakscope.renderers")["render"](hostile)
    assert said.startswith("*LEAKING* &lt;!channel&gt; &amp; ") and "\u202e" not in said
    assert "• Trainer.history keeps every loss tensor at `" in said


def test_an_exporter_as_in_contributing(tmp_path):
    (code,) = (block for block in _examples("python") if 'SUFFIX = ".influx.txt"' in block)
    chunks = _run(code, "leakscope.exporting")["chunks"]
    case = Case(trainer(tmp_path).ends(20.0).open())
    lines = b"".join(chunks(case)).decode().splitlines()
    assert len(lines) == len(case.rows("process_samples"))
    assert re.fullmatch(rf"memory,pid={PID} rss_bytes=\d+i \d{{19}}", lines[0])
    (tmp_path / "none").mkdir()
    with pytest.raises(BadInput, match="nothing to export"):
        next(chunks(Case(RecordingBuilder(tmp_path / "none").process(PID).open())))


def test_examples_of_contributing_work():
    """Its source and its snapshot reader are run as they stand there."""
    blocks = _examples("python")
    source, reader = (
        _run(next(block for block in blocks if f'TABLE = "{table}"' in block), package)
        for table, package in (
            ("context_switches", "leakscope.recorder.sources"),
            ("module_counts", "leakscope.agent.probes"),
        )
    )
    tree = Tree(os.getpid(), 0)
    tree.update(0.0, 0)
    assert os.getpid() in {row["pid"] for row in source["rows"](tree)}
    (mine,) = (row for row in reader["rows"](None) if row["module"] == "leakscope")
    assert mine["object_count"] > 10


def _run(code: str, package: str) -> dict[str, Any]:
    namespace: dict[str, Any] = {"__package__": package}
    exec(compile(code, "CONTRIBUTING.md", "exec"), namespace)
    return namespace


def _exit_codes() -> Iterator[tuple[str, str]]:
    for line in _shown("exit-codes").splitlines()[2:]:
        command, status, _ = (cell.strip() for cell in line.strip("|").split("|"))
        yield command.strip("`"), status


# None: what needs a machine without a Python, or a program that is run again, which other tests do.
CASES: dict[tuple[str, str], tuple[list[str], int] | None] = {
    ("record", "as the command"): (["record", "-q", "-o", "new.parquet", "--", "sh", "-c", "exit 7"], 7),
    ("record", "125"): (["record", "--frob", "--", "true"], 125),
    ("record", "126"): (["record", "--", "./not-executable"], 126),
    ("record", "127"): (["record", "--", "./nowhere"], 127),
    ("others", "0"): (["report", "run.parquet"], 0),
    ("report", "1"): (["report", "run.parquet", "--exit-code"], 1),
    ("others", "2"): (["report", "--frob"], 2),
    ("check", "1"): (["check", "run.parquet", "--max-rss", "1MB"], 1),
    ("check", "4"): (["check", "run.parquet", "--max-growth", "1GB/1000steps"], 4),
    ("compare", "1"): (["compare", "steady.parquet", "run.parquet"], 1),
    ("compare", "4"): (["compare", "short.parquet", "run.parquet"], 4),
    ("fix", "1"): None,
    ("fix", "4"): (["fix", "steady.parquet"], 4),
    ("fleet analyze", "3"): (["fleet", "analyze", "damaged.parquet"], 3),
    ("ps", "1"): None,
    ("snapshot", "5"): (["snapshot", "-p", "1"], 5),
    ("upload", "2"): (["upload", "run.parquet", "--to", "nothing://bucket/run.parquet"], 2),
    ("whatif", "4"): None,
    ("others", "3"): (["report", "nowhere.parquet"], 3),
    ("others", "70"): (["check", "run.parquet"], 70),  # with what it is checked by taken away
}


def test_every_exit_code_of_the_docs_is_tried_out():
    assert set(_exit_codes()) == set(CASES)


@pytest.mark.cases(3)
@pytest.mark.live
@pytest.mark.parametrize(
    ("arguments", "status"),
    filter(None, CASES.values()),
    ids=[" ".join(case) for case, tried in CASES.items() if tried],
)
def test_exit_codes(tmp_path, monkeypatch, capsys, arguments, status):
    (tmp_path / "not-executable").touch()
    (tmp_path / "damaged.parquet").write_bytes(b"PAR1 and then nothing of it")
    trainer(tmp_path).ends(20.0).write()  # run.parquet, of a job that leaks
    for name, columns in (("steady", {"leak": 0}), ("short", {"leak": 0, "run_s": 3.0})):
        (tmp_path / name).mkdir()
        trainer(tmp_path / name, **columns).ends(columns.get("run_s", 20.0)).write().rename(
            tmp_path / f"{name}.parquet"
        )
    monkeypatch.chdir(tmp_path)
    if status == 70:
        code = "import leakscope.checking as c; del c.check; from leakscope.__main__ import main; main()"
        command = [sys.executable, "-I", "-c", code, *arguments]
        child = subprocess.run(command, capture_output=True, text=True, check=False)
        assert (child.returncode, child.stdout) == (70, "")
        assert child.stderr.splitlines()[-1].startswith("leakscope: a fault of leakscope itself")
        return
    if arguments[0] != "record":  # which becomes the command, or forks
        assert cli.main(arguments) == status, capsys.readouterr().err
        return
    command = [sys.executable, "-m", "leakscope", *arguments]
    child = subprocess.run(command, capture_output=True, text=True, check=False)
    assert child.returncode == status, child.stderr
    assert "Traceback" not in child.stderr


def test_the_changelog_has_this_version_with_its_date():
    text = CHANGELOG.read_text(encoding="utf-8")
    headings = re.findall(r"^## \[?([\w.]+)\]?(?: - (\d{4}-\d\d-\d\d))?$", text, re.MULTILINE)
    assert headings[0] == ("Unreleased", "")
    assert headings[1][0] == leakscope.__version__
    assert all(date for _, date in headings[1:])
    citation = (ROOT / "CITATION.cff").read_text(encoding="utf-8")
    assert f"\nversion: {headings[1][0]}\ndate-released: {headings[1][1]}\n" in citation
    assert set(re.findall(r"^### (.+)$", text, re.MULTILINE)) <= {
        "Added", "Changed", "Deprecated", "Removed", "Fixed", "Security",
    }  # fmt: skip


if __name__ == "__main__":
    write()
