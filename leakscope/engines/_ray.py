"""By a Ray cluster: a task for each recording."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from ..errors import BadInput
from ._extras import imported


def run(function: Callable[[Any], Any], items: Sequence[Any], count: int, address: str | None) -> Iterator[Any]:
    """A cluster here, without a dashboard, where no address is named."""
    ray = imported("ray")
    quiet = {"include_dashboard": False, "configure_logging": True, "log_to_driver": False, "logging_level": "ERROR"}
    try:
        if address is not None:
            ray.init(address=address, log_to_driver=False, logging_level="ERROR")
        else:
            ray.init(address="local", num_cpus=count, **quiet)
    except (ConnectionError, ValueError) as error:
        raise BadInput(f"--address {address}: no Ray cluster answers there ({_first_line(error)})") from None
    try:
        task = ray.remote(function)
        for result in [task.remote(item) for item in items]:
            yield ray.get(result)
    finally:
        ray.shutdown()


def _first_line(error: BaseException) -> str:
    return (str(error).splitlines() or [""])[0]
