"""DataLoader iterators that are alive: what they read and which processes work for them. Runs in the job.

An iterator is known to the collector, and its ``__dict__`` says all there is to say: nothing of it is called.
"""

from __future__ import annotations

from ..interpreter import names, reading

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

MOST = 50


def look(iterators: Sequence[Any]) -> list[dict[str, Any]]:
    """Rows of the table ``loaders``, one for each iterator (objects of torch's _BaseDataLoaderIter)."""
    rows = []
    for iterator in iterators[:MOST]:
        try:
            rows.append(_row(iterator))
        except Exception as error:
            if names.is_foreign(error):
                raise
    return rows


def _row(iterator: Any) -> dict[str, Any]:
    attributes = reading.attributes_of(iterator) or {}
    dataset = attributes.get("_dataset")
    return {
        "type_name": names.type_name(type(iterator)),
        "dataset_type": None if dataset is None else names.type_name(type(innermost(dataset))),
        "worker_pids": ",".join(str(pid) for pid in _pids(attributes.get("_workers"))),
        "batches_yielded": _integer(attributes.get("_num_yielded")),
        "batches_in_flight": _integer(attributes.get("_tasks_outstanding")),
        "prefetch_factor": _integer(attributes.get("_prefetch_factor")),
        "is_persistent": attributes.get("_persistent_workers") is True,
        "is_pinned": attributes.get("_pin_memory") is True,
    }


def innermost(dataset: Any, depth: int = 4) -> Any:
    """The data set that wrappers of torch, Lightning and others have in their attribute ``dataset``."""
    while depth and not names.is_user_module(*_module(type(dataset))):  # the user's gets no dict for our sake
        inner = (reading.attributes_of(dataset) or {}).get("dataset")
        if inner is None:
            break
        dataset = inner
        depth -= 1
    return dataset


def _module(cls: type) -> tuple[str | None, str | None]:
    module = names.module_of(cls)
    return module, names.module_file(module)


def _pids(workers: Any) -> list[int]:
    """Pids of multiprocessing.Process objects, by the attribute their property reads."""
    pids = []
    for worker in reading.members(list, workers) if type(workers) is list else ():
        started = (reading.attributes_of(worker) or {}).get("_popen")
        if started is not None:
            pid = (reading.attributes_of(started) or {}).get("pid")
            if type(pid) is int:
                pids.append(pid)
    return pids


def _integer(value: Any) -> int | None:
    return value if type(value) is int else None
