"""One line of a log, taken out of what carried it: syslog, journalctl, dmesg in its many forms, a mail."""

from __future__ import annotations

import re
from typing import NamedTuple


class Record(NamedTuple):
    """A message and what its carrier said about it."""

    line_number: int
    text: str
    is_kernel: bool | None = None  # None: the carrier does not say, as in a bare paste
    time: str | None = None  # as printed
    time_kind: str = "none"
    kernel_time_s: float | None = None
    tag: str | None = None  # the program that wrote it
    boot: str | None = None
    stamped: bool = False  # it had a prefix; a bare line after one that had may be its continuation


LONGEST_TEXT = 8192  # no line that matters comes near; bounds the work on files that are no logs

_COLOUR = re.compile(r"\x1b\[[0-9;?]*[ -/]*[@-~]|#033\[[0-9;]*m")
_PADDING = re.compile(r"(?<=\S) {40,}(?=\S)")  # a terminal padded the line to its width and wrapped it
_QUOTE = re.compile(r"(?:> ?|\| )+")
_KMSG = re.compile(r"(\d{1,4}),\d+,(\d+),[^;]{0,80};")
_PRIORITY = re.compile(r"<(\d{1,3})>(?:1 )?")
_FACILITY = re.compile(r"(kern|user|mail|daemon|auth|syslog|lpr|news|uucp|cron|authpriv|ftp|local\d)\s*: ?\w+\s*: ")
_CALLER = r"(?:\s*\[\s*[TC]\d+(?:@C\d+)?\])?"
_SECONDS = re.compile(r"\[\s*(\d+\.\d+)(?:@\d+)?\]" + _CALLER + r"\s*")
_RELATIVE = re.compile(r"\[\s*(\+\d+\.\d+)\]\s?")
_DATE = re.compile(r"\[\s*([^\[\]]{0,40}\d{1,2}:\d\d[^\[\]]{0,30})\]:?" + _CALLER + r"\s*")
_ISO = re.compile(r"(\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(?:[.,]\d+)?(?:Z| ?[+-]\d\d:?\d\d)?):?(?:\s+|$)")
_SYSLOG = re.compile(
    r"((?:[^\W\d]\S{1,8} )?(?:[^\W\d]\S{1,9}\s+\d{1,2}|\d{1,2}\.? [^\W\d]\S{1,9}|\d{1,2}月 +\d{1,2})"
    r"(?: \d{4})? \d\d:\d\d:\d\d(?:\.\d+)?(?: \d{4})?)\s+"
)
_OWN_STAMP = re.compile(_SYSLOG.pattern.removesuffix(r"\s+") + r":\s+")  # of a program that writes to its own file
_LOGCAT = re.compile(r"(\d\d-\d\d \d\d:\d\d:\d\d\.\d{3})\s+\d+\s+\d+ [VDIWEFS] ([^:\s][^:]{0,39}?)\s*: ")
_KERNEL_TAG = re.compile(r"(?:\S+ )?(?:kern\.\w+ )?kernel(?:\[\d+\])?(?:: ?| (?:- ){2,3})")
_USER_TAG = re.compile(r"(?:[^\s:\[\]]+ )?([\w.@()/-]+)\[\d+\]: ?")
_HOST_AND_TAG = re.compile(r"[^\s:\[\]()]+ ([\w.@()/-]+): ")
_HOST = re.compile(
    r"(?!(?:INFO|WARN|WARNING|ERROR|DEBUG|CRITICAL|FATAL)\b)\S+\s+"
    r"(?=(?:Memory cgroup out|Out) of memory: Kill|Killed process \d|oom-kill:constraint=)"
)
_EVENT = re.compile(r".{0,200}?\b(?:Pod)?OOMKilling\s.{0,200}?(?=(?:Memory cgroup out|Out) of memory: Kill)")
_MESSAGE = re.compile(r"MESSAGE=")  # journalctl -o verbose
_ANYWHERE = re.compile(r"(?!//|--|[;%])[^\"'`#*]{0,160}?(?:\bkernel: ?(?=\S)|(?=\[\s*\d+\.\d{6}\]))")


def clean(line: str) -> str:
    """The line without colours, terminal padding and line ends, also such as JSON logs spell out."""
    line = line[:LONGEST_TEXT].replace("\x00", "")
    if "\x1b" in line or "#033" in line:
        line = _COLOUR.sub("", line)
    line = line.rstrip("\r\n")
    while line.endswith(("\\r", "\\n")):
        line = line[:-2]
    return _PADDING.sub("", line) if " " * 40 in line else line


def peel(line_number: int, line: str) -> Record:
    """The record in a line: prefixes are taken off from the left as long as one is known."""
    text = clean(line)
    is_kernel: bool | None = None
    time = tag = None
    time_kind = "none"
    seconds: float | None = None
    stamped = is_own_file = False
    quote = _QUOTE.match(text)
    if quote:
        text = text[quote.end() :]
    for _ in range(8):
        start = text.lstrip()
        may_have_host = tag is None and time_kind in ("syslog", "iso") and not is_own_file
        if match := _SECONDS.match(start):
            seconds = float(match[1])
            if time is None:
                time, time_kind = match[1], "kernel_seconds"
        elif match := _KMSG.match(start):
            is_kernel = int(match[1]) >> 3 == 0
            seconds, time, time_kind = int(match[2]) / 1e6, match[2], "kmsg_microseconds"
        elif match := _PRIORITY.match(start):
            # Before a printk stamp it says nothing: util-linux 2.38 mixes up facility and level there.
            if int(match[1]) >= 8 and not _SECONDS.match(start[match.end() :]):
                is_kernel = False
        elif match := _FACILITY.match(start):
            is_kernel = match[1] == "kern"
        elif match := _RELATIVE.match(start):
            time, time_kind = time or match[1], time_kind if time else "reltime"
        elif match := _DATE.match(start):
            if time is None:
                time, time_kind = match[1], "iso" if _ISO.match(match[1]) else "dmesg_T"
        elif match := _ISO.match(start):
            time, time_kind = time or match[1], time_kind if time else "iso"
        elif match := _OWN_STAMP.match(start):
            time, time_kind, is_own_file = time or match[1], time_kind if time else "syslog", True
        elif match := _LOGCAT.match(start):
            is_kernel, tag, time, time_kind = False, match[2], match[1], "logcat"
        elif match := _SYSLOG.match(start):
            time, time_kind = time or match[1], time_kind if time else "syslog"
        elif (match := _KERNEL_TAG.match(start)) and (stamped or start.startswith("kernel")):
            is_kernel, tag = is_kernel is not False, "kernel"
        elif (match := _USER_TAG.match(start)) or (may_have_host and (match := _HOST_AND_TAG.match(start))):
            is_kernel, tag = False, match[1]  # the kernel writes no such tag: somebody else's line, even in its log
        elif (may_have_host and (match := _HOST.match(start))) or (match := _EVENT.match(start)):
            tag = "kernel"
        elif not stamped and (match := _MESSAGE.match(start)):
            pass
        elif not stamped and (match := _ANYWHERE.match(start)) and match.end():
            is_kernel = True if start[: match.end()].rstrip().endswith("kernel:") else None
        else:
            break
        text, stamped = start[match.end() :], True
        if is_kernel is False and tag not in (None, "kernel"):
            break  # what a program wrote is not ours to peel further
    return Record(line_number, text.strip(), is_kernel, time, time_kind, seconds, tag, None, stamped)
