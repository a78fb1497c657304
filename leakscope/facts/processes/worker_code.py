"""What the code that forked workers run keeps or reads: from the sources, since they take no snapshot.

Loader workers run a data set's ``__getitem__`` or ``__iter__`` and the hooks of their loader; which code others run, is
known where their memory was seen to grow. Text in, holders out.
"""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence

from ..code.index import Scope, Source, index_of, last_name, tail
from ..code.kept import function_at, kept_by
from ..code.names import Holder
from ..growth.processes import ProcessGrowth
from ..growth.tree import TreeGrowth
from ..where.allocations import allocations
from ..where.stacks import GrowthLine, growth_lines, places_of

_ENTRIES = ("__getitem__", "__getitems__", "__iter__", "__next__")
_HOOKS = ("collate_fn", "worker_init_fn")  # arguments of DataLoader that run in workers too
_UNSEEN = 0.01  # how likely it is that memory grows in a function where no growth was seen, beside those where it was


class Code:
    """The user's sources, as far as workers run them."""

    def __init__(self, sources: Sequence[Source]) -> None:
        self._index = index_of(sources, "def ")

    def datasets(self, dataset_type: str | None = None) -> list[str]:
        """The class of this type where the sources define it, else all that look like data sets: by a base of that
        name, and with a way to read them.
        """
        known = tail(dataset_type) if dataset_type else ""
        if known in self._index.classes:
            return [known]
        entered = {scope.within.name for scope in self._all_entries() if scope.within is not None}
        return [
            name for name, scopes in self._index.classes.items()
            if name in entered and any(
                last_name(base).endswith(("Dataset", "DataPipe"))
                for scope in scopes for base in getattr(scope.node, "bases", [])
            )
        ]  # fmt: skip

    def kept(self, *datasets: str, stacks: Mapping[str, float] | None = None) -> list[Holder]:
        """What functions that workers run add to and that outlives them, each once, the likeliest first.

        ``stacks``: calls under which memory was seen to grow there, with the bytes.
        """
        entries = [scope for name in datasets for scope in self._entries(name)]
        run = dict.fromkeys([*entries, *(self._hooks() if datasets else ())], _UNSEEN)
        total = max(sum((stacks or {}).values()), 1.0)
        for stack, grown in (stacks or {}).items():
            for scope in {function_at(self._index, file, place) for place, file in places_of(stack)}:
                if scope is not None:
                    run[scope] = run.get(scope, 0.0) + grown / total
        # A data set's methods return with each row; what others run may be the loop that is all their life.
        return [kept.holder for kept in kept_by(self._index, run, with_locals=not datasets)]

    def read(self, *datasets: str) -> list[Holder]:
        """Attributes of data sets that their own methods index or go through: where their rows are."""
        found: dict[tuple[str, str], Holder] = {}
        for scope in (scope for name in datasets for scope in self._entries(name)):
            for site in scope.sites:
                value = _read_at(site.node)
                if isinstance(value, ast.Attribute) and last_name(value.value) == "self" and scope.within is not None:
                    owner, source = scope.within.name, scope.source
                    holder = Holder(value.attr, owner, source.module, source.file, "attribute")
                    found.setdefault((owner, value.attr), holder)
        return list(found.values())

    def _all_entries(self) -> Iterator[Scope]:
        return (scope for name in _ENTRIES for scope in self._index.functions.get(name, []) if scope.is_method)

    def _entries(self, dataset: str) -> Iterator[Scope]:
        family = {dataset} | self._index.ancestors(dataset)
        return (s for s in self._all_entries() if s.within is not None and s.within.name in family)

    def _hooks(self) -> Iterator[Scope]:
        for scope in self._index.scopes:
            for site in scope.sites:
                for keyword in site.node.keywords if isinstance(site.node, ast.Call) else ():
                    if keyword.arg in _HOOKS:
                        yield from self._index.run_by_calling(keyword.value, scope)


def own_stacks(growth: TreeGrowth, workers: Sequence[ProcessGrowth]) -> dict[str, float]:
    """Calls since the workers began, each with what their memory grew while it was seen. **Units** bytes."""
    seen: dict[str, float] = defaultdict(float)
    for worker in workers:
        for one in allocations(growth, worker):
            if one.stack:
                seen[_since_fork(one.stack)] += max(0.0, one.bytes)
    return seen


def own_lines(growth: TreeGrowth, worker: ProcessGrowth, sources: Sequence[Source]) -> list[GrowthLine]:
    """Lines under which memory of a worker grew, without those of its parent that made it."""
    lines = growth_lines(growth, worker, sources)
    return [line for line in lines if line.file in {file for _, file in places_of(_since_fork(line.stack))}]


def _since_fork(stack: str) -> str:
    """The calls since the process began: those before are its parent's, which stand on its stack for ever."""
    calls = stack.split("\n")
    begins = [
        i for i, call in enumerate(calls) if "multiprocessing/process.py:" in call or call.endswith(" _bootstrap")
    ]
    return "\n".join(calls[begins[-1] + 1 :] if begins else calls)


def _read_at(node: ast.AST) -> ast.expr | None:
    if isinstance(node, ast.Subscript) and isinstance(node.ctx, ast.Load):
        return node.value
    return node.iter if isinstance(node, ast.For) else None
