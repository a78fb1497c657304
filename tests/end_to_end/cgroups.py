"""A memory cgroup of our own, in which a program can run out of memory without the machine doing so."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from .programs import LONGEST_S


class NoCgroup(Exception):
    """None can be made here, and why."""


class Cgroup(NamedTuple):
    """A memory cgroup of our own. ``name`` as the kernel prints it."""

    folder: Path
    is_v2: bool

    @classmethod
    def made(cls, name: str) -> Cgroup:
        """A new one. **Errors** NoCgroup."""
        if os.geteuid() != 0:
            raise NoCgroup("not root")
        is_v2 = Path("/sys/fs/cgroup/cgroup.controllers").exists()
        parent = Path("/sys/fs/cgroup" if is_v2 else "/sys/fs/cgroup/memory")
        controllers = parent / "cgroup.subtree_control"
        if (is_v2 and "memory" not in controllers.read_text().split()) or not parent.is_dir():
            raise NoCgroup("no memory controller here")
        made = cls(parent / name, is_v2)
        try:
            made.folder.mkdir()
        except OSError as error:
            raise NoCgroup(f"no cgroup can be made here: {error.strerror}") from error
        return made

    @property
    def name(self) -> str:
        return f"/{self.folder.name}"

    def limit(self, limit_bytes: int) -> None:
        names = (
            ("memory.max", "memory.swap.max")
            if self.is_v2
            else ("memory.limit_in_bytes", "memory.memsw.limit_in_bytes")
        )
        (self.folder / names[0]).write_text(str(limit_bytes))
        with suppress(OSError):  # swap is not accounted everywhere
            (self.folder / names[1]).write_text("0" if self.is_v2 else str(limit_bytes))

    def enter(self) -> None:
        """Put the process that calls it inside."""
        (self.folder / "cgroup.procs").write_text(str(os.getpid()))

    def run(self, *command: str) -> subprocess.CompletedProcess[str]:
        """Run a command inside it."""
        return subprocess.run(command, preexec_fn=self.enter, capture_output=True, text=True, timeout=LONGEST_S)

    def remove(self) -> None:
        for pid in (self.folder / "cgroup.procs").read_text().split():
            with suppress(ProcessLookupError):
                os.kill(int(pid), signal.SIGKILL)
        deadline = time.monotonic() + 20
        while self.folder.exists():
            with suppress(OSError):  # busy until its last page is given back
                self.folder.rmdir()
            assert time.monotonic() < deadline, f"{self.folder} cannot be removed"
            time.sleep(0.05)
