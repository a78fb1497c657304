"""What the agent's code may not do, wherever it stands: rules that a reader of one file cannot see broken in another.

Each was broken once, and ended, hung or changed somebody's program.
"""

from __future__ import annotations

import ast
import re
import subprocess
from collections.abc import Iterator
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


def nodes(file: Path) -> Iterator[ast.AST]:
    return ast.walk(ast.parse(file.read_text()))


def found(file: Path, *kinds: type[ast.AST]) -> Iterator[ast.AST]:
    return (node for node in nodes(file) if isinstance(node, kinds))


def lines(file: Path, wrong: list[ast.AST]) -> list[str]:
    text = file.read_text().splitlines()
    return [f"{file.name}:{node.lineno} {text[node.lineno - 1].strip()}" for node in wrong]  # type: ignore[attr-defined]


@pytest.fixture(params=FILES, ids=[str(file.relative_to(AGENT)) for file in FILES])
def file(request: pytest.FixtureRequest) -> Path:
    return Path(request.param)


def test_frames_and_attributes_are_read_in_one_place(file: Path) -> None:
    """``f_locals`` writes to a frame that somebody traces; ``__dict__`` and ``__getattribute__`` may be the job's."""
    if file.name in ("reading.py", "sitecustomize.py"):
        return
    wrong = [
        node
        for node in found(file, ast.Attribute)
        if isinstance(node, ast.Attribute)
        and node.attr in ("f_locals", "__getattribute__", "__dict__")
        and not (node.attr == "__dict__" and ast.unparse(node.value) in OWN_DICTS)
        and not (node.attr == "__dict__" and file.name == "class_openers.py")  # of functions, by their exact type
    ]
    assert not lines(file, wrong)


def test_classes_are_told_apart_by_their_ids(file: Path) -> None:
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
    assert not lines(file, [node for node in wrong if node not in allowed])


def test_functions_of_python_are_our_own(file: Path) -> None:
    """An attribute of ``ctypes.pythonapi`` is one object for everybody: the job would find the types that we give it,
    and we those that the job gives it. What is looked up by ``[...]`` is made anew."""
    wrong = [
        node
        for node in found(file, ast.Attribute)
        if isinstance(node, ast.Attribute) and ast.unparse(node.value).endswith("pythonapi")
    ]
    assert not lines(file, wrong)


def test_frames_of_other_threads_are_not_asked_for(file: Path) -> None:
    """One that is ours when its function returns keeps the variables, and has them finalized on a thread of ours."""
    wrong = [node for node in found(file, ast.Attribute) if getattr(node, "attr", "") in FRAMES_OF_ALL]
    allowed = {"doors.py": 1, "torch_look.py": 1, "tracked_segments.py": 1}  # the last in a process of Python's own
    assert len(wrong) <= allowed.get(file.name, 0), lines(file, wrong)


def test_no_codec_is_looked_up_but_the_one_that_is_loaded(file: Path) -> None:
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
    assert not lines(file, wrong)


def test_no_object_is_asked_for_its_class(file: Path) -> None:
    """``isinstance`` asks ``__class__``, which a proxy answers by evaluating what it stands for."""
    wrong = [
        node
        for node in found(file, ast.Call)
        if isinstance(node, ast.Call) and ast.unparse(node.func) in ("isinstance", "issubclass", "repr", "hash", "vars")
    ]
    of_rows = ("sitecustomize.py", "masking.py")  # which see no object of the job's
    assert not lines(file, [node for node in wrong if file.name not in of_rows])


def test_the_collector_and_tracers_are_left_alone(file: Path) -> None:
    calls = (
        "gc.disable",
        "gc.enable",
        "gc.freeze",
        "gc.unfreeze",
        "gc.set_threshold",
        "sys.settrace",
        "sys.setprofile",
    )
    wrong = [node for node in found(file, ast.Call) if isinstance(node, ast.Call) and ast.unparse(node.func) in calls]
    assert not lines(file, wrong)


def test_functions_that_others_replace_are_bound_when_the_agent_is_loaded(file: Path) -> None:
    wrong = []
    for function in found(file, ast.FunctionDef):
        for node in ast.walk(function):
            is_call = isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute)
            if is_call and ast.unparse(node.func.value) in REPLACED and node.func.attr != "stack_size":  # type: ignore
                wrong.append(node)
    assert not lines(file, wrong)


def test_modules_are_loaded_with_the_agent_or_never(file: Path) -> None:
    """``sys.modules`` does not list them: one imported later would be a second one."""
    if file.name == "__init__.py":
        return
    wrong = [
        node
        for function in found(file, ast.FunctionDef)
        for node in ast.walk(function)
        if isinstance(node, ast.ImportFrom)
        and node.level
        and getattr(function, "name", "") != "_gpu_history"  # as the agent begins, in a job that asked for it
    ]
    assert not lines(file, wrong)


# What they open is read before the job begins; the journal is the recorder's, too.
OPENED_AT_THE_START = frozenset(
    ("address_space.py", "collector.py", "config.py", "descriptors.py", "refusal.py", "taker.py")
)
OPENED_BY_OTHERS = frozenset(("files.py", "journal.py"))


def test_no_file_of_ours_has_a_number_of_the_jobs(file: Path) -> None:
    """Not for an instant: another thread of the job may close 0 just then, to have its own file there."""
    if file.name in OPENED_AT_THE_START | OPENED_BY_OTHERS:
        return
    wrong = []
    for node in found(file, ast.Call):
        assert isinstance(node, ast.Call)
        is_low = not any(word.arg == "opener" for word in node.keywords)
        is_open = ast.unparse(node.func) in ("open", "io.open", "os.open", "os.dup", "os.pipe")
        wrong += [node] * (is_open and is_low)
    assert not lines(file, wrong)


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


def test_what_runs_is_python_3_8(file: Path) -> None:
    """mypy knows no Python as old: here is what parses there and fails."""
    tree = ast.parse(file.read_text(), feature_version=(3, 8))
    functions = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)]
    postponed = "from __future__ import annotations" in file.read_text()
    assert postponed or not any(node.returns or any(arg.annotation for arg in node.args.args) for node in functions)
    wrong: list[ast.AST] = []
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
    assert not lines(file, wrong)


def test_types_cost_a_job_nothing(file: Path) -> None:
    """The module ``typing`` takes 5 ms to load, ``collections`` 2: they are imported for mypy alone."""
    tree = _WhatRuns().visit(ast.parse(file.read_text()))
    imported = [node.module for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)]
    imported += [alias.name for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names]
    assert not {"typing", "collections", "collections.abc"}.intersection(imported)


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
