"""A recording once more with other texts: what ``redact`` writes. Figures, tables and the order of rows stay."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from ..agent.journal import create
from ..errors import LeakscopeError, UnreadableRecording
from . import seal
from .arrow import ROW_GROUP_ROWS, parquet_writer
from .meta import FOOTER_KEY
from .recording import Recording

TextOf = Callable[[str, str, str], str]  # (table, column, text) to what is written instead


def rewrite(recording: Recording, output: Path, text_of: TextOf, footer: Mapping[str, Any]) -> None:
    """Write all rows to ``output``, which must not be there, through ``text_of``. **Errors** LeakscopeError."""
    temporary = output.with_name(f".{output.name}.tmp-{os.urandom(8).hex()}")
    try:
        with os.fdopen(create(temporary, os.O_RDWR), "w+b") as stream:
            _copy(recording._file, stream, text_of, footer)
        os.link(temporary, output)  # fails where a rename would replace
    except OSError as error:
        raise LeakscopeError(f"cannot write {output}: {error.strerror or error}") from None
    except pa.ArrowException as error:
        raise UnreadableRecording(f"{recording.path} is damaged: {' '.join(str(error).split())[:200]}") from None
    finally:
        with suppress(OSError):
            temporary.unlink()


def _copy(file: pq.ParquetFile, stream: Any, text_of: TextOf, footer: Mapping[str, Any]) -> None:
    columns = file.schema_arrow.remove_metadata()
    writer = parquet_writer(stream, columns)
    try:
        written: dict[tuple[str, str, str], str] = {}

        def changed(table: str, column: str, text: str | None) -> str | None:
            if text is None:
                return None
            key = table, column, text
            if key not in written:
                written[key] = text_of(*key)
            return written[key]

        for index in range(file.metadata.num_row_groups):
            group = file.read_row_group(index)
            tables = group["table"].to_pylist()
            for position, field in enumerate(columns):
                if field.type == pa.string() and field.name != "table" and group[field.name].null_count < len(tables):
                    values = group[field.name].to_pylist()
                    texts = [changed(table, field.name, value) for table, value in zip(tables, values)]
                    group = group.set_column(position, field, pa.array(texts, pa.string()))
            writer.write_table(group.cast(columns), row_group_size=ROW_GROUP_ROWS)
        seal.close(writer, stream, {FOOTER_KEY: json.dumps(footer)})
    finally:
        writer.close()
