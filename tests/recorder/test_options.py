"""The words after ``record``: options, the environment, the command, and the help."""

from __future__ import annotations

import re
import subprocess

import pytest

from leakscope.agent import config
from leakscope.errors import BadInput
from leakscope.options import ATTACH_LACKS, RECORD_OPTIONS, parse_attach, parse_record

from .runs import PYTHON, environment


@pytest.mark.parametrize(
    "words",
    [
        ["-o", "a", "-i", "2s", "-f", "python", "t.py", "-o", "y"],
        ["-oa", "-fi2s", "--", "python", "t.py", "-o", "y"],
        ["--output=a", "--interval", "2", "--force", "python", "t.py", "-o", "y"],
    ],
)
def test_the_same_in_every_spelling(words: list[str]) -> None:
    options = parse_record(words, {})
    assert options.command == ("python", "t.py", "-o", "y")
    assert (options.output, options.interval_s, options.force) == ("a", 2.0, True)


def test_defaults() -> None:
    options = parse_record(["true"], {})
    assert options._replace(command=()) == type(options)()


def test_words_that_mean_no_number() -> None:
    options = parse_record(["--fsync", "never", "--pss-interval", "auto", "-i", "auto", "true"], {})
    assert (options.fsync_s, options.pss_interval_s, options.interval_s) == (None, None, None)
    assert parse_record(["--fsync", "always", "true"], {}).fsync_s == 0.0


@pytest.mark.parametrize(("text", "fraction"), [("0.1%", 0.001), ("5", 0.05), ("1e1", 0.1)])
def test_a_share(text: str, fraction: float) -> None:
    assert parse_record(["--max-overhead", text, "true"], {}).max_overhead_fraction == pytest.approx(fraction)


@pytest.mark.parametrize("text", ["", "%", "much", "0", "-1", "51%", "nan", "inf", "1%%"])
def test_what_is_no_share(text: str) -> None:
    with pytest.raises(BadInput, match=r"^--max-overhead: "):
        parse_record(["--max-overhead", text, "true"], {})


def test_the_environment_stands_in_and_an_option_wins() -> None:
    environ = {
        "LEAKSCOPE_RECORD_INTERVAL": "5s",
        "LEAKSCOPE_RECORD_QUIET": "1",
        "LEAKSCOPE_RECORD_NO_SNAPSHOTS": "yes",
        "LEAKSCOPE_RECORD_FORCE": "0",
        "LEAKSCOPE_RECORD_LABEL": "a=1 b=2",
    }
    options = parse_record(["-i", "3s", "--label", "b=3", "true"], environ)
    assert (options.interval_s, options.quiet, options.takes, options.force) == (3.0, True, False, False)
    assert options.labels == {"a": "1", "b": "3"}
    with pytest.raises(BadInput, match="LEAKSCOPE_RECORD_QUIET: 'maybe' is neither 1 nor 0"):
        parse_record(["true"], {"LEAKSCOPE_RECORD_QUIET": "maybe"})


def test_names_that_options_had_before_go_on_working_unseen() -> None:
    assert parse_record(["--no-takes", "true"], {}).takes is False
    assert parse_record(["true"], {"LEAKSCOPE_RECORD_NO_TAKES": "1"}).takes is False


def test_processes_that_run_already_stand_in_for_a_command() -> None:
    assert parse_record(["-p", "42", "--pid=43", "-p42"], {}).pids == (42, 43)
    assert parse_record([], {"LEAKSCOPE_RECORD_PID": "42 43"}).pids == (42, 43)
    assert parse_record(["--system"], {}).attaches
    assert parse_record(["--find-training"], {}).find_training
    with pytest.raises(BadInput, match="'train' is not a process id: write it like 4242"):
        parse_record(["-p", "train"], {})
    with pytest.raises(BadInput, match="one of these: a command, -p PID"):
        parse_record(["-p", "42", "python", "train.py"], {})


def test_attach_takes_process_ids_and_options_in_any_order() -> None:
    options = parse_attach(["42", "-d", "1m", "43", "--quiet", "42"], {})
    assert (options.pids, options.duration_s, options.quiet, options.attaches) == ((42, 43), 60.0, True, True)
    with pytest.raises(BadInput, match="'train' is not a process id"):
        parse_attach(["train"], {})
    with pytest.raises(BadInput, match="attach needs a process id"):
        parse_attach([], {})
    with pytest.raises(BadInput, match="attach has no option --tee"):
        parse_attach(["--tee", "42"], {})


@pytest.mark.parametrize(
    ("typed", "meant"),
    [("--outputt", "--output"), ("--max-overhed", "--max-overhead"), ("--nosnapshots", "--no-snapshots")],
)
def test_who_mistypes_an_option_is_told_what_it_may_be(typed: str, meant: str) -> None:
    with pytest.raises(BadInput, match=f"record has no option {typed}: did you mean {meant}"):
        parse_record([typed, "x"], {})


@pytest.mark.live
@pytest.mark.parametrize("command", ["record", "attach"])
def test_help_names_every_option_and_needs_no_command(command: str) -> None:
    result = subprocess.run(
        [PYTHON, "-m", "leakscope", command, "--help"], env=environment(COLUMNS="72"), capture_output=True, text=True
    )
    assert (result.returncode, result.stderr) == (0, "")
    shown = [option for option in RECORD_OPTIONS if option.group]
    lacks = ATTACH_LACKS if command == "attach" else ()
    for option in shown:
        is_listed = re.search(rf"(?m)^  (-\w, )?{option.flags[-1]}\b", result.stdout) is not None
        assert is_listed is (option.field not in lacks), option.flags
    assert "--no-takes" not in result.stdout
    assert max(map(len, result.stdout.splitlines())) <= 72


def test_the_agent_does_by_itself_what_the_options_say() -> None:
    """An option that is the agent's to follow has its name there, and the agent's own default is that of the option."""
    options = parse_record(["train.py"])._asdict()
    shared = {name: default for name, default in config.DEFAULTS.items() if name in options}
    assert shared == {name: options[name] for name in shared}
    assert {"flush_s", "max_overhead_fraction", "max_pause_s", "takes", "sampling"} <= shared.keys()
