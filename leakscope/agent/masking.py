"""Values that look like keys, tokens or passwords, masked before they are written. Runs in the job and in the recorder.

A journal cleans every row that enters it, so no writer can forget to. What is masked reads ``masked_3fa1c0``: a short
hash with the recording's salt. Equal values stay equal within one recording, and nobody can look one up or compare two
recordings by them. The salt is in no recording.

What gives a value away: how it begins (``sk_live_``, ``ghp_``, ``AKIA``, ``eyJ``), what it is called
(``--api-key=...``, ``DB_PASSWORD=...``, ``Authorization: ...``), where it stands (``postgres://user:HERE@host``,
``?sig=HERE``), or that no word looks like it. The last is asked only of free text and of keys of dicts, never of names
of types, functions and files; a path, an identifier, a number in hex (a commit, a digest, a UUID) is none.

Time is bounded: no text costs more than some 10 ms, whatever is in it, since a regular expression keeps every thread of
the job waiting. Each pattern is linear: it begins where no letter before it could have begun it too, it does not look
ahead, and what it takes is judged by plain code, once. What is longer than any text of ours, or has more in it to be
judged, is masked whole.

Standard library only, Python 3.8+.
"""

from __future__ import annotations

import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    import re
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
    from typing import Any

try:
    from _blake2 import blake2b  # hashlib would load OpenSSL: 3 ms
except ImportError:
    try:
        from hashlib import blake2b
    except ImportError:
        blake2b = None  # type: ignore[assignment,misc]

SALT_BYTES = 16
LONGEST = 64 * 1024  # characters of a text that is looked through: above the 64 KiB that are kept of last words
_AT_ONCE = 16384  # characters of source: a regular expression holds the interpreter until it is through
_LINES_OF_ONE = 100  # that are kept in one part with those before them
_LONGEST_NAME = 200  # characters before =, or of an attribute
_MOST_JUDGED = LONGEST * 3 // 4  # characters of values and of runs of letters that are judged in one text
_LONGEST_RUN, _SAMPLE = 4096, 512  # of letters and digits, that is judged as a whole; of a longer one, three times
_OF_EACH = 24  # characters that could be judged in the time that each of them takes besides
_LONGEST_QUOTED = 8192  # characters of a command line that is taken apart as a shell does: 1 us each
_MOST_WORDS = 1000  # of a command, that are looked at one by one
KEPT_TEXTS = 4096  # whose cleaned form is remembered: paths and command lines come again and again
_KEPT_LENGTH = 1024
SHORTEST = 6  # characters: shorter texts are words of ours

# What is no person's text, and looks as if no word were in it.
AS_IT_IS = frozenset(("fingerprint", "content_sketch", "gpu_uuid", "log_boot_id"))
# What a person wrote, for other persons.
FREE_TEXT = frozenset(("text", "last_words", "phase", "recompile_reason", "comm", "zombie_comm", "gpu_label"))
COMMAND_LINE = "cmdline"
# Ways to an object, with keys of dicts in them: model.cache['key'].
WAYS = frozenset(("chain", "weight_set", "tensor_name", "edge_name"))
SOURCE_TEXT = "source_text"
# What a recording says about itself by names: of files, machines and jobs.
_NAMES_OF_META = frozenset(
    ("cwd", "output", "python", "host", "job", "node", "pod", "namespace", "container", "commit")
)


class WithheldError(Exception):
    """An interrupt ends the process, which Python remembers only as long as no string is evaluated.

    ``collections`` does so, which comes with ``re``: the process would end with status 1 instead of by its signal.
    """


class TooMuchError(Exception):
    """A text has more in it that could be a secret than can be judged in its time."""


class _Pattern:
    """A regular expression, compiled when it is first asked: all of them took 25 ms at the start of every process."""

    def __init__(self, source: str, flags: int = 0) -> None:
        self._source = source
        self._flags = flags

    def __getattr__(self, name: str) -> Any:
        """**Errors** WithheldError."""
        if "re" not in sys.modules and type(sys.__dict__.get("last_value")) is KeyboardInterrupt:
            raise WithheldError
        import re  # 5 ms, which not every process has to pay

        compiled = re.compile(self._source, self._flags)
        for method in ("search", "match", "fullmatch", "finditer", "findall", "split", "sub"):
            setattr(self, method, getattr(compiled, method))
        return getattr(compiled, name)


_IGNORECASE = 2
_SALT_UNKNOWN = "000000"
_MASKED = _Pattern(r"masked_[0-9a-f]{6}")

# ---- by how they begin

_PREFIXES = (
    "sk_live_", "sk_test_", "pk_live_", "pk_test_", "rk_live_", "rk_test_", "sk-", "ghp_", "gho_", "ghu_", "ghs_",
    "ghr_", "github_pat_", "glpat-", "hf_", "AKIA", "ASIA", "xox", "xapp-", "eyJ", "AIza", "ya29.", "npm_", "pypi-",
    "dop_v1_", "SG.", "shpat_", "shpss_", "whsec_", "gsk_", "r8_", "nvapi-", "PRIVATE KEY",
)  # fmt: skip
_KEY_BEGIN, _KEY_END = "-----BEGIN ", "-----END "
_OF_KEY = _Pattern(r"[A-Z ]{0,40}PRIVATE KEY-----")
# Words may begin like these, too.
_PERHAPS_KNOWN = _Pattern(r"(?<![A-Za-z0-9])(?:sk-[\w-]{16,}|hf_[A-Za-z0-9]{16,})")
_HEX_KEY = _Pattern(r"sk-[0-9a-f]{24,}")
_KNOWN = _Pattern(
    r"(?<![A-Za-z0-9])(?:"
    r"[spr]k_(?:live|test)_\w{4,}"
    r"|gh[pousr]_[A-Za-z0-9]{10,}|github_pat_\w{16,}|glpat-[\w-]{16,}"
    r"|A[KS]IA[A-Z0-9]{12,}"
    r"|xox[abeoprs]-[\w-]{8,}|xapp-[\w-]{10,}"
    r"|eyJ[\w-]{8,}(?:\.[\w-]*){0,4}"
    r"|AIza[\w-]{20,}|ya29\.[\w-]{20,}|npm_[A-Za-z0-9]{20,}|pypi-[\w-]{40,}|dop_v1_[0-9a-f]{32,}"
    r"|SG\.[\w-]{16,}\.[\w-]{16,}|shp(?:at|ss)_[0-9a-f]{16,}|whsec_\w{16,}|gsk_\w{20,}|r8_[A-Za-z0-9]{20,}"
    r"|nvapi-[\w-]{20,})"
)

# ---- by what they are called

# Words of machine learning, of programs and of shells stand among them: what else speaks for a secret is asked below.
_WORDS = ("passw", "passphrase", "secret", "credential", "token", "key", "auth", "bearer", "pwd")
_WORD = _Pattern("|".join(_WORDS))
_STRONG = (
    r"passw(?:or)?d|passphrase|secret|credential|(?:api|access|private|secret|account|signing|encryption)[-_. ]?key"
)
_IS_STRONG = _Pattern(rf"(?:{_STRONG})s?$", _IGNORECASE)
_NAMED = _Pattern(
    r"(?P<word>(?:passw(?:or)?d|passphrase|secret|credential)s?|token|key|auth|pwd)(?![\w.-])"
    r"(?P<between>\\?[\"']?\]?\s{0,2}(?:=>|[:=])\s{0,2}(?:[rbuf]{1,2}(?=[\"']))?|\\?[\"']?,?\s+)"
    r"(?P<value>\\?\"[^\"\n]*\"|\\?'[^'\n]*'|[^\s\"',;&|)}\]]+)",
    _IGNORECASE,
)
_HEADER = _Pattern(
    r"(?P<before>authorization[\"']?\s{0,2}[:=]\s{0,2}[\"']?(?:(?:bearer|basic|token|digest|apikey)\s+)?|\bbearer\s+)"
    r"(?P<value>[^\s\"',;)}\]]{6,})",
    _IGNORECASE,
)
# --max-tokens is no token, and a pad token none of a person's.
_NOT_SECRET_NAME = _Pattern(
    r"(?:^|[-_.])(?:max|min|num|n|pad|eos|bos|unk|sep|cls|mask|special|image|new|stop|start|end|begin|per|total|prompt"
    r"|input|output|next|last|first|current|invalid|unexpected|syntax|sort|primary|foreign|dict|cache|index|no)[-_.]?$",
    _IGNORECASE,
)
_HARMLESS_VALUE = _Pattern(
    r"(?:none|null|nil|true|false|yes|no|on|off|str|int|bytes|bool|float|object|any|optional\b.*|required|missing|string"
    r"|default|auto|unset|empty|invalid|expired|x{3,}|[*.]+|\$\{?\w+\}?|\$\(.*|\{[^{}\"']*\}?|%\(?\w*\)?s|<[^<>]*>|\[\w*\]|=.*|\?|:\w+"
    r"|masked_[0-9a-f]{6})",
    _IGNORECASE,
)
_CODE = _Pattern(r"[A-Za-z_][\w.]*(?:[(\[].*)?")
_PATH = _Pattern(r"(?:~|\.{1,2})?/(?:[^/]+/)*[^/]*|[A-Za-z]:\\.*|file:.*")
_OPTION = _Pattern(r"--?[A-Za-z][\w.-]*")
_ASSIGNMENT = _Pattern(r"[A-Za-z_][\w.-]*")

# DB_PASS=, smtp_pass: of one word with it, since a forward pass is none.
_SHORT_NAMED = _Pattern(
    r"(?P<before>(?:(?<=[A-Z0-9])_PASS|(?<![A-Za-z0-9])(?:db|mysql|pg|postgres|mongo|redis|rabbitmq|amqp|smtp|imap|mail"
    r"|ftp|ssh|http|proxy|user|admin|root|login|sudo|ldap|vnc)[-_]?pass)[\"']?\s{0,2}[:=]\s{0,2}[\"']?)"
    r"(?P<value>[^\s\"',;&|)}\]]{3,})"
)
# What a message says of one: password 'x1', password for bob is x1.
_SAID = _Pattern(
    r"(?P<before>\b(?:passw(?:or)?d|passphrase)(?:\s+(?:for|of)\s+\S{1,60})?(?:\s+(?:is|was)\s+[\"']?|\s+[\"']))"
    r"(?P<value>[^\s\"',;]{6,})",
    _IGNORECASE,
)
# curl -u name:HERE, mysql -pHERE, sshpass -p HERE
_LOGIN = _Pattern(
    r"(?P<before>(?<![\w-])(?:-u|-U|--user|--proxy-user)[ =]?[\"']?[^\s:\"'/]{1,60}:)(?P<value>[^\s\"'/]{4,})"
)
_LOGS_IN = ("curl", "wget", "lftp", "http")
_LOGIN_PROGRAMS = ("curl", "wget", "lftp", "http", "mysql", "mariadb", "sshpass")
_ONE_COMMAND = _Pattern(r"[^;|&\n]+")
_DATABASE = _Pattern(r"\b(?:mysql|mariadb)(?:dump|admin|import|check|show)?\b")
_OF_DATABASE = _Pattern(r"(?P<before>(?<=\s)-p[\"']?)(?P<value>[^\s\"';|&]{3,})")
_SSHPASS = _Pattern(r"(?P<before>\bsshpass\s{1,20}-p\s{0,20}[\"']?)(?P<value>[^\s\"';|&]{3,})")

# ---- by where they stand

_BEFORE_HOST = _Pattern(r"://([^\s'\"<>@]*)(@?)")
_USER = _Pattern(r"[^\s/:@'\"<>]{0,200}:")
_QUERY = _Pattern(
    r"([?&#;][\w.~%-]{0,40}?(?:token|key|sig|signature|secret|passw(?:or)?d|credential|auth|sas|jwt|session)=)"
    r"([^&\s'\"#<>;]{4,})",
    _IGNORECASE,
)
_ADDRESS_PATH = _Pattern(r"(https?|wss?)://[^\s'\"<>?#]+")
_PART = _Pattern(r"[^/:]{16,}")
_KEY_IN_WAY = _Pattern(r"\['([^']+)'\]")

# ---- by what they look like

_DIGITS = "0123456789"

_RUN = _Pattern(r"[A-Za-z0-9_+/-]{16,}={0,2}")
_QUOTED_RUN = _Pattern(r"(?<=[\"'])[A-Za-z0-9_+/-]{16,}={0,2}(?=[\"'])")
_LETTERS_AND_DIGITS = _Pattern(r"[A-Za-z0-9]{16,}")
_HEX = _Pattern(r"(?:0[xX])?(?:[0-9a-f]+|[0-9A-F]+)")
_SHORT_BASE64 = 18
_LOWER_ALONE = 20  # letters of one case and digits: names of types are mixed more often than of files
# Of two letters side by side in words and identifiers, four in five; in noise, one in five.
_PAIRS = (
    "abcdilmnprst", "bel", "caehklot", "daeios", "eacdeflmnprstvx", "fio", "ge", "haeio", "icdeglmnorst", "ke",
    "ladeilosy", "maeiop", "nacdegiost", "ocdlmnoprstuw", "paeloprt", "radeinorsty", "sehiopstu", "taehiorstuy",
    "uelmnprst", "vae", "wahi",
)  # fmt: skip
_COMMON_PAIRS = frozenset([first[0] + second for first in _PAIRS for second in first[1:]])
_FOLLOWS = frozenset([chr(code) + chr(code + 1) for code in range(ord("0"), ord("z"))])  # in an alphabet, as of base 36


def new_salt() -> str:
    """For one recording; in hex, so that it can stand in a configuration."""
    return os.urandom(SALT_BYTES).hex()


class Masker:
    """Cleans texts and rows of one recording. ``sources`` False: no text of the program is left in them either."""

    def __init__(self, salt: str | None = None, sources: bool = True) -> None:
        self._salt = bytes.fromhex(salt or new_salt())
        self._sources = sources
        self._left = _MOST_JUDGED  # characters, of the text that is being cleaned
        self._cleaned: dict[tuple[str, str], str] = {}

    def row(self, table: str, row: dict[str, Any]) -> dict[str, Any] | None:
        """The row, cleaned in place; None if it must not be written at all. **Cost** 2 us, a new text 5 us and more."""
        if not self._sources and table in ("sources", "library_sources"):
            return None
        for name in row:
            value = row[name]
            kind = type(value)
            if kind is str:
                if len(value) >= SHORTEST and name not in AS_IT_IS:
                    row[name] = self._column(name, value)
            elif not (value is None or kind is int or kind is float or kind is bool):
                row[name] = self._odd(value)
        return row

    def _odd(self, value: Any) -> Any:
        """What a column should not hold, as the journal would write it: no way round for a secret."""
        kind = type(value)
        if kind is list or kind is tuple:
            return [self._odd(member) for member in value]
        if kind is dict:
            return {str(key): self._odd(member) for key, member in value.items()}
        if value is None or issubclass(kind, (int, float)):
            return value
        return self.free_text(str.__str__(value) if issubclass(kind, str) else str(value))

    def _column(self, name: str, text: str) -> str:
        kept = self._cleaned.get((name, text))
        if kept is None:
            kept = self._clean(name, text)
            if len(text) <= _KEPT_LENGTH:
                if len(self._cleaned) >= KEPT_TEXTS:
                    self._cleaned.clear()
                self._cleaned[name, text] = kept
        return kept

    def _clean(self, name: str, text: str) -> str:
        if name in FREE_TEXT:
            return self.free_text(text)
        if name == COMMAND_LINE:
            return self.command_line(text)
        if name in WAYS:
            return self.way(text)
        if name == SOURCE_TEXT:
            return self.source(text)
        return self.name(text)

    def mask(self, value: str) -> str:
        """What is written in the place of a secret."""
        if blake2b is None:
            return "masked_" + _SALT_UNKNOWN
        data = value.encode("utf-8", "surrogatepass")
        return "masked_" + blake2b(data, digest_size=3, key=self._salt).hexdigest()

    # ---- kinds of text. **Cost** of each some 10 ms at most

    def name(self, text: str) -> str:
        """A file, a type, a function: only what gives itself away by how it begins, or as part of an address."""
        return self._bounded(self._name, text)

    def free_text(self, text: str) -> str:
        """Messages, labels, the end of stderr."""
        return self._bounded(self._free_text, text)

    def source(self, text: str) -> str:
        """Source of a program: only what stands in quotes is looked at, so that it stays a program, line by line."""
        return "".join([self._bounded(self._source, part) for part in _parts(self._private_keys(text))])

    def way(self, text: str) -> str:
        """A way through objects: keys of dicts in it may be anything."""
        return self._bounded(self._way, text)

    def command_line(self, text: str) -> str:
        """Of one process, quoted for a shell."""
        is_quoted = _has(text, "'\"\\")
        if is_quoted and len(text) > _LONGEST_QUOTED:
            return self.free_text(text)
        import shlex  # only the recorder writes command lines

        try:
            words = shlex.split(text) if is_quoted else text.split()
        except ValueError:
            return self.free_text(text)
        cleaned = self.command(words)
        return text if cleaned == words else shlex.join(cleaned)

    def command(self, words: Sequence[str]) -> list[str]:
        """A command as a list of words, masked; what lies beyond what is looked at becomes one mask."""
        most = min(len(words), _MOST_WORDS)
        if most < len(words) or sum(map(len, words)) > LONGEST:
            while sum(map(len, words[:most])) > LONGEST:
                most //= 2
            return [*self._command(words[:most]), self.mask(" ".join(words[most:]))]
        return self._command(words)

    def _bounded(self, clean: Callable[[str], str], text: str) -> str:
        """The text, cleaned; or masked whole where it is too long, or has too much in it, to be looked through."""
        if len(text) <= LONGEST:
            self._left = _MOST_JUDGED
            try:
                return clean(text)
            except (TooMuchError, WithheldError):
                pass
        return self.mask(text) + "\n" * text.endswith("\n")

    def _judge(self, value: str) -> str:
        """Before it is looked at once more. **Errors** TooMuchError."""
        self._left -= len(value) + _OF_EACH
        if self._left < 0:
            raise TooMuchError
        return value

    def _name(self, text: str) -> str:
        if _has(text, _PREFIXES):
            text = self._private_keys(text)
            if "sk-" in text or "hf_" in text:
                text = _PERHAPS_KNOWN.sub(self._perhaps, text)
            text = _KNOWN.sub(self._whole, text)
        if "://" in text:
            text = self._addresses(text)
        return text

    def _free_text(self, text: str) -> str:
        text = text if self._sources else without_source(text)
        text = self._logins(self._named(self._name(text)))
        return _RUN.sub(self._run, text) if any(len(word) >= 16 for word in text.split()) else text

    def _source(self, text: str) -> str:
        return _QUOTED_RUN.sub(self._run, self._named(self._name(text), only_quoted=True))

    def _way(self, text: str) -> str:
        text = self._name(text)
        return _KEY_IN_WAY.sub(self._key, text) if "['" in text else text

    def _command(self, words: Sequence[str]) -> list[str]:
        cleaned = []
        before, is_python = "", False
        for word in words:
            runs_text = before.startswith("-") and not before.startswith("--") and before.endswith("c")
            if not self._sources and runs_text and is_python:
                cleaned.append(self.mask(word))
            else:
                cleaned.append(self._word(word, before, runs_text))
            is_python = is_python or os.path.basename(word).startswith(("python", "pypy"))
            before = word
        return self._logins_of(words, cleaned)

    def _logins_of(self, words: Sequence[str], cleaned: list[str]) -> list[str]:
        """Options whose meaning is their program's: what they would be in the text of a shell."""
        program = os.path.basename(words[0]).lower() if words else ""
        if _has(program, _LOGIN_PROGRAMS):
            for at in range(1, len(cleaned)):
                head = f"{program} {cleaned[at - 1]} " if at > 1 else f"{program} "
                cleaned[at] = self._logins(head + cleaned[at])[len(head) :]
        return cleaned

    def _word(self, word: str, before: str, runs_text: bool) -> str:
        if _is_secret_name(before) and _OPTION.fullmatch(before) and not word.startswith("--"):
            return word if _is_harmless(word, before) else self.mask(word)
        name, equals, value = word.partition("=")
        is_one = equals and not runs_text and _is_secret_name(name)
        if is_one and (_OPTION.fullmatch(name) or _ASSIGNMENT.fullmatch(name)):
            return word if _is_harmless(value, name) else name + equals + self.mask(value)
        if not self._sources and runs_text and "python" in word:
            word = _TEXT_OF_PYTHON.sub(lambda match: match[1] + self.mask(match[0]), word)
        return self.free_text(word)

    def meta(self, meta: Mapping[str, Any]) -> dict[str, Any]:
        """What a recording says about itself: its command, its labels, and texts wherever they are."""
        return {
            name: self.command(value) if name == "command" else self._tree(name, value) for name, value in meta.items()
        }

    def _tree(self, name: str, value: Any) -> Any:
        if isinstance(value, dict):
            return {str(key): self._tree(str(key), member) for key, member in value.items()}
        if isinstance(value, (list, tuple)):
            return [self._tree(name, member) for member in value]
        if not isinstance(value, str) or name in ("boot_id", "kernel"):
            return value
        if _is_secret_name(name) and not _is_harmless(value, name):
            return self.mask(value)
        return self.name(value) if name in _NAMES_OF_META else self.free_text(value)

    # ---- what is found in them

    def _whole(self, match: re.Match[str]) -> str:
        return self.mask(self._judge(match.group()))

    def _perhaps(self, match: re.Match[str]) -> str:
        value = self._judge(match.group())
        is_mixed = value.lower() != value and (value.startswith("hf_") or _has(value, _DIGITS))
        if is_mixed or (value.startswith("hf_") and _has(value, _DIGITS)):
            return self.mask(value)
        return _HEX_KEY.sub(self._whole, value)

    def _private_keys(self, text: str) -> str:
        """Each from its first line to its last, or to the end of the text."""
        parts, done, at = [], 0, text.find(_KEY_BEGIN)
        while at >= 0:
            head = _OF_KEY.match(text, at + len(_KEY_BEGIN))
            if head is not None:
                last, end = None, text.find(_KEY_END, head.end())
                while end >= 0 and last is None:
                    last = _OF_KEY.match(text, end + len(_KEY_END))  # no walrus: Python 3.7 reads this to say no
                    end = text.find(_KEY_END, end + 1)
                end = len(text) if last is None else last.end()
                parts += [text[done:at], self.mask(text[at:end])]
                done = end
            at = text.find(_KEY_BEGIN, max(done, at + 1))
        return "".join([*parts, text[done:]]) if parts else text

    def _addresses(self, text: str) -> str:
        text = _BEFORE_HOST.sub(self._user, text)
        text = _ADDRESS_PATH.sub(self._address_path, text)
        return _QUERY.sub(self._query, text)

    def _user(self, match: re.Match[str]) -> str:
        """What stands between :// and @: a password behind a colon, or one word that is one."""
        if not match[2]:
            return match[0]
        text, at = self._judge(match[0]), 0
        while at >= 0:
            start = at + len("://")
            user = _USER.match(text, start)
            if user is not None and user.end() < len(text) - 1:
                value = text[user.end() : -1]
                is_port = value.split("/", 1)[0].isdigit() and "/" in value
                return text if is_port or _MASKED.fullmatch(value) else text[: user.end()] + self.mask(value) + "@"
            at = text.find("://", start)
        value = text[start:-1]
        if len(value) < 12 or _has(value, "/:"):
            return text
        is_secret = (_HEX.fullmatch(value) and len(value) >= 20) or looks_random(value)
        return text[:start] + self.mask(value) + "@" if is_secret else text

    def _address_path(self, match: re.Match[str]) -> str:
        head, slashes, rest = self._judge(match[0]).partition("://")
        host, slash, path = rest.partition("/")
        return head + slashes + host + slash + _PART.sub(self._part, path)

    def _part(self, match: re.Match[str]) -> str:
        self._judge(match[0])
        return self.mask(match[0]) if looks_random(match[0]) else match[0]

    def _query(self, match: re.Match[str]) -> str:
        value = self._judge(match[2])
        if (value.isdigit() and len(value) < 8) or _MASKED.fullmatch(value):
            return match[0]
        return match[1] + self.mask(value)

    def _key(self, match: re.Match[str]) -> str:
        text, start, key = match.string, match.start(), self._judge(match[1])
        holder = _ends_in(text[max(0, start - _LONGEST_NAME) : start])
        is_secret = looks_random(key)
        if not is_secret and _of_secrets(holder):
            is_secret = len(key) >= 16 and _HEX.fullmatch(key) is not None and not key.isdigit()
        return f"['{self.mask(key)}']" if is_secret else match[0]

    def _run(self, match: re.Match[str]) -> str:
        run, text, start, end = match[0], match.string, match.start(), match.end()
        before = text[start - 1 : start]
        if run.startswith("/") or before in ("/", ".", "~", "%", "@", "\\") or run.startswith(("_Z", "masked_")):
            return run  # a part of a path, of a dotted name, of a mangled one
        if len(run) > _LONGEST_RUN:  # no name, and no text of words: any part of it tells what it is
            return self.mask(run) if any(map(self._is_random, _samples_of(run))) else run
        self._judge(run)
        if "/" in run or "+" in run:
            return self.mask(run) if _is_base64(run) and text[end : end + 1] != "." else run
        if text[end : end + 1] == "." and text[end + 1 : end + 2].isalpha():
            return run  # a file or a dotted name
        return self.mask(run) if looks_random(run) else run

    def _is_random(self, piece: str) -> bool:
        self._judge(piece)
        return _is_base64(piece) if "/" in piece or "+" in piece else looks_random(piece)

    def _named(self, text: str, only_quoted: bool = False) -> str:
        lower = text.lower()
        if not _has(lower, _WORDS):
            return text
        if "authorization" in lower or "bearer" in lower:
            text = _HEADER.sub(self._header, text)
        parts, done = [], 0
        quotes = _Quotes(text) if only_quoted else None
        lower = text.lower()
        if len(lower) != len(text):  # some letters of Turkish: their places differ
            lower = text
        for word in _WORD.finditer(lower):
            match = _NAMED.match(text, word.start()) if word.start() >= done else None
            if match is None:
                continue
            self._judge(match["value"])
            found = _named_value(text, match, quotes)
            if found is not None:
                start, end = found
                parts += [text[done:start], self.mask(text[start:end])]
                done = end
        parts.append(text[done:])
        return "".join(parts)

    def _logins(self, text: str) -> str:
        lower = text.lower()
        if "pass" in lower and _has(text, ":="):
            text = _SHORT_NAMED.sub(self._after, text)
        if _has(lower, ("passw", "passp")):
            text = _SAID.sub(self._telling, text)
        if _has(lower, _LOGS_IN):
            text = _LOGIN.sub(self._after, text)
        if "-p" in lower and _has(lower, ("mysql", "mariadb")):
            text = _ONE_COMMAND.sub(self._of_database, text)
        return _SSHPASS.sub(self._after, text) if "sshpass" in lower else text

    def _of_database(self, match: re.Match[str]) -> str:
        command = match[0]
        program = _DATABASE.search(command)
        if program is None:
            return command
        return command[: program.end()] + _OF_DATABASE.sub(self._after, command[program.end() :], count=1)

    def _after(self, match: re.Match[str]) -> str:
        value = self._judge(match["value"])
        return match[0] if value.isdigit() or _HARMLESS_VALUE.fullmatch(value) else match["before"] + self.mask(value)

    def _telling(self, match: re.Match[str]) -> str:
        return self._after(match) if _has(match["value"], _DIGITS) else match[0]

    def _header(self, match: re.Match[str]) -> str:
        value = self._judge(match["value"])
        is_word = value.isalpha() and not match["before"][:13].lower().startswith("authorization")
        return match[0] if is_word or _HARMLESS_VALUE.fullmatch(value) else match["before"] + self.mask(value)


class _Quotes:
    """Whether a place is in quotes within its line, as far as counting tells; places are asked in their order.

    In ``"password: %s"`` what follows the name is no code.
    """

    def __init__(self, text: str) -> None:
        self._text = text
        self._at = self._double = self._single = 0

    def are_open(self, at: int) -> bool:
        text = self._text
        line = text.rfind("\n", self._at, at) + 1
        if line:
            self._at, self._double, self._single = line, 0, 0
        self._double += text.count('"', self._at, at)
        self._single += text.count("'", self._at, at)
        self._at = max(at, self._at)
        return self._double % 2 == 1 or self._single % 2 == 1


def _ends_in(text: str) -> str:
    """The name at the end."""
    start = len(text)
    while start > 0 and (text[start - 1].isalnum() or text[start - 1] == "_"):
        start -= 1
    return text[start:]


def _has(text: str, parts: Iterable[str]) -> bool:
    for part in parts:  # noqa: SIM110 - a generator takes twice as long
        if part in text:
            return True
    return False


def _parts(text: str) -> Iterator[str]:
    """Some lines at a time, up to one that begins a statement: a name and its value stay together. A line of data that
    is longer is one part."""
    start = 0
    while start < len(text):
        end = _line_end(text, start + _AT_ONCE)
        for _ in range(_LINES_OF_ONE):
            if end >= len(text) or end - start > LONGEST or not (text[end].isspace() or text[end] in ")]}\"'"):
                break
            end = _line_end(text, end)
        last = text.rfind("\n", start, start + _AT_ONCE) + 1
        if end - start > LONGEST and last > start:
            end = last
        yield text[start:end]
        start = end


def _line_end(text: str, at: int) -> int:
    return text.find("\n", at) + 1 or len(text)


def _samples_of(run: str) -> tuple[str, str, str]:
    """Its beginning, middle and end."""
    middle = len(run) // 2
    return run[:_SAMPLE], run[middle : middle + _SAMPLE], run[-_SAMPLE:]


def _is_base64(run: str) -> bool:
    bare = run.replace("/", "").replace("+", "").rstrip("=")
    return len(bare) >= _SHORT_BASE64 and _is_mixed(bare) and _is_noise(bare)


def looks_random(text: str) -> bool:
    """Whether nobody would have made it up as a name: letters and digits without words in them."""
    for piece in _LETTERS_AND_DIGITS.findall(text):
        if _HEX.fullmatch(piece) is None and (_is_mixed(piece) or len(piece) >= _LOWER_ALONE) and _is_noise(piece):
            return True
    if "_" not in text and "-" not in text:
        return False
    bare = text.replace("_", "").replace("-", "").rstrip("=")
    longest = max(text.replace("-", "_").split("_"), key=len)
    has_core = len(longest) >= 10 and _has(longest, _DIGITS) and _HEX.fullmatch(longest) is None
    return len(bare) >= _LOWER_ALONE and has_core and bare.isalnum() and _is_mixed(longest) and _is_noise(bare)


def _is_mixed(piece: str) -> bool:
    return piece.lower() != piece and piece.upper() != piece


def _is_noise(piece: str) -> bool:
    if len(set(piece)) < 10 or not _has(piece, _DIGITS):
        return False
    lower = piece.lower()
    pairs = list(filter(str.isalpha, map(str.__add__, lower, lower[1:])))
    most = 0.4 if len(pairs) < 30 else 0.45
    return (
        len(pairs) >= 4
        and sum(map(_COMMON_PAIRS.__contains__, pairs)) <= most * len(pairs)
        and 2 * sum(map(_FOLLOWS.__contains__, map(str.__add__, lower, lower[1:]))) < len(lower)
    )


def _is_secret_name(name: str) -> bool:
    """Of an option, a variable of the environment, a label: ``--hf-token``, ``DB_PASSWORD``, not ``--max-token``."""
    lower = name.lower()
    if not _has(lower, _WORDS):
        return False
    match = _NAME_ENDS.search(name)
    return match is not None and not _NOT_SECRET_NAME.search(name[: match.start()])


_NAME_ENDS = _Pattern(
    rf"(?:{_STRONG}|(?<![a-z])authorization)s?$|(?<![A-Za-z])(?:token|auth|pwd)$|(?<=[-_])key$|[a-z]Token$",
    _IGNORECASE,
)


def _of_secrets(holder: str) -> bool:
    return _has(holder.lower(), ("token", "secret", "passw", "credential", "key", "session"))


def _is_harmless(value: str, name: str) -> bool:
    """Whether what stands after a secret's name is none: a file that holds it, a word of the language, a number."""
    bare = value.strip("\"'\\")
    if not bare or _HARMLESS_VALUE.fullmatch(bare):
        return True
    if _PATH.fullmatch(bare) and not looks_random(bare):
        return True
    if bare.replace(".", "", 1).lstrip("-").isdigit() and len(bare) < 4:
        return True
    lower = name.lower()
    if lower.endswith("key"):
        return not (len(bare) >= 8 and _has(bare, _DIGITS)) and not _IS_STRONG.search(lower)
    if lower.endswith("pwd") or lower in ("--auth", "auth"):
        return not _has(bare, ":" + _DIGITS)
    return False


def _named_value(text: str, match: re.Match[str], quotes: _Quotes | None) -> tuple[int, int] | None:
    """Where in the text the secret of a match stands; None if it is none. ``quotes``: of a source."""
    start, end = match.span("value")
    value, between = match["value"], match["between"]
    word_start = match.start()
    least = max(0, word_start - _LONGEST_NAME)
    while word_start > least and (text[word_start - 1].isalnum() or text[word_start - 1] in "_-."):
        word_start -= 1
    name = text[word_start : match.end("word")]
    is_option = name.startswith("-")
    is_assigned = "=" in between or ":" in between
    is_next = is_option and ("," in between or not _has(between, "'\""))  # --token x, also as ['--token', 'x']
    if not (is_assigned or is_next):
        return None
    if not _is_secret_name(name) or name in ("PWD", "OLDPWD", "pwd"):
        return None
    if value[:1] in "\"'\\":
        inset = 2 if value[0] == "\\" else 1
        start, end = start + inset, end - inset
        if value[0] == "\\" and text[end : end + 1] != "\\":
            end = match.end("value") - 1
    elif quotes is not None:
        is_setting = name.isupper() and between == "=" and _has(value, _DIGITS)  # in a string of many lines
        if _has(between, "'\"") or not (is_setting or quotes.are_open(word_start)):
            return None
    bare = text[start:end]
    if not bare or _is_harmless(bare, name):
        return None
    is_quoted = value[:1] in "\"'\\"
    if not is_quoted and not is_option and _CODE.fullmatch(bare):
        # password=get_password(), token=self.token: a program's, not a person's
        last = bare.split("(")[0].split("[")[0].split(".")[-1]
        if "(" in bare or "[" in bare or text[end : end + 1] == "(" or _is_secret_name(last) or "." in bare:
            return None
        if not name.isupper() and not _has(bare, _DIGITS) and between.strip() == ":":
            return None
    is_plain = is_option or (name.isupper() and "=" in between) or match["word"].lower() == "pwd"
    is_telling = (len(bare) >= 8 and _has(bare, _DIGITS)) or looks_random(bare)
    return (start, end) if is_plain or is_telling or _IS_STRONG.search(name) else None


# ---- texts of the program, for --no-source

_TEXT_OF_PYTHON = _Pattern(
    r"((?<![\w.-])python[\w.]*\s+(?:-\w+\s+)*-\w*c\s+)(?:'[^']*(?:'\"'\"'[^']*)*'|\"(?:[^\"\\]|\\.)*\")"
)
# In a traceback a line of source, and marks below it, stand deeper than the line that names the file.
_AFTER_FILE = _Pattern(
    r"(?m)^(?P<margin>[ |]*)(?P<file>File \"[^\"\n]*\", line \d+(?:, in [^\n]*)?\n)"
    r"(?:(?P=margin)[ ]{2}[^\n]*(?:\n|\Z))+"
)
_AFTER_WARNING = _Pattern(r"(?m)^([^\s:][^:\n]*:\d+: \w*Warning: [^\n]*\n)(?:  [^\n]*(?:\n|\Z))")
# As rich and IPython quote it.
_IN_FRAME = _Pattern(r"(?m)^[│|][ ❱>]*\d+ [│|][^\n]*(?:\n|\Z)|^(?:-+> ?\d+ |[^\S\n]+\d+ )[^\n]*(?:\n|\Z)")
_COMMENT_IN_GUARD = _Pattern(r"(?m)(?<!\s)\s{2,}# [^\n]*")


def without_source(text: str) -> str:
    """A message without the lines of source that tracebacks, warnings and guards of torch.compile quote."""
    if 'File "' in text:
        text = _AFTER_FILE.sub(r"\g<margin>\g<file>", text)
    if " │ " in text or "-> " in text:
        text = _IN_FRAME.sub("", text)
    if "Warning: " in text:
        text = _AFTER_WARNING.sub(r"\1", text)
    return _COMMENT_IN_GUARD.sub("", text) if "  # " in text else text


def is_same_command(masked: object, words: Sequence[str]) -> bool:
    """Whether a command that was written down is this one, as far as masks let anybody see."""
    if not isinstance(masked, list) or len(masked) != len(words):
        return False
    return all(isinstance(old, str) and _is_same(old, new) for old, new in zip(masked, words))


def _is_same(masked: str, word: str) -> bool:
    first, *others = _MASKED.split(masked)
    if not others or not word.startswith(first):
        return masked == word
    at = len(first)
    for part in others[:-1]:
        at = word.find(part, at + 1)  # of what was masked there is one letter at least
        if at < 0:
            return False
        at += len(part)
    return len(word) - len(others[-1]) > at and word.endswith(others[-1])
