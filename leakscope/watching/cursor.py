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
_REST_S, _MOST_REST_S = 60.0, 3600.0  # who lives writes every few seconds


class Cursor:
    """Reads the files of one journal folder as they grow.

    They stay open, and so can be read to their end when the recorder has finished its file and removed the journal.
    Who follows a job for weeks keeps none open that nobody has written to for a minute (``keeps_files`` False): each
    worker that came and went has left one.
    """

    def __init__(self, folder: str, *, keeps_files: bool = True) -> None:
        self._folder = folder
        self._files: dict[str, _File] = {}
        self._keeps_files = keeps_files
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
            if not self._keeps_files:
                file.rest()

    def close(self) -> None:
        for file in self._files.values():
            file.close()

    def _all_files(self) -> list[_File]:
        with suppress(OSError):  # the folder is gone
            for name in os.listdir(self._folder):
                if name.endswith(".jnl") and name not in self._files:
                    with suppress(OSError):
                        self._files[name] = _File(os.path.join(self._folder, name))
        return [self._files[name] for name in sorted(self._files) if not self._files[name].is_resting]


class _File:
    """One file and how far it was read."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._stream: BinaryIO | None = os.fdopen(open_regular(path), "rb")
        self._offset = 0
        self._news_s = time.monotonic()
        self._rests_s = _REST_S

    @property
    def is_resting(self) -> bool:
        """Whether it is closed, and not yet due to be looked at again."""
        return self._stream is None and time.monotonic() - self._news_s < self._rests_s

    def blocks(self) -> Iterator[tuple[str, list[Row]]]:
        """Whole and sound frames from here on. One that is short or damaged may become whole: it is tried again."""
        while (stream := self._opened()) is not None:
            stream.seek(self._offset)
            header = stream.read(HEADER.size)
            if len(header) < HEADER.size:
                return
            length, crc = HEADER.unpack(header)
            payload = stream.read(length) if length <= MAX_FRAME_BYTES else b""
            if len(payload) < length or zlib.crc32(payload) != crc:
                return
            self._offset += HEADER.size + length
            self._news_s, self._rests_s = time.monotonic(), _REST_S
            with suppress(ValueError, KeyError, TypeError, zlib.error):
                yield decode_payload(payload)

    def rest(self) -> None:
        """Close it if it has had no news for a while, and look again ever less often: its writer is gone."""
        if time.monotonic() - self._news_s >= self._rests_s:
            self.close()
            self._news_s, self._rests_s = time.monotonic(), min(2 * self._rests_s, _MOST_REST_S)

    def close(self) -> None:
        if self._stream is not None:
            self._stream.close()
            self._stream = None

    def _opened(self) -> BinaryIO | None:
        """None: it is gone."""
        if self._stream is None:
            with suppress(OSError):
                self._stream = os.fdopen(open_regular(self._path), "rb")
        return self._stream
