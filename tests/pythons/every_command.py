"""Run every command once, on this very Python: ``python every_command.py RECORDING FOLDER``.

Needs what leakscope declares and nothing else; prints JSON: what each command returned and said, and which there are.
"""

from __future__ import annotations

import contextlib
import gzip
import io
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
import traceback
import urllib.request
import warnings
from pathlib import Path
from typing import Any

import click

from leakscope.cli import cli
from leakscope.cli import main as run_command

FIXTURES = Path(__file__).resolve().parents[2] / "fixtures"
PROGRAM = """
import pathlib, time
kept = []
while not pathlib.Path("stop").exists():
    kept.append(bytearray(200_000))
    time.sleep(0.02)
"""


def main(recording: Path, folder: Path) -> None:
    os.chdir(folder)
    shutil.copy(recording, "run.parquet")
    shutil.copy(recording.with_name("duplicate_model-leaky.parquet"), "models.parquet")
    Path("pyproject.toml").write_text("[tool.leakscope]\n")
    Path("leaky.py").write_text(PROGRAM)
    shutil.copy(FIXTURES / "imports" / "mprof-leaky.dat", "mprof.dat")
    shutil.copy(FIXTURES / "imports" / "heap-1.jsonl.gz", "heap.jsonl.gz")
    Path("heap.jsonl").write_bytes(gzip.decompress(Path("heap.jsonl.gz").read_bytes()))
    Path("kernel.log").write_text(_KERNEL_LOG)
    done: list[dict[str, Any]] = [*_recorded(), *map(_run, _commands())]
    print(json.dumps({"commands": sorted(_leaves(cli, ())), "done": done}))


def _commands() -> list[list[str]]:
    """In this order: some read what others wrote. ``live.parquet`` was recorded before."""
    return [
        ["--help"],
        ["report", "run.parquet"],
        *(["report", "run.parquet", "-f", name] for name in _choices("report")),
        ["report", "run.parquet", "--exit-code", "-f", "brief"],
        ["report", "models.parquet", "-f", "json"],
        ["report", "live.parquet", "-f", "json", "--with-timeline"],
        *(["compare", "run.parquet", "live.parquet", "-f", name] for name in _choices("compare")),
        *(["check", "live.parquet", "-f", name] for name in _choices("check")),
        ["check", "run.parquet", "--max-growth", "1MB/hour", "--max-rss", "1GB", "--no-oom", "--no-duplicates"],
        ["fix", "run.parquet"],
        ["whatif", "run.parquet"],
        ["heap", "live.parquet"],
        ["heap", "live.parquet", "--diff"],
        ["heap", "live.parquet", "--path", "kept"],
        *(["export", "live.parquet", "-f", name, _to(name), f"to-{name}"] for name in _choices("export")),
        ["metrics", "run.parquet"],
        ["redact", "run.parquet", "-o", "redacted.parquet"],
        ["report", "redacted.parquet", "-f", "json"],
        ["watch", "run.parquet", "--plain"],
        ["watch", "run.parquet", "--plain", "--replay", "--speed", "10000"],
        ["fleet", "demo", "demo"],
        ["fleet", "index", "run.parquet", "live.parquet", "-o", "fleet.parquet"],
        *(["fleet", "list", "fleet.parquet", "-f", name] for name in _choices("fleet", "list")),
        *(["fleet", "report", "fleet.parquet", "-f", name] for name in _choices("fleet", "report")),
        ["fleet", "query", "SELECT count(*) FROM recordings", "--index", "fleet.parquet"],
        ["fleet", "analyze", "run.parquet", "--workers", "1", "-o", "analyzed.parquet"],
        *(["oom", "kernel.log", "-f", name] for name in _choices("oom")),
        ["import", "mprof.dat", "-o", "imported.parquet"],
        ["report", "imported.parquet"],
        ["import", "heap.jsonl", "-o", "objects.parquet"],
        ["finalize", "live.parquet", "--judge"],
        ["upload", "live.parquet", "--to", "file:///nowhere", "--dry-run"],
        ["push", "live.parquet", "--to", "wandb"],
        *(["doctor", "-f", name] for name in _choices("doctor")),
        *(["schema", "-f", name] for name in _choices("schema")),
        ["schema", "report"],
        ["schema", "fleet"],
        ["skill"],
        ["ps"],
        *(["completion", shell] for shell in ("bash", "zsh", "fish")),
    ]


def _recorded() -> list[dict[str, Any]]:
    """A job of this Python, looked at from outside while it goes on."""
    ours = [sys.executable, "-X", "faulthandler", "-m", "leakscope"]
    job = subprocess.Popen(
        [*ours, "record", "-o", "live.parquet", "--", sys.executable, "leaky.py"],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    _wait_for(lambda: list(Path("live.parquet.journal").glob("agent-*.jnl")))
    (python,) = (int(path.name.split("-")[1]) for path in Path("live.parquet.journal").glob("agent-*.jnl"))
    told = [_called([*ours, "attach", "-o", "attached.parquet", "--duration", "1", str(python)])]
    told += [_called([*ours, "snapshot", "--pid", str(python)]) for _ in range(2)]
    told.append(_called([*ours, "metrics", "live.parquet"]))
    told.append(_called([*ours, "report", "live.parquet", "-f", "json"]))
    Path("stop").touch()
    output, said = job.communicate(timeout=120)
    told.append({"argv": ["record"], "status": job.returncode, "output": output, "said": said})
    told.append(_called([*ours, "mcp", "--folder", "."], stdin=subprocess.DEVNULL))
    told.append(_served([*ours, "view", "live.parquet", "--no-browser"]))
    told.append(_called([*ours, "demo", "shown", "--no-browser"]))
    return told


def _wait_for(condition: Any) -> None:
    until_s = time.monotonic() + 60
    while not condition() and time.monotonic() < until_s:
        time.sleep(0.1)


def _called(command: list[str], **options: Any) -> dict[str, Any]:
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, **options)
    return {"argv": command[5:], "status": done.returncode, "output": done.stdout, "said": done.stderr}


def _served(command: list[str]) -> dict[str, Any]:
    server = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    assert server.stdout is not None
    address = re.search(r"http://\S+", server.stdout.readline())
    page = urllib.request.urlopen(address[0], timeout=60).read().decode() if address is not None else ""
    server.send_signal(signal.SIGINT)
    return {"argv": command[5:], "status": server.wait(60), "output": page, "said": server.stdout.read()}


def _run(argv: list[str]) -> dict[str, Any]:
    """In this process: 70 times the imports would take longer than the rest."""
    output, said = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(output), contextlib.redirect_stderr(said), warnings.catch_warnings():
        for category in (DeprecationWarning, FutureWarning):
            warnings.filterwarnings("error", category=category, module=r"leakscope(\.|$)")
        try:
            status: object = run_command(argv)
        except SystemExit as end:
            status = end.code
        except BaseException:
            status, _ = 70, traceback.print_exc(file=said)
    return {"argv": argv, "status": status, "output": output.getvalue(), "said": said.getvalue()}


def _leaves(command: click.Command, path: tuple[str, ...]) -> list[str]:
    if isinstance(command, click.Group):
        return [leaf for name, one in command.commands.items() for leaf in _leaves(one, (*path, name))]
    return [" ".join(path)]


def _to(format_name: str) -> str:
    return "--to" if format_name in ("csv", "parquet") else "-o"  # a folder of tables, or a file


def _choices(*path: str) -> list[str]:
    """The formats of a command."""
    command: Any = cli
    for name in path:
        command = command.commands[name]
    (option,) = (one for one in command.params if "--format" in one.opts)
    return list(option.type.choices)


_KERNEL_LOG = (
    "[ 9.1] oom-kill:constraint=CONSTRAINT_MEMCG,nodemask=(null),cpuset=/,mems_allowed=0,oom_memcg=/job,"
    "task_memcg=/job,task=python,pid=4242,uid=0\n"
    "[ 9.2] Memory cgroup out of memory: Killed process 4242 (python) total-vm:900000kB, anon-rss:600000kB, "
    "file-rss:1000kB, shmem-rss:0kB, UID:0 pgtables:1300kB oom_score_adj:0\n"
)

if __name__ == "__main__":
    main(Path(sys.argv[1]).resolve(), Path(sys.argv[2]).resolve())
