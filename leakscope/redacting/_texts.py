"""Each kind of text that a recording may carry, with placeholders for what in it is the user's."""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Collection, Sequence

from .. import schema
from ..facts.endings.meanings import MEANINGS
from ._source import Names, without_texts

_LEAST_WORD = 3  # characters of a user's or host's name that is looked for in other texts
_COMMON_WORDS = frozenset(("root", "user", "users", "home", "localhost", "python", "data", "train", "test", "admin"))

# ---- paths: what every system and every Python has keeps its name
_SYSTEM = frozenset((
    "usr", "lib", "lib32", "lib64", "libx32", "bin", "sbin", "opt", "local", "share", "dev", "shm", "proc", "sys",
    "tmp", "var", "run", "etc", "home", "Users", "root", "mnt", "media", "srv", "snap", "cache", ".cache", ".local",
    "self", "fd", "task", "site-packages", "dist-packages", "lib-dynload", "envs", "conda", "miniconda3", "anaconda3",
    "venv", ".venv", "x86_64-linux-gnu", "aarch64-linux-gnu", "agent", "boot", "nvidia", "cuda", "docker", "kubepods",
    "burstable", "besteffort", "guaranteed", "init.scope", "memory", "unified", "slurm", ".", "..", "~", "N", "*",
))  # fmt: skip
# What lies in these is a file, also without a dot in its name.
_OF_FILES = frozenset(("", ".", "bin", "sbin", "lib", "lib64", "shm", "dev", "fd", "docker"))
_SYSTEM_LIKE = re.compile(
    r"python[\d.]+\w*|lib(?:python|cuda|torch)[\w.]*|cuda-[\d.]+|leakscope-(?:run|agent)-\w+|\w+\.journal|[\w-]+\.slice|\d+|socket:.*"
)
_LIBRARY = re.compile(r"/(?:site|dist)-packages/|/lib(?:64)?/python\d")
_PATH_IN_TEXT = re.compile(r"(?<![\w/.<])(?:~|\.{1,2})?/(?:[^\s/:,;=()'\"<>|]+/)+[^\s/:,;=()'\"<>|]*")
_STACK_LINE = re.compile(r"(?P<file>.+?)(?P<rest>:\d+ .*)", re.DOTALL)

# ---- command lines
_OPTION = re.compile(r"(--?[A-Za-z][\w-]*)(?:(=)(.*))?", re.DOTALL)
_SCRIPTS = (".py", ".pyz")
_RUNS_TEXT = re.compile(r"-[A-Za-z]*c")

# ---- ways through objects
_KEY = re.compile(r"(?P<holder>\._(?:modules|parameters|buffers))?\['(?P<key>[^']*)'\]")

# ---- messages
_PHASES = ("start-up", "train", "eval", "save")
_FRAME = re.compile(r'(?P<margin>[ |]*)File "(?P<file>[^"]*)", line (?P<line>\d+)(?P<rest>.*)', re.DOTALL)
_RUNTIMES_OWN = re.compile(
    r"\s*(?:Traceback \(most recent call last\):|\[Previous line repeated .*|Original Traceback .*"
    r"|The above exception was .*|During handling of the above exception.*|Process [\w-]+:"
    r"|(?:Current thread|Thread) 0x[0-9a-f]+.*|Fatal Python error: .*|Python runtime state: .*|<no Python frame>"
    r"|(?:CUDA|HIP|XPU) out of memory\..*|Segmentation fault.*|Killed|Aborted.*)?",
    re.DOTALL,
)
_EXCEPTION = re.compile(r"(?P<type>[A-Za-z_][\w.]*)(?P<colon>:\s)(?P<message>.*)")
_NOT_READ = "(its message was not read"
_FIGURES = re.compile(
    r"[Uu]nable to allocate [\d.]+ \w+(?: for an array with shape \([\d, ]*\) and data type \w+)?"
    r"|[Tt]ried to allocate [\d.]+ \w+|malloc of size \d+ failed|unable to mmap \d+ bytes"
    r"|(?:CUDA|HIP|XPU) out of memory\..*"
)
_QUOTED = re.compile(r"'[^']*'|\"[^\"]*\"")
_COMMENT = re.compile(r"(?<!\s)\s+# .*")
_LOCAL = re.compile(r"L\['[^']*'\]")
_COMMAND_QUOTED = re.compile(r"(cmdline \")([^\"]*)(\")")


class Texts:
    """The placeholders of one recording. ``count``: how many texts have one. ``names_in_keys`` are kept."""

    def __init__(
        self, names: Names, *, machines: Sequence[str], users: Sequence[str], names_in_keys: Collection[str] = ()
    ) -> None:
        self._names, self._names_in_keys = names, names_in_keys
        self._numbers: dict[str, dict[str, str]] = {}
        self._words: dict[str, str] = {}
        for kind, words in (("host", machines), ("user", users)):
            for word in words:
                if len(word) >= _LEAST_WORD and word not in _COMMON_WORDS and not word.isdigit():
                    self._words[word] = self.placeholder(kind, word)
        longest_first = sorted(self._words, key=len, reverse=True)
        self._spelled = (
            re.compile(rf"(?<![A-Za-z0-9])(?:{'|'.join(map(re.escape, longest_first))})(?![A-Za-z0-9])")
            if longest_first
            else None
        )
        self._kinds: dict[str, Callable[[str], str]] = {
            "command": self.command_line,
            "process": self.words,
            "file": self.files,
            "name": self.words,
            "way": self.way,
            "message": self.message,
            "note": self.note,
            "source": self.source,
            "machine": self.machine,
        }

    @property
    def count(self) -> int:
        return sum(map(len, self._numbers.values()))

    def placeholder(self, kind: str, text: str) -> str:
        """``text_7``: the same for the same text."""
        numbers = self._numbers.setdefault(kind, {})
        return numbers.setdefault(text, f"{kind}_{len(numbers) + 1}")

    def cell(self, table: str, column: str, text: str) -> str:
        """A text of a table. What a newer version wrote and nobody here knows is replaced whole."""
        known = (
            next((c for c in schema.TABLES[table].columns if c.name == column), None)
            if table in schema.TABLES
            else None
        )
        if known is None:
            return text if column in {c.name for c in schema.KEYS} else self.placeholder("text", text)
        if column == "phase":
            return text if text in _PHASES else self.placeholder("text", text)
        if column == "recompile_reason":
            return self.guard(text)
        if table == "marks" and column == "text":
            return self.placeholder("text", text)
        return self.of_kind(known.carries, text)

    def of_kind(self, kind: str, text: str) -> str:
        """A text of one kind of schema.CARRIES; "" are words of our own."""
        return self._kinds[kind](text) if kind else text

    def words(self, text: str) -> str:
        """Without the names of the host and of users."""
        return text if self._spelled is None else self._spelled.sub(lambda match: self._words[match[0]], text)

    # ---- paths

    def files(self, text: str) -> str:
        """A path, or the calls of a stack, one a line."""
        lines = []
        for line in text.split("\n"):
            match = _STACK_LINE.fullmatch(line)
            lines.append(self.path(match["file"]) + self.words(match["rest"]) if match else self.path(line))
        return "\n".join(lines)

    def path(self, path: str) -> str:
        """Its folders replaced, but for what every system has and what libraries have inside."""
        if "/" not in path:
            return self.words(path)
        library = _LIBRARY.search(path)
        own, rest = (path, "") if library is None else (path[: library.end()], path[library.end() :])
        *folders, name = own.split("/")
        if name and "." not in name.strip(".") and folders[-1] not in _OF_FILES:
            return self.words("/".join(map(self._folder, [*folders, name])) + rest)
        return self.words("/".join([*map(self._folder, folders), name]) + rest)

    def folder(self, path: str) -> str:
        """The placeholder of a path that is known to be a folder."""
        return self.path(path + "/")[:-1] if "/" in path else self._folder(path)

    def _folder(self, folder: str) -> str:
        if not folder or folder in _SYSTEM or _SYSTEM_LIKE.fullmatch(folder):
            return folder
        return self._words.get(folder) or self.placeholder("dir", folder)

    # ---- command lines

    def command_line(self, text: str) -> str:
        try:
            words = shlex.split(text)
        except ValueError:
            return self.placeholder("text", text)
        return shlex.join(self.command(words))

    def command(self, words: Sequence[str]) -> list[str]:
        """The program, the names of options and of what Python runs; everything else is a placeholder."""
        redacted: list[str] = []
        before = ""
        for word in words:
            redacted.append(self._word(word, before, is_first=not redacted))
            before = word
        return redacted

    def _word(self, word: str, before: str, *, is_first: bool) -> str:
        if is_first:
            return self.path(word)
        option = _OPTION.fullmatch(word)
        if option and not _RUNS_TEXT.fullmatch(before):
            return option[1] + (f"={self.placeholder('text', option[3])}" if option[2] else "")
        if word == "--":
            return word
        if before == "-m" and word.replace(".", "").isidentifier():
            return word
        if word.endswith(_SCRIPTS) and "\n" not in word and " " not in word and not _RUNS_TEXT.fullmatch(before):
            return self.path(word)
        name = word.rsplit("/", 1)[-1]
        if re.fullmatch(r"python[\d.]*|pypy[\d.]*", name):
            return self.path(word)
        return self.placeholder("text", word)

    # ---- names, ways, machines, sources

    def way(self, text: str) -> str:
        """Keys of dicts replaced, but for those that are names: of modules, variables and attributes."""

        def key(match: re.Match[str]) -> str:
            is_name = match["holder"] or match["key"] in self._names_in_keys
            return match[0] if is_name else f"['{self.placeholder('text', match['key'])}']"

        return self.words(_KEY.sub(key, text))

    def machine(self, text: str) -> str:
        return self._words.get(text) or self.placeholder("machine", text.replace("-", ""))

    def source(self, text: str) -> str:
        return without_texts(text, self._names, self.placeholder)

    # ---- messages

    def note(self, text: str) -> str:
        """A sentence of ours or of the kernel's: paths and command lines in it."""
        text = _COMMAND_QUOTED.sub(lambda match: match[1] + self.command_line(match[2]) + match[3], text)
        return self._paths_in(text)

    def _paths_in(self, text: str) -> str:
        return self.words(_PATH_IN_TEXT.sub(lambda match: self.path(match[0]), text))

    def message(self, text: str) -> str:
        """The calls of tracebacks, the types of exceptions, and what the runtime itself says of memory."""
        lines: list[str] = []
        margin: int | None = None  # of the call above, whose source comes next
        for line in text.split("\n"):
            frame = _FRAME.fullmatch(line)
            if frame:
                margin = len(frame["margin"])
                head = f'{frame["margin"]}File "{self.path(frame["file"])}", line {frame["line"]}'
                lines.append(head + self.words(frame["rest"]))
            elif margin is not None and line[: margin + 2].strip(" |") == "" and line.strip(" |"):
                continue
            else:
                margin = None
                lines.append(self._line(line))
        return "\n".join(lines)

    def _line(self, line: str) -> str:
        if _RUNTIMES_OWN.fullmatch(line.strip()):
            return self._paths_in(line)
        exception = _EXCEPTION.fullmatch(line)
        if exception and exception["message"].startswith(_NOT_READ):
            return line
        spans = _merged(
            [m.span() for p in (_FIGURES, *(meaning.pattern for meaning in MEANINGS)) for m in p.finditer(line)]
        )
        head = exception.start("message") if exception else 0
        parts, done = [self.words(line[:head])], head
        for start, end in spans:
            if end > done:
                parts += [self._said(line[done : max(start, done)]), self._paths_in(line[max(start, done) : end])]
                done = end
        return "".join([*parts, self._said(line[done:])])

    def _said(self, text: str) -> str:
        words = text.strip()
        if not any(character.isalnum() for character in words):
            return text
        return text.replace(words, self.placeholder("text", words), 1)

    def guard(self, text: str) -> str:
        """Why torch.compile compiled once more: the values that it quotes go, the names of locals stay."""
        text = _COMMENT.sub("", text)
        kept, names = _LOCAL.split(text), _LOCAL.findall(text)
        quoted = [_QUOTED.sub(lambda match: f"'{self.placeholder('text', match[0][1:-1])}'", part) for part in kept]
        return self._paths_in("".join(part for pair in zip(quoted, [*names, ""]) for part in pair))


def _merged(spans: list[tuple[int, int]]) -> list[tuple[int, int]]:
    merged: list[tuple[int, int]] = []
    for start, end in sorted(spans):
        if merged and start <= merged[-1][1]:
            merged[-1] = merged[-1][0], max(end, merged[-1][1])
        else:
            merged.append((start, end))
    return merged
