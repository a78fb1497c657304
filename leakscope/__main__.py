"""``python -m leakscope`` and the ``leakscope`` command: ``record`` and ``attach`` go to the recorder, others to click.

Where there is no click, because this is the distribution that only records, to what can be done without.

The fork in the way stands before any import, since the recorder stays resident beside the job and must remain small.
Before that everything begins anew where no module and no variable of the user's reaches.
"""

import sys

if not __package__:  # a script of ``python -I``, as isolation.py has begun it anew: nothing of ours is found yet
    sys.path.append(__file__.rpartition("/")[0].rpartition("/")[0])

from leakscope.isolation import go_on_isolated, spare_memory

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import NoReturn


def main() -> "NoReturn":
    """Run the command of ``sys.argv`` and exit with its status.

    A fault of our own has a status of its own: Python's would be 1, with which ``check`` says that a rule is broken.
    """
    go_on_isolated()
    is_recorder = sys.argv[1:2] in (["record"], ["attach"])
    try:
        _run()
    except Exception as error:
        from leakscope.errors import tell_fault

        sys.exit(tell_fault(error, before_start=is_recorder))


def _run() -> "NoReturn":
    if sys.argv[1:2] in (["record"], ["attach"]):
        import gc

        gc.disable()  # of what is loaded nothing goes
        from leakscope.recorder import main as record

        gc.freeze()
        gc.enable()

        status = record(sys.argv[2:], sys.argv[1])
        if status is not None:
            sys.exit(status)
        sys.argv[2:] = ["--help"]
    spare_memory()
    try:
        from leakscope.cli import main as others
    except ModuleNotFoundError:  # leakscope-record has no cli, and nothing that it needs
        from leakscope.light import main as others
    sys.exit(others())


if __name__ == "__main__":
    main()
