"""Every regular expression of the package, and the texts on which each of them has the most to do.

A pattern is found where it is compiled or used: no list of them has to be kept. ``python -m tests.patterns`` tells
those whose work grows faster than the text.
"""

from __future__ import annotations

import ast
import importlib.util
import random
import re
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import CodeType, ModuleType
from typing import Any, Union

if sys.version_info >= (3, 11):
    from re import _constants as sre
    from re import _parser as sre_parse
else:
    import sre_constants as sre
    import sre_parse

PACKAGE = Path(__file__).parents[1] / "leakscope"
_FUNCTIONS = ("compile", "match", "search", "fullmatch", "sub", "subn", "split", "findall", "finditer")
_OF_SERIES = ("extract", "extractall", "contains", "match", "fullmatch", "replace", "split", "findall", "count")
_FROM_THE_START = {"match": "match", "fullmatch": "fullmatch"}

Text = Union[str, bytes]


@dataclass(frozen=True)
class Found:
    """A pattern, where it stands, and by which methods it is used."""

    where: str
    pattern: Text
    flags: int
    methods: frozenset[str]


# ---- where they are


def found() -> list[Found]:
    """All of the package. **Errors** AssertionError: one that cannot be known before it is used."""
    every = []
    for file in sorted(PACKAGE.rglob("*.py")):
        text = file.read_text(encoding="utf-8")
        if "re." in text or "Pattern(" in text or ".str." in text:
            every += _found_in(file, ast.parse(text))
    return every


def _found_in(file: Path, tree: ast.Module) -> Iterator[Found]:
    module = _module(file)
    used = _uses(tree)
    names = {id(node.value): _name(node.targets[0]) for node in ast.walk(tree) if isinstance(node, ast.Assign)}
    own = {id(node) for one in ast.walk(tree) if isinstance(one, ast.ClassDef) and one.name == "_Pattern"
           for node in ast.walk(one)}  # fmt: skip
    at_load: dict[int, list[tuple[Text, int]]] | None = None
    for node in ast.walk(tree):
        method = _method(node)
        if method is None or not isinstance(node, ast.Call) or id(node) in own:
            continue
        where = f"{file.relative_to(PACKAGE.parent)}:{node.lineno}"
        known = _known(node, method, module, where)
        if known is None:
            at_load = _compiled_at_load(file, module) if at_load is None else at_load
            known = at_load.get(node.lineno, [])
            assert known, f"{where}: write the pattern where it is compiled, or compile it as the module is loaded"
        methods = {method}
        if method == "compile":
            methods = used.get(names.get(id(node)) or "", set()) or {"finditer", "match", "fullmatch"}
        for value, flags in known:
            yield Found(where, value, flags, frozenset(_FROM_THE_START.get(one, "finditer") for one in methods))


def _compiled_at_load(file: Path, module: ModuleType) -> dict[int, list[tuple[Text, int]]]:
    """By line, what is compiled as the file is loaded: of tables of patterns."""
    seen: dict[int, list[tuple[Text, int]]] = {}
    real = re.compile

    def watched(pattern: Any, flags: int = 0) -> Any:
        caller = sys._getframe(1)
        if caller.f_code.co_filename == str(file) and isinstance(pattern, (str, bytes)):
            seen.setdefault(caller.f_lineno, []).append((pattern, int(flags)))
        return real(pattern, flags)

    spec = importlib.util.spec_from_file_location(module.__name__, file)
    assert spec is not None and spec.loader is not None
    again = importlib.util.module_from_spec(spec)
    re.compile = watched  # type: ignore[assignment]
    try:
        spec.loader.exec_module(again)
    finally:
        re.compile = real
    return seen


def _method(node: ast.AST) -> str | None:
    """How a pattern is used here: as a method of ``re``, of ``_Pattern`` or of a column of texts."""
    if not isinstance(node, ast.Call) or not node.args:
        return None
    function = node.func
    if isinstance(function, ast.Name):
        return "compile" if function.id == "_Pattern" else None
    if not isinstance(function, ast.Attribute):
        return None
    of = function.value
    if isinstance(of, ast.Name) and of.id == "re" and function.attr in _FUNCTIONS:
        return function.attr
    is_series = isinstance(of, ast.Attribute) and of.attr == "str" and function.attr in _OF_SERIES
    is_plain = any(k.arg == "regex" and getattr(k.value, "value", True) is False for k in node.keywords)
    return "finditer" if is_series and not is_plain else None


def _known(node: ast.Call, method: str, module: ModuleType, where: str) -> list[tuple[Text, int]] | None:
    """The pattern of a call with its flags, none if it is compiled elsewhere; None where only the program knows."""
    first, flags = node.args[0], _flags(node, method, module)
    value = _evaluated(first, module)
    if isinstance(value, (str, bytes)):
        return [(value, flags)]
    if type(value).__name__ in ("Pattern", "_Pattern"):
        return []
    if isinstance(first, ast.JoinedStr):
        return [("".join(_part(part, module, where) for part in first.values), flags)]
    return None


def _part(node: ast.expr, module: ModuleType, where: str) -> str:
    if isinstance(node, ast.Constant):
        return str(node.value)
    assert isinstance(node, ast.FormattedValue)
    known = _evaluated(node.value, module)
    if isinstance(known, str):
        return known
    is_escaped = any(isinstance(one, ast.Attribute) and one.attr == "escape" for one in ast.walk(node.value))
    assert is_escaped, f"{where}: only what re.escape made may stand in a pattern"
    return "name"


def _evaluated(node: ast.expr, module: ModuleType) -> Any:
    code: CodeType = compile(ast.Expression(node), "pattern", "eval")
    try:
        return eval(code, dict(vars(module)))
    except Exception:
        return None


def _flags(node: ast.Call, method: str, module: ModuleType) -> int:
    at = {"compile": 1, "match": 2, "search": 2, "fullmatch": 2, "findall": 2, "finditer": 2}.get(method)
    nodes = [keyword.value for keyword in node.keywords if keyword.arg == "flags"]
    if at is not None and len(node.args) > at:
        nodes.append(node.args[at])
    return int(_evaluated(nodes[0], module) or 0) if nodes else 0


def _uses(tree: ast.Module) -> dict[str, set[str]]:
    """By which methods each name is used; none where it is handed on."""
    methods: dict[str, set[str]] = {}
    handed_on = set()
    called = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and (name := _name(node.value)) is not None:
            called.add(id(node.value))
            if node.attr in _FUNCTIONS:
                methods.setdefault(name, set()).add(node.attr)
    for node in ast.walk(tree):
        if isinstance(node, (ast.Name, ast.Attribute)) and id(node) not in called:
            name = _name(node)
            if name is not None and isinstance(node.ctx, ast.Load):
                handed_on.add(name)
    return {name: own for name, own in methods.items() if name not in handed_on}


def _name(node: ast.AST) -> str | None:
    if isinstance(node, ast.Attribute):
        return node.attr
    return node.id if isinstance(node, ast.Name) else None


def _module(file: Path) -> ModuleType:
    parts = file.relative_to(PACKAGE.parent).with_suffix("").parts
    name = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
    return importlib.import_module(name)


# ---- on what they have the most to do


def attacks(one: Found, most: int = 400) -> list[tuple[str, str, str]]:
    """(before, what is repeated, after): made of the parts of the pattern, of its letters, and of an end that fails."""
    text = one.pattern.decode("latin-1") if isinstance(one.pattern, bytes) else one.pattern
    tree = sre_parse.parse(text, one.flags & ~re.LOCALE)
    chance = random.Random(text)
    letters = list(dict.fromkeys(_letters(tree)))
    before_loops = list(dict.fromkeys(_before_loops(list(tree), "")))
    wholes = [_sample(list(tree), k) for k in range(3)]
    pumps = [*letters, *wholes]
    for before, body in before_loops:
        pumps += [body, before, before + body, body + before]
    pumps = [pump for pump in dict.fromkeys(pumps) if pump]
    pumps += [a + b for a in letters[:12] for b in letters[:12] if a != b]
    pumps += [pump + apart for pump in pumps[: 3 * len(before_loops) + 12] for apart in (" ", "\n", ",", "x", "0", "-")]
    heads = list(dict.fromkeys(["", *(before for before, _ in before_loops)]))[:8]
    odd = next(c for c in "\x01!~\x02\u4e00" if c not in letters)
    every = [("", pump, "") for pump in dict.fromkeys(pumps)]
    every += [(head, pump, end) for pump in dict.fromkeys(pumps) for head in heads for end in (odd, "\n" + odd)]
    return (
        every if len(every) <= most else every[:most] + chance.sample(every[most:], min(most // 2, len(every) - most))
    )


def _before_loops(items: Sequence[Any], before: str) -> Iterator[tuple[str, str]]:
    """What leads to each repetition, and what one turn of it takes."""
    for at, (kind, value) in enumerate(items):
        led = before + _sample(items[:at], 0)
        if kind in _REPEATS:
            _, high, body = value
            for k in range(3 if high > 1 else 0):
                yield led, _sample(list(body), k)
            yield from _before_loops(list(body), led)
        elif kind is sre.SUBPATTERN:
            yield from _before_loops(list(value[-1]), led)
        elif kind is sre.BRANCH:
            for branch in value[1]:
                yield from _before_loops(list(branch), led)
        elif kind in (sre.ASSERT, sre.ASSERT_NOT):
            yield from _before_loops(list(value[1]), led)


_REPEATS = [sre.MAX_REPEAT, sre.MIN_REPEAT, *([sre.POSSESSIVE_REPEAT] if hasattr(sre, "POSSESSIVE_REPEAT") else [])]
_EXAMPLES: Mapping[Any, str] = {
    sre.CATEGORY_DIGIT: "07", sre.CATEGORY_NOT_DIGIT: "x-", sre.CATEGORY_SPACE: " \n", sre.CATEGORY_NOT_SPACE: "x-",
    sre.CATEGORY_WORD: "a0_", sre.CATEGORY_NOT_WORD: "- ",
}  # fmt: skip
_OTHERS = "x 0-/'\"\n.=A:(\\"


def _sample(items: Sequence[Any], which: int) -> str:
    """A text that these parts take, without what only looks."""
    parts = []
    for kind, value in items:
        if kind is sre.SUBPATTERN:
            parts.append(_sample(list(value[-1]), which))
        elif kind is sre.BRANCH:
            parts.append(_sample(list(value[1][which % len(value[1])]), which))
        elif kind in (sre.ASSERT, sre.ASSERT_NOT):
            pass
        elif kind in _REPEATS:
            low, high, body = value
            parts.append(_sample(list(body), which) * max(low, min(1, high)))
        else:
            own = _letters([(kind, value)])
            parts.append(own[which % len(own)] if own else "")
    return "".join(parts)


def _letters(items: Any) -> list[str]:
    """One or more for each place of the pattern."""
    own: list[str] = []
    for kind, value in items:
        if kind is sre.LITERAL:
            own.append(chr(value))
        elif kind is sre.NOT_LITERAL:
            own += [c for c in _OTHERS if ord(c) != value][:3]
        elif kind is sre.ANY:
            own += ["x", " "]
        elif kind is sre.IN:
            own += _in_set(value)
        elif kind in _REPEATS:
            own += _letters(value[2])
        elif kind is sre.SUBPATTERN:
            own += _letters(value[-1])
        elif kind is sre.BRANCH:
            own += [letter for branch in value[1] for letter in _letters(branch)]
        elif kind in (sre.ASSERT, sre.ASSERT_NOT):
            own += _letters(value[1])
        elif kind is sre.CATEGORY:
            own += _EXAMPLES[value]
    return own


def _in_set(members: Sequence[Any]) -> list[str]:
    inside: list[str] = []
    for kind, value in members:
        if kind is sre.LITERAL:
            inside.append(chr(value))
        elif kind is sre.RANGE:
            inside += [chr(value[0]), chr(value[1])]
        elif kind is sre.CATEGORY:
            inside += _EXAMPLES[value]
    if members[0][0] is not sre.NEGATE:
        return inside
    return [c for c in _OTHERS + "b1é" if not _takes(members[1:], c)][:4]


def _takes(members: Sequence[Any], letter: str) -> bool:
    spelled = "".join(
        re.escape(chr(v)) if k is sre.LITERAL
        else f"{re.escape(chr(v[0]))}-{re.escape(chr(v[1]))}" if k is sre.RANGE
        else {"DIGIT": r"\d", "NOT_DIGIT": r"\D", "SPACE": r"\s", "NOT_SPACE": r"\S", "WORD": r"\w",
              "NOT_WORD": r"\W"}[str(v).replace("CATEGORY_", "")]
        for k, v in members
    )  # fmt: skip
    return re.match(f"[{spelled}]", letter) is not None


# ---- what it costs


def text_of(attack: tuple[str, str, str], length: int) -> str:
    before, pump, after = attack
    return before + pump * max(1, (length - len(before) - len(after)) // len(pump)) + after


def cost_s(compiled: re.Pattern[Any], method: str, text: Text) -> float:
    """Seconds of this thread's own time."""
    began_s = time.thread_time()
    if method == "finditer":
        for _ in compiled.finditer(text):
            pass
    else:
        getattr(compiled, method)(text)
    return time.thread_time() - began_s


SIZES = (24, 256, 2048, 32768)
AT_ONCE_S = 0.004  # for 32 KiB: twenty times what a look at each letter takes


def worst(one: Found, sizes: Sequence[int] = SIZES, most: int = 400) -> tuple[float, str, str] | None:
    """(how many times more than in proportion, method, attack) of the first text that costs more; None: there is none.

    Judged by the ratio of two lengths, on the thread's own clock: a busy machine changes both.
    """
    compiled = re.compile(one.pattern, one.flags)
    for attack in attacks(one, most):
        for method in sorted(one.methods):
            factor = _growth(compiled, method, attack, sizes)
            if factor is not None:
                return factor, method, repr(attack)
    return None


def _growth(compiled: re.Pattern[Any], method: str, attack: tuple[str, str, str], sizes: Sequence[int]) -> float | None:
    is_bytes = isinstance(compiled.pattern, bytes)
    for at, size in enumerate(sizes):
        text: Text = text_of(attack, size)
        if is_bytes:
            text = str(text).encode("latin-1", "replace")
        spent_s = cost_s(compiled, method, text)
        if spent_s < AT_ONCE_S * max(1, size / 32768):
            continue
        shorter: Text = text_of(attack, max(3, size // 8))
        if is_bytes:
            shorter = str(shorter).encode("latin-1", "replace")
        times = len(text) / len(shorter)
        before_s = min(cost_s(compiled, method, shorter) for _ in range(3))
        if at < 2 or before_s == 0:
            return spent_s / AT_ONCE_S
        spent_s = min(spent_s, cost_s(compiled, method, text))
        if spent_s > AT_ONCE_S and spent_s / before_s > 4 * times:
            return spent_s / before_s / times
    return None


if __name__ == "__main__":
    for pattern in found():
        grown = worst(pattern)
        if grown is not None:
            print(
                f"{pattern.where} {grown[0]:.1f} times by {grown[1]} on {grown[2]}\n    {pattern.pattern!r}", flush=True
            )
