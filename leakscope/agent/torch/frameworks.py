"""How far a framework says it is: its own step and epoch, read from its state object in a snapshot. Runs in the job.

Optimizer steps are counted by ourselves and agree with these (accumulation included); after a resumed checkpoint the
framework's number goes on where it was, ours begins at 0.
"""

from __future__ import annotations

import sys

from ..interpreter import names, reading

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from typing import Any

# Module, class, and the attributes of it that are plain numbers.
_STATES = (
    ("transformers.trainer_callback", "TrainerState", ("global_step", "max_steps", "epoch")),
    ("lightning.pytorch.loops.training_epoch_loop", "_TrainingEpochLoop", ("_batches_that_stepped",)),
    ("pytorch_lightning.loops.training_epoch_loop", "_TrainingEpochLoop", ("_batches_that_stepped",)),
    ("accelerate.accelerator", "Accelerator", ("step",)),
)


def types() -> dict[int, tuple[str, tuple[str, ...]]]:
    """{id: (library, the attributes to read)} of the classes of the frameworks that are loaded."""
    found: dict[int, tuple[str, tuple[str, ...]]] = {}
    for module, name, attributes in _STATES:
        cls = names.getattr_plain(sys.modules.get(module), name)
        if cls is not None:
            found[id(cls)] = (module.split(".", 1)[0], attributes)
    return found


def look(states: Iterable[Any], kinds: Mapping[int, tuple[str, tuple[str, ...]]]) -> list[str]:
    """Texts such as ``transformers: global_step 120, max_steps 500, epoch 2.4``; Accelerate's step counts batches."""
    texts = []
    for state in states:
        library, attributes = kinds[id(type(state))]
        values = reading.attributes_of(state) or {}
        said = []
        for attribute in attributes:
            value = values.get(attribute)
            if (type(value) is int or type(value) is float) and value:
                said.append(f"{attribute.lstrip('_')} {value:g}")
        if said:
            texts.append(f"{library}: {', '.join(said)}")
    return texts
