"""Any text or bytes -> records: plain logs, JSON of dmesg, journalctl, docker, kubectl and clouds, journal export."""

from __future__ import annotations

import json
import re
import zlib
from collections.abc import Iterator
from typing import Any

from .records import Record, peel

_JSON_STRING = re.compile(r'\s*"(?:msg|MESSAGE|message|log|textPayload)"\s*:\s*"((?:[^"\\]|\\.)*)"?,?\s*$')
_QUOTED = re.compile(r"=(?:[0-9A-F]{2}|[ \t]*$)")  # quoted-printable, in which mail programs send
_EXPORT_FIELD = re.compile(rb"([A-Z0-9_]+)(=|\n)")


def records(data: bytes | str) -> Iterator[Record]:
    """The records of a log, in its order, whatever carried it."""
    if isinstance(data, str) and data.startswith(("__CURSOR=", "__REALTIME_TIMESTAMP=")):
        data = data.encode("utf-8", "replace")
    if isinstance(data, bytes):
        if re.match(rb"(?:__CURSOR|__REALTIME_TIMESTAMP)=", data):
            yield from _of_export(data)
            return
        data = decode(data)
    documents = _documents(data)
    if documents is not None:
        messages = [record for number, document in documents for record in _of_object(number, document)]
        if messages:
            yield from messages
            return
    yield from _of_lines(data)


def unpacked(data: bytes | str) -> bytes | str:
    """The log in a rotated file such as kern.log.2.gz, also one that was cut."""
    if isinstance(data, str) or data[:2] != b"\x1f\x8b":
        return data
    try:
        return zlib.decompressobj(zlib.MAX_WBITS | 16).decompress(data)
    except zlib.error:
        return data


def decode(data: bytes) -> str:
    if data[:2] in (b"\xff\xfe", b"\xfe\xff"):
        return data.decode("utf-16", "replace")
    return data.decode("utf-8-sig", "replace")


def objects(data: bytes | str) -> list[tuple[int, Any]]:
    """(line, value) of each JSON document, where all of the text is JSON; for what reads more than messages."""
    return _documents(decode(data) if isinstance(data, bytes) else data) or []


def _documents(text: str) -> list[tuple[int, Any]] | None:
    """JSON documents one after the other, in a list or alone; None where the text is something else."""
    decoder = json.JSONDecoder()
    found: list[tuple[int, Any]] = []
    position, line_number, end = 0, 1, len(text)
    if text.lstrip("\x1e \t\r\n")[:1] not in ("{", "["):
        return None
    while True:
        start = position
        while position < end and text[position] in "\x1e \t\r\n":
            position += 1
        line_number += text.count("\n", start, position)
        if position == end:
            return found
        if text[position] not in "{[":
            return None
        try:
            value, after = decoder.raw_decode(text, position)
        except (ValueError, RecursionError):
            return None
        if isinstance(value, list) and not all(isinstance(item, dict) for item in value):
            return None  # "[12]" is also the start of many a log line
        found.append((line_number, value))
        line_number += text.count("\n", position, after)
        position = after


def _of_object(line_number: int, value: Any) -> Iterator[Record]:
    """Records of one JSON value: itself a message, or a list or tree of them."""
    stack = [value]
    while stack:
        node = stack.pop()
        if isinstance(node, list):
            stack.extend(reversed(node))
        elif isinstance(node, dict):
            message = _message(node)
            if message is not None:
                yield from _of_message(line_number, node, message)
            stack.extend(child for child in reversed(list(node.values())) if isinstance(child, (dict, list)))


def _message(node: dict[str, Any]) -> str | None:
    for key in ("MESSAGE", "msg", "log", "textPayload", "message"):
        value = node.get(key)
        if isinstance(value, str):
            return value
        if isinstance(value, list) and value and all(isinstance(n, int) and 0 <= n < 256 for n in value):
            return decode(bytes(value))  # journalctl does so for a message that is no UTF-8
    return None


def _of_message(line_number: int, node: dict[str, Any], message: str) -> Iterator[Record]:
    is_kernel = _is_kernel(node)
    seconds = _seconds(node)
    time = next((str(node[k]) for k in ("__REALTIME_TIMESTAMP", "timestamp", "time", "@timestamp") if k in node), None)
    tag = node.get("SYSLOG_IDENTIFIER")
    boot = node.get("_BOOT_ID")
    for line in message.splitlines():
        record = peel(line_number, line)
        yield record._replace(
            is_kernel=record.is_kernel if is_kernel is None else is_kernel,
            time=record.time or time,
            time_kind=record.time_kind if record.time else ("json" if time else "none"),
            kernel_time_s=seconds if record.kernel_time_s is None else record.kernel_time_s,
            tag=record.tag or (tag if isinstance(tag, str) else None),
            boot=boot if isinstance(boot, str) else None,
            stamped=True,
        )


def _is_kernel(node: dict[str, Any]) -> bool | None:
    """None where the carrier does not say. Lines written to /dev/kmsg have the transport, but not the facility."""
    transport, facility = node.get("_TRANSPORT"), node.get("SYSLOG_FACILITY")
    if transport is not None or facility is not None:
        return transport in (None, "kernel") and str(facility if facility is not None else 0) == "0"
    if isinstance(node.get("SYSLOG_IDENTIFIER"), str):
        return bool(node["SYSLOG_IDENTIFIER"] == "kernel")
    if isinstance(node.get("fac"), str):
        return bool(node["fac"] == "kern")
    return False if node.keys() & {"level", "levelname", "logger"} else None  # a program's own log


def _seconds(node: dict[str, Any]) -> float | None:
    try:
        for key in ("_SOURCE_MONOTONIC_TIMESTAMP", "__MONOTONIC_TIMESTAMP"):
            if key in node:
                return int(node[key]) / 1e6
        return float(node["time"]) if "msg" in node and "time" in node else None
    except (TypeError, ValueError):
        return None


def _of_export(data: bytes) -> Iterator[Record]:
    """`journalctl -o export`: NAME=value, or NAME, 8 bytes of length and the value; a blank line ends an entry."""
    position, line_number, first_line = 0, 1, 1
    entry: dict[str, Any] = {}
    while position < len(data):
        match = _EXPORT_FIELD.match(data, position)
        end = data.find(b"\n", position)
        end = len(data) if end < 0 else end
        if match and match[2] == b"\n":
            begin = match.end() + 8
            end = min(begin + int.from_bytes(data[match.end() : begin], "little"), len(data))
            entry[match[1].decode()] = decode(data[begin:end])
        elif match:
            entry[match[1].decode()] = decode(data[match.end() : end])
        elif end == position and entry:
            yield from _of_object(first_line, entry)
            entry = {}
        line_number += data.count(b"\n", position, end + 1)
        position = end + 1
        first_line = first_line if entry else line_number
    yield from _of_object(first_line, entry)


def _of_lines(text: str) -> Iterator[Record]:
    empty_stamp: Record | None = None
    for number, line in _unquoted(text.split("\n")):
        if line.startswith(("{", "data: {")):
            value = _parsed(line[line.index("{") :])
            if value is not None:
                yield from _of_object(number, value)
                continue
        string = _JSON_STRING.match(line) if '"' in line else None
        if string:  # a pretty-printed document that was cut, so that it does not parse as a whole
            line = str(_parsed(f'"{string[1]}"') or string[1])
        parts = line.splitlines() if string else line.split("#012")  # rsyslog writes line ends so
        first: Record | None = None
        for part in parts:
            record = peel(number, part)
            if first is not None and not record.stamped:
                record = first._replace(text=record.text)
            elif empty_stamp is not None and not record.stamped and record.text:
                record = empty_stamp._replace(text=record.text, line_number=number)  # wrapped right after the stamp
            empty_stamp = record if record.stamped and not record.text else None
            first = first or record
            yield record


def _unquoted(lines: list[str]) -> Iterator[tuple[int, str]]:
    """Numbered lines; those of a mail in quoted-printable as they were written.

    Such a text has no "=" but before two digits and at the end of a line that goes on, so a paragraph shows it.
    """
    begin = 0
    while begin < len(lines):
        end = begin
        while end < len(lines) and lines[end].strip():
            end += 1
        paragraph = lines[begin : end + 1]
        if any("=3D" in line for line in paragraph):
            yield from _joined_again(begin + 1, paragraph)
        else:
            yield from enumerate(paragraph, begin + 1)
        begin = end + 1


def _joined_again(number: int, lines: list[str]) -> Iterator[tuple[int, str]]:
    held, held_number = "", number
    for line in (line.rstrip("\r") for line in lines):
        is_quoted = "=" in line and len(_QUOTED.findall(line)) == line.count("=")
        held_number = held_number if held else number
        goes_on = is_quoted and line.rstrip(" \t").endswith("=")
        if is_quoted:
            line = _unquote(line.rstrip(" \t").removesuffix("=") if goes_on else line)
        held += line
        if not goes_on:
            yield held_number, held
            held = ""
        number += 1
    if held:
        yield held_number, held


def _unquote(line: str) -> str:
    return decode(re.sub(rb"=([0-9A-F]{2})", lambda found: bytes([int(found[1], 16)]), line.encode()))


def _parsed(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None
