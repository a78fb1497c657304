"""By a Spark cluster: ``mapInPandas`` over a table of items, whose results come back pickled, in a column of bytes."""

from __future__ import annotations

import contextlib
import os
import pickle
import sys
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from ..errors import BadInput
from . import imported

_SCHEMA = "number long, result binary"


def run(function: Callable[[Any], Any], items: Sequence[Any], count: int, address: str | None) -> Iterator[Any]:
    """A session of our own, ended at the end; the caller's, if one runs in this process already."""
    sql = imported("spark").sql
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    running = sql.SparkSession.getActiveSession()
    builder = sql.SparkSession.builder.appName("leakscope").master(address or f"local[{count}]")
    settings = {
        "spark.ui.enabled": "false",
        "spark.sql.execution.arrow.maxRecordsPerBatch": "1",  # an item is a recording, not a row
        "spark.log.level": "ERROR",
        "spark.driver.bindAddress": "127.0.0.1",
    }
    if address is None:
        settings["spark.driver.host"] = "127.0.0.1"
    try:
        session = running or builder.config(map=settings).getOrCreate()
    except Exception as error:  # of Java, in classes of py4j's own
        raise BadInput(f"--engine spark: no session could be had ({_first_line(error)})") from None
    try:
        rows = [(number, pickle.dumps(item)) for number, item in enumerate(items)]
        partitions = max(1, min(len(rows), 4 * count if address is None else 1024))
        frame = session.createDataFrame(rows, "number long, item binary").repartition(partitions)
        done = frame.mapInPandas(_mapper(function), _SCHEMA)
        found = {row["number"]: row["result"] for row in done.toLocalIterator()}
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
