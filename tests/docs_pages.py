"""Pages of docs/ that are made from the program: docstrings of the analyzers and renderers, schemas, help texts.

Nothing is written by hand in them: what a page should say better, the docstring it comes from says better. The other
pages of docs/ are written by hand; tests/test_docs.py fills their sections.
"""

from __future__ import annotations

import ast
import importlib
import inspect
import json
import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import click

import leakscope
from leakscope import cli, redacting, schema
from leakscope.agent import masking
from leakscope.analyzers import kinds
from leakscope.kinds import Kind
from leakscope.renderers import names
from leakscope.renderers._markdown import code, head, row
from leakscope.storage import describe
from leakscope.units import GiB, KiB, MiB
from leakscope.words import in_markdown
from tests import kind_reports
from tests.foreign.table import page as foreign_tests

ROOT = Path(__file__).parent.parent
FIXTURES = ROOT / "fixtures"
EXAMPLE = ROOT / "docs" / "example" / "run.parquet"
_HELP_COLUMNS = 100
_RULED_OUT = ("cyclic-garbage", "fd-pileup", "thread-pileup")  # of the example
_CODE = re.compile(
    r"`([^`]+)`|([\w.]*\w_\w[\w.=:]*\w(?:\(\))?|\b__\w+__\b|(?:(?<!\w)\.|\b)[a-z][\w.]*\(\)(?:\.\w+\(\))*)"
)


_SIZES = (("GiB", GiB), ("MiB", MiB), ("KiB", KiB))


class Threshold(NamedTuple):
    name: str
    default: float
    reason: str


def pages() -> dict[str, str]:
    """Path below docs/ and text of every page."""
    return {
        "reference/commands.md": _commands(),
        "reference/outputs.md": _outputs(),
        "reference/recording.md": describe.as_markdown(),
        "reference/privacy.md": _privacy(),
        "reference/report.md": _report("report"),
        "reference/job-report.md": _report("job"),
        "reference/fleet-report.md": _report("fleet"),
        "development/foreign-tests.md": foreign_tests(),  # measured: shown as the last runs left it
        "reference/decisions.md": _decisions(),
        **{f"kinds/{kind.name}.md": _kind(kind) for kind in kinds().values()},
    }


def table(titles: tuple[str, ...], rows: list[tuple[str, ...]]) -> str:
    return "\n".join([head(titles), *map(row, rows)]) + "\n"


def kinds_table() -> str:
    """Every kind with what it claims."""
    rows = [(f"[`{kind.name}`](kinds/{kind.name}.md)", prose(kind.summary)) for kind in kinds().values()]
    return table(("finding", "what it says"), rows)


def outputs_table() -> str:
    rows = [(code(name), code(f"-o FILE{suffix}"), summary) for name, suffix, summary, _ in _renderers()]
    return table(("format", "or by the file's name", "what for"), rows)


def prose(sentences: str) -> str:
    """A docstring's words with its identifiers as code."""
    parts, end = [], 0
    for match in _CODE.finditer(sentences):
        parts += [in_markdown(sentences[end : match.start()]), code(match[1] or match[2])]
        end = match.end()
    return "".join([*parts, in_markdown(sentences[end:])])


def example() -> str:
    """The report of a committed recording, shortened to what does not change when a diagnosis is added."""
    report = leakscope.analyze(leakscope.open_recording(EXAMPLE))
    short = replace(
        report,
        recording=replace(report.recording, path="run.parquet"),
        findings=report.findings[:1],
        ruled_out=[one for one in report.ruled_out if one.kind in _RULED_OUT],
        skipped=[one for one in report.skipped if one.kind.startswith("gpu-")],
        tensor_budget=(),
    )
    return f"```\n{leakscope.render(short, 'terminal', color=False, width=100).rstrip()}\n```\n"


def _privacy() -> str:
    carried = {kind: [] for kind in schema.CARRIES}
    for table_ in schema.TABLES.values():
        for column in table_.columns:
            if column.carries:
                carried[column.carries].append(f"{table_.name}.{column.name}")
    footer = {kind: [n for n, k in schema.FOOTER_CARRIES.items() if k == kind] for kind in schema.CARRIES}
    rows = [
        (in_markdown(meaning), ", ".join(map(code, carried[kind])), ", ".join(map(code, footer[kind])))
        for kind, meaning in schema.CARRIES.items()
    ]
    return f"""# What a recording holds of yours

A recording holds figures, and the texts of this table. Of values it holds fingerprints, to find the same data twice:
32 numbers of each large tensor (`weights.fingerprint`), and hashes of words of some rows of large containers
(`data_forms.content_sketch`). Of the environment it holds what says where it belongs (`belongs`, `labels`: job, rank,
pod, commit), of files the sources of your modules, and nothing else. It holds no address of a webhook, no command of
`--on-alert` and no login of a URL. Only their owner can read the file and its journal. leakscope sends nothing anywhere
but where you ask it to: alerts to a webhook, a recording to the URL of `-o`.

{table(("texts", "columns", "in the footer"), rows)}
## What is masked as it is recorded

{_paragraphs(masking)}

Masking knows secrets by their looks, so it is no promise: a password that is a plain word, given as a bare argument or
as a message's last word, looks like any other word.

## `--no-source`

leakscope records no text of the program: no sources, no lines of source in tracebacks, in warnings and in the guards of
torch.compile, and no text of `python -c TEXT`. Names of variables, functions, classes, types and files remain: reports
need them. A report then names the line that creates objects, not the line that adds them.

## `leakscope redact RUN -o FILE`

{_paragraphs(redacting)}
"""


def _paragraphs(module: Any) -> str:
    return (inspect.getdoc(module) or "").replace("``", "`")


def _kind(kind: Kind) -> str:
    """A real report with its picture, and the code before and after, as ``kind_reports`` left them."""
    path = kind_reports.REPORTS / f"{kind.name}.txt"
    excerpt = path.read_text(encoding="utf-8") if path.exists() else ""  # of a new one `make docs` makes it first
    has_picture = (kind_reports.REPORTS / f"{kind.name}.svg").exists()
    change = kind_reports.before_and_after(kind.name)
    paragraphs = [
        f"# `{kind.name}`",
        prose(kind.summary),
        f"## A report\n\n{kind_reports.alone(kind.name)}```text\n{excerpt}```" if excerpt else "",
        f"![Memory over time in this recording](reports/{kind.name}.svg)" if has_picture else "",
        f"## Before and after\n\n```diff\n{change}```" if change else "",
        f"## Why it matters\n\n{_capital(prose(kind.why))}",
        f"## When it is mistaken\n\n{_capital(prose(kind.mistaken_when))}",
        f"## What to do\n\n{_capital(prose(kind.do))}",
        f"[How it is decided](../reference/decisions.md#{kind.name}) · [All kinds](../findings.md)",
    ]
    return "\n\n".join(part for part in paragraphs if part) + "\n"


def _decisions() -> str:
    """What each kind looks for, by which figures it is decided, and which of them a caller may change."""
    sections = [
        "# How each kind of finding is decided",
        'Thresholds are options of the Python call: `leakscope.analyze(recording, thresholds={"min_workers": 3})`.',
    ]
    for kind in kinds().values():
        sections += [
            f"## {kind.name}",
            f"Looks for {prose(kind.looks_for)}",
            _capital(prose(kind.decides_by)),
            prose(kind.remarks),
            *_thresholds(kind),
        ]
    return "\n\n".join(part for part in sections if part) + "\n"


def _thresholds(kind: Kind) -> Iterator[str]:
    needs, thresholds = _analyzer(kind)
    if needs:
        links = " and ".join(f"[`{name}`](recording.md#{name})" for name in needs)
        yield f"It needs a recording with {links}. Without them the report lists it under *Not checked*."
    if thresholds:
        rows = [(code(t.name), _value(t.default), prose(t.reason)) for t in thresholds]
        yield table(("threshold", "default", "reason"), rows).rstrip()


def _value(default: float) -> str:
    """1 MiB for bytes, and any other number as it is."""
    whole = (f"{default // size:.0f} {unit}" for unit, size in _SIZES if default >= size and default % size == 0)
    return code(next(whole, repr(default)))


def _analyzer(kind: Kind) -> tuple[tuple[str, ...], list[Threshold]]:
    """NEEDS of the analyzer, and its thresholds with the reasons that stand behind them."""
    module = importlib.import_module(f"leakscope.analyzers.{kind.name.replace('-', '_')}")
    source = inspect.getsource(module)
    lines, thresholds = source.splitlines(), []
    for node in ast.parse(source).body:
        if isinstance(node, ast.FunctionDef) and node.name == "findings":
            for argument, default in zip(node.args.kwonlyargs, node.args.kw_defaults):
                if argument.arg != "so_far" and default is not None:
                    reason = lines[argument.lineno - 1].partition("#")[2].strip()
                    thresholds.append(Threshold(argument.arg, module.findings.__kwdefaults__[argument.arg], reason))
    return module.NEEDS, thresholds


def _renderers() -> Iterator[tuple[str, str, str, str]]:
    """(name, suffix, first sentence, the rest) of every format."""
    for name in names():
        module = importlib.import_module(f"leakscope.renderers.{name}")
        first, _, rest = inspect.getdoc(module).replace("``", "`").partition("\n\n")
        yield name, module.SUFFIX, " ".join(first.split()), rest


def _outputs() -> str:
    sections = ["# Outputs", "`leakscope report RUN --format NAME`, or `-o FILE`, whose name implies the format."]
    for name, suffix, summary, rest in _renderers():
        sections += [f"## `{name}`", f"{summary} File names end in `{suffix}`.", rest]
    return "\n\n".join(part for part in sections if part) + "\n"


def _commands() -> str:
    sections = ["# Commands"]
    for name, command in _all_commands(cli.cli):
        context = click.Context(
            command,
            info_name=f"leakscope {name}",
            terminal_width=_HELP_COLUMNS,
            help_option_names=["-h", "--help"],
        )
        sections += [f"## `leakscope {name}`", f"```\n{command.get_help(context).rstrip()}\n```"]
    return "\n\n".join(sections) + "\n"


def _all_commands(group: click.Group, before: str = "") -> Iterator[tuple[str, click.Command]]:
    """With those of a group behind it."""
    for name in sorted(group.commands):
        command = group.commands[name]
        yield f"{before}{name}", command
        if isinstance(command, click.Group):
            yield from _all_commands(command, f"{before}{name} ")


def _report(name: str) -> str:
    schema = json.loads((ROOT / "leakscope" / f"{name}-schema.json").read_text(encoding="utf-8"))
    of = {"report": "The report", "job": "The report of a job", "fleet": "The report of a fleet"}[name]
    sections = [
        f"# {of}, `{schema['title']}`",
        schema["description"],
        f"`leakscope schema {name}` prints the same as a JSON Schema.",
        _fields(schema),
    ]
    for name, definition in schema["$defs"].items():
        sections += [f"## {name}", _fields(definition)]
    return "\n\n".join(section.rstrip() for section in sections) + "\n"


def _fields(definition: dict[str, Any]) -> str:
    rows = [(code(name), _type(field), field["description"]) for name, field in definition["properties"].items()]
    return table(("field", "type", "meaning"), rows)


def _type(field: dict[str, Any]) -> str:
    if "$ref" in field:
        name = field["$ref"].rpartition("/")[2]
        return f"[{name}](#{name})"
    if "anyOf" in field:
        return " or ".join(map(_type, field["anyOf"]))
    if "enum" in field:
        return ", ".join(map(code, field["enum"]))
    if "const" in field:
        return code(field["const"])
    if field["type"] == "array":
        return f"list of {_type(field['items'])}"
    return field["type"] if isinstance(field["type"], str) else " or ".join(field["type"])


def _capital(sentence: str) -> str:
    return sentence[:1].upper() + sentence[1:]
