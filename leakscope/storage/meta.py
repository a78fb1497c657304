"""What a recording says of itself: the meta.json of a journal, the JSON in a file's footer. Standard library only."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

from ..agent.journal import NotOurs, open_regular
from ..errors import UnreadableRecording
from ..schema import OLDEST_VERSION, SCHEMA_VERSION

FOOTER_KEY = "leakscope"


def read_meta(journal: Path) -> dict[str, Any]:
    """``meta.json`` of a journal; empty when the recorder died before writing it or it is damaged.

    **Errors** UnreadableRecording if the journal is of another format, or the file is none of a recording's.
    """
    try:
        with os.fdopen(open_regular(journal / "meta.json"), "rb") as stream:
            meta = json.loads(stream.read())
    except NotOurs as error:
        raise UnreadableRecording(f"{error.filename} cannot be read: {error.strerror}") from None
    except (OSError, ValueError):
        return {}
    if not isinstance(meta, dict):
        return {}
    check_version(meta.get("format_version", SCHEMA_VERSION), journal)
    return meta


def meta_of_footer(raw: bytes, where: object) -> dict[str, Any]:
    """What stands in the footer of the file ``where``. **Errors** UnreadableRecording: damaged, or another format."""
    try:
        meta = json.loads(raw)
    except ValueError:
        meta = None
    if not isinstance(meta, dict):
        raise UnreadableRecording(f"{where} is damaged: its leakscope footer cannot be read; restore it from a copy")
    check_version(meta.get("format_version"), where)
    return meta


def check_version(version: object, where: object) -> None:
    """**Errors** UnreadableRecording unless this program reads the format ``version``."""
    if type(version) is not int or version < 1:
        raise UnreadableRecording(f"{where} has no valid format version ({version!r}): it is damaged, record again")
    if version < OLDEST_VERSION:
        raise UnreadableRecording(
            f"{where} has format {version}, which no release of leakscope wrote or reads: record again"
        )
    if version > SCHEMA_VERSION:
        raise UnreadableRecording(
            f"{where} has format {version}, this leakscope reads up to {SCHEMA_VERSION}: upgrade leakscope"
        )
