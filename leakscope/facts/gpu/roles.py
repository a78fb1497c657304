"""What an allocation was for, by the calls that led to it and by how long it lived. The rule is in docs/gpu.md."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections import Counter
from collections.abc import Sequence
from functools import lru_cache

import numpy as np

from ...units import LITTLE, KiB
from .snapshots import Allocation, DeviceSnapshot, Stack

MODEL, OPTIMIZER, GRADIENTS, ACTIVATIONS = "model", "optimizer", "gradients", "activations"
BATCH, WORKSPACES, COMMUNICATION, OTHER = "batch", "workspaces", "communication", "other-tensors"
BEFORE, UNKNOWN = "before-recording", "unknown"
ROLES = (MODEL, OPTIMIZER, GRADIENTS, ACTIVATIONS, BATCH, WORKSPACES, COMMUNICATION, OTHER, BEFORE, UNKNOWN)
_LEAST_CALLS, _LEAST_WORKSPACE = 20, LITTLE  # allocations of one stack; bytes: less is no workspace
_BACKWARD = "backward"  # gradients of parameters, or of activations: how long it lives tells

_OF_PASSES = (ACTIVATIONS, _BACKWARD)
_SCRATCH = re.compile(r"[Ww]orkspace")
_SCRATCH_OF = {"cublas": re.compile(r"alloc|[Hh]andle"), "cudnn": re.compile(r"alloc|plan")}
_ACCUMULATES = re.compile(r"AccumulateGrad")
_ENGINE = re.compile(r"autograd::(?:Engine|python::PythonEngine|\w*::?\w*Backward\d*::apply|Node::operator)")
_NCCL = re.compile(r"nccl|c10d::|Reducer")
_COPIED = re.compile(r"_to_copy|to_copy|copy_kernel|::to_impl")
_OPTIMIZER_FILE = re.compile(r"[/\\]torch[/\\]optim[/\\]")
_OPTIMIZING_PACKAGE = re.compile(r"[/\\](?:apex|bitsandbytes|torchao|deepspeed)(?=[/\\])")
_OPTIMIZER_NAME = re.compile(r"optim|adam|sgd|muon|lion|adafactor|shampoo|lamb|rmsprop", re.IGNORECASE)
_STEPS = frozenset(("step", "_init_group", "init_group", "_single_tensor_adam", "_multi_tensor_adam"))
_MODULE_FILE = re.compile(r"[/\\]torch[/\\]nn[/\\]modules[/\\]")
_MODULE_MOVES = frozenset((
    "_apply", "convert", "to", "cuda", "to_empty", "half", "float", "bfloat16", "double", "load_state_dict",
    "_load_from_state_dict", "load", "reset_parameters", "_reset_parameters", "__init__",
))  # fmt: skip
_CALLS = frozenset(("_call_impl", "_wrapped_call_impl", "_slow_forward"))
_WEIGHTS_FILE = re.compile(
    r"[/\\]torch[/\\]nn[/\\](?:parameter|init)\.py|[/\\]safetensors[/\\]|[/\\]accelerate[/\\]utils[/\\]modeling"
)
_WEIGHTS_NAME = re.compile(r"from_pretrained|weight_loader|set_module_tensor_to_device|_load_state_dict")
_MAKES = re.compile(r"(?:init|load|create|build|materialize)(?=_)")
_WEIGHTS = re.compile(r"_(?:weight|param|model|checkpoint|state_dict)")
_COMPILED = re.compile(r"torchinductor|[/\\]torch[/\\]_(?:dynamo|inductor|functorch)[/\\]")
_LOADING = re.compile(r"[/\\]torch[/\\]utils[/\\]data[/\\]")
_DISTRIBUTED = re.compile(r"[/\\]torch[/\\](?:distributed|nn[/\\]parallel)[/\\]")
_DEEPSPEED = re.compile(r"[/\\]deepspeed(?=[/\\])")
_BETWEEN_RANKS = re.compile(r"zero|comm")
_CHECKPOINT = re.compile(r"[/\\]torch[/\\]utils[/\\]checkpoint\.py")


def roles(device: DeviceSnapshot) -> list[str]:
    """The role of each of ``device.allocations``, in their order."""
    marks = _marked_steps(device)
    plain = [_plain_role(device, one, marks) for one in device.allocations]
    ends = {kind: _ends_of_runs(device, plain, kind) for kind in (_BACKWARD, OPTIMIZER)}
    weights = {
        one.size for one, role in zip(device.allocations, plain) if role in (MODEL, BEFORE, OTHER) and one.size > KiB
    }
    made_once = _made_once(device)
    return [
        WORKSPACES if role in _OF_PASSES and one.size not in weights and id(one) in made_once else
        _settled(one, role, ends, weights)
        for one, role in zip(device.allocations, plain)
    ]  # fmt: skip


def _plain_role(device: DeviceSnapshot, one: Allocation, marks: tuple[Sequence[int], Sequence[int]]) -> str:
    """By its stack alone, and by the mark of an optimizer's step in which it was allocated."""
    stack = device.stacks.get(one.stack)
    if stack is not None:
        role = role_of(stack)
        return OPTIMIZER if role in (OTHER, UNKNOWN) and _is_inside(one.born, marks) else role
    if not device.has_stacks:
        return UNKNOWN
    if one.born is None:
        return BEFORE
    return OPTIMIZER if _is_inside(one.born, marks) else _BACKWARD  # the threads of autograd have no Python frames


def _made_once(device: DeviceSnapshot) -> set[int]:
    """Ids of allocations that stay, while the calls that made them came again and made no other of that size.

    So do workspaces of cuBLAS, 32 MiB each on an H100: Python's frames say only which layer was the first to need one.
    """
    alike = Counter((one.stack, one.size) for one in device.allocations if one.born is not None)
    of_stack = Counter(one.stack for one in device.allocations if one.born is not None)
    return {
        id(one)
        for one in device.allocations
        if one.born is not None and one.freed is None and alike[one.stack, one.size] == 1
        and of_stack[one.stack] >= _LEAST_CALLS and one.size >= _LEAST_WORKSPACE
    }  # fmt: skip


def _settled(one: Allocation, role: str, ends: dict[str, list[int]], weights: set[int]) -> str:
    """With what its life tells: what outlives the pass that allocated it is a gradient, or state of the optimizer."""
    if role not in ends:
        return role
    outlives = one.freed is None
    if one.born is not None:
        runs = ends[role]
        after = bisect_right(runs, one.born)
        end = runs[after] if after < len(runs) else None
        if end is not None:
            outlives = one.freed is None or one.freed > end
        elif one.freed is None and role == _BACKWARD:  # the snapshot was taken in the middle of it
            outlives = one.size in weights
    elif role == _BACKWARD:
        outlives = not weights or one.size in weights
    if role == OPTIMIZER:
        return OPTIMIZER if outlives else WORKSPACES
    return GRADIENTS if outlives else ACTIVATIONS


def _ends_of_runs(device: DeviceSnapshot, plain: Sequence[str], kind: str) -> list[int]:
    """Positions at which a run of allocations of one kind is over: where the next of another kind stands."""
    ends, inside = [], False
    for one, role in zip(device.allocations, plain):
        if one.born is None or role in (WORKSPACES, COMMUNICATION):
            continue
        if inside and role != kind and not (kind == _BACKWARD and role == GRADIENTS):
            ends.append(one.born)
        inside = role == kind
    return ends


def _marked_steps(device: DeviceSnapshot) -> tuple[Sequence[int], Sequence[int]]:
    """Positions at which steps of optimizers begin and end, by annotations."""
    if not len(device.marks) or not device.has_times:
        return (), ()
    own = device.marks[device.marks["gpu_label"].map(lambda label: (label or "").startswith("Optimizer.step"))]
    found = []
    for action in ("mark-start", "mark-end"):
        times = own["time_s"][own["gpu_action"] == action].to_numpy(dtype=np.float64)
        found.append([int(at) for at in np.searchsorted(device.times_s, times)])
    starts, ends = found
    return (starts, ends) if len(starts) == len(ends) else ((), ())


def _is_inside(born: int | None, marks: tuple[Sequence[int], Sequence[int]]) -> bool:
    if born is None or not marks[0]:
        return False
    at = bisect_right(marks[0], born) - 1
    return at >= 0 and born < marks[1][at]


@lru_cache(maxsize=4096)
def role_of(stack: Stack) -> str:
    """By the frames alone, innermost first: the first that says what it is for decides."""
    native = "\n".join(stack.native)
    places = ((native.find(library), words) for library, words in _SCRATCH_OF.items())
    if _SCRATCH.search(native) or any(at >= 0 and words.search(native, at) for at, words in places):
        return WORKSPACES
    if _ACCUMULATES.search(native):
        return GRADIENTS if not stack.frames else _BACKWARD
    role = _by_frames(stack)
    if role is not None:
        return role
    if _ENGINE.search(native):
        return _BACKWARD
    if _NCCL.search(native):
        return COMMUNICATION
    if _COPIED.search(native):
        return BATCH
    if not stack.frames:
        return _BACKWARD if stack.native else UNKNOWN
    return OTHER


def _makes_weights(function: str) -> bool:
    """``_init_all_weights``, ``load_checkpoint``."""
    for name in re.findall(r"\w+", function):
        made = _MAKES.search(name)
        if made is not None and _WEIGHTS.search(name, made.end()):
            return True
    return False


def _by_frames(stack: Stack) -> str | None:
    inner = [frame.function for frame in reversed(stack.frames)][:2]
    for frame in reversed(stack.frames):
        file, function = frame.file, frame.function
        base = file.replace("\\", "/").rsplit("/", 1)[-1]
        if _OPTIMIZER_FILE.search(file) or (function in _STEPS and _OPTIMIZER_NAME.search(base)):
            return OPTIMIZER
        if (package := _OPTIMIZING_PACKAGE.search(file)) and "optim" in file[package.end() :]:
            return OPTIMIZER
        if _CHECKPOINT.search(file):
            return ACTIVATIONS
        if function in ("backward", "_engine_run_backward") and "torch" in file:
            return _BACKWARD
        if _WEIGHTS_FILE.search(file) or _WEIGHTS_NAME.search(function) or _makes_weights(function):
            return MODEL
        if _MODULE_FILE.search(file) and function in _MODULE_MOVES:
            return MODEL
        deepspeed = _DEEPSPEED.search(file)
        is_distributed = _DISTRIBUTED.search(file) or (deepspeed and _BETWEEN_RANKS.search(file, deepspeed.end()))
        if is_distributed and function not in ("forward", "_call_impl"):
            return COMMUNICATION
        if function in _CALLS or function == "forward" or base == "functional.py" or _COMPILED.search(file):
            return ACTIVATIONS
        if _LOADING.search(file):
            return BATCH
    return MODEL if inner == ["__init__", "__init__"] else None
