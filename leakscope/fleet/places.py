"""Where recordings lie: folders, globs and addresses to a list of files, and the last bytes of each.

Local files are listed and read by the standard library; any other address by fsspec, which is an extra.
"""

from __future__ import annotations

import glob
import os
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple

from ..addresses import is_remote
from ..errors import BadInput
from ..storage.footers import TAIL_BYTES, bytes_needed
from ..storage.remote import filesystem, told_in_a_line

_JOURNAL = ".journal"
_SUFFIX = ".parquet"
_READ = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)
_AT_ONCE = 256  # requests to a remote store that wait at the same time


class Place(NamedTuple):
    """A recording's file, its journal beside it, or both. ``stamp`` changes when the file does."""

    url: str
    size_bytes: int | None  # None: there is a journal, and no file
    stamp: str
    has_journal: bool = False


class Source:
    """What one URL leads to. ``base``: what the addresses of all its recordings begin with."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.is_local = not is_remote(url)
        path = os.path.abspath(url.removeprefix("file://")) if self.is_local else url
        self.path = path
        magic = glob.has_magic(path)
        self.base = path[: min(path.find(c) for c in "*?[" if c in path)] if magic else path

    def places(self) -> list[Place]:
        """Sorted by address. **Errors** BadInput where there is nothing, or it cannot be listed."""
        found = _merged(self._local() if self.is_local else self._remote())
        return sorted(found)

    def tails(self, places: Sequence[Place]) -> Iterator[tuple[Place, bytes | OSError]]:
        """The last bytes of each file, at least its footer's; or why they cannot be read."""
        if self.is_local:
            for place in places:
                yield place, _tail(place)
        else:
            yield from _remote_tails(filesystem(self.url)[0], places)

    def text_of(self, path: str) -> bytes:
        """A small file. **Errors** OSError."""
        if self.is_local:
            with os.fdopen(os.open(path, _READ | getattr(os, "O_NOFOLLOW", 0)), "rb") as stream:
                return stream.read(1 << 20)
        found: bytes = filesystem(self.url)[0].cat_file(path, end=1 << 20)
        return found

    def _local(self) -> Iterator[Place]:
        if glob.has_magic(self.path):
            tops = sorted(glob.glob(self.path, recursive=True))
        elif os.path.lexists(self.path):
            tops = [self.path]
        elif os.path.isdir(self.path + _JOURNAL):
            tops = [self.path + _JOURNAL]
        else:
            raise BadInput(f"there is nothing at {self.url}: name a folder, a glob in quotes, or an address")
        for top in tops:
            if top.endswith(_JOURNAL):
                yield Place(top[: -len(_JOURNAL)], None, "", True)
            elif os.path.isdir(top):
                yield from _below(top)
            elif top.endswith(_SUFFIX) or top == self.path:
                status = os.stat(top)
                yield Place(top, status.st_size, str(status.st_mtime_ns), os.path.isdir(top + _JOURNAL))

    def _remote(self) -> Iterator[Place]:
        system, path = filesystem(self.url)
        with told_in_a_line(self.url, BadInput):
            found = system.glob(path, detail=True) if glob.has_magic(path) else system.find(path, detail=True)
        for name, facts in found.items():
            if facts.get("type") == "directory":
                continue
            head, journal, _ = name.partition(_SUFFIX + _JOURNAL + "/")
            if journal:
                yield Place(system.unstrip_protocol(head + _SUFFIX), None, "", True)
            elif name.endswith(_SUFFIX) and not name.rpartition("/")[2].startswith("."):
                yield Place(system.unstrip_protocol(name), int(facts.get("size") or 0), _stamp(facts))


def _below(top: str) -> Iterator[Place]:
    """All recordings of a folder and its folders. A folder that nobody may read is left out; links are not followed."""
    todo = [top]
    while todo:
        folder = todo.pop()
        try:
            entries = list(os.scandir(folder))
        except OSError:
            if folder == top:
                raise
            continue
        for entry in entries:
            name = entry.name
            if name.startswith("."):
                continue
            if entry.is_dir(follow_symlinks=False):
                if name.endswith(_JOURNAL):
                    yield Place(entry.path[: -len(_JOURNAL)], None, "", True)
                else:
                    todo.append(entry.path)
            elif name.endswith(_SUFFIX):
                try:
                    status = entry.stat()
                except OSError:  # gone meanwhile, or a link to nothing
                    continue
                yield Place(entry.path, status.st_size, str(status.st_mtime_ns))


def _merged(places: Iterator[Place]) -> list[Place]:
    """A file and the journal beside it are one recording."""
    found: dict[str, Place] = {}
    for place in places:
        other = found.get(place.url)
        if other is not None:
            file = place if other.size_bytes is None else other
            place = file._replace(has_journal=place.has_journal or other.has_journal)
        found[place.url] = place
    return list(found.values())


def _tail(place: Place) -> bytes | OSError:
    size = place.size_bytes or 0
    try:
        with os.fdopen(os.open(place.url, _READ), "rb", buffering=0) as file:
            file.seek(max(0, size - TAIL_BYTES))
            tail = file.read(TAIL_BYTES)
            needed = bytes_needed(tail, size)
            if needed > len(tail):
                file.seek(size - needed)
                tail = file.read(needed)
            return tail
    except OSError as error:
        return error


def _remote_tails(system: Any, places: Sequence[Place]) -> Iterator[tuple[Place, bytes | OSError]]:
    """Two requests a file at most, many at once."""

    def read(place: Place) -> tuple[Place, bytes | OSError]:
        size = place.size_bytes or 0
        try:
            tail = system.cat_file(place.url, start=max(0, size - TAIL_BYTES), end=size) if size else b""
            needed = bytes_needed(tail, size)
            return place, system.cat_file(place.url, start=size - needed, end=size) if needed > len(tail) else tail
        except Exception as error:  # each store has its own
            return place, error if isinstance(error, OSError) else OSError(" ".join(str(error).split())[:200])

    with ThreadPoolExecutor(32) as threads:
        for start in range(0, len(places), _AT_ONCE):
            yield from threads.map(read, places[start : start + _AT_ONCE])


def _stamp(facts: dict[str, Any]) -> str:
    for key in ("ETag", "etag", "LastModified", "last_modified", "mtime", "updated", "created"):
        if facts.get(key) is not None:
            return str(facts[key]).strip('"')
    return str(facts.get("size"))
