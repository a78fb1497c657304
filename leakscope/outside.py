"""Why a Python process is seen from outside only, by the words that it was started with, and what helps."""

from __future__ import annotations

from collections.abc import Sequence

# PYTHONPATH is not read, or site is not loaded: nothing of ours is imported. With -v it would be listed.
_KEEPS_OUT = "IESv"
_END, _WITH_VALUE = "cm", "WX"
UNKNOWN = (
    "the agent did not start there (PYTHONPATH replaced, a frozen program, a Python before 3.8, or ulimit -n below 256)"
)
ATTACHED = "it ran already when the recording began"
ENTER_ATTACHED = (
    "start it under `leakscope record`, or use `leakscope.record()` in it, or run it on Python 3.14 or newer, "
    "which can be entered while it runs"
)


def flag_of(words: Sequence[str]) -> str | None:
    """The option of the interpreter that keeps the agent out: ``-I``; None if none does."""
    options = iter(words[1:])
    for word in options:
        if not word.startswith("-") or word == "-":
            return None
        for at, letter in enumerate(word[1:], 2) if not word.startswith("--") else ():
            if letter in _KEEPS_OUT:
                return f"-{letter}"
            if letter in _END:
                return None
            if letter in _WITH_VALUE:
                if at == len(word):
                    next(options, None)
                break
    return None


def is_python(program: str) -> bool:
    """Whether a program is an interpreter of Python, by the name of its file."""
    return program.rsplit("/", 1)[-1].startswith(("python", "pypy"))


def remedy(flag: str | None) -> str:
    """What lets the agent in."""
    if flag is not None:
        return f"record it without {flag}"
    return "`leakscope doctor` says what keeps it out"
