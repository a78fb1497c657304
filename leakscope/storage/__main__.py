"""``leakscope finalize`` for the recorder, who waits for it: the same work without the command line's imports.

Usage: ``python -m leakscope.storage [--checkpoint] [--keep-journal] OUTPUT``. Silent unless it fails: then one line.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence

from ..errors import LeakscopeError
from .finalize import finalize, run_lightly


def main(arguments: Sequence[str]) -> int:
    """Exit status as the command's: 0, or that of the error."""
    run_lightly()
    try:
        finalize(arguments[-1], keep_journal="--keep-journal" in arguments, checkpoint="--checkpoint" in arguments)
    except LeakscopeError as error:
        print(f"leakscope: {error}", file=sys.stderr)
        return error.exit_status
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
