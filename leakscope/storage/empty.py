"""``python -m leakscope.storage.empty`` writes ``empty.parquet`` anew: run it after a change of the schema.

The recorder copies that file to its output at the first instant, so that a recording can be opened from then on
without pyarrow in the recorder.
"""

from __future__ import annotations

import json
import os
from pathlib import Path

from .. import schema
from . import seal
from .arrow import arrow_schema, parquet_writer
from .meta import FOOTER_KEY

PATH = Path(__file__).with_name("empty.parquet")


def write(path: str | os.PathLike[str] = PATH) -> None:
    """Write a recording without rows whose footer says that nothing was put into it yet."""
    footer = {"format_version": schema.SCHEMA_VERSION, "state": "empty", "complete": False}
    with open(path, "w+b") as stream:
        seal.close(parquet_writer(stream, arrow_schema()), stream, {FOOTER_KEY: json.dumps(footer)})


if __name__ == "__main__":
    write()
