"""Calls as sampler.c writes them, into columns of a recording. Runs in the job, and in the recorder when it is over."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

MOST_CALLS = 24


def columns_of(text: str, is_user_file: Callable[[str], bool]) -> dict[str, Any]:
    """The calls from the outermost function of the user's on, and the innermost one of the user's."""
    calls = []
    for one in text.split("\0"):
        parts = one.split("\n")
        if len(parts) == 4:
            calls.append((parts[0], int(parts[1]), parts[3]))
    users = [at for at, (file, *_) in enumerate(calls) if is_user_file(file)]
    if not users:
        return {"stack": "", "function": None, "owner_file": None, "owner_line": None}
    shown = calls[: users[-1] + 1]
    shown = shown[:MOST_CALLS]
    file, line, function = calls[users[0]]
    stack = "\n".join(f"{file}:{line} {function}" for file, line, function in reversed(shown))
    return {"stack": stack, "function": function, "owner_file": file, "owner_line": line}
