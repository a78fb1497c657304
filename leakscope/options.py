"""The options of ``leakscope record`` and ``attach``: one table that parses and reads the environment; help shows it.

Standard library only and without argparse, which costs the recorder 6 ms: it runs before the job starts.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from .addresses import is_url, without_credentials
from .errors import BadInput
from .units import parse_duration

ENVIRONMENT_PREFIX = "LEAKSCOPE_RECORD_"
TRACKERS = ("comet", "mlflow", "tensorboard", "wandb")  # those of the room pushing
_TRUE, _FALSE = ("1", "true", "yes", "on"), ("", "0", "false", "no", "off")


class Option(NamedTuple):
    """One option. ``parse`` makes its value from text (None: a switch without a value); ``field`` of RecordOptions.

    ``group``: under which heading the help has it; none: it goes on working, and no help shows it.
    """

    flags: tuple[str, ...]
    group: str
    field: str
    metavar: str
    default: str
    help: str
    parse: Callable[[str], Any] | None
    value: Any = True  # what a switch stands for
    earlier: tuple[str, ...] = ()  # names it had before: they go on working, and no help shows them

    @property
    def variables(self) -> tuple[str, ...]:
        """Names in the environment: ``--pss-interval`` is LEAKSCOPE_RECORD_PSS_INTERVAL. The first one counts."""
        names = (self.flags[-1], *self.earlier)
        return tuple(ENVIRONMENT_PREFIX + name[2:].upper().replace("-", "_") for name in names)


def _period(text: str) -> float:
    seconds = parse_duration(text)
    if not 0.01 <= seconds <= 86400:
        raise BadInput(f"{text!r} is out of range: 10ms to 1d")
    return seconds


def _period_or_auto(text: str) -> float | None:
    return None if text == "auto" else _period(text)


def _duration(text: str) -> float:
    seconds = parse_duration(text)
    if seconds <= 0:
        raise BadInput(f"{text!r} is not a duration above zero")
    return seconds


def _wait(text: str) -> float:
    return 0.0 if text == "0" else parse_duration(text)


def _percent(text: str) -> float:
    try:
        percent = float(text[:-1] if text.endswith("%") else text)
    except ValueError:
        raise BadInput(f"{text!r} is not a percentage: write it like 0.5%") from None
    if not 0.01 <= percent <= 50:  # also for nan
        raise BadInput(f"{text!r} is out of range: 0.01% to 50%; no snapshots at all is --no-snapshots")
    return percent / 100


def _pause(text: str) -> float | None:
    if text == "auto":
        return None
    seconds = parse_duration(text)
    if not 0.001 <= seconds <= 3600:
        raise BadInput(f"{text!r} is out of range: 1ms to 1h; no snapshots at all is --no-snapshots")
    return seconds


def _fsync(text: str) -> float | None:
    return {"never": None, "always": 0.0}[text] if text in ("never", "always") else _period(text)


def _agent(text: str) -> bool:
    if text not in ("auto", "off"):
        raise BadInput(f"{text!r} is neither auto nor off")
    return text == "auto"


def _label(text: str) -> tuple[str, str]:
    key, equals, value = text.partition("=")
    if not (key and equals):
        raise BadInput(f"{text!r} is not a label: write it like team=vision")
    return key, value


def _pid(text: str) -> int:
    if not (text.isascii() and text.isdigit()) or not 0 < int(text) < 2**31:
        raise BadInput(f"{text!r} is not a process id: write it like 4242")
    return int(text)


def _rule(text: str) -> str:
    from .alerts import parse_rule  # 2 ms that nobody waits for who has no rule

    parse_rule(text)
    return text


def _url(text: str) -> str:
    from .alerts import check_address

    check_address(text)
    return text


def _address(text: str) -> str:
    from .endpoints import parse_address

    return str(parse_address(text))


def _otlp(text: str) -> str:
    from .endpoints import otlp_url

    return otlp_url(text)


def _tracker(text: str) -> str:
    name, _, _ = text.partition(":")
    if name not in TRACKERS:
        raise BadInput(f"{name!r} is no tracker that is known: there are {', '.join(TRACKERS)}")
    return text


def _output(text: str) -> str:
    if not text:
        raise BadInput("the name is empty")
    return text


RECORD_OPTIONS: tuple[Option, ...] = (
    Option(("-o", "--output"), "Recording", "output", "FILE", "run.parquet",
           "File to record into; {job} {rank} {host} {time} {pod} {commit} and others are filled in. A URL such as "
           "s3://bucket/{job}.{rank}.parquet is recorded locally and uploaded.", _output),
    Option(("--upload-every",), "Recording", "upload_every_s", "TIME", "auto",
           "With a URL: upload this often while the job runs. auto: after a minute, then whenever the recording is "
           "half as old again, and each hour.", _period_or_auto),
    Option(("--upload-wait",), "Recording", "upload_wait_s", "TIME", "30s",
           "With a URL: when the job has ended, wait at most this long for the upload, which then goes on by itself.",
           _wait),
    Option(("--spool",), "Recording", "spool", "FOLDER", "",
           "With a URL: folder for what waits to be uploaded. By default LEAKSCOPE_SPOOL, else a private one in "
           "/var/tmp.", _output),
    Option(("-p", "--pid"), "Recording", "pids", "PID", "",
           "Record a process that runs already, as `leakscope attach` does; repeatable.", _pid),
    Option(("--system",), "Recording", "system", "", "",
           "Record the whole host: the 200 processes with the most memory or growth.", None),
    Option(("-d", "--duration"), "Recording", "duration_s", "TIME", "",
           "Stop recording after TIME; the job keeps running.", _duration),
    Option(("-i", "--interval"), "Recording", "interval_s", "TIME", "auto",
           "Time between samples. auto: 250ms in the first minute, then 1s; 5s with --system.", _period_or_auto),
    Option(("-f", "--force"), "Recording", "force", "", "",
           "Delete an earlier recording of that name instead of renaming it.", None),
    Option(("--label",), "Recording", "labels", "KEY=VALUE", "",
           "Attach a label to the recording; repeatable.", _label),
    Option(("--flush",), "Recording", "flush_s", "TIME", "5s",
           "Write samples to disk this often; a kill loses at most this much.", _period),
    Option(("--fsync",), "Recording", "fsync_s", "TIME|never|always", "30s",
           "Sync the journal to disk this often, against power loss.", _fsync),
    Option(("--pss-interval",), "Recording", "pss_interval_s", "TIME", "auto",
           "Time between readings of proportional memory (PSS). auto: 10s, longer where a reading is slow.",
           _period_or_auto),
    Option(("--keep-journal",), "Recording", "keep_journal", "", "",
           "Leave the journal folder next to the finished file.", None),
    Option(("-q", "--quiet"), "What is said", "quiet", "", "",
           "Say nothing: no figures in the title, no verdict at the end. The file has it.", None),
    Option(("--no-summary",), "What is said", "summary", "", "",
           "Judge nothing and say nothing at the end.", None, False),
    Option(("--agent",), "View inside", "agent", "auto|off", "auto",
           "off: sample from outside only, the command's environment stays as it is.", _agent),
    Option(("--no-snapshots",), "View inside", "takes", "", "",
           "Take no heap snapshots; read only cheap counters.", None, False, ("--no-takes",)),
    Option(("--probe",), "View inside", "probe", "", "",
           "At the end of each process, measure what gc, malloc_trim, empty_cache and Arrow free, however long that "
           "takes. Up to Python 3.11, watch calls of C functions for a moment: which loses references to None?", None),
    Option(("--no-source",), "View inside", "sources", "", "",
           "Record no text of the program: neither its modules' source nor lines of it in tracebacks, nor what follows "
           "python -c.", None, False),
    Option(("--framework-logs",), "View inside", "framework_logs", "", "",
           "Add memory figures to the logs of transformers' Trainer and of Lightning (changes what they print).", None),
    Option(("--no-sampling",), "View inside", "sampling", "", "",
           "Do not sample allocations: memory that no Python object holds is then reported without its lines.",
           None, False),
    Option(("--full-heap",), "View inside", "full_heap", "", "",
           "Keep every object and reference of a process's first and last snapshots, in a file each next to the "
           "recording. One is kept anyhow, the first time that 95% of a memory limit is used.", None),
    Option(("--gpu-history",), "View inside", "gpu_history", "", "",
           "Turn torch's own history of GPU memory on (the newest 100,000 events), and keep a memory snapshot when a "
           "GPU runs out, is almost full, and at the end: the report then says which line allocated what. Costs each "
           "allocation on a GPU some microseconds, and up to a few hundred MB of host memory.", None),
    Option(("--max-overhead",), "Cost", "max_overhead_fraction", "PERCENT", "1%",
           "Overhead limit: snapshots as a share of each process's time, the recorder as a share of one core. Short "
           "runs may use four minutes' worth at once.", _percent),
    Option(("--max-pause",), "Cost", "max_pause_s", "TIME", "auto",
           "Longest pause that a snapshot may cause. A larger heap is read only in part, and the report says so. auto: "
           "100ms; 250ms where torch is loaded or no loop that serves others (asyncio, socketserver, gevent, ...) "
           "runs, 500ms where both are so, and 1s where an optimizer steps.", _pause),
    Option(("--alert",), "Alerts", "alerts", "RULE", "",
           "Alert on rss>40GB, growth>100MB/min, oom_eta<30min, workers>16 or oom; repeatable.", _rule),
    Option(("--on-alert",), "Alerts", "on_alert", "COMMAND", "",
           "Run COMMAND in a shell at each alert, with the alert as JSON on its standard input.", str),
    Option(("--webhook",), "Alerts", "webhooks", "URL", "",
           "Send each alert to URL (Slack, Discord, or plain JSON); repeatable.", _url),
    Option(("--metrics",), "Metrics", "metrics", "ADDRESS", "",
           "Serve figures for Prometheus at ADDRESS while the job runs: :9464 is for this computer alone, 0.0.0.0:9464 "
           "for everybody.", _address),
    Option(("--otlp",), "Metrics", "otlp", "URL", "",
           "Push the same figures by OTLP over HTTP each 15 s, to http://localhost:4318 for one (needs the extra "
           "otlp).", _otlp),
    Option(("--log-to",), "Trackers", "log_to", "TRACKER[:WHERE]", "",
           "Log curves while it runs, and verdict and page at the end, to wandb[:PROJECT], mlflow[:EXPERIMENT], "
           "tensorboard[:FOLDER] or comet[:PROJECT]; repeatable. A separate helper does it.", _tracker),
    Option(("--no-adopt",), "The job itself", "adopts", "", "",
           "Do not adopt orphaned processes: they are re-parented to process 1, as without a recorder, and are not "
           "recorded.", None, False),
    Option(("--outlive",), "The job itself", "outlives", "", "",
           "If somebody kills the recorder (SIGKILL), the command goes on, unrecorded. By default it is killed, too: a "
           "launcher that kills what it has started means the command.", None),
    Option(("--tee",), "The job itself", "tee", "", "",
           "Record the end of stderr even if it is a terminal or a pipe. A helper copies it, so lines of stdout and "
           "stderr may interleave differently.", None),
    Option(("--find-training",), "", "find_training", "", "",
           "The same as `leakscope ps`.", None),
    Option(("--invited",), "", "invited", "", "",
           "The process starts the agent itself, as `leakscope.record()` does.", None),
    Option(("-h", "--help"), "Other", "help", "", "",
           "Show this message and exit.", None),
)  # fmt: skip


def _default(field: str) -> Any:
    """What the option's own row says."""
    (option,) = (option for option in RECORD_OPTIONS if option.field == field)
    assert option.parse is not None
    return option.parse(option.default)


class RecordOptions(NamedTuple):
    """What ``record`` is asked to do. Durations in seconds; None is ``auto`` (intervals) or ``never`` (fsync_s)."""

    command: Sequence[str] = ()
    pids: Sequence[int] = ()
    system: bool = False
    find_training: bool = False
    output: str | None = None
    upload_every_s: float | None = _default("upload_every_s")
    upload_wait_s: float = _default("upload_wait_s")
    spool: str | None = None
    interval_s: float | None = _default("interval_s")
    force: bool = False
    quiet: bool = False
    summary: bool = True
    agent: bool = _default("agent")
    takes: bool = True
    probe: bool = False
    sources: bool = True
    framework_logs: bool = False
    adopts: bool = True
    outlives: bool = False
    alerts: Sequence[str] = ()
    on_alert: str | None = None
    webhooks: Sequence[str] = ()
    metrics: str | None = None
    otlp: str | None = None
    log_to: Sequence[str] = ()
    tee: bool = False
    sampling: bool = True
    full_heap: bool = False
    gpu_history: bool = False
    flush_s: float = _default("flush_s")
    fsync_s: float | None = _default("fsync_s")  # 0: at every flush
    pss_interval_s: float | None = _default("pss_interval_s")
    max_overhead_fraction: float = _default("max_overhead_fraction")
    max_pause_s: float | None = _default("max_pause_s")
    duration_s: float | None = None
    invited: bool = False
    labels: Mapping[str, str] = {}
    keep_journal: bool = False
    help: bool = False

    @property
    def attaches(self) -> bool:
        """Whether it looks at what runs already instead of starting a command."""
        return bool(self.pids) or self.system

    def to_write_down(self) -> dict[str, Any]:
        """What a recording says it was asked to do: addresses of webhooks are secrets, and commands may hold some."""
        asked = {name: value for name, value in self._asdict().items() if name not in ("command", "labels", "help")}
        if self.output is not None and is_url(self.output):
            asked["output"] = without_credentials(self.output)
        are_told = {"on_alert": self.on_alert is not None, "otlp": self.otlp is not None}
        return {**asked, **are_told, "webhooks": len(self.webhooks)}


ATTACH_LACKS = (
    "pids",
    "system",
    "find_training",
    "framework_logs",
    "adopts",
    "outlives",
    "tee",
    "sampling",
    "gpu_history",
)  # for what is not started
_SEVERAL = ("pids", "alerts", "webhooks", "log_to")
_BY_FLAG = {flag: option for option in RECORD_OPTIONS for flag in (*option.flags, *option.earlier)}


def parse_record(argv: Sequence[str], environ: Mapping[str, str] = os.environ) -> RecordOptions:
    """Options from the words after ``record``, else from the environment, else the defaults.

    Options end at ``--`` or at the first word that is none: what follows is the command. **Errors** BadInput.
    """
    values, words = _read(argv, environ, "record")
    options = RecordOptions(command=tuple(words), **values)
    asked = [bool(options.command), bool(options.pids), options.system, options.find_training]
    if sum(asked) > 1 and not options.help:
        raise BadInput("record takes one of these: a command, -p PID or --system")
    if not (any(asked) or options.help):
        raise BadInput("record needs a command, such as: leakscope record train.py")
    _check(options)
    return options


def parse_attach(argv: Sequence[str], environ: Mapping[str, str] = os.environ) -> RecordOptions:
    """Options from the words after ``attach``, where process ids stand in place of a command. **Errors** BadInput."""
    values, words = _read(argv, environ, "attach")
    options = RecordOptions(**values)
    if not (options.help or words):
        raise BadInput("attach needs a process id, such as: leakscope attach 4242 (leakscope ps lists processes)")
    _check(options)
    return options._replace(pids=tuple(dict.fromkeys(map(_pid, words))))


def _check(options: RecordOptions) -> None:
    if (options.on_alert or options.webhooks) and not (options.alerts or options.help):
        flag = "--on-alert" if options.on_alert else "--webhook"
        raise BadInput(f"{flag} needs a rule that says when, such as --alert 'rss>90%'")


def _read(argv: Sequence[str], environ: Mapping[str, str], command: str) -> tuple[dict[str, Any], list[str]]:
    """Values of options, and the words that are none: of ``attach`` they may stand anywhere."""
    values: dict[str, Any] = {"labels": {}, **dict.fromkeys(_SEVERAL, ())}
    for option in RECORD_OPTIONS:
        variable = next((name for name in option.variables if name in environ), None)
        if variable is not None and option.field != "help" and _is_of(option, command):
            _from_environment(values, option, variable, environ[variable])
    words, others = list(argv), []
    while words and (command == "attach" or (words[0].startswith("-") and words[0] != "-")):
        word = words.pop(0)
        if word == "--":
            break
        if word.startswith("--"):
            flag, equals, value = word.partition("=")
            _from_flag(values, flag, value if equals else None, words, command)
        elif word.startswith("-"):
            _from_short_flags(values, word, words, command)
        else:
            others.append(word)
    return values, others + words


def _is_of(option: Option, command: str) -> bool:
    return command != "attach" or option.field not in ATTACH_LACKS


def _from_short_flags(values: dict[str, Any], word: str, words: list[str], command: str) -> None:
    """``-fq``, ``-i 1s``, ``-i1s``, ``-fi1s``."""
    for position, letter in enumerate(word[1:], start=2):
        flag, rest = f"-{letter}", word[position:]
        option = _BY_FLAG.get(flag)
        if option is not None and option.parse is not None:
            return _from_flag(values, flag, rest or None, words, command)
        _from_flag(values, flag, None, words, command)
    return None


def _from_flag(values: dict[str, Any], flag: str, value: str | None, words: list[str], command: str) -> None:
    option = _BY_FLAG.get(flag)
    if option is None or not _is_of(option, command):
        raise BadInput(f"{command} has no option {flag}{_meant(flag, command)}")
    if option.parse is None and value is not None:
        raise BadInput(f"{flag} takes no value, got {value!r}")
    if option.parse is not None and value is None:
        if not words:
            raise BadInput(f"{flag} needs a value: {flag} {option.metavar}")
        value = words.pop(0)
    _set(values, option, flag, value)


def _meant(flag: str, command: str) -> str:
    """What else a flag may be; loaded only for who mistyped one."""
    import difflib

    known = [name for name, option in _BY_FLAG.items() if name.startswith("--") and _is_of(option, command)]
    if close := difflib.get_close_matches(flag, known, n=1):
        return f": did you mean {close[0]}?"
    return f" (leakscope {command} --help lists them)"


def _from_environment(values: dict[str, Any], option: Option, variable: str, text: str) -> None:
    if option.parse is None:
        if text.lower() in _TRUE:
            values[option.field] = option.value
        elif text.lower() not in _FALSE:
            raise BadInput(f"{variable}: {text!r} is neither 1 nor 0")
    else:
        for part in text.split() if option.field in ("labels", *_SEVERAL) else [text]:
            _set(values, option, variable, part)


def _set(values: dict[str, Any], option: Option, origin: str, text: str | None) -> None:
    if option.parse is None or text is None:
        values[option.field] = option.value
        return
    try:
        value = option.parse(text)
    except BadInput as error:
        raise BadInput(f"{origin}: {error}") from None
    if option.field == "labels":
        values["labels"][value[0]] = value[1]
    elif option.field in _SEVERAL:
        values[option.field] = tuple(dict.fromkeys([*values[option.field], value]))
    else:
        values[option.field] = value
