"""The helper of ``record --log-to``: follows one recording until its end. Its complaints go to stderr, a line each.

It is a process group of its own, and keeps what its SDK starts from becoming a child of the recorder.
"""

from __future__ import annotations

import gc
import os
import sys
from pathlib import Path

from ..errors import LeakscopeError
from ..recorder.delivery import keep_orphans
from . import TookTooLong, push


def main(argv: list[str]) -> int:
    """``OUTPUT TARGET``; the exit status."""
    gc.enable()
    keep_orphans()
    output, target = argv
    try:
        print(f"leakscope: {target.partition(':')[0]}: {push(Path(output), target)}", file=sys.stderr, flush=True)
    except LeakscopeError as error:
        print(f"leakscope: {error}", file=sys.stderr, flush=True)
        if isinstance(error, TookTooLong):
            os._exit(error.exit_status)
        return error.exit_status
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
