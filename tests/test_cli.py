"""The command line as a person meets it: what is printed where, and the exit status."""

from __future__ import annotations

import fcntl
import json
import subprocess
import sys
import types

import click
import pytest

import leakscope
from leakscope import cli, schema
from leakscope.cli import main
from leakscope.findings import Finding, RecordingFacts, Report, Subject, Verdict
from leakscope.renderers import names as renderer_names
from tests.builders import RecordingBuilder

CALL_MAIN = "import sys; from leakscope.cli import main; sys.exit(main())"


@pytest.fixture
def run(tmp_path):
    """A finalised recording."""
    return RecordingBuilder(tmp_path).process(100).samples(100, rss=[1, 2]).ends().write()


@pytest.fixture
def asked(monkeypatch):
    """Stands for the analyzers and renderers: a report with one finding of the severity ``asked.severity``."""
    asked = types.SimpleNamespace(severity="warning", only=(), text="\x1b[1mgrows\x1b[0m")

    def analyze(recording, only=None, **options):
        asked.only = only
        facts = RecordingFacts(str(recording.path), ["python"], "", 1.0, "exit", 0, None, 1, 0, True)
        finding = Finding("native-growth", "it grows", asked.severity, 0.9, 1, Subject())
        return Report(facts, Verdict(True, False, "it grows", 1), findings=[finding])

    def render(report, name, **options):
        return json.dumps({"format": name}) if name == "json" else asked.text

    monkeypatch.setitem(sys.modules, "leakscope.reporting", types.SimpleNamespace(analyze=analyze))
    monkeypatch.setitem(sys.modules, "leakscope.renderers", types.SimpleNamespace(render=render))
    for name in renderer_names():
        suffix = {"terminal": ".txt"}.get(name, f".{name}")
        monkeypatch.setitem(sys.modules, f"leakscope.renderers.{name}", types.SimpleNamespace(SUFFIX=suffix))
    return asked


def test_report_prints_and_exits_with_0(run, asked, capsys):
    assert main(["report", str(run)]) == 0
    assert capsys.readouterr() == ("grows\n", "")


@pytest.mark.parametrize(("severity", "status"), [("critical", 1), ("warning", 1), ("note", 0)])
@pytest.mark.parametrize("format_name", ["json", "terminal"])
def test_exit_code_depends_on_severity_and_never_on_the_format(run, asked, severity, status, format_name):
    asked.severity = severity
    assert main(["report", str(run), "--exit-code", "--format", format_name]) == status
    assert main(["report", str(run), "--format", format_name]) == 0


def test_the_output_file_implies_the_format(run, asked, tmp_path, capsys):
    assert main(["report", str(run), "-o", str(tmp_path / "x.json")]) == 0
    assert json.loads((tmp_path / "x.json").read_text()) == {"format": "json"}
    assert main(["report", str(run), "-o", str(tmp_path / "x.txt")]) == 0
    assert (tmp_path / "x.txt").read_text() == "grows", "no colours in a file"
    assert capsys.readouterr() == ("", "")


def test_colours_on_request(run, asked, capsys):
    assert main(["report", str(run), "--color"]) == 0
    assert capsys.readouterr().out.startswith("\x1b[1m")


def test_only_reaches_the_analyzers(run, asked):
    main(["report", str(run)])
    assert asked.only is None
    main(["report", str(run), "--only", "crash", "--only", "oom-kill"])
    assert asked.only == ("crash", "oom-kill")


def test_a_report_never_overwrites_its_recording(run, asked, capsys):
    before = run.read_bytes()
    assert main(["report", str(run), "--format", "json", "-o", str(run)]) == 2
    assert "is the recording itself" in capsys.readouterr().err
    assert run.read_bytes() == before


@pytest.mark.parametrize(
    ("arguments", "status", "line"),
    [
        (["report", "nowhere.parquet"], 3, "there is no file nowhere.parquet"),
        (["finalize", "nowhere.parquet"], 3, "there is no recording at nowhere.parquet"),
        (["report"], 3, "there is no file run.parquet"),
        (["report", "x", "--format", "docx"], 2, "'docx' is not one of"),
        (["report", "x", "-o", "x.docx"], 2, "no format is known by '.docx'"),
        (["report", "x", "--frob"], 2, "No such option"),
        (["frob"], 2, "No such command 'frob'"),
        (["schema", "xml"], 2, "'xml' is not one of"),
    ],
)
def test_wrong_use_is_one_line(asked, capsys, arguments, status, line):
    assert main(arguments) == status
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("leakscope: ")
    assert line in err
    assert err.count("\n") == 1


@pytest.mark.parametrize(
    ("words", "hint"),
    [
        (["{folder}"], "leakscope report {folder}"),
        (["fleet", "{folder}"], "leakscope fleet index {folder}"),
        (["fleet", "report", "{folder}"], "leakscope fleet index {folder}"),
        (["report", "{folder}/none.parquet"], "leakscope record -o {folder}/none.parquet -- COMMAND"),
    ],
)
def test_what_was_meant_is_said(words, hint, tmp_path, capsys):
    assert main([word.format(folder=tmp_path) for word in words]) in (2, 3)
    (line,) = capsys.readouterr().err.splitlines()
    assert hint.format(folder=tmp_path) in line


def test_an_option_for_colour_comes_before_the_environment(run, capsys, monkeypatch):
    monkeypatch.setenv("NO_COLOR", "1")
    assert main(["report", str(run), "--color"]) == 0
    assert "\x1b[" in capsys.readouterr().out


def test_an_output_that_cannot_be_written(run, asked, tmp_path, capsys):
    assert main(["report", str(run), "-o", str(tmp_path / "no" / "x.json")]) == 2
    assert capsys.readouterr().err == f"leakscope: {tmp_path}/no/x.json: No such file or directory\n"


def test_finalize(tmp_path, capsys):
    builder = RecordingBuilder(tmp_path).process(100).ends()
    builder.write_journal()
    assert main(["finalize", str(builder.path), "--checkpoint", "--quiet"]) == 0
    assert builder.journal.exists()
    assert main(["finalize", str(builder.path)]) == 0
    assert not builder.journal.exists()
    out, err = capsys.readouterr()
    assert out == ""
    assert "is up to date" in err
    assert err.count("\n") == 1


def test_finalize_refuses_a_live_recording(tmp_path, capsys):
    builder = RecordingBuilder(tmp_path).process(100)
    builder.write_journal()
    with open(builder.journal / "lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        assert main(["finalize", str(builder.path)]) == 2
    assert "still being recorded" in capsys.readouterr().err


@pytest.mark.live
def test_finalising_stays_light(tmp_path):
    builder = RecordingBuilder(tmp_path).process(100).samples(100, rss=[1, 2]).ends()
    builder.write_journal()
    program = (
        "import sys; from leakscope.cli import main; status = main(['finalize', '-q', sys.argv[1]]);"
        "assert 'pandas' not in sys.modules; sys.exit(status)"
    )
    assert subprocess.run([sys.executable, "-c", program, str(builder.path)], check=False).returncode == 0
    assert builder.path.exists()


def test_schema_names_every_column(capsys):
    assert main(["schema"]) == 0
    text = capsys.readouterr().out
    assert main(["schema", "json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert {t["name"] for t in document["tables"]} == set(schema.TABLES)
    for table in schema.TABLES.values():
        assert f"## {table.name}\n" in text
        assert all(f"| `{c.name}` | {c.type} | {c.unit} |" in text for c in table.columns)


def test_help_names_the_commands(capsys):
    assert main([]) == main(["--help"]) == 0
    text = capsys.readouterr().out
    assert all(f"  {name} " in text for name in ("record", "report", "finalize", "schema"))


def test_version(capsys):
    assert main(["--version"]) == 0
    assert leakscope.__version__ in capsys.readouterr().out


@pytest.mark.live
def test_a_reader_that_leaves_early_is_no_error():
    child = subprocess.Popen(
        [sys.executable, "-c", CALL_MAIN, "schema"], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    child.stdout.close()
    assert child.stderr.read() == b""
    child.stderr.close()
    assert child.wait() == 0


@pytest.mark.live
def test_a_full_disk_behind_stdout_is_one_line():
    with open("/dev/full", "w") as full:
        child = subprocess.run(
            [sys.executable, "-c", CALL_MAIN, "schema"], stdout=full, stderr=subprocess.PIPE, text=True, check=False
        )
    assert child.returncode == 2
    assert child.stderr == "leakscope: output: No space left on device\n"


class TestMark:
    """``leakscope.mark`` in a user's program."""

    def test_outside_a_recording_it_does_nothing(self):
        assert leakscope.mark(step=1, phase="train", label="x") is None

    def test_it_reaches_the_agent(self, monkeypatch):
        seen = []
        monkeypatch.setitem(sys.modules, "_leakscope_agent", types.SimpleNamespace(mark=lambda *a: seen.append(a)))
        leakscope.mark(step=3, label="warm")
        assert seen == [(3, None, "warm")]

    def test_an_agent_that_is_being_loaded_is_no_error(self, monkeypatch):
        monkeypatch.setitem(sys.modules, "_leakscope_agent", types.SimpleNamespace())
        leakscope.mark(step=3)


@pytest.mark.parametrize("name", sorted(cli.cli.commands))
def test_help_fits_the_terminal_and_ends_with_examples(name, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "70")
    assert main([name, "--help"]) == 0
    shown = capsys.readouterr().out
    assert max(map(len, shown.splitlines())) <= 70
    examples = shown.partition("\nExamples:\n")[2]
    assert f"leakscope {name}" in examples


def test_help_says_the_order_of_work_and_has_every_command_once(capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "110")
    assert main(["--help"]) == 0
    shown = capsys.readouterr().out
    steps = [shown.index(f"  leakscope {name}") for name in ("record", "report", "heap", "compare", "check")]
    assert steps == sorted(steps)
    listed = [line.split()[0] for line in shown.splitlines() if line[:2] == "  " and line[2:3].islower()]
    assert sorted(name for name in listed if name != "leakscope") == sorted(cli.cli.commands)


@pytest.mark.parametrize(
    ("typed", "found"),
    [
        ("rep", "report"),
        ("record --no-sn", "--no-snapshots"),
        ("record --agent o", "off"),
        ("attach --dur", "--duration"),
        ("check --form", "--format"),
        ("vi", "view"),
        ("view --no", "--no-browser"),
        ("watch --pl", "--plain"),
    ],
)
def test_a_shell_completes_commands_and_options(typed, found, capsys, monkeypatch):
    monkeypatch.setenv("_LEAKSCOPE_COMPLETE", "bash_complete")
    monkeypatch.setenv("COMP_WORDS", f"leakscope {typed}")
    monkeypatch.setenv("COMP_CWORD", str(len(typed.split())))
    with pytest.raises(SystemExit):
        main([])
    assert capsys.readouterr().out.split() == [f"plain,{found}"]


def test_what_follows_the_options_of_record_is_completed_as_files(capsys, monkeypatch):
    monkeypatch.setenv("_LEAKSCOPE_COMPLETE", "bash_complete")
    monkeypatch.setenv("COMP_WORDS", "leakscope record -- python tr")
    monkeypatch.setenv("COMP_CWORD", "4")
    with pytest.raises(SystemExit):
        main([])
    assert capsys.readouterr().out.split() == ["file,tr"]


@pytest.mark.parametrize("shell", ["zsh", "fish"])
def test_completion_prints_a_script(shell, capsys):
    assert main(["completion", shell]) == 0
    assert f"{shell}_complete" in capsys.readouterr().out


def test_formats_have_one_name_in_all_commands():
    formats = {}
    for name, command in cli.cli.commands.items():
        for param in command.params:
            if "--format" in param.opts and name != "export":  # whose formats are those of other tools
                formats[name] = set(param.type.choices)
    assert set.union(*formats.values()) == {"brief", "github", "html", "json", "junit", "markdown", "sarif", "terminal"}
    assert all("json" in names for names in formats.values())
    asked = cli.cli.commands["doctor"].make_context("doctor", ["-f", "text"])  # as it was called before
    assert asked.params["format_name"] == "terminal"


def test_a_command_keeps_its_short_help_whoever_asked_first() -> None:
    command = cli.cli.commands["doctor"]
    alone = click.Context(command, info_name="doctor")
    assert "-h, --help" in command.get_help(alone)


@pytest.mark.parametrize("there", [["live.parquet"], ["live.parquet", "other.parquet"]], ids=["one", "several"])
def test_watch_finds_the_only_run_that_is_recorded_here(there, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    for name in there:
        (tmp_path / f"{name}.journal").mkdir()
    assert main(["watch", "--plain"]) != 0
    assert (there[0] if len(there) == 1 else "run.parquet") in capsys.readouterr().err
