"""The line of the user's sources that calls a function by its last name, however it was imported: ``Popen``, ``open``.

Pure functions: text in, lines out. A call that is repeated comes before one that runs once.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from .adding import Line, line_at, thread_start_line
from .index import Index, Scope, Source, index_of, lines_of
from .syntax import called, last_name, root_of

_PROCESSES = ("Process", "Pool", "ProcessPoolExecutor", "fork", "DataLoader")
_COMMANDS = (
    "Popen", "create_subprocess_exec", "create_subprocess_shell", "posix_spawn", "posix_spawnp", "spawnl", "spawnlp",
    "spawnv", "spawnvp", "system", "popen", "run", "call", "check_call", "check_output", "fork",
)  # fmt: skip
_LEAST_WORD = 3  # characters: shorter ones are options


class Call(NamedTuple):
    """A call in the sources: ``words`` are the strings written in it."""

    line: Line
    node: ast.Call
    words: tuple[str, ...]
    module: str


def calls(sources: Sequence[Source], *names: str) -> list[Call]:
    """Calls of functions with these last names; those that may run often first, then in the order of the sources."""
    found = []
    index = index_of(sources, names[0])
    for scope, site, node in index.calls():
        if called(node) in names and not _is_own(node.func, scope, index):
            line = line_at(index, scope, node, "calls", index.often(site, scope))
            found.append(Call(line, node, tuple(_words(node)), _module(node.func)))
    return sorted(found, key=lambda call: -call.line.score)


def _is_own(func: ast.expr, scope: Scope, index: Index) -> bool:
    """A function of the user's that only has such a name: what it calls is found by itself."""
    return any(function.name == last_name(func) for function in index.own_functions(func, scope))


def mentions(sources: Sequence[Source], *words: str) -> Line | None:
    """The first line that has one of these words; the words in their order."""
    for word in words:
        for source in sources:
            for number, text in enumerate(lines_of(source.text) if word in source.text else (), 1):
                if word in text and not text.lstrip().startswith("#"):
                    return Line(source.file, number, None, text.strip(), "calls", 0.5)
    return None


def process_start_line(sources: Sequence[Source], command: str, is_python_child: bool) -> Line | None:
    """Where children that run this command are started. None: nowhere to be seen, or in too many places to tell."""
    if is_python_child:
        made = calls(sources, *_PROCESSES)
        for call in made:
            target = next((last_name(k.value) for k in call.node.keywords if k.arg == "target"), "")
            started = thread_start_line(sources, target) if target else None
            if started is not None:
                return started
        return made[0].line if made else None
    made = [call for call in calls(sources, *_COMMANDS) if call.module in ("", "subprocess", "os", "asyncio", "sp")]
    fitting = [call for call in made if any(word in command for word in call.words)]
    best = fitting or made
    return best[0].line if best else None


def _words(call: ast.Call) -> Iterator[str]:
    for node in ast.walk(call):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and len(node.value) >= _LEAST_WORD:
            yield node.value.strip()


def _module(func: ast.expr) -> str:
    """``subprocess`` of ``subprocess.Popen``; empty for a plain name."""
    root = root_of(func)
    return "" if root is func else last_name(root) or "?"
