"""``--log-to``: a helper for each tracker, which reads the journal beside the job. Runs in the recorder.

SDKs are large and need the network: they are in the helper alone, which the recorder never waits for while it samples.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Sequence

from .. import signals
from ..units import GiB, MiB, format_bytes
from . import finalizing, naming
from .companion import Talkers, nameless_file, streams
from .helpers import too_full

LAST_WAIT_S = 60.0  # for the summary and the page, when the job has ended; then a helper goes on by itself
_ROOM_BYTES, _ROOM_OF_MACHINE_BYTES = 700 * MiB, 2 * GiB  # of its own memory, seen: 160 to 450 MiB
_CODE = "from leakscope.pushing.__main__ import main; sys.exit(main(sys.argv[1:]))"


class Trackers(Talkers):
    """The processes of one recording, one for each tracker."""

    left_out = "nothing is logged to a tracker while the job runs"
    needs_file = True
    wait_s = LAST_WAIT_S

    def __init__(self, output: str, targets: Sequence[str]) -> None:
        super().__init__()
        self._targets: dict[int, str] = {}
        for target in targets:
            if (full := too_full(_ROOM_BYTES, _ROOM_OF_MACHINE_BYTES)) is None:
                self._start(output, target)
            elif self._full is None:
                self._full = full
                left = f"{format_bytes(max(0, full.left_bytes))}, {full.name}"
                later = f"leakscope push {naming.shown(output)} later"
                self.notes.append(f"too little memory is left to log while it runs ({left}): {later}")

    def may_wait(self) -> bool:
        return not signal.sigpending() & set(signals.ENDING)

    def own_words(self, text: str) -> str:
        """Its own lines; an SDK says much more."""
        lines = text.splitlines()
        own = [line for line in lines if line.startswith("leakscope: ")] or lines[-1:]
        return "".join(f"{line}\n" for line in own)

    def finish(self) -> str:
        """Let them end, for a while or until somebody wants the recorder to end. Returns what they said."""
        for pid in self.pids:
            finalizing.hurries(pid)
        said = super().finish()
        if self.pids:
            names = " and ".join(self._targets[pid] for pid in self.pids)
            said += f"leakscope: {names}: not done yet; it goes on by itself\n"
        return said

    def _start(self, output: str, target: str) -> None:
        said = nameless_file()
        try:
            pid = finalizing.spawn(finalizing.command(_CODE, output, target), streams(said))
        except OSError:  # no processes left: the recording is pushed later, by hand
            if said is not None:
                os.close(said)
            return
        finalizing.yields(pid)
        self.begun(pid, "logs to a tracker", said)
        self._targets[pid] = target.partition(":")[0]
