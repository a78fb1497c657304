"""The memory snapshots of fixtures/snapshots: what each device went through, and ``python -m tests.importing.devices``,
which writes them. A GPU nobody needs for it: the allocator of these tests counts as torch's does.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from .allocator import MODULE, TRAIN, Device, Frames, GiB, MiB, called, dump, moved, snapshot, train

SNAPSHOTS = Path(__file__).parents[2] / "fixtures/snapshots"
_SHAPES = (40, 8, 24, 2, 64, 6, 12, 3, 30)  # MiB of the weights of a model whose layers are not alike


def _peak_of_attention() -> list[dict[str, Any]]:
    """Scores of all heads at once: three quarters of the peak, and gone afterwards."""
    device = Device()
    train(device, 4)
    device.mark("START", "validate")
    scores = [device.alloc(300 * MiB, called(7, "softmax")) for _ in range(3)]
    for address in scores:
        device.free(address)
    device.mark("END", "validate")
    return [snapshot(device)]


def _peak_before_the_history() -> list[dict[str, Any]]:
    device = Device()
    device.records = False
    before = device.alloc(700 * MiB)
    device.records = True
    device.alloc(100 * MiB, called(7))
    device.free(before)
    return [snapshot(device)]


def _cut_up(device: Device) -> None:
    """Of each segment of 62 MiB a cache keeps 12."""
    for _ in range(20):
        device.free(device.alloc(62 * MiB, called(31)))
        device.alloc(50 * MiB, called(60))
        device.alloc(12 * MiB, called(61))
    for segment in device.segments:
        device.free(max(segment["blocks"], key=lambda block: block["size"])["address"])


def _ran_out_in_pieces() -> list[dict[str, Any]]:
    device = Device()
    _cut_up(device)
    device.oom(100 * MiB, 10 * MiB, called(44))
    return [snapshot(device)]


def _free_in_pieces() -> list[dict[str, Any]]:
    """Nothing failed yet; a part belongs to a CUDA graph."""
    device = Device()
    _cut_up(device)
    device.alloc(200 * MiB, called(90), pool=(0, 1))
    return [snapshot(device, expandable=True)]


def _full() -> list[dict[str, Any]]:
    """All that torch held was in use as it failed."""
    device = Device()
    for _ in range(20):
        device.alloc(50 * MiB, called(60))
    device.oom(100 * MiB, 10 * MiB, called(44))
    return [snapshot(device)]


def _loaded_twice() -> list[dict[str, Any]]:
    device = Device()
    for line in (20, 34):  # main() moves the model; evaluate() moves another one
        for size in _SHAPES:
            device.alloc(size * MiB, moved(line))
    return [snapshot(device)]


def _loaded_in_a_loop() -> list[dict[str, Any]]:
    """The same line twice: a list of two models."""
    device = Device()
    for _ in range(2):
        for size in _SHAPES:
            device.alloc(size * MiB, moved())
    return [snapshot(device)]


def _two_moments() -> list[dict[str, Any]]:
    device = Device()
    for _ in range(4):
        device.alloc(30 * MiB, moved())
    first = snapshot(device)
    device.alloc(500 * MiB, called(88))
    return [first, snapshot(device)]


def _steps_that_leave() -> list[dict[str, Any]]:
    device = Device()
    train(device, 8, leak=True)
    return [snapshot(device)]


def _steps_that_return() -> list[dict[str, Any]]:
    """The same without what is kept."""
    device = Device()
    train(device, 8)
    return [snapshot(device)]


def _answers_gathered() -> list[dict[str, Any]]:
    """No optimizer: a loop that keeps what each batch comes to."""
    device = Device()
    device.alloc(64 * MiB, moved())
    for _ in range(10):
        batch = device.alloc(MiB, _at(10))
        hidden = device.alloc(8 * MiB, called(31, at=11))
        device.alloc(2 * MiB, _at(12))
        device.free(hidden)
        device.free(batch)
    return [snapshot(device, generation="2023")]


def _uneven_ranks() -> list[dict[str, Any]]:
    """The third holds the head by itself."""
    made = []
    for rank in range(3):
        device = Device(rank)
        train(device, 2)
        if rank == 2:
            device.alloc(2 * GiB, [(MODULE, 1343, "to"), (TRAIN, 77, "main")])
        made.append(snapshot(device))
    return made


def _at(line: int) -> Frames:
    return [("/home/me/job/infer.py", line, "main")]


MADE: dict[str, Callable[[], list[dict[str, Any]]]] = {
    "peak_of_attention": _peak_of_attention,
    "peak_before_the_history": _peak_before_the_history,
    "ran_out_in_pieces": _ran_out_in_pieces,
    "free_in_pieces": _free_in_pieces,
    "full": _full,
    "loaded_twice": _loaded_twice,
    "loaded_in_a_loop": _loaded_in_a_loop,
    "two_moments": _two_moments,
    "steps_that_leave": _steps_that_leave,
    "steps_that_return": _steps_that_return,
    "answers_gathered": _answers_gathered,
    "uneven_ranks": _uneven_ranks,
}


def main() -> None:
    for name, make in MADE.items():
        made = make()
        for number, whole in enumerate(made):
            folder = SNAPSHOTS / name if len(made) > 1 else SNAPSHOTS
            folder.mkdir(parents=True, exist_ok=True)
            called = f"snapshot_rank{number}" if "ranks" in name else f"snapshot-{number}" if len(made) > 1 else name
            dump(folder / f"{called}.pickle.gz", whole)


if __name__ == "__main__":
    main()
