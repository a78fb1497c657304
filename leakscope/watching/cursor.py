"""What was added to a journal since the last look: each file is read on from where reading stopped."""

from __future__ import annotations

import os
import time
import zlib
from collections.abc import Iterator
from contextlib import suppress
from typing import Any, BinaryIO

from ..agent.journal import HEADER, MAX_FRAME_BYTES, decode_payload, open_regular

Row = dict[str, Any]


class Cursor:
    """Reads the files of one journal folder as they grow.

    They stay open, and so can be read to their end when the recorder has finished its file and removed the journal.
    """

    def __init__(self, folder: str) -> None:
        self._folder = folder
        self._files: dict[str, _File] = {}
        self.is_behind = False

    def read_on(self, most_s: float) -> Iterator[tuple[str, Row]]:
        """Every (table, row) that is new; after ``most_s`` no more: ``is_behind``, the next call goes on from there."""
        self.is_behind = False
        deadline_s = time.monotonic() + most_s
        for file in self._all_files():
            for table, rows in file.blocks():
                for row in rows:
                    yield table, row
                if time.monotonic() > deadline_s:
                    self.is_behind = True
                    return

    def close(self) -> None:
        for file in self._files.values():
            file.close()

    def _all_files(self) -> list[_File]:
        with suppress(OSError):  # the folder is gone
            for name in os.listdir(self._folder):
                if name.endswith(".jnl") and name not in self._files:
                    with suppress(OSError):
                        self._files[name] = _File(os.path.join(self._folder, name))
        return [self._files[name] for name in sorted(self._files)]


class _File:
    """One file and how far it was read."""

    def __init__(self, path: str) -> None:
        self._stream: BinaryIO = os.fdopen(open_regular(path), "rb")
        self._offset = 0

    def blocks(self) -> Iterator[tuple[str, list[Row]]]:
        """Whole and sound frames from here on. One that is short or damaged may become whole: it is tried again."""
        while True:
            self._stream.seek(self._offset)
            header = self._stream.read(HEADER.size)
            if len(header) < HEADER.size:
                return
            length, crc = HEADER.unpack(header)
            payload = self._stream.read(length) if length <= MAX_FRAME_BYTES else b""
            if len(payload) < length or zlib.crc32(payload) != crc:
                return
            self._offset += HEADER.size + length
            with suppress(ValueError, KeyError, TypeError, zlib.error):
                yield decode_payload(payload)

    def close(self) -> None:
        self._stream.close()
