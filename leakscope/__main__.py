"""``python -m leakscope`` and the ``leakscope`` command: ``record`` goes to the recorder, everything else to click.

The fork in the way stands before any import, since the recorder stays resident beside the job and must remain small.
"""

from __future__ import annotations

import sys
from typing import NoReturn


def main() -> NoReturn:
    """Run the command of ``sys.argv`` and exit with its status."""
    if sys.argv[1:2] == ["record"]:
        from .recorder import main as record

        sys.exit(record(sys.argv[2:]))
    from .cli import main as others

    sys.exit(others())


if __name__ == "__main__":
    main()
