"""What is added to a finished recording: who analysed it writes the verdict into its footer. No row is touched.

The rows are copied as they are, with a new footer behind them, to a file beside it that takes its place by one rename:
whoever opens the recording meanwhile has the old one or the new one, and both are whole.
"""

from __future__ import annotations

import io
import json
import os
import shutil
import stat
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq

from ..agent.journal import create
from ..errors import LeakscopeError
from . import seal
from .account import VERDICT_FILE
from .atomic_replace import replacing
from .finalize import journal_of
from .meta import FOOTER_KEY

if TYPE_CHECKING:
    from .recording import Recording

_TAIL = 8  # the footer's length, and PAR1


def keep_answer(recording: Recording, added: Mapping[str, Any], most_bytes: int | None = None) -> bool:
    """Write what was found where it belongs: into the file, or into the journal while there is one.

    False where it cannot be; ``most_bytes``: larger files are left as they are, since they take longer.
    """
    try:
        if recording.meta.get("state") == "live":
            _write_verdict(journal_of(recording.path), added)
            return True
        if most_bytes is not None and os.stat(recording.path).st_size > most_bytes:
            return False
        return add_to_footer(recording.path, added)
    except (OSError, LeakscopeError):
        return False


def add_to_footer(path: Path, added: Mapping[str, Any]) -> bool:
    """Put these keys into the footer of a finished recording, in place of what they held.

    False, and nothing is changed, where the file is not ours to write: read-only, somebody else's, or no final
    recording. **Errors** LeakscopeError if it cannot be written, and the file is as it was.
    """
    path = Path(os.path.realpath(path))
    if not _is_ours_to_write(path):
        return False
    try:
        with open(path, "rb") as source:
            body = seal.check(source, path, whole=False)  # a damaged footer is not written anew as a sound one
            metadata = pq.read_metadata(source)
            footer = json.loads((metadata.metadata or {})[FOOTER_KEY.encode()])
            if footer.get("state") != "final":
                return False
            size = os.fstat(source.fileno()).st_size
            source.seek(size - _TAIL)
            end = size - _TAIL - int.from_bytes(source.read(4), "little")
            said = json.dumps({**footer, **added})
            tail = _footer_bytes(metadata, said)
            if body is not None:  # rows are as sound as they were
                tail = seal.renewed(tail, end, body, said)
            source.seek(0)
            with replacing(path) as temporary, os.fdopen(create(temporary), "wb") as target:
                shutil.copyfileobj(source, target, 1 << 20)
                target.truncate(end)
                target.seek(end)
                target.write(tail)
                target.flush()
                os.fchmod(target.fileno(), stat.S_IMODE(os.fstat(source.fileno()).st_mode))
                os.fsync(target.fileno())
        return True
    except (OSError, ValueError, KeyError, pa.ArrowException) as error:
        raise LeakscopeError(f"cannot write {path}: {getattr(error, 'strerror', None) or error}") from error


def _write_verdict(journal: Path, added: Mapping[str, Any]) -> None:
    """Leave it for who finishes the recording. **Errors** OSError."""
    with replacing(journal / VERDICT_FILE) as path, os.fdopen(create(path), "w", encoding="utf-8") as stream:
        json.dump(dict(added), stream)


def _footer_bytes(metadata: pq.FileMetaData, said: str) -> bytes:
    """The end of a file: all that ``metadata`` knows of row groups, another text under our key, length and magic."""
    ours = (FOOTER_KEY.encode(), seal.KEY.encode(), b"ARROW:schema")
    rest = {key: value for key, value in metadata.metadata.items() if key not in ours}
    sealed = {seal.KEY: metadata.metadata[seal.KEY.encode()]} if seal.KEY.encode() in metadata.metadata else {}
    empty = io.BytesIO()
    columns = metadata.schema.to_arrow_schema().remove_metadata()
    with pq.ParquetWriter(empty, columns, store_schema=b"ARROW:schema" in metadata.metadata) as writer:
        writer.add_key_value_metadata({**rest, FOOTER_KEY: said, **sealed})
    made = pq.read_metadata(empty)
    made.append_row_groups(metadata)
    whole = io.BytesIO()
    made.write_metadata_file(whole)
    data = whole.getvalue()
    return data[-_TAIL - int.from_bytes(data[-_TAIL:-4], "little") :]


def _is_ours_to_write(path: Path) -> bool:
    try:
        status = os.stat(path)
    except OSError:
        return False
    if not hasattr(os, "geteuid"):  # nor can a file be replaced there that is being read
        return False
    is_writable = bool(status.st_mode & stat.S_IWUSR) and os.access(path, os.W_OK)
    return status.st_uid == os.geteuid() and is_writable and os.access(path.parent, os.W_OK | os.X_OK)
