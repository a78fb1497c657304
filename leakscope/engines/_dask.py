"""By a Dask cluster: ``Client.get_executor()``, so that Dask sees plain tasks."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from ..errors import BadInput
from ._extras import imported

_CONNECT_S = 30


def run(function: Callable[[Any], Any], items: Sequence[Any], count: int, address: str | None) -> Iterator[Any]:
    """A cluster of processes here, without a dashboard, where no address is named."""
    distributed = imported("dask")
    try:
        if address is not None:
            client = distributed.Client(address, timeout=_CONNECT_S)
        else:
            cluster = distributed.LocalCluster(
                n_workers=count, threads_per_worker=1, processes=True, dashboard_address=None, silence_logs=40
            )
            client = distributed.Client(cluster)
    except OSError as error:
        raise BadInput(f"--address {address}: no Dask scheduler answers there ({error})") from None
    try:
        with client.get_executor(pure=False) as executor:
            yield from executor.map(function, items)
    finally:
        client.close()
        if address is None:
            cluster.close()
