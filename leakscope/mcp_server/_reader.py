"""The reader as its parent sees it: started when it is needed, asked one thing at a time, stopped if it is late."""

from __future__ import annotations

import json
import os
import subprocess
import threading
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, NamedTuple

from .. import isolation

LONGEST_S = 300.0  # the report of a day with twenty processes takes five seconds; and clients give up before that
# Pools for each core of a large machine would reserve more than a recording needs.
_ONE_THREAD = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "ARROW_DEFAULT_MEMORY_POOL": "system"}
_CODE = (
    "import json, sys; sys.path += json.loads(sys.argv.pop(1)); "
    "from leakscope.mcp_server.__main__ import main; sys.exit(main())"
)


class Answer(NamedTuple):
    text: str
    is_error: bool = False


class Reader:
    """A process that answers; another is started after one that ended. ``longest_s``: when an answer is late."""

    def __init__(self, folder: Path, longest_s: float = LONGEST_S) -> None:
        self._folder, self._longest_s = folder, longest_s
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Reader:
        self._process = self._started()  # it loads its libraries while the client still says hello
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def ask(self, tool: str, arguments: Mapping[str, Any]) -> Answer:
        """What the tool says; an error where the reader ends meanwhile. Not to be called from two threads at once."""
        process = self._process
        if process is None or process.poll() is not None:
            process = self._process = self._started()
        assert process.stdin is not None and process.stdout is not None
        late = threading.Event()

        def give_up() -> None:
            late.set()
            process.kill()

        timer = threading.Timer(self._longest_s, give_up)
        timer.start()
        try:
            process.stdin.write(json.dumps({"tool": tool, "arguments": arguments}).encode() + b"\n")
            process.stdin.flush()
            said = process.stdout.readline()
        except (OSError, ValueError):  # it ended, or was stopped
            said = b""
        finally:
            timer.cancel()
        if said.endswith(b"\n"):
            return Answer(**json.loads(said))
        if late.is_set():
            return Answer(f"{tool} took longer than {self._longest_s:.0f} s and was stopped: ask for less", True)
        status = process.wait()
        return Answer(
            f"{tool} could not be answered: what read the recording ended (status {status}): "
            "the recording is damaged, or needs more memory than this server takes",
            True,
        )

    def stop(self) -> None:
        """End the reader at once; the next question starts another."""
        process, self._process = self._process, None
        if process is not None:
            process.kill()
            process.wait()
            for pipe in (process.stdin, process.stdout):
                if pipe is not None:
                    pipe.close()

    def _started(self) -> subprocess.Popen[bytes]:
        """In the root folder, and isolated: a ``numpy.py`` that lies where the client started us is not numpy."""
        command = [*isolation.interpreter("-B"), "-c", _CODE, json.dumps(isolation.installed()), str(self._folder)]
        environment = {**os.environ, **_ONE_THREAD}
        return subprocess.Popen(command, cwd="/", env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
