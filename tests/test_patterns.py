"""No regular expression of ours takes more than its share of time, whatever the text: a job's threads wait for it."""

from __future__ import annotations

import re
import time
from collections.abc import Callable

import pytest

from leakscope.agent.masking import LONGEST, Masker

from . import patterns
from .patterns import Found

# What once took minutes, one by one, and texts that make work for plain code: many names, values, quotes, addresses.
PUMPS = (
    "sk-", "A_", "mysql ", "mysql -p ", "://", "http://u:", "http://a:b@", "a", "['", "x['y'].", "python -c ", " ",
    "\n", "key=", "key='", "password for x is ", "password: ", "--token ", "token\n", "a_key=b",
    "bearer ", "?key=",
    "'", '"', "aB3", "kX9vQ2mZ7pL4wR8tB3nY6cJ1 ", "A1b2_", "-----BEGIN ", "-----BEGIN PRIVATE KEY-----\n", "-----END ",
    "eyJ.",
    'File "x", line 1, in f\n', "  File", "sshpass -p", "SG.aaaaaaaaaaaaaaaaa.", "hf_a", "-pythona -", "1 | ", "=",
)  # fmt: skip


def slower(found: list[Found], most: int) -> list[str]:
    names = []
    for one in found:
        grown = patterns.worst(one, most=most)
        if grown is not None:
            names.append(f"{one.where}: {grown[0]:.0f} times too much for {grown[2]}: {one.pattern!r}")
    return names


@pytest.mark.slow
def test_the_work_of_every_pattern_grows_as_its_text_does() -> None:
    assert not slower(patterns.found(), 400)


@pytest.mark.slow
def test_a_mebibyte_takes_no_pattern_longer_than_its_length_says() -> None:
    sizes = (*patterns.SIZES, 1 << 20)
    found = patterns.found()
    assert not [one.where for one in found if patterns.worst(one, sizes, most=12) is not None]


def test_the_work_of_the_patterns_that_run_inside_the_job_grows_as_their_text_does() -> None:
    found = [one for one in patterns.found() if one.where.startswith("leakscope/agent/")]
    assert len(found) > 30
    assert not slower(found, 20)


@pytest.mark.parametrize(
    ("pattern", "method"),
    [
        (r"sk-(?=[\w-]*[0-9])[\w-]{16,}", "search"),
        (r"\s+# .*", "sub"),
        (r"(a+)+b", "match"),
        (r"(\w+_)?(add|put)(_\w+)?$", "match"),
        (r",a=(.*?),b=", "search"),
        (rb"[0-9]+ bytes", "finditer"),
    ],
)
def test_a_pattern_that_is_worse_is_found(pattern: str | bytes, method: str) -> None:
    used = method if method == "match" else "finditer"
    assert patterns.worst(Found("here", pattern, 0, frozenset([used]))) is not None


def test_all_that_the_package_compiles_is_among_those_that_are_measured() -> None:
    """Counted another way: by the word."""
    found = {one.where.split(":")[0] for one in patterns.found()}
    for file in patterns.PACKAGE.rglob("*.py"):
        calls = re.findall(r"\bre\.(?:compile|match|search|fullmatch|sub|split|findall|finditer)\(", file.read_text())
        name = str(file.relative_to(patterns.PACKAGE.parent))
        assert name in found or not calls or name == "leakscope/agent/masking.py", name


def _kinds(masker: Masker) -> dict[str, Callable[[str], str]]:
    return {
        "name": masker.name, "free text": masker.free_text, "source": masker.source, "way": masker.way,
        "command": masker.command_line,
    }  # fmt: skip


def _cost_s(clean: Callable[[str], str], pump: str, length: int) -> float:
    text = (pump * (length // len(pump) + 1))[:length]
    began_s = time.thread_time()
    clean(text)
    return time.thread_time() - began_s


def test_no_text_costs_a_masker_more_than_its_length() -> None:
    """As the whole: also where several patterns, or loops of ours, look at one text again and again."""
    worse = []
    for masker in (Masker(), Masker(sources=False)):
        for kind, clean in _kinds(masker).items():
            for pump in PUMPS:
                spent_s = _cost_s(clean, pump, LONGEST)
                assert spent_s < 0.2, (kind, pump)  # ten times what it takes on a machine that does much else
                if spent_s > 0.02:
                    spent_s = min(spent_s, _cost_s(clean, pump, LONGEST))
                    shorter_s = min(_cost_s(clean, pump, LONGEST // 8) for _ in range(3))
                    if spent_s > 0.01 and spent_s > 2.5 * 8 * shorter_s:
                        worse.append((kind, pump, spent_s, shorter_s))
    assert not worse


def test_what_is_longer_than_any_text_of_ours_is_masked_whole_and_at_once() -> None:
    masker = Masker()
    secret = "sk_live_4eC39HqLyjWDarjtT1zdp7dc"
    for clean in (masker.name, masker.free_text, masker.way):
        assert re.fullmatch("masked_[0-9a-f]{6}", clean("word " * 300_000 + secret))
    began_s = time.thread_time()
    masker.free_text("sk-" * 3_000_000)
    assert time.thread_time() - began_s < 0.2


def test_a_text_with_more_in_it_than_can_be_judged_is_masked_whole() -> None:
    text = "\n".join(f"a_token=abcd{i}" for i in range(5000))[:LONGEST]
    assert re.fullmatch("masked_[0-9a-f]{6}", Masker().free_text(text))
    few = "\n".join(f"a_token=abcd1234{i}" for i in range(100))
    assert Masker().free_text(few).count("=masked_") == 100


def test_a_secret_of_a_source_is_masked_wherever_the_source_is_taken_apart() -> None:
    """It is looked through some lines at a time."""
    key = "-----BEGIN RSA PRIVATE KEY-----\n" + "MIIabc\n" * 400 + "-----END RSA PRIVATE KEY-----"
    for before in range(16000, 16500, 7):
        line = "x = 1  # padding\n"
        lead = (line * (before // len(line) + 1))[: before - before % len(line)]
        spread = f'{lead}connect(\n    "h",\n    password="tiger77"\n)\nKEY = """{key}"""\ny = 2\n'
        shown = Masker().source(spread + line * 2000)
        assert "tiger77" not in shown and "MIIabc" not in shown and shown.endswith(line)


def test_a_line_of_data_in_a_source_is_masked_and_the_others_stay() -> None:
    data = "DATA = '" + "kX9vQ2mZ7p" * 20_000 + "'\n"
    shown = Masker().source("import os\n" + data + "def f():\n    return os\n")
    assert shown.startswith("import os\n") and shown.endswith("def f():\n    return os\n")
    assert shown.count("\n") == 4 and "kX9vQ2mZ7p" not in shown
