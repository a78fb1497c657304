"""What the user's variables hold at one snapshot, as rows of a bill: each with its parts, where it is much.

Tensors of a model and of its training are accounts of their own, and none of a variable's.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from ...findings import AGENT, DATA, BillRow
from ...storage import Recording
from ...units import MOST, SOME, MiB, over
from ..growth.processes import ProcessGrowth
from ..heap.comparable import whole_heap
from ..heap.forms import NUMERIC
from ..heap.graph import graph_places
from ..heap.owners import is_model, is_optimizer
from ..heap.place import FRAME, RUNNING, Place, upwards
from ..heap.standing import has_key, shared_table
from ..heap.tree import as_people_see_it
from ..tables import cells, only
from ..weights.named import named_sets
from .tensors import OWNERS

MODEL, ACTIVATIONS, USER_HELD = "model", "activations", "user-held"
_TENSOR = "torch.Tensor"
_WEIGHTS = [owner for owner, account in OWNERS.items() if account == MODEL]
LEAST_BYTES = MiB
MOST_PARTS, _MOST_DEPTH = 12, 6
_PARTED_SHARE = SOME  # of its process: what holds more is told with its parts
_LEAST_SHARE = 0.01  # of its process: less is told with others like it


class Holdings(NamedTuple):
    """``rows``: of each variable; ``models``: the outermost. ``tensors``: by what they are for, empty where nobody was
    asked. **Units** bytes; ``native_bytes`` of the rows are memory of C code, ``our_bytes`` are leakscope's own, and
    ``view_bytes`` are of tensors that show the memory of an array, which has them.
    """

    rows: list[BillRow]
    models: list[BillRow]
    tensors: dict[str, float]
    native_bytes: float
    our_bytes: float
    view_bytes: float


def holdings(recording: Recording, process: ProcessGrowth, take: int, private: float) -> Holdings:
    """At a snapshot of a process that had ``private`` bytes then."""
    known = graph_places(recording, process.pid, [take])
    places = as_people_see_it(known)
    tensors = process.rows("tensors")
    tensors = only(tensors, (tensors["take"] == take) & (tensors["moment"] == "take"))
    by_purpose: dict[str, float] = {}
    of_node: dict[int, float] = {}
    for node, device, owner, size in cells(tensors, "node", "device", "tensor_owner", "storage_bytes"):
        if node is not None:  # a row for each type of element
            of_node[int(node)] = of_node.get(int(node), 0.0) + float(size or 0)
        elif device == "cpu":
            account = OWNERS.get(str(owner), "other-tensors")
            by_purpose[account] = by_purpose.get(account, 0.0) + float(size or 0)
    is_asked = bool(by_purpose)
    views = _views_of_arrays(process, take, of_node)
    view_bytes = sum(of_node[node] for node in views)
    of_node |= dict.fromkeys(views, 0.0)
    if is_asked:
        by_purpose[USER_HELD] = max(0.0, by_purpose.get(USER_HELD, 0.0) - view_bytes)
    tops = [place for root in places if root.parent is None for place in _of_the_user(root)]
    told = _Told(process.label, private, of_node, is_asked, _other_ways(process, take, known))
    if is_asked:  # what a variable keeps of past steps is that variable's, and no longer a step's
        behind, of_steps = sum(map(told.behind, tops)), by_purpose.get(ACTIVATIONS, 0.0)
        kept = min(behind, of_steps)
        told = replace(told, of_behind=over(kept, behind))
        by_purpose |= {ACTIVATIONS: of_steps - kept, USER_HELD: by_purpose.get(USER_HELD, 0.0) + kept}
    rows = _alike(told.row(place, 0) for place in tops)
    large = [row for row in rows if row.bytes >= max(LEAST_BYTES, _LEAST_SHARE * private)]
    rest = sum(row.bytes for row in rows) - sum(row.bytes for row in large)
    if rest > 0:
        large.append(BillRow(DATA, "smaller variables", round(rest), process.label, True))
    native = sum(float(place.native_bytes[-1]) for place in tops)
    return Holdings(large, _models(recording, process, take), by_purpose, native, _of_agent(process, take), view_bytes)


def _views_of_arrays(process: ProcessGrowth, take: int, of_node: Mapping[int, float]) -> list[int]:
    """Tensors whose numbers are where those of an array are: made by ``torch.from_numpy``."""
    forms = process.rows("data_forms")
    forms = only(forms, (forms["take"] == take) & (forms["data_form"] == NUMERIC))
    begins = {int(node): json.loads(sketch)[0][0] for node, sketch in cells(forms, "node", "content_sketch")}
    of_arrays = {address for node, address in begins.items() if node not in of_node}
    return [node for node, address in begins.items() if node in of_node and address in of_arrays]


def _other_ways(process: ProcessGrowth, take: int, places: Iterable[Place]) -> dict[int, Place]:
    """{number of an object: a place on another way to it than its path}."""
    by_number = {number: place for place in places for number in place.numbers}
    nodes = process.rows("heap_nodes")
    nodes = only(nodes, (nodes["take"] == take) & nodes["also_node"].notna())
    return {int(node): by_number[also] for node, also in cells(nodes, "node", "also_node") if also in by_number}


def _of_the_user(place: Place) -> list[Place]:
    """The topmost places of the user's in it: below a running function or a module its variables.

    What no more than a running call refers to is the user's as well: somebody made it, and waits for it.
    """
    if (place.is_user and place.type_name not in (FRAME, "module")) or place.path == RUNNING:
        return [place]
    found = [one for child in place.children for one in _of_the_user(child)]
    is_in_call = place.parent is None and place.root_kind == "frame" and place.type_name != FRAME
    return found or ([place] if is_in_call or shared_table(place) is not None else [])


def _of_agent(process: ProcessGrowth, take: int) -> float:
    """What our own agent holds in there."""
    nodes = process.rows("heap_nodes")
    nodes = only(nodes, nodes["take"] == take)
    above = dict(cells(nodes, "node", "dominator_node"))
    ours = nodes["type_name"].map(lambda name: (name or "").startswith(f"{AGENT}."))
    held = dict(cells(only(nodes, ours), "node", "retained_bytes"))

    def is_inside(node: int | None) -> bool:
        while node is not None and (node := above.get(node)) is not None:
            if node in held:
                return True
        return False

    return sum(float(size or 0) for node, size in held.items() if not is_inside(node))


@dataclass(frozen=True)
class _Told:
    """How places are told: with what ``of_node`` says of tensors that are the user's own, by their objects' numbers.

    ``of_behind``: the share of what lies behind them, in autograd graphs, that is told of them.
    """

    process: str
    private: float
    of_node: Mapping[int, float]
    is_asked: bool  # torch, what its tensors are for
    other_ways: Mapping[int, Place]
    of_behind: float = 0.0

    def row(self, place: Place, depth: int) -> BillRow:
        carrier = self._carrier(place)
        size = self._bytes(place)
        parts = self._parts(carrier, size, depth) if size > _PARTED_SHARE * self.private and depth < _MOST_DEPTH else []
        known = shared_table(carrier) or _called(carrier)  # of a block that two tables have, a table
        return BillRow(
            DATA, known.said, round(size), self.process, True, round(float(place.error_bytes[-1])) or None,
            known.type_name if known.type_name != FRAME else None,
            round(float(carrier.length[-1])) if carrier.has_length else None,
            round(self._own_tensors(place)), parts, also=self._also(carrier, known),
        )  # fmt: skip

    def _also(self, place: Place, known: Place) -> str | None:
        """The other name by which it is held."""
        other = self.other_ways.get(place.node) if place.node is not None else None
        named = next((one for one in upwards(other, by_name=True) if one.has_users_name or has_key(one)), None)
        return named.said if named is not None and not known.said.startswith(named.said) else None

    def _parts(self, place: Place, size: float, depth: int) -> list[BillRow]:
        rows = _alike(self.row(child, depth + 1) for child in place.children)
        own = sum(self.of_node.get(number, 0.0) for number in place.numbers) if self.is_asked else 0.0
        members = [row for row in rows if row.name == f"{place.said}[*]"]
        if own and members:  # the tensors of members are told of their container
            rows[rows.index(members[0])] = replace(
                members[0], bytes=members[0].bytes + round(own), tensor_bytes=members[0].tensor_bytes + round(own)
            )
        rows = [row for row in rows if row.bytes >= self._least][:MOST_PARTS]
        of_users = {child.said for child in place.children if child.is_user or child.said.endswith("[*]")}
        is_inner = bool(rows) and rows[0].name not in of_users and rows[0].also is None
        if len(rows) == 1 and size - rows[0].bytes < self._least and is_inner:
            rows = list(rows[0].parts)  # how a library keeps it inside says nothing
        rest = round(size) - sum(row.bytes for row in rows)
        if not rows or rest < 0:
            return []
        return [*rows, BillRow(DATA, f"the rest of {place.said}", rest, self.process, True)] if rest else rows

    @property
    def _least(self) -> float:
        """Less is no row: it is told with others."""
        return _LEAST_SHARE * self.private

    def _carrier(self, place: Place) -> Place:
        """From an object to the one of the user's that has all of what it holds, but for what would be no row."""
        named = at = place
        while True:
            size = float(at.deep_bytes[-1])
            most = [c for c in at.children if size - c.deep_bytes[-1] < self._least < size and c.count[-1] == 1]
            if len(most) != 1:
                return named
            at = most[0]
            if at.is_user:
                named = at

    def _bytes(self, place: Place) -> float:
        """What it holds but the tensors of models and of their training, which are accounts of their own."""
        return max(0.0, float(place.deep_bytes[-1] - place.tensor_bytes[-1])) + self._own_tensors(place)

    def _own_tensors(self, place: Place) -> float:
        if not self.is_asked:
            return 0.0 if is_model(place) else float(place.tensor_bytes[-1])
        return self._asked(place) + self.of_behind * self.behind(place)

    def behind(self, place: Place) -> float:
        """Tensors that nothing but it keeps, and that are neither the user's own nor a model's: of graphs it holds.

        Not those of a local variable that is one tensor: the loss of the step that is under way.
        """
        is_of_step = place.type_name == _TENSOR and place.reference.edge_kind == "local"
        if is_of_step or is_model(place) or is_optimizer(place.type_name):
            return 0.0
        own = sum(self.of_node.get(number, 0.0) for number in place.numbers)
        inside = sum(float(child.tensor_bytes[-1]) for child in place.children)
        rest = max(0.0, float(place.tensor_bytes[-1]) - inside - own)
        return rest + sum(map(self.behind, place.children))

    def _asked(self, place: Place) -> float:
        own = sum(self.of_node.get(number, 0.0) for number in place.numbers)
        return own + sum(self._asked(child) for child in place.children)


def _models(recording: Recording, process: ProcessGrowth, take: int) -> list[BillRow]:
    """The outermost models, with their weights; what two of them share is of the larger one."""
    rows = process.rows("weights")
    rows = only(rows, (rows["take"] == take) & rows["tensor_owner"].isin(_WEIGHTS) & (rows["device"] == "cpu"))
    if not len(rows):
        return []
    named, places = named_sets(whole_heap(recording, process.pid), rows)
    sizes = named.sums("weight_set", "storage_bytes")
    order = named.assign(whole=named["weight_set"].map(sizes)).sort_values("whole", ascending=False)
    own = order.drop_duplicates("storage_key").groupby("weight_set", sort=False)
    return [
        BillRow(MODEL, name, int(rows["storage_bytes"].sum()), process.label, True, type=places[name].type_name)
        for name, rows in own
        if name in places
    ]


def with_models(row: BillRow, models: Sequence[BillRow]) -> BillRow:
    """Which models these tensors are of, if that is all of them: gradients hang on a model as well."""
    said = sum(model.bytes for model in models)
    if not said or said < MOST * row.bytes:
        return row
    parts = [scaled(model, min(1.0, row.bytes / said)) for model in models]
    rest = row.bytes - sum(part.bytes for part in parts)
    if rest > 0:
        parts.append(BillRow(row.account, "others", rest, row.process, True))
    return replace(row, parts=parts)


def _called(place: Place) -> Place:
    """By whose name of the user's it is known: how a table keeps its block inside says nothing."""
    named = next((one for one in upwards(place, by_name=True) if one.has_users_name or has_key(one)), place)
    return place if named in upwards(place.parent) else named


def _alike(rows: Iterable[BillRow]) -> list[BillRow]:
    """The largest first; those of one name and type together: parts of a list of models."""
    found: dict[tuple[str, str | None], BillRow] = {}
    for row in rows:
        known = found.get((row.name, row.type))
        if known is not None:
            bytes, tensor_bytes = known.bytes + row.bytes, known.tensor_bytes + row.tensor_bytes
            also = max(known, row, key=lambda one: one.bytes).also
            row = replace(known, bytes=bytes, tensor_bytes=tensor_bytes, parts=(), also=also)
        found[row.name, row.type] = row
    return sorted(found.values(), key=lambda row: -row.bytes)


def scaled(row: BillRow, factor: float) -> BillRow:
    parts = [scaled(part, factor) for part in row.parts]
    return replace(row, bytes=max(0, round(row.bytes * factor)), parts=parts)
