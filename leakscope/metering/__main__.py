"""The process that the recorder starts for ``--metrics`` and ``--otlp``. It ends when its standard input is closed.

Usage: ``python -m leakscope.metering OUTPUT serve DESCRIPTOR`` or ``… OUTPUT push URL``. Silent unless something fails.
"""

from __future__ import annotations

import socket
import sys
from collections.abc import Sequence
from pathlib import Path

from ..errors import LeakscopeError
from .following import Following

_STDIN = 0


def main(arguments: Sequence[str]) -> int:
    """Exit status: 0, or that of the error."""
    output, how, where = arguments
    try:
        following = Following(Path(output), is_live=True)
        if how == "push":
            from .pushing import push

            return push(following, where, alive=_STDIN)
        from .serving import Server

        Server(following, socket.socket(fileno=int(where)), alive=_STDIN).run()
    except LeakscopeError as error:
        print(f"leakscope: {error}", file=sys.stderr)
        return error.exit_status
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
