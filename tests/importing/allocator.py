"""Memory snapshots in every generation of torch's format, made without a GPU: an allocator that only counts.

It hands out blocks as torch's caching allocator does, in the plain case: small requests from segments of 2 MiB, large
ones from segments of 20 MiB or of their own size, rounded to 512 bytes; the smallest free block that fits is split.
"""

from __future__ import annotations

import gzip
import json
import pickle
from pathlib import Path
from typing import Any

MiB = 1024**2
GiB = 1024**3
START_US = 1_780_000_000_000_000

Frames = list[tuple[str, int, str]]
MODULE = "/venv/lib/python3.11/site-packages/torch/nn/modules/module.py"
OPTIM = "/venv/lib/python3.11/site-packages/torch/optim/adamw.py"
TENSOR = "/venv/lib/python3.11/site-packages/torch/_tensor.py"
TRAIN = "/home/me/job/train.py"
MODEL = "/home/me/job/model.py"

GENERATIONS = ("2023", "2024-07", "2024-12", "2025-05", "2026-07")


def moved(line: int = 20) -> Frames:
    """A model that is moved to the device; innermost first, as in a snapshot."""
    return [(MODULE, 1300, "convert"), (MODULE, 900, "_apply"), (MODULE, 1343, "to"), (TRAIN, line, "main")]


def called(line: int, function: str = "forward", at: int = 50) -> Frames:
    """A line of the model, in the forward pass that line ``at`` of the loop begins."""
    return [(MODEL, line, function), (MODULE, 1750, "_call_impl"), (TRAIN, at, "main")]


def stepped(line: int = 200, function: str = "_init_group") -> Frames:
    return [(OPTIM, line, function), (OPTIM, 120, "step"), (TRAIN, 54, "main")]


class Device:
    """One device, its segments and its history. Each call of ``alloc`` and ``free`` is a millisecond."""

    def __init__(self, index: int = 0, base: int = 0x7F0000000000) -> None:
        self.index = index
        self.segments: list[dict[str, Any]] = []
        self.events: list[dict[str, Any]] = []
        self.marks: list[dict[str, Any]] = []
        self.records = True
        self._next = base
        self._now_us = START_US

    def alloc(self, size: int, frames: Frames | None = None, pool: tuple[int, int] = (0, 0)) -> int:
        rounded = -(-size // 512) * 512
        kind = "small" if rounded <= MiB else "large"
        fits = [
            (block["size"], segment, block)
            for segment in self.segments
            if segment["segment_type"] == kind and segment["segment_pool_id"] == pool
            for block in segment["blocks"]
            if block["state"] == "inactive" and block["size"] >= rounded
        ]
        if fits:
            _, segment, block = min(fits, key=lambda one: one[0])
        else:
            segment, block = self._segment(rounded, kind, pool, frames)
        rest = block["size"] - rounded
        if rest >= (512 if kind == "small" else MiB + 1):
            at = segment["blocks"].index(block)
            segment["blocks"].insert(at + 1, self._block(block["address"] + rounded, rest, "inactive"))
            block["size"] = rounded
        block.update(state="active_allocated", requested_size=size, frames=self._frames(frames))
        self._event("alloc", block["address"], size, frames)
        return int(block["address"])

    def free(self, address: int) -> None:
        for segment in self.segments:
            for block in segment["blocks"]:
                if block["address"] == address and block["state"] == "active_allocated":
                    self._event("free_requested", address, block["requested_size"], None)
                    self._event("free_completed", address, block["requested_size"], None)
                    block.update(state="inactive", frames=[], requested_size=0)
                    self._join(segment)
                    return
        raise KeyError(address)

    def empty_cache(self) -> None:
        for segment in [s for s in self.segments if all(b["state"] == "inactive" for b in s["blocks"])]:
            self.segments.remove(segment)
            self._event("segment_free", segment["address"], segment["total_size"], None)

    def oom(self, size: int, free: int, frames: Frames | None = None) -> None:
        event = {"action": "oom", "device_free": free, "size": size, "stream": 0, "frames": self._frames(frames)}
        self._now_us += 1000
        self.events.append({**event, "time_us": self._now_us})

    def mark(self, stage: str, name: str) -> None:
        self._now_us += 1
        self.marks.append({"stage": stage, "name": name, "device": self.index, "time_us": self._now_us})

    def _segment(self, size: int, kind: str, pool: tuple[int, int], frames: Frames | None) -> tuple[Any, Any]:
        whole = 2 * MiB if kind == "small" else 20 * MiB if size < 10 * MiB else -(-size // (2 * MiB)) * 2 * MiB
        block = self._block(self._next, whole, "inactive")
        segment = {
            "device": self.index, "address": self._next, "stream": 0, "segment_type": kind, "segment_pool_id": pool,
            "total_size": whole, "is_expandable": False, "frames": self._frames(frames), "blocks": [block],
        }  # fmt: skip
        self._event("segment_alloc", self._next, whole, frames)
        self._next += whole + 2 * MiB
        self.segments.append(segment)
        return segment, block

    @staticmethod
    def _block(address: int, size: int, state: str) -> dict[str, Any]:
        return {"address": address, "size": size, "requested_size": 0, "state": state, "frames": []}

    @staticmethod
    def _join(segment: dict[str, Any]) -> None:
        joined: list[dict[str, Any]] = []
        for block in segment["blocks"]:
            if joined and joined[-1]["state"] == block["state"] == "inactive":
                joined[-1]["size"] += block["size"]
            else:
                joined.append(block)
        segment["blocks"] = joined

    def _event(self, action: str, address: int, size: int, frames: Frames | None) -> None:
        self._now_us += 1000
        if self.records:
            self.events.append(
                {"action": action, "addr": address, "size": size, "stream": 0, "time_us": self._now_us,
                 "frames": self._frames(frames)}
            )  # fmt: skip

    def _frames(self, frames: Frames | None) -> list[dict[str, Any]]:
        if not self.records or not frames:
            return []
        return [{"filename": file, "line": line, "name": name} for file, line, name in frames]


def snapshot(*devices: Device, generation: str = "2026-07", expandable: bool = False) -> dict[str, Any]:
    """What ``torch.cuda.memory._snapshot()`` of that time would return."""
    made: dict[str, Any] = {
        "segments": [_segment_of(segment, generation) for device in devices for segment in device.segments],
        "device_traces": [[] for _ in range(max(d.index for d in devices) + 1)],
    }
    for device in devices:
        made["device_traces"][device.index] = [_event_of(event, generation) for event in device.events]
    if generation >= "2024-12":
        made["allocator_settings"] = {
            "PYTORCH_CUDA_ALLOC_CONF": "expandable_segments:True" if expandable else "",
            "max_split_size": -1, "garbage_collection_threshold": 0.0, "expandable_segments": expandable,
            "roundup_power2_divisions": {"1": 0},
        }  # fmt: skip
    if generation >= "2025-05":
        made["external_annotations"] = [mark for device in devices for mark in device.marks]
    return made


def _segment_of(segment: dict[str, Any], generation: str) -> dict[str, Any]:
    in_use = [block for block in segment["blocks"] if block["state"] == "active_allocated"]
    sizes = {"allocated_size": sum(b["size"] for b in in_use), "active_size": sum(b["size"] for b in in_use)}
    whole = {**segment, **sizes, "requested_size": sum(b["requested_size"] for b in in_use)}
    if generation == "2023":
        blocks = []
        for block in segment["blocks"]:
            old = {"size": block["size"], "requested_size": block["requested_size"], "state": block["state"]}
            if block["state"] == "active_allocated":
                old["history"] = [
                    {"addr": block["address"], "real_size": block["requested_size"], "frames": block["frames"]}
                ]
            blocks.append(old)
        whole = {k: v for k, v in whole.items() if k not in ("segment_pool_id", "is_expandable", "frames")}
        return {**whole, "blocks": blocks}
    return {**whole, "blocks": [dict(block) for block in segment["blocks"]]}


def _event_of(event: dict[str, Any], generation: str) -> dict[str, Any]:
    if generation < "2024-12":
        return {name: value for name, value in event.items() if name != "time_us"}
    if generation >= "2026-07":
        return {**event, "compile_context": "N/A", "user_metadata": ""}
    return dict(event)


def dump(path: Path, whole: Any, protocol: int = 4) -> Path:
    """Write it as the name says: ``.json``, ``.gz`` of either, or a pickle."""
    data = json.dumps(whole).encode() if ".json" in path.name else pickle.dumps(whole, protocol)
    path.write_bytes(gzip.compress(data) if path.name.endswith(".gz") else data)
    return path


def train(device: Device, steps: int, *, leak: bool = False, layers: int = 4, width: int = 8 * MiB) -> None:
    """A loop as people write it: a model, forward, backward on threads without Python frames, an optimizer.

    ``leak``: the first activation of each step is kept with what it was made of.
    """
    weights = [device.alloc(width, moved()) for _ in range(layers)]
    gradients: list[int] = []
    kept: list[int] = []
    for step in range(steps):
        batch = device.alloc(2 * MiB, [(TRAIN, 49, "main")])
        for address in gradients:
            device.free(address)
        saved = [device.alloc(4 * MiB, called(31 + layer)) for layer in range(layers)]
        loss = device.alloc(4, [(TRAIN, 51, "main")])
        gradients = []
        for address in reversed(saved):
            down = device.alloc(4 * MiB, None)
            gradients.append(device.alloc(width, None))
            device.free(down)
            if leak and address == saved[0]:
                kept.append(address)
            else:
                device.free(address)
        device.mark("START", "Optimizer.step#AdamW.step")
        if not step:
            for _ in weights:
                device.alloc(width, stepped(200))
                device.alloc(width, stepped(205))
        scratch = device.alloc(width, stepped(300, "_multi_tensor_adamw"))
        device.free(scratch)
        device.mark("END", "Optimizer.step#AdamW.step")
        device.free(batch)
        device.free(loss)
