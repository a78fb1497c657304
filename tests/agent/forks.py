"""Programs with torch, each a fork of one process that has imported it: the import takes longer than most of them.

So does that of ``torch._dynamo``, which the first optimizer of a process asks for.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

SERVER = """
import json, os, sys, warnings
import torch, torch._dynamo
from leakscope.agent.graph import heap_graph
from leakscope.agent.life import sentinels
from leakscope.agent.snapshots import exact, pause, peak, torch_look

for asked in map(json.loads, sys.stdin):
    with warnings.catch_warnings():  # of forking beside a thread: torch's own wait for work
        warnings.simplefilter("ignore", DeprecationWarning)
        pid = os.fork()
    if not pid:
        for fd, name in ((1, "stdout"), (2, "stderr")):
            os.dup2(os.open(os.path.join(asked["folder"], name), os.O_WRONLY | os.O_CREAT | os.O_TRUNC), fd)
        exec(compile(asked["code"], "<string>", "exec"))
        sys.stdout.flush()
        os._exit(0)  # to take down torch would last longer than most programs
    print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), flush=True)
"""


class Forks:
    """The process that they are forked from; ``folder`` is for what they print."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        command = [sys.executable, "-W", "error", "-c", SERVER]
        self._server = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def run(self, code: str) -> str:
        """What a program prints. It must end with status 0."""
        assert self._server.stdin is not None and self._server.stdout is not None
        print(json.dumps({"folder": str(self._folder), "code": code}), file=self._server.stdin, flush=True)
        status = self._server.stdout.readline()
        assert status == "0\n", f"ended with {status}: {(self._folder / 'stderr').read_text()}"
        return (self._folder / "stdout").read_text()

    def close(self) -> None:
        self._server.communicate(timeout=600)
