"""Copies of data: found by their text, told from other data, from views of the same rows, and from labels."""

from __future__ import annotations

import functools
import random
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from ..sentences import says
from ..sketching import sketched
from .asking import asked
from .leaks import PID, MiB, trainer

FILE = "/home/me/train.py"
SOURCE = """\
def main():
    examples = load("rows.jsonl")
    texts = [render(example) for example in examples]
    ids = [tokenize(text) for text in texts]
    train(ids)
"""
WORDS = ["".join(random.Random(i).choices("abcdefghij", k=2 + i % 7)) for i in range(3000)]
COUNT = 1500


def sentence(seed: int, length: int) -> str:
    return " ".join(random.Random(seed).choices(WORDS, k=length))


def records(seed: int = 0, count: int = COUNT) -> list[dict[str, str]]:
    return [{"q": sentence(seed + i, 8 + i * 7 % 30), "a": sentence(seed - i - 1, 30)} for i in range(count)]


def formatted(rows: Sequence[dict[str, str]]) -> list[str]:
    return [f"You are a helpful assistant, answer briefly.\n### {r['q']}\n### {r['a']}" for r in rows]


def tokenized(texts: Sequence[str]) -> list[list[int]]:
    return [[hash(word) % 30000 for word in text.split()] for text in texts]


def looked(
    tmp_path, megabytes: int = 20, in_library: str = "", form: str = "", source: str = SOURCE, line: int | None = None,
    references: int | None = None, **containers: Any,
):  # fmt: skip
    """Findings and what was ruled out, of a trainer whose main() holds these containers.

    ``in_library``: one that only a call into a library holds. ``form``: of the last one, as older recordings tell.
    ``line``: at which main() was seen. ``references``: to each container.
    """
    builder = trainer(tmp_path, leak=0).source(PID, FILE, source)
    owner = {"owner": "main", "owner_module": "__main__", "owner_file": FILE, "owner_line": 1, "is_user": True}
    holders, forms = [], []
    for name, obj in containers.items():
        place = {"path": f"main() {name}", "type_name": type(obj).__name__, "deep_bytes": megabytes * MiB}
        held = {**owner, **place, "parent_path": "main()", "edge_kind": "local", "variable": name}
        held |= {"reference_count": references} if references is not None else {}
        if name == in_library:
            of_library = {"owner": "read", "owner_module": "pandas.core.frame", "owner_file": "/lib/pandas/frame.py"}
            held |= {"path": f"read() {name}", "parent_path": "read()", "is_user": False, **of_library}
        holders.append(held)
        found = sketched(obj)
        if found is not None:
            found = (found[0], form, found[2]) if form and name == [*containers][-1] else found
            node, told = builder.node(PID, place["path"]), ("row_count", "data_form", "content_sketch")
            forms.append({"node": node, "deep_bytes": megabytes * MiB, **dict(zip(told, found))})
    for number, reason in ((1, "schedule"), (2, "exit")):  # at the exit the locals of main() are gone
        seen = {"seen_lines": f"{FILE}:{line} main"} if line is not None else {}
        builder.take(PID, number, 5.0 * number, reason=reason, holders=holders if number == 1 else None, **seen)
    for form in forms:
        builder.row("data_forms", 5.0, PID, take=1, **form)
    report = asked(builder.open(), only=["dataset-copies"])
    return report.findings, report.ruled_out


def test_each_form_is_named_with_its_cost(tmp_path):
    examples = records()
    texts = formatted(examples)
    (finding,), _ = looked(tmp_path, examples=examples, texts=texts, ids=tokenized(texts))
    assert finding.wasted
    assert finding.bytes == 2 * 20 * MiB, "all but one"
    assert finding.confidence >= 0.85
    assert all(name in finding.title for name in ("main() examples", "main() texts", "main() ids"))
    assert (finding.subject.file, finding.subject.line, finding.subject.variable) == (FILE, 2, "examples")
    assert any("tokens" in doubt and "main() ids" in doubt for doubt in finding.doubts)
    assert "40.0 MiB if main() ids (list) is enough" in finding.remedy[0]


READ_AT_THE_END = """\
def main():
    examples = load("rows.jsonl")
    texts = [render(example) for example in examples]
    train(texts)
    if wanted():
        export(examples)
"""


def test_that_a_line_to_come_may_read_a_form_is_said_and_speaks_against_waste(tmp_path):
    for line in (4, 7):
        (tmp_path / str(line)).mkdir()
    rows = records()
    forms = {"examples": rows, "texts": formatted(rows)}
    ((before,), _), ((after,), _) = (
        looked(tmp_path / str(line), source=READ_AT_THE_END, line=line, **forms) for line in (4, 7)
    )
    assert any("train.py:6 in main(), which has not run yet, may read it" in one.text for one in before.evidence)
    assert before.confidence < after.confidence


GIVEN = """\
def main():
    examples = load("rows.jsonl")
    texts = [render(example) for example in examples]
    index.build(examples)
    while True:
        train(texts)
"""


def test_who_was_given_a_form_has_kept_it_only_if_something_else_refers_to_it(tmp_path):
    for count in (1, 2):
        (tmp_path / str(count)).mkdir()
    rows = records()
    forms = {"examples": rows, "texts": formatted(rows)}
    ((gone,), _), ((kept,), _) = (
        looked(tmp_path / str(count), source=GIVEN, line=6, references=count, **forms) for count in (1, 2)
    )
    assert [says(one.remedy[0], "release main() examples") for one in (gone, kept)] == [True, False]
    assert says(gone.title, "20.0 MiB more than needed") and gone.bytes == 20 * MiB


def test_a_split_is_known_as_parts_of_the_whole(tmp_path):
    examples = records(count=2500)
    texts = formatted(examples)
    (finding,), _ = looked(tmp_path, examples=examples, train=texts[:1300], held_out=texts[1300:])
    assert all(name in finding.title for name in ("main() examples", "main() train", "main() held_out"))


def test_a_few_rows_left_out_do_not_hide_the_copy(tmp_path):
    examples = records()
    kept = [row for i, row in enumerate(examples) if i % 60 != 30]
    (finding,), _ = looked(tmp_path, examples=examples, texts=formatted(kept))
    assert finding.confidence > 0.8


def test_tokens_beside_their_text_are_a_suspicion(tmp_path):
    texts = formatted(records())
    (finding,), _ = looked(tmp_path, texts=texts, ids=tokenized(texts))
    assert finding.confidence < 0.6
    assert (finding.subject.variable, finding.subject.line) == ("texts", 3), "the form that the other is made from"
    assert any("if the text is still read" in doubt for doubt in finding.doubts)


def test_a_text_and_its_characters_as_numbers_are_forms_of_the_same(tmp_path):
    texts = [sentence(i, 3 + i % 9) for i in range(COUNT)]
    numbers = [[ord(letter) - 32 for letter in text] for text in texts]
    marked = [[1, *row, 2] for row in numbers]
    (finding,), _ = looked(tmp_path, texts=texts, numbers=numbers, marked=marked)
    assert "in 3 forms" in finding.title and finding.confidence < 0.6


@functools.cache
def innocents() -> dict[str, dict[str, Any]]:
    examples = records()
    texts = formatted(examples)
    shuffled = list(texts)
    random.Random(1).shuffle(shuffled)
    few = WORDS[:12]
    small = [[" ".join(random.Random(k + i).choices(few, k=40)) for i in range(COUNT)] for k in (0, 10**6)]
    words = [sentence(i, 5 + i * 7 % 40).split() for i in range(COUNT)]
    long = [" ".join(texts[i : i + 20 + i * 7 % 10]) for i in range(COUNT)]
    sound = [np.arange(20 * len(text), dtype=np.int16) for text in texts]
    return {
        "one": {"examples": examples},
        "train and validation": {"train": texts, "validation": formatted(records(10**6))},
        "of few words": {"train": small[0], "validation": small[1]},
        "views": {"examples": examples, "again": list(examples), "first": examples[:2000]},
        "column of the same objects": {"examples": examples, "answers": [row["a"] for row in examples]},
        "shuffled": {"texts": texts, "shuffled": shuffled},
        "labels": {"texts": texts, "labels": [i % 7 for i in range(COUNT)]},
        "tags of words": {"words": words, "tags": [[hash(w) % 17 for w in row] for row in words]},
        "classes of characters, some left out": {
            "texts": texts,
            "classes": [[ord(letter) % 20 for letter in text if letter != "e"] for text in texts],
        },
        "sound and transcript": {"texts": texts, "sound": sound},
        "where sentences begin": {
            "texts": long,
            "begins": [list(range(i % 90, len(text), 90)) for i, text in enumerate(long)],
        },
        "numbers of a few rows": {
            "texts": long,
            "numbers": [list(range(len(text) // 4)) if i < 3 else [] for i, text in enumerate(long)],
        },
        "padded to one length": {"texts": texts, "pixels": [list(range(200)) for _ in texts]},
    }


@pytest.mark.cases(2)
@pytest.mark.parametrize("name", innocents())
def test_innocent_data_is_ruled_out(tmp_path, name):
    findings, (ruled_out,) = looked(tmp_path, **innocents()[name])
    assert not findings, findings[0].title
    assert "no two with the same rows" in ruled_out.reason


def test_a_form_that_a_library_is_making_at_this_moment_is_ruled_out(tmp_path):
    examples = records()
    findings, _ = looked(tmp_path, in_library="result", examples=examples, result=formatted(examples))
    assert not findings, findings[0].title


@pytest.mark.parametrize(
    "how",
    [
        {"role": "python-spawn", "cmdline": FILE},
        {"cmdline": "/usr/bin/python3 -u /home/me/train.py --lr 1", "born_s": 2.0},
    ],
)
@pytest.mark.parametrize(("seed", "count"), [(0, 1), (10_000, 0)])
@pytest.mark.parametrize("known_as", ["examples", "rows"])
def test_a_table_that_each_spawned_process_loads_is_there_once_too_often(tmp_path, seed, count, how, known_as):
    """By its content, not by its name and size: each of two ranks may read its own part of the data."""
    builder = trainer(tmp_path, leak=0).source(PID, FILE, SOURCE)
    builder.process(PID + 1, **how).samples(PID + 1, [200 * MiB] * 60, from_s=how.get("born_s", 0.0))
    builder.source(PID + 1, FILE, SOURCE)
    place = {"path": "main() examples", "type_name": "list", "deep_bytes": 60 * MiB, "parent_path": "main()"}
    name = {"owner": "main", "owner_module": "__main__", "owner_file": FILE, "owner_line": 1, "is_user": True}
    for pid, rows in ((PID, records()), (PID + 1, records(seed))):
        variable = known_as if pid == PID + 1 else "examples"
        place["path"] = f"main() {variable}"
        builder.take(pid, 1, 5.0, holders=[{**place, **name, "edge_kind": "local", "variable": variable}])
        told = dict(zip(("row_count", "data_form", "content_sketch"), sketched(rows)))
        node = builder.node(pid, place["path"])
        builder.row("data_forms", 5.0, pid, take=1, node=node, deep_bytes=60 * MiB, **told)
    findings = asked(builder.open(), only=["dataset-copies"]).findings
    assert len(findings) == count
    for finding in findings:
        assert "each of 2 processes" in finding.title.lower() and finding.bytes == 60 * MiB
        assert (finding.subject.file, finding.subject.line) == (FILE, 2)


CACHED = """\
from torch.utils.data import DataLoader

class Clips:
    def __init__(self):
        self.decoded = {}

    def __getitem__(self, at):
        clip = self.decoded.get(at)
        if clip is None%s:
            clip = self.decoded[at] = decode(at)
        return clip

def main():
    for batch in DataLoader(Clips(), num_workers=2, shuffle=%s):
        train(batch)
"""


@pytest.mark.parametrize(
    ("limit", "shuffle", "lengths", "count"),
    [
        ("", "True", (900, 900), 1),
        ("", "True", (700, 900), 0),  # it goes on: each may have others yet
        ("", "False", (900, 900), 0),  # each worker is asked for its own batches
        (" and len(self.decoded) < 900", "True", (900, 900), 0),  # which came first
    ],
)
def test_a_full_cache_that_each_loader_worker_has_is_there_once_too_often(tmp_path, limit, shuffle, lengths, count):
    builder = trainer(tmp_path, leak=0).source(PID, FILE, CACHED % (limit, shuffle))
    place = {"path": "main() data.decoded", "type_name": "dict", "deep_bytes": 60 * MiB, "edge_kind": "attribute"}
    name = {"owner": "Clips", "owner_module": "__main__", "owner_file": FILE, "is_user": True, "variable": "decoded"}
    for pid in (PID + 1, PID + 2):
        builder.process(pid, ppid=PID, role="dataloader-worker", born_s=1.0).note(pid, 1.0, "forked", "by a DataLoader")
        builder.samples(pid, [200 * MiB] * 60, from_s=1.0).source(pid, FILE, CACHED % (limit, shuffle))
        for number, length in enumerate(lengths, 1):
            builder.take(pid, number, 2.0 * number, holders=[{**place, **name, "length": length}])
    findings = asked(builder.open(), only=["dataset-copies"]).findings
    assert [finding.bytes for finding in findings] == [60 * MiB] * count
    assert all("each of 2 processes" in finding.title.lower() for finding in findings)


def test_small_copies_are_nobodys_problem(tmp_path):
    examples = records()
    findings, _ = looked(tmp_path, megabytes=5, examples=examples, texts=formatted(examples))
    assert not findings


def test_columns_that_begin_with_the_same_lines_are_no_copies(tmp_path):
    """All else in them is one word for every row, which tells nothing."""
    train, held_out = (
        [f"Exported from {'our tool'}", "split of the row", *(f"{word} set" for _ in range(count))]
        for word, count in (("training", 1500), ("validation", 1900))
    )
    findings, _ = looked(tmp_path, train=train, held_out=held_out)
    assert not findings, findings[0].title


def test_mapped_files_are_no_copies(tmp_path):
    texts = formatted(records())
    for name in "ab":
        tmp_path.joinpath(name).mkdir()
    assert looked(tmp_path / "a", form="arrow-table", texts=texts, table=formatted(records()))[0], "in memory it is one"
    assert not looked(tmp_path / "b", form="arrow-mapped", texts=texts, table=formatted(records()))[0]


def test_a_program_without_data_says_so(tmp_path):
    findings, (ruled_out,) = looked(tmp_path)
    assert not findings
    assert "no large container" in ruled_out.reason


TABLE = np.random.default_rng(11).gamma(2.0, 3.0, (4000, 10))


def test_stages_of_a_table_are_forms_of_one_content(tmp_path):
    clean = np.nan_to_num(TABLE)
    clipped = np.clip(clean, None, 8.0)
    scaled = ((clipped - clipped.mean(axis=0)) / clipped.std(axis=0)).astype(np.float32)
    (finding,), _ = looked(tmp_path, raw=TABLE, clean=clean, clipped=clipped, scaled=scaled)
    assert "in 4 forms" in finding.title and finding.confidence > 0.8
    assert finding.bytes == 3 * 20 * MiB


def test_rows_left_out_of_a_table_do_not_hide_the_copy(tmp_path):
    kept = TABLE[np.arange(len(TABLE)) % 40 != 7]
    (finding,), _ = looked(tmp_path, raw=TABLE, complete=kept.copy())
    assert all(name in finding.title for name in ("main() raw", "main() complete"))


def tables() -> dict[str, dict[str, Any]]:
    rng = np.random.default_rng(12)
    walk = np.cumsum(np.abs(rng.normal(size=(4000, 3))), axis=0)
    return {
        "train and validation": {"train": TABLE, "validation": rng.gamma(2.0, 3.0, (4000, 10))},
        "states and what follows": {"states": TABLE[:-1].copy(), "following": TABLE[1:].copy()},
        "what only rises": {"sent_s": walk, "received_s": walk + rng.random(walk.shape)},
        "classes": {"truth": rng.integers(0, 4, (4000, 8)).astype(np.float32), "guess": np.zeros((4000, 8))},
        "what a model predicts": {"targets": TABLE, "predicted": TABLE + rng.normal(0.0, 2.0, TABLE.shape)},
        "views": {"table": (table := TABLE.copy()), "columns": table.T, "part": table[:, :6]},
        "nothing written yet": {"one": np.zeros((4000, 10)), "other": np.zeros((4000, 10))},
    }


@pytest.mark.parametrize("name", tables())
def test_innocent_tables_are_ruled_out(tmp_path, name):
    findings, _ = looked(tmp_path, **tables()[name])
    assert not findings, findings[0].title


def test_tables_that_only_have_their_order_in_common_are_no_forms_of_one(tmp_path):
    """Who scales a table by one factor after the other, or ranks it, wants all of the results."""
    results = {f"by_{factor}": TABLE * (1 + factor / 10) for factor in range(1, 5)}
    ranks = TABLE.argsort(axis=0).argsort(axis=0).astype(np.float64)
    (tmp_path / "a").mkdir(), (tmp_path / "b").mkdir()
    findings, _ = looked(tmp_path / "a", table=TABLE, ranks=ranks, **results)
    assert not findings, findings[0].title
    (finding,), _ = looked(tmp_path / "b", table=TABLE, ranks=ranks, **results, again=TABLE.astype(np.float32))
    assert "in 2 forms" in finding.title and "main() table" in finding.title and "main() again" in finding.title
