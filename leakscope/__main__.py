"""``python -m leakscope`` and the ``leakscope`` command: ``record`` and ``attach`` go to the recorder, others to click.

Where there is no click, because this is the distribution that only records, to what can be done without.

The fork in the way stands before any import, since the recorder stays resident beside the job and must remain small.
"""

from __future__ import annotations

import sys
from typing import NoReturn


def main() -> NoReturn:
    """Run the command of ``sys.argv`` and exit with its status.

    A fault of our own has a status of its own: Python's would be 1, with which ``check`` says that a rule is broken.
    """
    is_recorder = sys.argv[1:2] in (["record"], ["attach"])
    try:
        _run()
    except Exception as error:
        from .errors import tell_fault

        sys.exit(tell_fault(error, before_start=is_recorder))


def _run() -> NoReturn:
    if sys.argv[1:2] in (["record"], ["attach"]):
        from .recorder import main as record

        status = record(sys.argv[2:], sys.argv[1])
        if status is not None:
            sys.exit(status)
        sys.argv[2:] = ["--help"]
    try:
        from .cli import main as others
    except ModuleNotFoundError:  # leakscope-record has no cli, and nothing that it needs
        from .light import main as others
    sys.exit(others())


if __name__ == "__main__":
    main()
