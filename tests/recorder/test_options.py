"""The words after ``record``: options, the environment, the command, and the help."""

from __future__ import annotations

import subprocess

import pytest

from leakscope.errors import BadInput
from leakscope.options import RECORD_OPTIONS, parse_record, record_help

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
    assert "--no-snapshots" in record_help()
    assert "--no-takes" not in record_help()


def test_processes_that_run_already_stand_in_for_a_command() -> None:
    assert parse_record(["-p", "42", "--pid=43", "-p42"], {}).pids == (42, 43)
    assert parse_record([], {"LEAKSCOPE_RECORD_PID": "42 43"}).pids == (42, 43)
    assert parse_record(["--system"], {}).attaches
    assert parse_record(["--find-training"], {}).find_training
    with pytest.raises(BadInput, match="'train' is not a process id: write it like 4242"):
        parse_record(["-p", "train"], {})
    with pytest.raises(BadInput, match="one of these: a command, -p PID"):
        parse_record(["-p", "42", "python", "train.py"], {})


@pytest.mark.live
def test_help_names_every_option_and_needs_no_command() -> None:
    result = subprocess.run(
        [PYTHON, "-m", "leakscope", "record", "--help"], env=environment(), capture_output=True, text=True
    )
    assert (result.returncode, result.stderr) == (0, "")
    assert result.stdout == record_help()
    assert all(flag in result.stdout for option in RECORD_OPTIONS for flag in option.flags)
