"""Sketches of large containers: the same rows show alike in any form, no text leaves, no code of the job runs."""

from __future__ import annotations

import json
import pickle
import random
import sys
from array import array
from collections import OrderedDict, deque
from collections.abc import Callable
from functools import lru_cache
from typing import Any

import numpy as np
import pytest

from leakscope.agent.graph import sketch

from ..sketching import sketched, told_of

COUNT = 2000
WORDS = ["".join(random.Random(i).choices("abcdefghij", k=2 + i % 7)) for i in range(3000)]


@lru_cache(20_000)
def words(seed: int, length: int) -> list[str]:
    return random.Random(seed).choices(WORDS, k=length)


def sentence(seed: int, length: int) -> str:
    """The same words each time, and never the same object."""
    return " ".join(words(seed, length))


def records(count: int = COUNT) -> list[dict[str, Any]]:
    return [{"id": i, "question": sentence(i, 8 + i % 30), "answer": sentence(-i - 1, 30)} for i in range(count)]


def formatted(rows: list[dict[str, Any]]) -> list[str]:
    return [f"### Instruction:\n{r['question']}\n\n### Response:\n{r['answer']}<|end|>" for r in rows]


def form_and_rows(obj: Any) -> tuple[str, dict[int, tuple[int, int, set[int]]]]:
    found = sketched(obj)
    assert found is not None
    return found[1], {at: (size, address, set(h)) for at, size, address, *h in json.loads(found[2])}


def agreement(a: Any, b: Any) -> float:
    """Share of the hashes of either that the other has, at the same rows."""
    _, first = form_and_rows(a)
    _, second = form_and_rows(b)
    shares = []
    for at in first.keys() & second.keys():
        x, y = first[at][2], second[at][2]
        limit = min(max(x), max(y))
        x, y = {h for h in x if h <= limit}, {h for h in y if h <= limit}
        shares.append(len(x & y) / min(len(x), len(y)))
    assert len(shares) >= 8
    return sum(shares) / len(shares)


def sparse(rows: list[dict[str, Any]]) -> dict[int, dict[str, Any]]:
    """A table of which two places in three are those of rows that are gone."""
    kept: dict[int, Any] = {}
    for row in rows:
        kept[-2 * row["id"] - 1] = kept[-2 * row["id"] - 2] = None
        kept[row["id"]] = row
    for row in rows:
        del kept[-2 * row["id"] - 1], kept[-2 * row["id"] - 2]
    return kept


class Example:
    def __init__(self, question: str, answer: str) -> None:
        self.question = question
        self.answer = answer


OTHER_FORMS: dict[str, Callable[[list[dict[str, Any]]], Any]] = {
    "formatted": formatted,
    "tuples": lambda rows: [(r["question"], r["answer"]) for r in rows],
    "nested": lambda rows: [
        {"messages": [{"role": "user", "content": f"{r['question']} {r['answer']}"}]} for r in rows
    ],
    "lines": lambda rows: [json.dumps(r) for r in rows],
    "bytes": lambda rows: [text.encode() for text in formatted(rows)],
    "objects": lambda rows: [Example(r["question"], r["answer"]) for r in rows],
    "by-key": lambda rows: {str(r["id"]): r for r in rows},
    "by-key, sparse": sparse,
    "ordered": lambda rows: OrderedDict((r["id"], r) for r in rows),
    "deque": lambda rows: deque(formatted(rows)),
    "array of objects": lambda rows: np.array(formatted(rows), dtype=object),
    "array of strings": lambda rows: np.array(formatted(rows)),
    "block of columns": lambda rows: np.array([[r[key] for r in rows] for key in ("question", "answer")], dtype=object),
}


@pytest.mark.cases(2)
@pytest.mark.parametrize("name", OTHER_FORMS)
def test_the_same_rows_are_alike_in_every_form(name: str) -> None:
    assert agreement(records(), OTHER_FORMS[name](records())) > 0.6


def test_long_documents_are_alike_behind_a_long_prompt() -> None:
    documents = [sentence(i, 500) for i in range(COUNT)]
    prompt = sentence(-7, 80)
    assert agreement(documents, [f"{prompt}\n{document}" for document in documents]) > 0.6


def test_scripts_without_spaces_are_compared_too() -> None:
    texts = ["".join(chr(0x4E00 + c) for c in random.Random(i).choices(range(3000), k=80)) for i in range(COUNT)]
    assert agreement(texts, [f"問題：\n{text}" for text in texts]) > 0.6


def test_other_rows_are_not_alike() -> None:
    others = formatted(
        [{"question": sentence(i + 10**6, 20), "answer": sentence(-i - 10**6, 30)} for i in range(COUNT)]
    )
    assert agreement(records(), others) < 0.1


def test_a_second_list_of_the_same_objects_is_the_same_memory() -> None:
    rows = records()
    _, first = form_and_rows(rows)
    _, second = form_and_rows(list(rows))
    _, texts = form_and_rows([r["answer"] if len(r["answer"]) > len(r["question"]) else r["question"] for r in rows])
    assert [r[1] for r in first.values()] == [r[1] for r in second.values()] == [r[1] for r in texts.values()]
    _, copied = form_and_rows(records())
    assert not {r[1] for r in first.values()} & {r[1] for r in copied.values()}


@pytest.mark.parametrize(
    "row_of",
    [
        lambda ids: ids,
        lambda ids: {"input_ids": ids, "attention_mask": [1] * len(ids)},
        lambda ids: array("q", ids),
        lambda ids: np.array(ids),
        lambda ids: ids + [0] * (64 - len(ids)),
    ],
    ids=["list", "dict", "array", "numpy", "padded"],
)
def test_token_ids_show_their_lengths(row_of) -> None:
    lengths = [5 + i * 7 % 40 for i in range(COUNT)]
    rows = [row_of(random.Random(i).choices(range(1, 30000), k=n)) for i, n in enumerate(lengths)]
    form, found = form_and_rows(rows)
    assert form == sketch.TOKEN_IDS
    assert {at: size for at, (size, _, _) in found.items()} == {at: lengths[at] for at in found}


@pytest.mark.parametrize("as_tensors", [False, True], ids=["lists", "tensors"])
def test_numbers_that_may_be_characters_show_all_their_lengths(as_tensors: bool) -> None:
    """As they are: with a repeated last letter, which is padding nowhere but in a tokenised row."""
    texts = [sentence(i, 3 + i % 9) + "!!!" for i in range(COUNT)]
    rows: list[Any] = [[ord(letter) - 32 for letter in text] for text in texts]
    if as_tensors:
        torch = pytest.importorskip("torch")
        rows = [torch.tensor(row) for row in rows]
    found = sketched(rows, {id(row): (1, len(row)) for row in rows} if as_tensors else None)
    assert found is not None and found[1] == sketch.INTEGERS
    sizes = {at: size for at, size, *_ in json.loads(found[2])}
    assert sizes == {at: len(texts[at]) for at in sizes}


@pytest.mark.parametrize(
    "rows",
    [
        [[i % 9, 3, k % 5] for i, k in zip(range(COUNT), range(COUNT))],  # tags of words
        [float(i) for i in range(COUNT)],
        list(range(COUNT)),
        [bytearray(100) for _ in range(COUNT)],
        [object() for _ in range(COUNT)],
        np.zeros((20, 8)),
        ["only a few"] * 10,
    ],
    ids=["tags", "floats", "integers", "buffers", "objects", "few rows", "short"],
)
def test_what_has_neither_text_nor_tokens_has_no_sketch(rows) -> None:
    assert sketched(rows) is None


def test_no_text_leaves_the_process() -> None:
    found = sketched(records())
    assert found is not None
    assert set(found[2]) <= set("0123456789[],"), "numbers only"
    assert len(found[2]) < 8000


def test_nothing_of_the_job_runs_and_nothing_is_kept() -> None:
    class Hostile(dict):  # type: ignore[type-arg]
        def _never(self, *_: Any) -> Any:
            raise AssertionError("code of the job was run")

        __getattr__ = __iter__ = __getitem__ = __len__ = __eq__ = __hash__ = __bool__ = _never  # type: ignore
        items = values = keys = _never  # type: ignore

    class Words(str):
        def encode(self, *_: Any) -> Any:
            raise AssertionError("code of the job was run")

    rows = [Hostile(text=sentence(i, 20), other=Words("a b c d")) for i in range(COUNT)]
    before = sys.getrefcount(rows), sys.getrefcount(rows[0]), sys.getrefcount(rows[-1])
    found = sketched(rows)  # by itself: what an assertion looks at is kept by it
    assert found is not None
    assert (sys.getrefcount(rows), sys.getrefcount(rows[0]), sys.getrefcount(rows[-1])) == before


class Slotted(dict):  # type: ignore[type-arg]
    pass


def ids(row: int, count: int = 40) -> list[int]:
    return random.Random(row).choices(range(-9, 1 << 35), k=count)


OF_INTEGERS = (
    "ids", "ids in dicts", "ids of 4 bytes", "signed", "every second", "lines of a table", "columns of a table",
    "letters",
)  # fmt: skip
MORE_FORMS: dict[str, Callable[[], Any]] = {
    "ids": lambda: [ids(i) for i in range(COUNT)],
    "ids in dicts": lambda: [{"ids": ids(i), "other": None} for i in range(COUNT)],
    "ids of 4 bytes": lambda: [array("i", (one & 0xFFFF for one in ids(i, 90))) for i in range(COUNT)],
    "signed": lambda: [np.array(ids(i)).astype("i2") for i in range(COUNT)],
    "every second": lambda: [np.array(ids(i, 80)).astype("u4")[::2] for i in range(COUNT)],
    "lines of a table": lambda: np.array([ids(i) for i in range(COUNT)]),
    "columns of a table": lambda: np.asfortranarray(np.array([ids(i) for i in range(COUNT)]).astype("i4")),
    "letters": lambda: [[*map(ord, sentence(i, 20)), None, 7] for i in range(COUNT)],
    "images": lambda: [bytes([200]) + bytes(i % 50 for i in range(n, n + 500)) for n in range(COUNT)],
    "bytes of an array": lambda: np.array([sentence(i, 30).encode() for i in range(COUNT)]),
    "rows of strings": lambda: np.array([[sentence(i, 9), sentence(-i, 9)] for i in range(COUNT)]),
    "wide": lambda: ["\U0001f600\u0416 \xdf " + sentence(i, 50) for i in range(COUNT)],
    "long": lambda: [sentence(i, 1500) for i in range(1000)],
    "of classes": lambda: [Slotted(text=[(sentence(i, 20), None, 1.5)]) for i in range(COUNT)],
    "deep": lambda: [[[[[sentence(i, 50)]]], [[["x" * 99]]]] for i in range(COUNT)],
}


TOKENS, TEXTS = sketch.TOKEN_IDS, (sketch.RECORDS, sketch.STRINGS)


@pytest.mark.cases(2)
@pytest.mark.parametrize("name", MORE_FORMS)
def test_rows_of_many_forms_are_read(name: str) -> None:
    found = sketched(MORE_FORMS[name]())
    assert found is not None
    rows, form, content = found
    assert rows in (COUNT, 1000)
    assert form in ((TOKENS, sketch.INTEGERS) if name in OF_INTEGERS else TEXTS)
    sizes = [size for _, size, *_ in json.loads(content)]
    assert len(sizes) in (8, 12) and all(sizes)


TABLE = np.random.default_rng(5).gamma(2.0, 3.0, (COUNT, 14))
OF_THE_TABLE: dict[str, Callable[[], Any]] = {
    "another type": lambda: TABLE.astype(np.float32),
    "another layout": lambda: np.asfortranarray(TABLE),
    "columns as rows": lambda: np.ascontiguousarray(TABLE.T),
    "scaled": lambda: (TABLE - TABLE.mean(axis=0)) / TABLE.std(axis=0),
    "half precision": lambda: TABLE.astype(np.float16),
}


def ranks_of(array: Any) -> list[str]:
    found = sketched(array)
    assert found is not None and found[1] == sketch.NUMERIC and found[0] == COUNT
    return [ranks for _, ranks, _ in json.loads(found[2])]


@pytest.mark.parametrize("other", OF_THE_TABLE)
def test_a_table_has_one_order_in_any_type_layout_and_scale(other: str) -> None:
    own, others = ranks_of(TABLE), ranks_of(OF_THE_TABLE[other]())
    same = sum(x == y for a, b in zip(own, others) for x, y in zip(a, b))
    assert same >= 0.8 * sum(map(len, own))  # float16 makes some of them equal, and those behind them have less


def test_first_rows_are_found_again_where_some_are_left_out() -> None:
    found = [sketched(array) for array in (TABLE, TABLE[np.arange(COUNT) % 9 != 4])]
    first, second = ([heads for _, _, heads in json.loads(one[2])] for one in found if one is not None)
    for a, b in zip(first, second):
        hashes, others = ({text[i : i + 4] for i in range(0, len(text), 4)} for text in (a, b))
        assert len(hashes & others) >= 20


def test_of_numbers_only_their_order_and_hashes_leave_the_process() -> None:
    secret = np.full((COUNT, 3), 123456.0)
    found = sketched(secret)
    assert found is not None
    assert "123456" not in found[2] and len(found[2]) < 600


@pytest.mark.parametrize(
    "of",
    [
        lambda table: table[: COUNT // 2],
        lambda table: table[::-1],
        lambda table: table[:, :4].copy().reshape(COUNT // 2, 2, 4),
        lambda table: table[:, 3:9],
        lambda table: np.broadcast_to(table[0], (COUNT, 14)),
    ],
    ids=["rows", "backwards", "reshaped", "columns", "broadcast"],
)
def test_a_view_shows_numbers_of_its_array_and_nothing_else(of: Callable[[Any], Any]) -> None:
    view = of(TABLE.copy())
    found = sketched(view)
    if found is not None:
        lines = [json.loads(found[2])[0][1]]
        column = np.asarray(view).reshape(view.shape[0], -1)[:, 0]
        spread = [column[len(column) // 25 * (i + 1)] for i in range(24)]
        assert lines[0] == sketch._ranks(spread)


def test_memory_that_is_not_an_arrays_own_is_not_read(tmp_path: Any) -> None:
    """A file may have become shorter: reading on would end the job."""
    TABLE.tofile(tmp_path / "table.bin")
    mapped = np.memmap(tmp_path / "table.bin", dtype=np.float64, mode="r", shape=TABLE.shape)
    assert sketched(mapped) is None
    assert sketched(np.asarray(mapped)) is None
    assert sketched(np.frombuffer(bytearray(TABLE.tobytes())).reshape(TABLE.shape)) is None, "it may become shorter"


def test_an_array_that_was_unpickled_shows_its_numbers() -> None:
    """Its memory is that of bytes, as in a process that was sent it."""
    assert ranks_of(pickle.loads(pickle.dumps(TABLE, protocol=4))) == ranks_of(TABLE)


# ---- how economically it is held


CITIES = [f"city number {number}" for number in range(20)]


class Parcel:
    def __init__(self, city: str, note: str) -> None:
        self.city = city
        self.note = note


def text_fields(obj: Any) -> dict[str | None, tuple[int, int, int]]:
    rows = [one for one in told_of(obj) if one["table"] == "text_fields"]
    return {one["field"]: (one["text_count"], one["own_count"], one["alone_count"]) for one in rows}


def fresh(text: str) -> str:
    return "".join(list(text))


def city(number: int) -> str:
    return CITIES[number * 7919 % len(CITIES)]


@pytest.mark.parametrize(
    "rows",
    [
        lambda: [Parcel(fresh(city(i)), f"note {i}") for i in range(COUNT)],
        lambda: [{"city": fresh(city(i)), "note": f"note {i}"} for i in range(COUNT)],
        lambda: {i: {"city": fresh(city(i)), "note": f"note {i}"} for i in range(COUNT)},
    ],
)
def test_texts_that_equal_others_are_counted_by_field(rows: Callable[[], Any]) -> None:
    assert text_fields(rows()) == {"city": (512, 512, 0), "note": (512, 512, 512)}


def test_texts_that_are_shared_have_no_memory_of_their_own() -> None:
    count, own, _ = text_fields([Parcel(city(i), "") for i in range(COUNT)])["city"]
    assert (count, own) == (512, len(CITIES))


def test_texts_in_an_array_of_objects_are_counted() -> None:
    assert text_fields(np.array([fresh(city(i)) for i in range(COUNT)], dtype=object)) == {None: (512, 512, 0)}


def share_of(obj: Any, column: str) -> float | None:
    (found,) = [one for one in told_of(obj) if one["table"] == "data_forms"]
    return found[column]


@pytest.mark.parametrize("dtype", [np.int64, np.float32])
@pytest.mark.parametrize("side", [1, -1])
def test_padding_is_told_from_what_it_fills_up(dtype: Any, side: int) -> None:
    table = np.zeros((COUNT, 200), dtype=dtype)
    for row, length in zip(table, np.random.default_rng(3).integers(5, 120, COUNT)):
        row[:length] = np.random.default_rng(int(length)).integers(1, 9999, length)
    share = share_of(np.ascontiguousarray(table[:, ::side]), "padded_share")
    assert share == pytest.approx(float((table == 0).mean()), abs=0.12)


@pytest.mark.parametrize("kind", ["one of many", "mask", "half filled", "full"])
def test_numbers_that_are_often_the_same_are_no_padding(kind: str) -> None:
    rng = np.random.default_rng(5)
    tables = {
        "one of many": np.eye(200)[rng.integers(0, 200, COUNT)],
        "mask": (rng.random((COUNT, 200)) < 0.1).astype(np.float64),
        "half filled": np.vstack([rng.random((COUNT // 2, 200)), np.zeros((COUNT // 2, 200))]),
        "full": rng.random((COUNT, 200)),
    }
    assert (share_of(tables[kind], "padded_share") or 0.0) < 0.1


@pytest.mark.parametrize("step", [1, 4])
def test_windows_of_one_series_repeat_each_other(step: int) -> None:
    series = np.random.default_rng(7).random(COUNT * step + 100)
    windows = np.stack([series[i * step : i * step + 100] for i in range(COUNT)])
    assert share_of(windows, "repeated_share") == pytest.approx(1 - step / 100)
    assert share_of(np.random.default_rng(7).random((COUNT, 100)), "repeated_share") is None
    assert share_of(np.tile(np.arange(100.0), (COUNT, 1)), "repeated_share") is None
