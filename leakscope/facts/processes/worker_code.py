"""What the code that loader workers run keeps or reads: from the sources, since a forked worker takes no inventory.

Workers run a data set's ``__getitem__`` or ``__iter__`` and what these call. Text in, holders out, those nearest to the
data set first.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence

from ..code.index import Scope, Source, index_of, last_name, tail
from ..code.kept import function_at, kept_by
from ..code.names import Holder
from ..where.stacks import GrowthLine, places_of

_ENTRIES = ("__getitem__", "__getitems__", "__iter__", "__next__")
_HOOKS = ("collate_fn", "worker_init_fn")  # arguments of DataLoader that run in workers too
_UNSEEN = 0.01  # how likely it is that memory grows in a function where no growth was seen, beside those where it was


class Code:
    """The user's sources, as far as workers run them."""

    def __init__(self, sources: Sequence[Source]) -> None:
        self._index = index_of(sources, "def ")

    def defines(self, name: str) -> bool:
        """Whether there is a class of this name."""
        return name in self._index.classes

    def datasets(self) -> list[str]:
        """Classes that look like data sets: by a base of that name, and with a way to read them."""
        entered = {scope.within.name for scope in self._methods(_ENTRIES) if scope.within is not None}
        return [
            name for name, scopes in self._index.classes.items()
            if name in entered and any(
                last_name(base).endswith(("Dataset", "DataPipe"))
                for scope in scopes for base in getattr(scope.node, "bases", [])
            )
        ]  # fmt: skip

    def kept(self, dataset: str, grown: Sequence[GrowthLine] = ()) -> list[Holder]:
        """What functions that workers run add to and that outlives them, each once.

        ``grown``: lines under which memory was seen to grow there; what their functions add to comes first.
        """
        run = dict.fromkeys([*self._entries(dataset), *self._hooks()], _UNSEEN)
        for line in grown:
            for place, file in places_of(line.stack):
                scope = function_at(self._index, file, place)
                if scope is not None:
                    run[scope] = run.get(scope, 0.0) + line.share
        return [kept.holder for kept in kept_by(self._index, run, with_locals=False)]

    def read(self, dataset: str) -> list[Holder]:
        """Attributes of the data set that its own methods index or go through: where its rows are."""
        found: dict[str, Holder] = {}
        for scope in self._entries(dataset):
            for site in scope.sites:
                value = _read_at(site.node)
                if isinstance(value, ast.Attribute) and last_name(value.value) == "self" and scope.within is not None:
                    owner, source = scope.within.name, scope.source
                    found.setdefault(value.attr, Holder(value.attr, owner, source.module, source.file, "attribute"))
        return list(found.values())

    def _methods(self, names: Sequence[str]) -> Iterator[Scope]:
        return (scope for name in names for scope in self._index.functions.get(name, []) if scope.is_method)

    def _entries(self, dataset: str) -> Iterator[Scope]:
        family = {dataset} | self._index.ancestors(dataset)
        return (s for s in self._methods(_ENTRIES) if s.within is not None and s.within.name in family)

    def _hooks(self) -> Iterator[Scope]:
        for scope in self._index.scopes:
            for site in scope.sites:
                for keyword in site.node.keywords if isinstance(site.node, ast.Call) else ():
                    if keyword.arg in _HOOKS:
                        yield from self._index.run_by_calling(keyword.value, scope)


def dataset_name(dataset_type: str | None) -> str | None:
    """The class's own name of a type with its module."""
    return tail(dataset_type) if dataset_type else None


def _read_at(node: ast.AST) -> ast.expr | None:
    if isinstance(node, ast.Subscript) and isinstance(node.ctx, ast.Load):
        return node.value
    return node.iter if isinstance(node, ast.For) else None
