"""By a Spark cluster: ``mapInPandas`` over a table of items, whose results come back pickled, in a column of bytes."""

from __future__ import annotations

import contextlib
import os
import pickle
import sys
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from ..errors import BadInput
from ._extras import imported

_SCHEMA = "number long, result binary"
_MOST_PARTITIONS = 4096  # on a cluster: an item is a recording, which takes seconds


def run(function: Callable[[Any], Any], items: Sequence[Any], count: int, address: str | None) -> Iterator[Any]:
    """A session of our own, ended at the end; the caller's, if one runs in this process already."""
    sql = imported("spark").sql
    running = sql.SparkSession.getActiveSession()
    settings = {
        "spark.ui.enabled": "false",
        "spark.log.level": "ERROR",
        "spark.driver.maxResultSize": "0",  # rows are kept whole anyway
    }
    if address is None:
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
        settings |= {"spark.driver.bindAddress": "127.0.0.1", "spark.driver.host": "127.0.0.1"}
    builder = sql.SparkSession.builder.appName("leakscope").master(address or f"local[{count}]")
    try:
        session = running or builder.config(map=settings).getOrCreate()
    except Exception as error:  # of Java, in classes of py4j's own
        raise BadInput(f"--engine spark: no session could be had ({_first_line(error)})") from None
    try:
        rows = [(number, pickle.dumps(item)) for number, item in enumerate(items)]
        partitions = min(len(rows), 4 * count if address is None else _MOST_PARTITIONS)
        frame = session.createDataFrame(rows, "number long, item binary").repartition(partitions)
        done = frame.mapInPandas(_mapper(function), _SCHEMA)
        found = {row["number"]: row["result"] for row in done.collect()}
        for number in range(len(items)):
            yield pickle.loads(found[number])
    finally:
        if running is None:
            with contextlib.suppress(Exception):
                session.stop()


def _mapper(function: Callable[[Any], Any]) -> Callable[[Any], Iterator[Any]]:
    def mapped(batches: Any) -> Iterator[Any]:
        import pickle

        import pandas as pd

        for batch in batches:
            results = [pickle.dumps(function(pickle.loads(item))) for item in batch["item"]]
            yield pd.DataFrame({"number": batch["number"], "result": results})

    return mapped


def _first_line(error: BaseException) -> str:
    return (str(error).splitlines() or [""])[0]
