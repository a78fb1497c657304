"""What the agent's code may not do, wherever it stands: rules that a reader of one file cannot see broken in another.

Each was broken once, and ended, hung or changed somebody's program.
"""

from __future__ import annotations

import ast
import re
import subprocess
from collections.abc import Callable, Iterator
from functools import lru_cache
from pathlib import Path

import pytest

import leakscope.agent

from ..harm.interpreters import Interpreter, interpreters
from .staging import stage

AGENT = Path(leakscope.agent.__file__).parent
FILES = sorted(AGENT.rglob("*.py"))
# Built-in types by name: in a set, a dict or a comparison with ``in`` a found object's class would be hashed or
# compared, by its metaclass.
TYPES = frozenset(
    ("list", "tuple", "dict", "set", "frozenset", "str", "bytes", "bytearray", "int", "float", "bool", "complex",
     "type", "deque", "OrderedDict", "defaultdict")
)  # fmt: skip
# Where a descriptor is taken from a type of Python's own, not an attribute from an object.
OWN_DICTS = ("type", "BaseException", "sys", "types.ModuleType")
FRAMES_OF_ALL = ("_current_frames", "current_frames")
REPLACED = ("time", "_thread", "threading")  # by gevent, eventlet, freezegun, in the module


@lru_cache(None)  # a dozen rules ask
def nodes(file: Path) -> list[ast.AST]:
    return list(ast.walk(ast.parse(file.read_text())))


@pytest.fixture(scope="module", autouse=True)
def parsed_once() -> Iterator[None]:
    """One worker runs all rules, and keeps no million nodes afterwards, which each collection would go through."""
    yield
    nodes.cache_clear()


def everywhere(rule: Callable[[Path], list[str]]) -> Callable[[], None]:
    """A test that a rule holds in every file: it returns the lines that break it."""

    def test() -> None:
        assert not [line for file in FILES for line in rule(file)], rule.__doc__

    return test


def found(file: Path, *kinds: type[ast.AST]) -> Iterator[ast.AST]:
    return (node for node in nodes(file) if isinstance(node, kinds))


def lines(file: Path, wrong: list[ast.AST]) -> list[str]:
    text = file.read_text().splitlines()
    return [f"{file.name}:{node.lineno} {text[node.lineno - 1].strip()}" for node in wrong]  # type: ignore[attr-defined]


@everywhere
def test_frames_and_attributes_are_read_in_one_place(file: Path) -> list[str]:
    """``f_locals`` writes to a frame that somebody traces; ``__dict__`` and ``__getattribute__`` may be the job's."""
    if file.name in ("reading.py", "sitecustomize.py", "library.py"):  # the last two read modules of Python's own
        return []
    wrong = [
        node
        for node in found(file, ast.Attribute)
        if isinstance(node, ast.Attribute)
        and node.attr in ("f_locals", "__getattribute__", "__dict__")
        and not (node.attr == "__dict__" and ast.unparse(node.value) in OWN_DICTS)
        and not (node.attr == "__dict__" and file.name == "class_openers.py")  # of functions, by their exact type
    ]
    return lines(file, wrong)


@everywhere
def test_classes_are_told_apart_by_their_ids(file: Path) -> list[str]:
    def is_type(node: ast.AST) -> bool:
        text = ast.unparse(node)
        return text in TYPES or re.fullmatch(r"types\.\w+Type", text) is not None

    wrong: list[ast.AST] = []
    for node in nodes(file):
        if isinstance(node, ast.Set):
            wrong += [node] * any(map(is_type, node.elts))
        elif isinstance(node, ast.Dict):
            wrong += [node] * any(is_type(key) for key in node.keys if key is not None)
        elif isinstance(node, ast.Call) and ast.unparse(node.func) in ("frozenset", "set") and node.args:
            members = node.args[0].elts if isinstance(node.args[0], (ast.Tuple, ast.List)) else []
            wrong += [node] * any(map(is_type, members))
        elif isinstance(node, ast.Compare) and isinstance(node.ops[0], (ast.In, ast.NotIn)):
            others = node.comparators[0]
            asked = ast.unparse(others)
            is_tuple = isinstance(others, ast.Tuple) and any(map(is_type, others.elts))
            wrong += [node] * (is_tuple or asked.startswith(("mro_of(", "names.mro_of(")))
    allowed = [node for node in wrong if file.name == "openers.py" and "open_" in ast.unparse(node)]  # made into ids
    return lines(file, [node for node in wrong if node not in allowed])


@everywhere
def test_functions_of_python_are_our_own(file: Path) -> list[str]:
    """An attribute of ``ctypes.pythonapi`` is one object for everybody: the job would find the types that we give it,
    and we those that the job gives it. What is looked up by ``[...]`` is made anew."""
    wrong = [
        node
        for node in found(file, ast.Attribute)
        if isinstance(node, ast.Attribute) and ast.unparse(node.value).endswith("pythonapi")
    ]
    return lines(file, wrong)


@everywhere
def test_frames_of_other_threads_are_not_asked_for(file: Path) -> list[str]:
    """One that is ours when its function returns keeps the variables, and has them finalized on a thread of ours."""
    wrong = [node for node in found(file, ast.Attribute) if getattr(node, "attr", "") in FRAMES_OF_ALL]
    allowed = {"doors.py": 1, "torch_look.py": 1, "tracked_segments.py": 1}  # the last in a process of Python's own
    return lines(file, wrong) if len(wrong) > allowed.get(file.name, 0) else []


@everywhere
def test_no_codec_is_looked_up_but_the_one_that_is_loaded(file: Path) -> list[str]:
    """Any other is imported as it is first used, by whatever the job has put among the finders of modules: with
    ``-X dev`` also those that Python otherwise knows by heart."""
    wrong = [
        node
        for node in found(file, ast.Call)
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and node.func.attr in ("encode", "decode")
        and node.args
        and ast.unparse(node.args[0]) != "'utf-8'"
    ]
    return lines(file, wrong)


@everywhere
def test_no_object_is_asked_for_its_class(file: Path) -> list[str]:
    """``isinstance`` asks ``__class__``, which a proxy answers by evaluating what it stands for."""
    wrong = [
        node
        for node in found(file, ast.Call)
        if isinstance(node, ast.Call) and ast.unparse(node.func) in ("isinstance", "issubclass", "repr", "hash", "vars")
    ]
    of_rows = ("sitecustomize.py", "masking.py")  # which see no object of the job's
    return lines(file, [node for node in wrong if file.name not in of_rows])


@everywhere
def test_the_collector_and_tracers_are_left_alone(file: Path) -> list[str]:
    calls = (
        "gc.disable",
        "gc.enable",
        "gc.freeze",
        "gc.unfreeze",
        "gc.set_threshold",
        "sys.settrace",
        "sys.setprofile",
    )
    if file.name == "lost_references.py":  # which a user has to ask for
        calls = tuple(one for one in calls if one != "sys.setprofile")
    wrong = [node for node in found(file, ast.Call) if isinstance(node, ast.Call) and ast.unparse(node.func) in calls]
    return lines(file, wrong)


@everywhere
def test_functions_that_others_replace_are_bound_when_the_agent_is_loaded(file: Path) -> list[str]:
    wrong = []
    for function in found(file, ast.FunctionDef):
        for node in ast.walk(function):
            is_call = isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute)
            if is_call and ast.unparse(node.func.value) in REPLACED and node.func.attr != "stack_size":  # type: ignore
                wrong.append(node)
    return lines(file, wrong)


@everywhere
def test_modules_are_loaded_with_the_agent_or_never(file: Path) -> list[str]:
    """``sys.modules`` does not list them: one imported later would be a second one."""
    if file.name == "__init__.py":
        return []
    wrong = [
        node
        for function in found(file, ast.FunctionDef)
        for node in ast.walk(function)
        if isinstance(node, ast.ImportFrom)
        and node.level
        and getattr(function, "name", "") != "_gpu_history"  # as the agent begins, in a job that asked for it
    ]
    return lines(file, wrong)


# What they open is read before the job begins; the journal is the recorder's, too.
OPENED_AT_THE_START = frozenset(
    ("address_space.py", "collector.py", "config.py", "descriptors.py", "maker.py", "refusal.py")
)
OPENED_BY_OTHERS = frozenset(("files.py", "journal.py"))


@everywhere
def test_no_file_of_ours_has_a_number_of_the_jobs(file: Path) -> list[str]:
    """Not for an instant: another thread of the job may close 0 just then, to have its own file there."""
    if file.name in OPENED_AT_THE_START | OPENED_BY_OTHERS:
        return []
    wrong = []
    for node in found(file, ast.Call):
        assert isinstance(node, ast.Call)
        is_low = not any(word.arg == "opener" for word in node.keywords)
        is_open = ast.unparse(node.func) in ("open", "io.open", "os.open", "os.dup", "os.pipe")
        wrong += [node] * (is_open and is_low)
    return lines(file, wrong)


BUILTIN = frozenset(("list", "dict", "tuple", "set", "frozenset", "type", "deque", "OrderedDict", "defaultdict"))
# Methods and functions that came after Python 3.8.
LATER = re.compile(r"\.(removeprefix|removesuffix|bit_count)$|^(aiter|anext|functools\.cache|math\.lcm)$")


class _WhatRuns(ast.NodeTransformer):
    """Leaves out what Python never evaluates: annotations of a file that postpones them, and what is for mypy alone."""

    def visit_If(self, node: ast.If) -> ast.AST | None:
        return None if ast.unparse(node.test) == "TYPE_CHECKING" else self.generic_visit(node)

    def visit_arg(self, node: ast.arg) -> ast.AST:
        node.annotation = None
        return node

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.AST:
        node.returns = None
        return self.generic_visit(node)

    def visit_AnnAssign(self, node: ast.AnnAssign) -> ast.AST | None:
        return node.value


@everywhere
def test_what_runs_is_python_3_8(file: Path) -> list[str]:
    """mypy knows no Python as old: here is what parses there and fails."""
    tree = ast.parse(file.read_text(), feature_version=(3, 8))
    functions = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)]
    postponed = "from __future__ import annotations" in file.read_text()
    wrong: list[ast.AST] = [
        node for node in functions if not postponed and (node.returns or any(arg.annotation for arg in node.args.args))
    ]
    for node in ast.walk(_WhatRuns().visit(tree)):
        if isinstance(node, ast.Subscript):
            wrong += [node] * (ast.unparse(node.value) in BUILTIN)
        elif isinstance(node, ast.Call):
            keywords = {keyword.arg for keyword in node.keywords}
            wrong += [node] * (LATER.search(ast.unparse(node.func)) is not None)
            wrong += [node] * (ast.unparse(node.func) == "zip" and "strict" in keywords)
        elif isinstance(node, ast.BinOp) and isinstance(node.op, ast.BitOr):
            sides = {ast.unparse(node.left), ast.unparse(node.right)}
            wrong += [node] * bool(sides & (TYPES | {"None"}) or any(side.startswith("{") for side in sides))
    return lines(file, wrong)


@everywhere
def test_types_cost_a_job_nothing(file: Path) -> list[str]:
    """The module ``typing`` takes 5 ms to load, ``collections`` 2: they are imported for mypy alone."""
    tree = _WhatRuns().visit(ast.parse(file.read_text()))
    imported = [node.module for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)]
    imported += [alias.name for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names]
    return [f"{file.name} {name}" for name in imported if name in ("typing", "collections", "collections.abc")]


@pytest.mark.live
@pytest.mark.parametrize("interpreter", interpreters(), ids=str)
def test_every_file_can_be_loaded(interpreter: Interpreter, tmp_path: Path) -> None:
    """By each Python that ``LEAKSCOPE_PYTHONS`` names."""
    journal = stage(tmp_path)
    names = [".".join(file.relative_to(AGENT).with_suffix("").parts) for file in FILES]
    loaded = [f"import agent.{name}" for name in names if not name.endswith(("__init__", "sitecustomize"))]
    command = [interpreter.path, "-S", "-W", "error", "-c", "; ".join(loaded)]
    done = subprocess.run(command, cwd=journal, capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stderr) == (0, "")


def test_what_the_job_calls_is_no_function_of_python() -> None:
    """Whoever is to be called by the interpreter or a library comes through a door."""
    text = (AGENT / "main.py").read_text()
    registered = re.findall(r"(?:atexit\.register\(|before=|after_in_child=)\s*(\S+)", text)
    assert registered and all(name.startswith("doors.") for name in registered), registered
