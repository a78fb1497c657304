"""After every test: no child process is left, the environment is as it was. And a unit test starts no process at all.

What the marks mean is said in tests/tiers.py.
"""

from __future__ import annotations

import compileall
import gc
import importlib.util
import os
import re
import resource
import shutil
import signal
import tempfile
from collections import Counter
from collections.abc import Iterator
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import psutil
import pytest
from hypothesis import settings

from tests import entered

# Two programs with torch at a time, each with a thread for every core, wait for each other more than they compute.
os.environ.setdefault("OMP_NUM_THREADS", "1")

# The same examples on every machine: a run that fails does so for whoever looks into it.
# And no deadline: what an example takes is the machine's business.
settings.register_profile("same", derandomize=True, deadline=None)
settings.load_profile("same")

_MOST_S = 600  # the longest takes 60 s on a quiet machine, with what it shares with others of its file

_watch = entered.Watch()

_PYTESTS_OWN = {"PYTEST_CURRENT_TEST", "_RJEM_MALLOC_CONF"}  # the latter is set as polars is imported
_MAY_START = {"live", "slow"}
# Reports make a hundred thousand objects each, and no garbage that only the collector frees: it need not look so often.
_JUDGES = {"judging", "golden"}
_GOLDEN = Path(__file__).parent / "golden" / "recordings"
_USUAL, _SELDOM = gc.get_threshold(), (20_000, 10, 10)


_AGENT = Path(__file__).parents[1] / "leakscope" / "agent"
_IN_MEMORY = Path("/dev/shm")
_LEAST_FREE = 256 << 20  # a recording keeps 2 MB of code in the cache
_KEPT = ("matplotlib", "pip")  # dear to make anew
_cache: Path | None = None


def pytest_configure(config: pytest.Config) -> None:
    """Before workers are started: the agent is compiled, and has a cache of its own to be copied to."""
    global _cache
    if hasattr(config, "workerinput"):
        return
    # Recorders copy the code of it: in a fresh checkout each would compile it, 0.3 s.
    compileall.compile_dir(_AGENT, quiet=2)
    if "XDG_CACHE_HOME" not in os.environ and _holds_code(_IN_MEMORY):
        _cache = Path(tempfile.mkdtemp(prefix="leakscope-tests-", dir=_IN_MEMORY))  # only its user may look into it
        os.environ["XDG_CACHE_HOME"] = str(_cache)
        for name in _KEPT:
            if (own := Path.home() / ".cache" / name).is_dir():
                (_cache / name).symlink_to(own)


def pytest_unconfigure() -> None:
    global _cache
    if _cache is not None:
        os.environ.pop("XDG_CACHE_HOME")
        shutil.rmtree(_cache, ignore_errors=True)
        _cache = None


def _holds_code(folder: Path) -> bool:
    """Whether it lies in memory, where 80 files a recording cost little, and code in it may run."""
    if not (os.path.ismount(folder) and os.access(folder, os.W_OK | os.X_OK)):
        return False
    status = os.statvfs(folder)
    return not status.f_flag & os.ST_NOEXEC and status.f_bavail * status.f_frsize >= _LEAST_FREE


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Iterator[Any]:
    """The collector waits meanwhile, and what every test finds then, a million objects, it need not look at again."""
    gc.disable()
    found = yield
    gc.enable()
    gc.collect()
    gc.freeze()
    return found


_NO_NAME = re.compile(r"[^\w-]+")
_JUDGE = tuple(f"tests/{room}/" for room in ("analyzers", "comparing", "fleet", "fuzz", "mcp_server"))
_FOLDERS = {"tmp_path", "tmp_path_factory"}


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> Iterator[None]:
    """Marks that follow from what a test asks for, and an order in which the long ones do not come last."""
    for item in items:
        # A test there that has or shares a folder builds a recording in it and judges it: 0.1 s, a thousand times.
        if item.nodeid.startswith(_JUDGE) and _FOLDERS.intersection(getattr(item, "fixturenames", ())):
            item.add_marker("judging")
        if item.get_closest_marker("golden") is not None and not _GOLDEN.is_dir():
            item.add_marker(pytest.mark.skip(reason="committed recordings are in a clone alone"))
        if item.get_closest_marker("torch") is None:
            continue
        if importlib.util.find_spec("torch") is None:
            item.add_marker(pytest.mark.skip(reason="could not import 'torch'"))
        elif not any(item.get_closest_marker(mark) for mark in _MAY_START):
            item.add_marker(pytest.mark.xdist_group("torch"))  # one of the workers imports it, for all of them
    _mark_further(items)
    for item in items:
        if item.get_closest_marker("xdist_group") is None and _shares_with_its_file(item):
            item.add_marker(pytest.mark.xdist_group(_NO_NAME.sub("-", item.nodeid.partition("::")[0])))
    # Those that start processes wait, the others compute: a job is recorded beside tests that are short.
    items.sort(key=lambda item: not any(item.get_closest_marker(mark) for mark in _MAY_START))
    yield
    for item in items if config.getoption("loadgroup", False) else ():
        _name_group(item)


def _mark_further(items: list[pytest.Item]) -> None:
    """``make test`` has the first n cases of a test marked ``cases(n)``."""
    seen: Counter[str] = Counter()
    for item in items:
        test = item.nodeid.partition("[")[0]
        seen[test] += 1
        most = item.get_closest_marker("cases")
        if most is not None and seen[test] > most.args[0]:
            item.add_marker("further")


def _shares_with_its_file(item: pytest.Item) -> bool:
    """Whether it asks for a fixture that is made once for a file: each worker would make one of its own."""
    known = getattr(item, "_fixtureinfo", None)
    definitions = known.name2fixturedefs.values() if known is not None else ()
    return any(one.scope == "module" and one.baseid for several in definitions for one in several)


def _name_group(item: pytest.Item) -> None:
    """xdist tells by the end of its name who belongs to whom. Since pytest 9.2 it does not come to the name itself."""
    groups = sorted({mark.args[0] for mark in item.iter_markers("xdist_group")})
    name = f"{item.nodeid}@{'_'.join(groups)}"
    own: Any = getattr(item, "_id", None)
    if groups and own is not None and not item.nodeid.endswith(f"@{'_'.join(groups)}"):
        item._id = type(own).parse(name)  # type: ignore[attr-defined]


@pytest.fixture(autouse=True)
def leaves_nothing_behind(request: pytest.FixtureRequest) -> Iterator[None]:
    """Fails the test that leaves a child process running or changes ``os.environ``, and the unit test that had one."""
    is_judge = any(request.node.get_closest_marker(mark) for mark in _JUDGES)
    gc.set_threshold(*(_SELDOM if is_judge else _USUAL))
    ended_before = _faults_of_ended_children()
    children_before = _children()
    environment_before = _environment()
    yield
    left = {child for child in _children() - children_before if not _descends(child, children_before)}
    assert not left, f"the test left child processes: {left}"
    assert _environment() == environment_before, "the test changed os.environ"
    if not any(request.node.get_closest_marker(mark) for mark in _MAY_START):
        assert _faults_of_ended_children() == ended_before, "a unit test started a process: mark it, or its file, live"


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Iterator[Any]:
    """What never ends fails, and its stack is seen: a tier that waits for it says nothing at all."""
    if item.get_closest_marker("slow"):
        return (yield)
    before = signal.signal(signal.SIGALRM, _took_too_long)
    signal.alarm(_MOST_S)
    try:
        return (yield)
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


def _took_too_long(*_: object) -> None:
    pytest.fail(f"it was not done after {_MOST_S} s")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Iterator[Any]:
    """What judges a committed recording is watched."""
    with _watch.on() if item.get_closest_marker("golden") else nullcontext():
        return (yield)


def pytest_sessionfinish(session: pytest.Session) -> None:
    output = getattr(session.config, "workeroutput", None)
    if output is not None:
        output[entered.NOTED] = sorted(_watch.entered)


def _children() -> set[psutil.Process]:
    """psutil reads of every process on the machine whose child it is: 8,000 times, and of most tests there is none."""
    try:
        if not any(_read(f"/proc/self/task/{thread}/children") for thread in os.listdir("/proc/self/task")):
            return set()
    except OSError:  # a thread that ended meanwhile, or a kernel that does not list them
        pass
    return set(psutil.Process().children(recursive=True))


def _read(path: str) -> bytes:
    with open(path, "rb") as file:
        return file.read()


def _descends(process: psutil.Process, others: set[psutil.Process]) -> bool:
    """A browser that tests share has children of its own, which come and go; and what ended is not left."""
    try:
        return not others.isdisjoint(process.parents())
    except psutil.NoSuchProcess:
        return True


def _faults_of_ended_children() -> int:
    """Rises with each child that was waited for. An audit hook would tell at once, and slow down all that is tested."""
    return resource.getrusage(resource.RUSAGE_CHILDREN).ru_minflt


def _environment() -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if name not in _PYTESTS_OWN}
