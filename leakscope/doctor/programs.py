"""Interpreters the agent can work in, and packages and drivers leakscope uses where they are."""

from __future__ import annotations

import ctypes
import importlib.util
import os
import shutil
import sys
import tempfile
from collections.abc import Iterator
from glob import glob

from ..errors import to_install
from ._check import Check, answer_of, limited, missing, ok

TITLE = "Programs"
_OLDEST = (3, 8)
_MARK = "leakscope_doctor"
_QUESTION = f"""
import sys
gil = "t" not in getattr(sys, "abiflags", "")
name = getattr(getattr(sys, "implementation", None), "name", "cpython")
lists = hasattr(sys, "getobjects")
print(*sys.version_info[:2], int(gil), int(hasattr(sys, "{_MARK}")), int(lists), name, sys.executable)
"""
_REPORT = ("pyarrow", "pandas", "numpy", "rich", "click")


def checks(root: str) -> Iterator[Check]:
    yield from _namesakes()
    yield from _interpreters()
    yield _heap_graph()
    yield _allocations()
    yield _packages()
    yield _charts()
    yield _gpu(root)


def _namesakes() -> Iterator[Check]:
    """Said where there is one."""
    from ..recorder import namesakes

    if (other := namesakes.found()) is not None:
        yield limited("this leakscope", other)


def _interpreters() -> Iterator[Check]:
    """This one, and what the names in use stand for in this shell."""
    found = [sys.executable, *filter(None, map(shutil.which, ("python", "python3")))]
    with tempfile.TemporaryDirectory(prefix="leakscope-doctor-") as folder:
        with open(os.path.join(folder, "sitecustomize.py"), "w") as file:
            file.write(f"import sys; sys.{_MARK} = True\n")
        checks = [_interpreter(path, folder) for path in dict.fromkeys(found)]
    known: dict[tuple[str, str], Check] = {}
    for check in checks:  # several names often stand for one interpreter
        known.setdefault(_apart(check), check)
    yield from known.values()


def _apart(check: Check) -> tuple[str, str]:
    """python and python3 of one folder are links to one file."""
    path, colon, rest = check.text.partition(": ")
    return os.path.realpath(path), rest if colon else check.text


def _allocations() -> Check:
    """Whether sampling would begin here; it does not: from then on malloc of this process would lead elsewhere."""
    from ..agent.allocations.sampler import Sampler

    refusal = Sampler.refusal_before()
    if refusal is None:
        return ok("allocations", "what native code keeps is reported with the lines that allocated it")
    remedy = "install gcc, then reinstall leakscope" if "compiler" in refusal else None
    return limited("allocations", f"{refusal}: native memory is reported without lines", remedy)


def _heap_graph() -> Check:
    """Asked of this interpreter: the library is the same for all."""
    from ..agent.graph.heap_graph import HeapGraph

    refusal = HeapGraph().refusal
    if refusal is None:
        return ok("heap graph", "who holds what is read exactly, in all Pythons from 3.8 to 3.14")
    remedy = "install gcc, then reinstall leakscope" if "compiler" in refusal else None
    return limited("heap graph", f"{refusal}: who holds what is estimated from samples", remedy)


def _interpreter(path: str, folder: str) -> Check:
    """By asking it: a wrapper may drop PYTHONPATH or start it with -I."""
    inherited = os.environ.get("PYTHONPATH", "")
    environ = {**os.environ, "PYTHONPATH": folder + (os.pathsep + inherited if inherited else "")}
    answer = answer_of([path, "-c", _QUESTION], environ)
    words = answer[0].split(None, 6) if answer else []
    if len(words) < 7:
        return missing("python", f"{path} does not run")
    version, (has_gil, is_reached, lists, kind, itself) = (int(words[0]), int(words[1])), words[2:]
    itself = itself.strip()
    name = "python {}.{}".format(*version)
    outside = f"{itself}: recorded from outside only"
    if kind != "cpython":
        return limited(name, f"{outside}, it is {kind}", "a run with CPython shows its holders")
    if version < _OLDEST:
        return limited(name, f"{outside}, the agent needs {_OLDEST[0]}.{_OLDEST[1]}")
    if has_gil == "0":
        return limited(name, f"{outside}, it is free-threaded", "a usual build")
    if is_reached == "0":
        return limited(name, f"{outside}, it ignores PYTHONPATH", "start it without -I, -E and -S")
    if lists == "1":
        return limited(name, f"{outside}, it keeps a list of all objects (Py_TRACE_REFS)", "a usual build")
    return ok(name, f"{itself}: seen from inside (not with -I, -E or -S)")


def _packages() -> Check:
    lacking = [package for package in _REPORT if importlib.util.find_spec(package) is None]
    if lacking:
        text = f"{', '.join(lacking)} not installed: recording works and leaves a journal, reports do not"
        return missing("reports", text, f"pip install {' '.join(lacking)}")
    return ok("reports", f"{', '.join(_REPORT)} are installed")


def _charts() -> Check:
    if importlib.util.find_spec("resvg_py") is None:
        text = "resvg is not installed: charts of a notebook can be saved as .svg, not as .png"
        return missing("charts", text, to_install("plots"))
    return ok("charts", "resvg is installed")


def _gpu(root: str) -> Check:
    """Device files come with the driver, its library separately: containers often have the one and not the other."""
    has_device = bool(glob(f"{root}/dev/nvidia[0-9]*"))
    try:
        nvml = ctypes.CDLL("libnvidia-ml.so.1")
        works = nvml.nvmlInit_v2() == 0
    except (OSError, AttributeError):
        works = False
    if works:
        return ok("GPU", "the driver's library (NVML) reports the memory of each GPU and of processes on it")
    if has_device:
        text = "there is an NVIDIA GPU, but NVML does not answer: allocator figures only, no other processes"
        return limited("GPU", text, "in a container: NVIDIA_DRIVER_CAPABILITIES=compute,utility")
    return missing("GPU", "no NVIDIA GPU here")
