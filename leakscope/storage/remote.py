"""Recordings that are not on this machine: fsspec opens and copies them. Loaded by who has such an address.

Which library speaks to which store is fsspec's knowledge: ``s3://`` s3fs, ``gs://`` gcsfs, ``abfs://`` adlfs; ``file://``
and ``memory://`` need none. Keys and endpoints come from where these libraries look for them.
"""

from __future__ import annotations

import os
import posixpath
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from ..addresses import LIBRARY_OF_STORE, scheme_of, without_credentials
from ..errors import BadInput, LeakscopeError, UnreadableRecording, to_install

# These show a file while it is being written: it is put beside, and renamed when it is whole. A store of objects shows
# none before that.
_OF_FILES = frozenset(("file", "local", "sftp", "ssh", "ftp", "smb", "hdfs", "webhdfs"))


def open_url(url: str) -> Any:
    """The file there, as a binary stream that reads on demand. **Errors** BadInput, UnreadableRecording."""
    shown = without_credentials(url)
    with told_in_a_line(url, UnreadableRecording):
        system, path = filesystem(url)
        try:
            return system.open(path, "rb", cache_type="readahead")
        except FileNotFoundError:
            raise UnreadableRecording(f"there is no file {shown}: check the name") from None


def size_of(url: str) -> int | None:
    """Bytes of the file there; None: there is none. **Errors** BadInput, LeakscopeError."""
    with told_in_a_line(url, LeakscopeError):
        system, path = filesystem(url)
        try:
            return int(system.info(path)["size"])
        except FileNotFoundError:
            return None


def put(local: str, url: str) -> None:
    """Copy a file there, in place of what has that name. **Errors** BadInput, LeakscopeError."""
    with told_in_a_line(url, LeakscopeError):
        system, path = filesystem(url)
        if scheme_of(url) not in _OF_FILES:
            system.put_file(local, path)
            return
        folder, name = posixpath.split(path)
        system.makedirs(folder, exist_ok=True)
        beside = posixpath.join(folder, f".{name}.tmp-{os.urandom(8).hex()}")
        system.put_file(local, beside)
        system.mv(beside, path)


def move(url: str, name: str) -> None:
    """Give the file there another name in its folder. **Errors** BadInput, LeakscopeError."""
    with told_in_a_line(url, LeakscopeError):
        system, path = filesystem(url)
        system.mv(path, posixpath.join(posixpath.dirname(path), name))


def filesystem(url: str) -> tuple[Any, str]:
    """fsspec's file system, and the path in it. **Errors** BadInput without fsspec, or what it needs for the URL."""
    with told_in_a_line(url, BadInput):
        try:
            from fsspec.core import url_to_fs
        except ImportError:
            raise BadInput(
                f"{without_credentials(url)}: fsspec, which reads such addresses, is not installed here: "
                f"{to_install('remote')}"
            ) from None
        system, path = url_to_fs(url, use_listings_cache=False)
        return system, path


@contextmanager
def told_in_a_line(url: str, kind: type[LeakscopeError]) -> Iterator[None]:
    """Whatever the many libraries behind fsspec raise, without what the address must not show."""
    shown = without_credentials(url)
    try:
        yield
    except LeakscopeError:
        raise
    except ImportError as error:  # fsspec says which library
        said = " ".join(str(error).split()) or type(error).__name__
        package = LIBRARY_OF_STORE.get(scheme_of(url))
        raise BadInput(f"{shown}: {said}{f': pip install {package}' if package else ''}") from None
    except Exception as error:
        said = " ".join(str(getattr(error, "strerror", None) or error).split()).replace(url, shown)
        for secret in _secrets(url):
            said = said.replace(secret, "...")
        raise kind(f"{shown} cannot be reached: {said[:300] or type(error).__name__}") from None


def main() -> None:
    """For the recorder, before a job begins: whether what the URL on standard input needs is installed."""
    url = sys.stdin.read()
    try:
        with told_in_a_line(url, BadInput):
            from fsspec import get_filesystem_class

            get_filesystem_class(scheme_of(url))
    except LeakscopeError as error:
        print(error, file=sys.stderr)


def _secrets(url: str) -> list[str]:
    """The parts of an address that are nobody's business."""
    rest = url.partition("://")[2]
    login, at, _ = rest.partition("/")[0].rpartition("@")
    parts = [login, *login.split(":")] if at else []
    return sorted(filter(None, [*parts, rest.partition("?")[2]]), key=len, reverse=True)
