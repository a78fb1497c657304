"""Live objects, looked at with objgraph and pympler; one clear line where they are missing."""

from __future__ import annotations

import gc
import sys
from typing import Any

import pytest

from leakscope import deep
from leakscope.errors import BadInput


class Kept:
    pass


class Holder:
    def __init__(self, kept: Kept) -> None:
        self.members: Any = {"first": [kept]}


HOLDER: Holder | None = None


@pytest.fixture
def kept():
    global HOLDER
    gc.unfreeze()  # what conftest.py froze, this module too, nobody finds as a referrer
    kept = Kept()
    HOLDER = Holder(kept)
    yield kept
    HOLDER = None


@pytest.mark.slow
def test_the_way_from_a_module_is_written_as_code(kept: Kept):
    pytest.importorskip("objgraph")
    chain = deep.chain_to(kept)
    assert chain is not None
    assert chain.endswith("HOLDER.members['first'][0]")


def test_what_only_a_function_holds_has_no_way():
    pytest.importorskip("objgraph")
    assert deep.chain_to(Kept()) is None


@pytest.mark.further
def test_growth_counts_what_came_since_the_last_call():
    pytest.importorskip("objgraph")
    deep.growth()
    more = [Kept() for _ in range(500)]
    grown = deep.growth(limit=50).set_index("type")
    assert grown.loc["Kept", "gained"] == len(more)


def test_sizes_follow_what_a_holder_refers_to():
    pytest.importorskip("pympler")
    sizes = deep.sizes({"small": [1], "history": [bytearray(1000) for _ in range(100)]})
    assert list(sizes["name"]) == ["history", "small"]
    assert sizes["size_bytes"][0] > 100_000


@pytest.mark.further
def test_a_graph_is_written_without_graphviz(tmp_path, kept: Kept):
    pytest.importorskip("objgraph")
    deep.graph(kept, tmp_path / "kept.dot")
    assert "Kept" in (tmp_path / "kept.dot").read_text()


def test_a_picture_without_graphviz_is_one_clear_line(tmp_path, monkeypatch, kept: Kept):
    pytest.importorskip("objgraph")
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(BadInput, match=r"install graphviz, or name a file that ends in \.dot"):
        deep.graph(kept, tmp_path / "kept.png")


@pytest.mark.parametrize(
    ("package", "call"), [("objgraph", deep.growth), ("pympler.asizeof", lambda: deep.sizes({"a": []}))]
)
def test_a_missing_package_is_named_with_its_remedy(monkeypatch, package: str, call: Any):
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(BadInput, match=rf"{package.split('.')[0]}.*pip install objgraph pympler"):
        call()
