"""The mark limit_growth: a test that keeps memory fails, and is told by whom it is kept; others notice nothing."""

from __future__ import annotations

import subprocess
import sys

import pytest

pytestmark = pytest.mark.live

pytest_plugins = ["pytester"]

SERVICES = """
import functools

CACHE = {}


def remember(key):
    CACHE[key] = bytearray(100_000)


class Registry:
    seen = []

    def add(self):
        for _ in range(10):
            self.seen.append(bytearray(10_000))


@functools.lru_cache(maxsize=None)
def load(key):
    return bytearray(100_000)

"""

LEAKS = """
import ctypes, itertools, pytest, services

numbers = itertools.count()


def counter():
    kept = []

    def count():
        kept.append(bytearray(100_000))

    return count


count = counter()


@pytest.fixture
def basket():
    return []


@pytest.fixture
def kept_by_a_generator():
    kept = []
    yield kept.append


@pytest.mark.limit_growth("50KB")
def test_module():
    services.remember(next(numbers))


@pytest.mark.limit_growth("50KB")
class TestClass:
    def test_attribute(self):
        services.Registry().add()


@pytest.mark.limit_growth("50KB")
def test_cache():
    services.load(next(numbers))


@pytest.mark.limit_growth("50KB")
def test_closure():
    count()


@pytest.mark.limit_growth("50KB")
def test_fixture(basket, tmp_path, capsys):
    basket.append(bytearray(100_000))


@pytest.mark.limit_growth("50KB")
def test_generator(kept_by_a_generator):
    kept_by_a_generator(bytearray(100_000))


@pytest.mark.limit_growth("50KB")
def test_native():
    malloc = ctypes.CDLL(None).malloc
    malloc.restype = ctypes.c_void_p
    malloc(ctypes.c_size_t(100_000))
"""

CLEAN = """
import functools, logging, pytest

runs = []


@functools.lru_cache(maxsize=None)
def table():
    return bytearray(3_000_000)


@pytest.mark.limit_growth("100KB", warmups=2, repeats=4)
def test_comes_and_goes(caplog, capsys):
    runs.append(1)
    table()
    cycle = [bytearray(1_000_000)]
    cycle.append(cycle)
    print("x" * 10_000)
    for _ in range(10):
        logging.getLogger("a").warning("batch %s", bytearray(100_000)[:0])
        logging.getLogger("a").warning("kept by its record: %.0s", bytearray(100_000))


def test_ran_six_times():
    assert len(runs) == 6


@pytest.mark.limit_growth("100KB")
def test_own_failures_come_first():
    assert [1] == [2]
"""

CACHES = """
import collections, functools, itertools, pytest

numbers = itertools.count()
slots = collections.OrderedDict()
ring = collections.deque(maxlen=500)


@functools.lru_cache(maxsize=64)
def load(key):
    return bytearray(20_000)


@pytest.mark.limit_growth("50KB")
def test_lru_cache():
    for _ in range(8):
        load(next(numbers))


@pytest.mark.limit_growth("50KB")
def test_eight_slots():
    slots[next(numbers)] = bytearray(100_000)
    while len(slots) > 8:
        slots.popitem(last=False)


@pytest.mark.limit_growth("50KB")
def test_far_from_full():
    ring.append(bytearray(100_000))
"""

EXPECTED = {
    "test_module": ["services.CACHE (dict) keeps it", "services.py:7: CACHE[key] = bytearray(100_000)"],
    "test_attribute": ["Registry.seen (list) keeps it", "services.py:15: self.seen.append"],
    "test_cache": ["load() (lru_cache) keeps it", "services.py:18"],
    "test_closure": ["closure variable kept of count() (list) keeps it", "test_leaks.py:10: kept.append"],
    "test_fixture": ["fixture basket (list) keeps it"],
    "test_generator": ["kept_by_a_generator() kept (list) keeps it"],
    "test_native": ["No module, class, closure, cache, generator or fixture of your code was seen to hold it"],
}


@pytest.fixture(autouse=True)
def loads_the_plugin(monkeypatch):
    """By name, whether or not this checkout is installed as a distribution with its entry point."""
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")


def run_pytest(pytester: pytest.Pytester, *arguments: str) -> pytest.RunResult:
    return pytester.runpytest_subprocess("-p", "leakscope.pytest_plugin", "-p", "no:cacheprovider", *arguments)


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_a_leak_fails_and_names_holder_and_line(pytester):
    pytester.makepyfile(services=SERVICES, test_leaks=LEAKS)
    result = run_pytest(pytester)
    result.assert_outcomes(failed=len(EXPECTED))
    text = result.stdout.str()
    for name, parts in EXPECTED.items():
        told = text.split(f"{name} __", 1)[1].split("\n____", 1)[0]
        assert "the limit is 50KB" in told
        for part in parts:
            assert part in told, f"{name}: {told}"


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_what_comes_and_goes_passes_and_a_tests_own_failure_stands(pytester):
    pytester.makepyfile(CLEAN)
    result = run_pytest(pytester)
    result.assert_outcomes(passed=2, failed=1)
    result.stdout.fnmatch_lines(["*assert [[]1] == [[]2]*"])


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_a_cache_that_is_full_by_the_further_runs_is_none(pytester):
    pytester.makepyfile(CACHES)
    result = run_pytest(pytester)
    result.assert_outcomes(passed=2, failed=1)
    result.stdout.fnmatch_lines(
        ["*test_far_from_full*", "each run keeps*", "5 runs after 2 warm-ups*", "5 runs after those*"]
    )


@pytest.mark.cases(2)
@pytest.mark.parametrize(
    ("mark", "said"),
    [
        ("'5 parsecs'", "'5 parsecs' is not a size"),
        ("'5MB', repeats=1", "repeats=1: it must be a whole number of 3 or more"),
        ("'5MB', rounds=3", 'limit_growth("5MB", warmups=2, repeats=5)'),
        ("", 'limit_growth("5MB", warmups=2, repeats=5)'),
    ],
)
def test_a_wrong_mark_is_one_line_before_any_test_runs(pytester, mark, said):
    pytester.makepyfile(f"import pytest\n@pytest.mark.limit_growth({mark})\ndef test_it(): print('ran')")
    result = run_pytest(pytester)
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    assert said in result.stderr.str()
    assert "Traceback" not in result.stderr.str()


def test_methods_of_unittest_are_refused(pytester):
    pytester.makepyfile(
        "import pytest, unittest\n"
        "class TestIt(unittest.TestCase):\n"
        "    @pytest.mark.limit_growth('5MB')\n"
        "    def test_it(self): pass"
    )
    assert "not unittest's" in run_pytest(pytester).stderr.str()


def test_the_mark_is_registered(pytester):
    pytester.makepyfile("def test_it(): pass")
    result = run_pytest(pytester, "--strict-markers", "--markers")
    result.stdout.fnmatch_lines(["@pytest.mark.limit_growth(*"])


@pytest.mark.live
def test_users_of_pytest_who_do_not_use_it_pay_no_import():
    script = (
        "import sys, pytest; known = set(sys.modules); import leakscope.pytest_plugin; print(*{*sys.modules} - known)"
    )
    loaded = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True).stdout.split()
    assert {name for name in loaded if not name.startswith("leakscope")} == set()
    assert len(loaded) <= 4
