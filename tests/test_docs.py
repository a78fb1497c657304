"""README and docs/ say what the program does: they are compared with the code, exit codes are tried out.

``python -m tests.test_docs`` (``make docs``) writes README's sections and the pages of docs/ anew.
"""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import click
import pytest

import leakscope
from leakscope import cli, options, schema
from tests import docs_pages
from tests.analyzers.leaks import trainer
from tests.bench.figures import Results, as_markdown
from tests.leakbench.table import from_results as leakbench

ROOT = Path(__file__).parent.parent
README = ROOT / "README.md"
CHANGELOG = ROOT / "CHANGELOG.md"
DOCS = ROOT / "docs"


def record_options() -> str:
    rows = []
    for option in options.RECORD_OPTIONS:
        names = ", ".join(option.flags) + (f" {option.metavar}" if option.metavar else "")
        rows.append((_code(names), _code(option.default), option.help))
    return _table(("option", "default", "meaning"), rows)


def report_options() -> str:
    context = click.Context(cli.report, info_name="report")
    records = [p.get_help_record(context) for p in cli.report.params if isinstance(p, click.Option)]
    return _table(("option", "meaning"), [(_code(record[0]), record[1]) for record in records if record])


def tables() -> str:
    rows = [(_code(table.name), table.writer, table.meaning) for table in schema.TABLES.values()]
    return _table(("table", "written by", "a row is"), rows)


SECTIONS: dict[str, Callable[[], str]] = {
    "record-options": record_options,
    "report-options": report_options,
    "findings": lambda: docs_pages.kinds_table("docs/"),
    "outputs": docs_pages.outputs_table,
    "costs": lambda: as_markdown(Results.load()),
    "tables": tables,
    "leakbench": leakbench,  # measured: shown as the last whole run left it
}


def _code(text: str) -> str:
    return f"`{text}`" if text else ""


def _table(head: tuple[str, ...], rows: list[tuple[str, ...]]) -> str:
    lines = [head, ("---",) * len(head), *(tuple(cell.replace("|", "\\|") for cell in row) for row in rows)]
    return "".join("| " + " | ".join(line) + " |\n" for line in lines)


def _section(name: str) -> re.Pattern[str]:
    return re.compile(rf"(<!-- begin {name}\b[^>]*-->\n)(.*?)(<!-- end {name} -->)", re.DOTALL)


def _shown(name: str) -> str:
    match = _section(name).search(README.read_text(encoding="utf-8"))
    assert match, f"README.md has no section {name}"
    return match.group(2)


def write() -> None:
    text = README.read_text(encoding="utf-8")
    for name, generate in SECTIONS.items():
        match = _section(name).search(text)
        text = text[: match.start(2)] + generate() + text[match.end(2) :]
    README.write_text(text, encoding="utf-8")
    pages = docs_pages.pages()
    for name, page in pages.items():
        (DOCS / name).parent.mkdir(parents=True, exist_ok=True)
        (DOCS / name).write_text(page, encoding="utf-8")
    for name in _written() - pages.keys():
        (DOCS / name).unlink()


def _written() -> set[str]:
    return {page.relative_to(DOCS).as_posix() for page in DOCS.rglob("*.md")}


@pytest.mark.parametrize("name", SECTIONS)
def test_readme_says_what_the_program_has(name):
    assert _shown(name) == SECTIONS[name](), "README.md is behind the program: run `make docs`"


def test_the_pages_say_what_the_program_has():
    pages = docs_pages.pages()
    assert _written() == pages.keys(), "docs/ is behind the program: run `make docs`"
    behind = [name for name, page in pages.items() if (DOCS / name).read_text(encoding="utf-8") != page]
    assert not behind, "docs/ is behind the program: run `make docs`"


def test_every_kind_has_a_page_with_all_its_sections():
    for name, page in docs_pages.pages().items():
        if name.startswith("kinds/"):
            sections = re.split(r"^## (.+)$", page, flags=re.MULTILINE)[1:]
            assert sections[::2] == [
                "What it looks like", "Why it matters", "How it is decided", "When it is mistaken", "What to do",
                "How to refute it",
            ], name  # fmt: skip
            assert all(len(words.split()) > 3 for words in sections[1::2]), name


def test_every_output_has_a_suffix_of_its_own():
    suffixes = re.findall(r"FILE(\.\w+)", docs_pages.outputs_table())
    assert len(set(suffixes)) == len(suffixes) > 5


@pytest.mark.parametrize("page", ["README.md", "CONTRIBUTING.md", *(f"docs/{name}" for name in docs_pages.pages())])
def test_links_lead_somewhere(page):
    text = (ROOT / page).read_text(encoding="utf-8")
    for target in re.findall(r"\]\((?!https?:)([^)\s]*)\)", re.sub(r"`[^`\n]*`", "", text)):
        path, _, anchor = target.partition("#")
        linked = (ROOT / page).parent / path if path else ROOT / page
        assert linked.exists(), f"{page} links to {target}"
        if anchor:
            headings = re.findall(r"^#+ (.+)$", linked.read_text(encoding="utf-8"), re.MULTILINE)
            assert anchor in {re.sub(r"[^\w -]", "", h).lower().replace(" ", "-") for h in headings}, target


def _exit_codes() -> Iterator[tuple[str, str]]:
    for line in _shown("exit-codes").splitlines()[2:]:
        command, status, _ = (cell.strip() for cell in line.strip("|").split("|"))
        yield command.strip("`"), status


CASES = {
    ("record", "as the command"): (["record", "-q", "-o", "new.parquet", "--", "sh", "-c", "exit 7"], 7),
    ("record", "125"): (["record", "--frob", "--", "true"], 125),
    ("record", "126"): (["record", "--", "./not-executable"], 126),
    ("record", "127"): (["record", "--", "./nowhere"], 127),
    ("others", "0"): (["report", "run.parquet"], 0),
    ("others", "1"): (["report", "run.parquet", "--exit-code"], 1),
    ("others", "2"): (["report", "--frob"], 2),
    ("check", "1"): (["check", "run.parquet"], 1),
    ("check", "4"): (["check", "run.parquet", "--max-growth", "1GB/1000steps"], 4),
    ("others", "3"): (["report", "nowhere.parquet"], 3),
}


def test_every_exit_code_of_the_readme_is_tried_out():
    assert set(_exit_codes()) == set(CASES)


@pytest.mark.live
@pytest.mark.parametrize(("arguments", "status"), CASES.values(), ids=[" ".join(case) for case in CASES])
def test_exit_codes(tmp_path, arguments, status):
    (tmp_path / "not-executable").touch()
    trainer(tmp_path).ends(20.0).write()  # run.parquet, of a job that leaks
    command = [sys.executable, "-m", "leakscope", *arguments]
    child = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert child.returncode == status, child.stderr
    assert "Traceback" not in child.stderr


def test_the_changelog_begins_with_this_version():
    headings = re.findall(r"^## (\S+)", CHANGELOG.read_text(encoding="utf-8"), re.MULTILINE)
    assert headings[0] == leakscope.__version__


if __name__ == "__main__":
    write()
