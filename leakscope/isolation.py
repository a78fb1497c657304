"""Our own processes are answered by Python and by what is installed, never by the user's files or PYTHON* variables.

A project may have a ``resource.py`` or a ``json.py``, in its folder or on its PYTHONPATH: it is meant for the job. So
what runs beside the job does so by ``python -I``, and is told where packages are installed. The environment stays as
it is, for the job. This file imports only what is built into the interpreter, which nothing can stand in for.
"""

import sys
from posix import environ, execve, listdir

_HERE = __file__.rpartition("/")[0]
_OPTION = "leakscope"  # -X leakscope=PATH: where packages are installed, for who runs without the module site
_SEPARATOR = ":"
_ALONE = ("record", "attach")  # beside the job: they need no package, and no package's code that runs at each start
_POOL = "ARROW_DEFAULT_MEMORY_POOL"
_added: "list[str]" = []  # to the environment of this process, by us
_SITES = ("site-packages", "dist-packages")


def go_on_isolated(script: str = _HERE + "/__main__.py") -> None:
    """Begin ``script`` anew, isolated, if this process is not; else set up ``sys.path``, and return."""
    if sys.flags.isolated or not sys.executable:
        return settle()
    try:
        execve(sys.executable, command(script, *sys.argv[1:]), _environment())
    except OSError:
        return  # no file any more, or no memory: then as it is


def command(script: str, *words: str) -> "list[str]":
    """An interpreter of ours that runs a script, isolated; who runs it calls ``settle``."""
    alone = ["-S"] if words[:1] and words[0] in _ALONE else []
    return [*interpreter(*alone), "-X", f"{_OPTION}={_SEPARATOR.join(installed())}", script, *words]


def interpreter(*options: str) -> "list[str]":
    """The first words of a command: this Python, isolated, and what the user said of files and texts that we write.

    PYTHONIOENCODING has no option: ``settle``.
    """
    kept = [sys.executable, "-I", *options]
    kept += [flag for name, flag in (("DONTWRITEBYTECODE", "-B"), ("UNBUFFERED", "-u")) if _variable(name)]
    if _variable("PYCACHEPREFIX"):
        kept += ["-X", f"pycache_prefix={_variable('PYCACHEPREFIX')}"]
    if _variable("UTF8") in ("0", "1"):
        kept += ["-X", f"utf8={_variable('UTF8')}"]
    return kept


def _variable(name: str) -> str:
    return environ.get(b"PYTHON" + name.encode(), b"").decode("utf-8", "surrogateescape")


def installed() -> "list[str]":
    """Our folder, and those of ``sys.path`` into which something was installed."""
    told = sys._xoptions.get(_OPTION)
    given = [*sys.path, *_variable("PATH").split(_SEPARATOR)]  # where it was not read, by -E
    found = told.split(_SEPARATOR) if isinstance(told, str) else filter(_is_installed, given)
    return list(dict.fromkeys([_HERE.rpartition("/")[0], *filter(None, found)]))


def _is_installed(folder: str) -> bool:
    """Whether an installer put packages there; on clusters PYTHONPATH names such folders. One of sources is none."""
    if folder.rpartition("/")[2] in _SITES:
        return True
    try:
        return folder.startswith("/") and any(name.endswith(".dist-info") for name in listdir(folder))
    except OSError:
        return False


def settle() -> None:
    """In an isolated process: let what is installed be found, behind the standard library."""
    for folder in installed():
        if folder not in sys.path:
            sys.path.append(folder)
    encoding, _, errors = _variable("IOENCODING").partition(":")
    if encoding or errors:
        _set_encoding(sys.stdin, encoding, errors)
        _set_encoding(sys.stdout, encoding, errors)
        _set_encoding(sys.stderr, encoding, "")  # which says what it can, whatever is asked for


def spare_memory() -> None:
    """pyarrow is to take memory from malloc: its own pool keeps 35 MB of what was freed. It asks as it is loaded."""
    from os import environ as variables

    if _POOL not in variables:
        variables[_POOL] = "system"
        _added.append(_POOL)


def given_environment() -> "dict[str, str]":
    """For a program of the user's, without what is for our own process."""
    from os import environ as variables

    return {name: value for name, value in variables.items() if name not in _added}


def _set_encoding(stream: object, encoding: str, errors: str) -> None:
    try:
        stream.reconfigure(encoding=encoding or None, errors=errors or None)  # type: ignore[attr-defined]
    except (AttributeError, LookupError, ValueError):
        return  # closed, or a name that Python does not know: Python would not begin, we can do without


def _environment() -> "dict[bytes, bytes]":
    """As the process was started with. Python itself sets LC_CTYPE in the C locale (PEP 538)."""
    from posix import O_RDONLY, close, open, read

    try:
        descriptor = open("/proc/self/environ", O_RDONLY)
        try:
            data = b""
            while part := read(descriptor, 1 << 16):
                data += part
        finally:
            close(descriptor)
    except OSError:
        return environ
    given = dict[bytes, bytes]()
    for entry in data.split(b"\0"):
        name, equals, value = entry.partition(b"=")
        if equals and name:
            given.setdefault(name, value)  # as getenv: the first
    return given
