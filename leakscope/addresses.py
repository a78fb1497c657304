"""Addresses of recordings that are not on this machine, such as ``s3://bucket/run.parquet``. Standard library only."""

from __future__ import annotations

import re

_URL = re.compile(r"([A-Za-z][A-Za-z0-9+.-]+)://(.*)", re.DOTALL)
_SHORTENED = re.compile(r"([A-Za-z][A-Za-z0-9+.-]+):/([^/].*)", re.DOTALL)
_USER_INFO = re.compile(r"(://)[^/]*@")
_FILE = "file"
LIBRARY_OF_STORE = {  # which fsspec needs beside itself
    **dict.fromkeys(("s3", "s3a"), "s3fs"),
    **dict.fromkeys(("gs", "gcs"), "gcsfs"),
    **dict.fromkeys(("abfs", "abfss", "az"), "adlfs"),
}


def is_url(text: str) -> bool:
    """Whether it names a place that is no path of this machine."""
    return _URL.fullmatch(text) is not None


def is_remote(address: str) -> bool:
    """Whether another machine has it, or what stands for one: a URL, but not one of a file of this machine."""
    return is_url(address) and scheme_of(address) != _FILE


def as_url(text: str) -> str | None:
    """The URL that a text is, also one that went through a Path, which makes ``s3:/bucket`` of it; None: a path."""
    if is_url(text):
        return text
    if match := _SHORTENED.fullmatch(text):
        return f"{match[1]}://{'/' if match[1] == _FILE else ''}{match[2]}"
    return None


def scheme_of(url: str) -> str:
    return url.partition("://")[0].lower()


def name_of(url: str) -> str:
    """The name of the file; empty where it names a folder."""
    name = url.partition("?")[0].partition("://")[2].rpartition("/")[2]
    return name if name.strip(".") else ""


def without_credentials(url: str) -> str:
    """What may be shown and written down of it: no user, no password, no query."""
    place, mark, _ = _USER_INFO.sub(r"\1", url).partition("?")
    return place + ("?..." if mark else "")
