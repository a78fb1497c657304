"""A recording made small and neutral: for the same report, with nothing in it that tells of the machine it is from.

No row and no value is left out but columns without any. What makes a short recording large is what parquet keeps
about 200 columns: it goes, as do the statistics of all columns but ``table``, by which tables are found.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable, Mapping
from io import BytesIO
from pathlib import Path
from string import ascii_lowercase
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from leakscope.storage import open_recording

JOB = Path("/tmp/job")  # where golden recordings are made; no more of a recording's paths is anybody's own
ROOT = Path(__file__).parents[2]
_ENCODINGS = {
    pa.int64(): ("DELTA_BINARY_PACKED", "BYTE_STREAM_SPLIT", "PLAIN"),
    pa.float64(): ("BYTE_STREAM_SPLIT", "PLAIN"),
    pa.string(): ("PLAIN",),
}
_FOOTER_KEY = "leakscope"
_OF_AGENT = re.compile(r"/[^\s\"']*/leakscope-run-\w+")  # where a recording had its agent
_AGENT = "/tmp/leakscope-run-golden"


def trim(recording: Path, output: Path) -> None:
    """Write ``recording`` to ``output``."""
    opened = open_recording(recording)
    neutral = neutraliser()
    table = opened._file.read().replace_schema_metadata()
    table = table.select([name for name in table.column_names if table[name].null_count < len(table)])
    for position, name in enumerate(table.column_names):
        if table[name].type == pa.string() and name != "table":
            table = table.set_column(position, name, _changed(table[name], neutral))
    columns = pa.schema([pa.field(f.name, f.type, nullable=f.nullable) for f in table.schema])
    table = pa.table([column.combine_chunks() for column in table.columns], schema=columns)
    smallest = {name: _smallest(table.select([name])) for name in table.column_names}
    with _writer(output, columns, smallest) as writer:
        writer.write_table(table, row_group_size=len(table) or 1)
        writer.add_key_value_metadata({_FOOTER_KEY: json.dumps(neutral_footer(opened.meta, neutral))})


def _writer(output: Any, columns: pa.Schema, encodings: Mapping[str, str | None]) -> pq.ParquetWriter:
    """``encodings``: of each column; None: a dictionary of its values."""
    return pq.ParquetWriter(
        output, columns, compression="zstd", compression_level=19, store_schema=False, write_statistics=["table"],
        use_dictionary=[name for name, encoding in encodings.items() if encoding is None],
        column_encoding={name: encoding for name, encoding in encodings.items() if encoding is not None},
    )  # fmt: skip


def _smallest(column: pa.Table) -> str | None:
    """The encoding by which a column takes least: of ten thousand addresses another than of moments."""
    sizes: dict[str | None, int] = {}
    for encoding in (None, *_ENCODINGS.get(column.schema.types[0], ())):
        written = BytesIO()
        with _writer(written, column.schema, {column.column_names[0]: encoding}) as writer:
            writer.write_table(column, row_group_size=len(column) or 1)
        sizes[encoding] = written.tell()
    return min(sizes, key=sizes.__getitem__)


def neutraliser() -> Callable[[str], str]:
    """What replaces the paths and names of this machine in a text."""
    places = {
        str(ROOT / ".venv"): "/opt/venv",
        sys.prefix: "/opt/venv",
        sys.base_prefix: "/opt/python",
        str(ROOT): "/opt/leakscope",
        str(Path.home()): "/home/user",
        _boot_id(): "00000000-0000-4000-8000-000000000000",
        **_cgroups(),
    }
    for path, neutral in list(places.items()):  # as paths of descriptors are written, digits as N
        places[re.sub(r"\d+", "N", path)] = re.sub(r"\d+", "N", neutral)
    longest_first = sorted((place for place in places if len(place) > 1), key=len, reverse=True)
    pattern = re.compile("|".join(rf"{re.escape(place)}(?![\w-])" for place in longest_first))
    return lambda text: _OF_AGENT.sub(_AGENT, pattern.sub(lambda found: places[found.group()], text))


def neutral_footer(footer: Mapping[str, Any], neutral: Callable[[str], str]) -> dict[str, Any]:
    changed = {name: _tree(value, neutral) for name, value in footer.items()}
    changed["host"] = "golden"
    if changed.get("kernel"):
        changed["kernel"] = re.match(r"[\d.]*", changed["kernel"]).group()  # type: ignore[union-attr]
    return changed


def this_machine() -> list[str]:
    """Texts no neutral recording may have."""
    cgroup = [part for path in _cgroups() for part in path.split("/") if len(part) > 3]
    return [str(ROOT), sys.prefix, sys.base_prefix, str(Path.home()) + "/", *cgroup, _boot_id()]


def _changed(column: pa.ChunkedArray, neutral: Callable[[str], str]) -> pa.Array:
    written: dict[str | None, str | None] = {None: None}
    for text in column.unique().to_pylist():
        if text is not None:
            written[text] = neutral(text)
    return pa.array([written[text] for text in column.to_pylist()], pa.string())


def _tree(value: Any, neutral: Callable[[str], str]) -> Any:
    if isinstance(value, dict):
        return {str(key): _tree(member, neutral) for key, member in value.items()}
    if isinstance(value, list):
        return [_tree(member, neutral) for member in value]
    return neutral(value) if isinstance(value, str) else value


def _boot_id() -> str:
    return Path("/proc/sys/kernel/random/boot_id").read_text().strip()


def _cgroups() -> dict[str, str]:
    """The cgroup we are in and those above it, by the names they get."""
    try:
        lines = Path("/proc/self/cgroup").read_text().splitlines()
    except OSError:
        return {}
    places = {}
    for line in lines:
        parts = line.split(":", 2)[2].strip("/").split("/")
        for depth in range(1, len(parts) + 1):
            if parts[0]:
                neutral = [f"group-{letter}" for letter in ascii_lowercase[:depth]]
                places["/" + "/".join(parts[:depth])] = "/" + "/".join(neutral)
    return places
