"""Links between nodes that lead round in a circle, as in a file that somebody wrote by hand."""

from __future__ import annotations

from pathlib import Path

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from leakscope.facts.heap.graph import graph_places
from leakscope.facts.heap.place import Place
from tests.builders import RecordingBuilder

NUMBERS = range(6, 12)
LINKS = st.lists(st.tuples(st.sampled_from(NUMBERS), st.sampled_from(NUMBERS)), min_size=6, max_size=6)
KINDS = st.sampled_from(["key", "index", "attribute", "namespace", "cell", "local"])
TYPES = st.sampled_from(["dict", "list", "cell", "module", "frame", "store.Entry"])


@given(LINKS, LINKS, st.lists(KINDS, min_size=6, max_size=6), st.lists(TYPES, min_size=6, max_size=6))
@settings(max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_whoever_goes_up_arrives(
    tmp_path: Path, first: list[tuple[int, int]], second: list[tuple[int, int]], kinds: list[str], types: list[str]
) -> None:
    builder = RecordingBuilder(tmp_path, "run.parquet").process(100).samples(100, [100 << 20] * 30)
    for take, (at_s, links) in enumerate(((5.0, first), (25.0, second))):
        for node, (above, dominator), kind, of in zip(NUMBERS, links, kinds, types):
            builder.row(
                "heap_nodes", at_s, 100, take=take, node=node, path_node=above, dominator_node=dominator,
                edge_kind=kind, edge_name="name", type_name=of, root_kind="module", retained_bytes=node << 20,
                shallow_bytes=100, is_named=True,
            )  # fmt: skip
        builder.row("heap_graphs", at_s, 100, take=take, node_count=100, retained_bytes=20 << 20)
    for place in graph_places(builder.ends(at_s=30.0, exit_code=0).open(), 100, [0, 1]):
        assert is_root(place, "parent") and is_root(place, "named_by")


def is_root(place: Place, link: str) -> bool:
    seen = set()
    at: Place | None = place
    while at is not None and id(at) not in seen:
        seen.add(id(at))
        at = getattr(at, link)
    return at is None
