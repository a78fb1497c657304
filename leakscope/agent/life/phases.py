"""What the program is doing (start-up, train, eval, save) and what each of these does to its memory. Runs in the job.

Known without a word from the user: ``nn.Module.train`` and ``eval`` are called round every evaluation, an optimizer
step means training, ``torch.save`` and ``safetensors.torch.save_file`` mean saving, and a DataLoader's iterator hands
out batches. When their module is imported, functions of C take their place (interpreter/around.py), which have ours
called before and after them: these only count, look at the clock and ask malloc what is in use.
"""

from __future__ import annotations

import sys
from _functools import partial
from time import monotonic

from ..interpreter import around, names, reading
from ..native.allocators import malloc_in_use_bytes
from ..native.memory import rss_bytes

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from .hooks import Hooks

START_UP, TRAIN, EVAL, SAVE = "start-up", "train", "eval", "save"
MARK_EVERY_S = 1.0  # a program may alternate between training and evaluation at every step
PART_OF_MODEL = 0.5  # train() or eval() of fewer submodules than this share of the model in training is no phase


class Phases:
    """Bytes and seconds by phase. ``mark(phase)`` is called when one begins, at most once a second, and when it ends.
    ``not_training()``: another than training has begun, which a step of an optimizer ends.

    A passage is the time between entering a phase and entering the next; nothing is remembered of single passages.
    """

    def __init__(self, mark: Callable[[str], None], not_training: Callable[[], None]) -> None:
        self.current = START_UP
        self.batch_storages: tuple[int, ...] = ()
        self._mark = mark
        self._not_training = not_training
        self._marked_at = 0.0
        self._is_marked = False
        self._entered_at = monotonic()
        self._entered_bytes = held_bytes()
        self._peak_bytes = self._entered_bytes
        self._totals: dict[str, list[Any]] = {}
        self._largest = 0
        self._before_saving = START_UP
        self._module: tuple[Any, Any] | None = None  # (nn.Module, its train)
        self._changed = False
        self._is_said = False

    # ---- what is known

    def rows(self) -> list[dict[str, Any]]:
        """Rows of table ``phases``, with the passage that lasts counted up to now; none while there is one phase."""
        if not self._changed:
            return []
        totals = {phase: list(figures) for phase, figures in self._totals.items()}
        _add(totals, self.current, *self._passage())
        return [
            {"phase": p, "entry_count": n, "phase_s": s, "gained_bytes": gained, "peak_gain_bytes": peak}
            for p, (n, s, gained, peak) in totals.items()
        ]

    def tick(self) -> None:
        """Now and then, from the agent's thread: the peak inside a passage."""
        self._peak_bytes = max(self._peak_bytes, held_bytes())

    def enter(self, phase: str, said: bool = False) -> None:
        """``said``: by the user. Whoever names phases himself is not corrected by what we see."""
        self._is_said = self._is_said or said
        if phase == self.current or (self._is_said and not said):
            return
        self._changed = True
        _add(self._totals, self.current, *self._passage())
        self.current = phase
        self._entered_at = monotonic()
        self._entered_bytes = self._peak_bytes = held_bytes()
        begins = said or self._entered_at - self._marked_at >= MARK_EVERY_S
        if begins or self._is_marked:  # of a phase whose beginning was marked the end is, too
            self._mark(phase)
        if begins:
            self._marked_at = self._entered_at
        self._is_marked = begins
        if phase != TRAIN:
            self._not_training()

    def _passage(self) -> tuple[float, int, int]:
        held = held_bytes()
        peak = max(self._peak_bytes, held)
        return monotonic() - self._entered_at, held - self._entered_bytes, peak - self._entered_bytes

    # ---- who tells

    def stepped(self) -> None:
        """An optimizer made a step: whatever a model was last switched to, this is training."""
        if self.current != TRAIN:
            self.enter(TRAIN)

    def hooks(self) -> dict[str, Callable[[Hooks, Any], None]]:
        """{module: callback} for ``hooks.Hooks``."""
        return {
            "torch": self._watch_modules,
            "torch._dynamo.convert_frame": self._watch_dynamo,
            "torch.utils.data.dataloader": self._watch_loaders,
            "torch.serialization": lambda hooks, module: self._watch_saving(hooks, module, "save"),
            "safetensors.torch": lambda hooks, module: self._watch_saving(hooks, module, "save_file"),
        }

    def _watch_modules(self, hooks: Hooks, torch: Any) -> None:
        cls = names.getattr_plain(names.getattr_plain(torch, "nn"), "Module")
        original = names.namespace_of(cls)["train"]  # eval() is train(False)
        hooks.replace(cls, "train", original, around.method(original, after=self._trained))
        self._module = cls, original

    def _watch_dynamo(self, hooks: Hooks, module: Any) -> None:
        """As it begins to compile for the first time, ``train`` becomes a function that it can read.

        It traces no function of C: with ``fullgraph=True`` that would be an error, otherwise a graph more.
        """
        original = names.getattr_plain(module, "_compile")
        ours = around.function(original, before=partial(self._compiles, hooks, module))
        if ours is not None:
            hooks.replace(module, "_compile", original, ours)

    def _compiles(self, hooks: Hooks, module: Any) -> None:
        hooks.give_back(module, "_compile")
        if self._module is not None:
            cls, original = self._module
            if hooks.give_back(cls, "train"):
                hooks.replace(cls, "train", original, self._in_python(original))

    def _in_python(self, original: Any) -> Any:
        # Dynamo knows this function, and compiles the original alone: no graph break of ours.
        is_compiling = names.getattr_plain(sys.modules.get("torch.compiler"), "is_compiling") or bool
        depth, calls = [0], [0]

        def train(self: Any, mode: Any = True) -> Any:
            if is_compiling():
                return original(self, mode)
            outer = depth[0]
            calls[0] = calls[0] + 1 if outer else 1
            depth[0] = outer + 1
            try:
                return original(self, mode)
            finally:
                depth[0] = outer
                if not outer:
                    told((self,), None, calls[0])

        told = self._trained
        for name in ("__module__", "__name__", "__qualname__", "__doc__", "__annotations__"):
            setattr(train, name, getattr(original, name))
        train.__wrapped__ = original  # type: ignore[attr-defined]
        return train

    def _trained(self, arguments: tuple[Any, ...], _result: object, calls: int) -> None:
        """The outermost call, for a model with so many submodules that were switched with it."""
        mode = (reading.attributes_of(arguments[0]) or {}).get("training") if arguments else None
        if mode is True:  # not a frozen teacher, however large, that is only ever put to eval()
            self._largest = max(self._largest, calls)
        if calls >= PART_OF_MODEL * self._largest and (self.current != START_UP or not mode):
            self.enter(TRAIN if mode else EVAL)

    def _watch_loaders(self, hooks: Hooks, module: Any) -> None:
        cls = names.getattr_plain(module, "_BaseDataLoaderIter")
        original = names.namespace_of(cls)["__next__"]
        hooks.replace(cls, "__next__", original, around.method(original, after=self._got))

    def _got(self, _arguments: object, batch: Any, _calls: int) -> None:
        if batch is None:  # the end of the loader, or an exception
            return
        try:
            self.batch_storages = _storages(batch)
        except Exception as error:
            if names.is_foreign(error):
                raise

    def _watch_saving(self, hooks: Hooks, module: Any, name: str) -> None:
        original = names.getattr_plain(module, name)
        hooks.replace(module, name, original, around.function(original, self._saves, self._saved))

    def _saves(self) -> None:
        if self.current != SAVE:
            self._before_saving = self.current
            self.enter(SAVE)

    def _saved(self, _arguments: object, _result: object, _calls: int) -> None:
        if self.current == SAVE:
            self.enter(self._before_saving)


def held_bytes() -> int:
    """What malloc has handed out, 6 us; where it does not say, resident memory.

    What evaluation keeps may lie in memory that training had freed: then resident memory grows later, in training.
    """
    return malloc_in_use_bytes() or rss_bytes() or 0


def _add(totals: dict[str, list[Any]], phase: str, seconds: float, gained: int, peak: int) -> None:
    figures = totals.setdefault(phase, [0, 0.0, 0, 0])
    figures[0] += 1
    figures[1] += seconds
    figures[2] += gained
    figures[3] = max(figures[3], peak)


def _storages(batch: Any, depth: int = 3) -> tuple[int, ...]:
    """Addresses of the storages of a batch: tensors in tuples, lists and dicts; it keeps nothing alive."""
    torch = sys.modules["torch"]
    tensor = torch.Tensor
    storage_id = names.getattr_plain(torch._C, "_storage_id")
    if storage_id is None:
        return ()
    found = []
    level = [batch]
    while level and depth:
        depth -= 1
        following = []
        for value in level:
            kind = type(value)
            if kind is tensor:
                found.append(storage_id(value))
            elif kind is dict or names.type_name(kind).endswith("BatchEncoding"):
                data = value if kind is dict else (reading.attributes_of(value) or {}).get("data")
                following += reading.members(dict, data)[:64] if type(data) is dict else []
            elif kind is list or names.is_a(kind, tuple):
                following += reading.items_at(list if kind is list else tuple, value, range(64))
        level = following
    return tuple(found)
