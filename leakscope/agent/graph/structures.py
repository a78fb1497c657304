"""The structures that the agent and the reader in C share: ``reader/reader.h``. Runs in the job."""

from __future__ import annotations

import ctypes

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

OBJECT, STORAGE, AUTOGRAD, DEVICE = 0, 1, 2, 6  # what a tie leads to


def _structure(name: str, **fields: Any) -> Any:
    """A ctypes structure of ``fields``: type=names."""
    members = [(word, getattr(ctypes, kind)) for kind, words in fields.items() for word in words.split()]
    return type(name, (ctypes.Structure,), {"_fields_": members})


Row = _structure(
    "Row",
    c_uint64="address own_bytes retained_bytes length limit hits misses storage_bytes native_bytes error_bytes "
    "device_bytes unshown_bytes",
    c_uint32="node path_row dominator_row type references edges_in children new_children label label_kind owner is_old "
    "is_seen is_main is_wanted numbers also_row",
)  # fmt: skip
Share = _structure("Share", c_uint32="row type", c_uint64="count bytes new_count new_bytes device_bytes")
Sharer = _structure("Sharer", c_uint32="row dominator_row type", c_uint64="count direct_count bytes device_bytes")
Kind = _structure(
    "Kind",
    c_void_p="type",
    c_uint64="listed listed_bytes unreached frozen",
    c_uint32="text",
    c_uint8="base is_gc is_made_in_c is_wanted may_hold is_wrapper is_array",
)
Bounds = _structure(
    "Bounds",
    c_uint64="bytes bytes_each objects nodes users known user_count known_count count is_collecting room is_kept",
)
ARRAYS_OF_ROOM = 8
Room = _structure("Room", c_uint64=" ".join(f"at{n} bytes{n}" for n in range(ARRAYS_OF_ROOM)))

Stray = _structure(
    "Stray",
    c_uint64="count unreached_count unreached_bytes frozen_count outside_count outside_bytes extra_references "
    "loose_count loose_bytes",
    c_uint32="type first_link links unused",
)
Link = _structure("Link", c_uint64="address", c_uint32="node type label label_kind is_alive unused")
Pin = _structure("Pin", c_uint64="count bytes pinned_bytes", c_uint32="row unused")
Tie = _structure("Tie", c_uint64="from_address to_address bytes", c_uint32="type count")
Mark = _structure("Mark", c_uint32="node row is_held unused")
Places = _structure("Places", c_uint64="meta function edges sequence edge_bytes")
History = _structure("History", c_uint64="tensor token node number operations saved_bytes seen_bytes")
Saved = _structure("Saved", c_uint64="address bytes device")
KnownNode = _structure("KnownNode", c_uint64="node sequence first count")
KnownTensor = _structure("KnownTensor", c_uint64="tensor node")


class Blocks(ctypes.Structure):
    """``struct known_blocks`` of reader/reader.h."""

    _fields_ = [
        ("at", ctypes.c_void_p), ("ranges", ctypes.c_void_p), ("count", ctypes.c_uint64),
        ("range_count", ctypes.c_uint64), ("least_ns", ctypes.c_uint64),
    ]  # fmt: skip


class Further(ctypes.Structure):
    """``struct further`` of reader/reader.h."""

    _fields_ = [
        ("ties", ctypes.POINTER(Tie)), ("marks", ctypes.POINTER(ctypes.c_uint64)), ("tie_count", ctypes.c_uint64),
        ("mark_count", ctypes.c_uint64), ("row_count", ctypes.c_uint64),
    ]  # fmt: skip


class Largest(ctypes.Structure):
    """``struct largest`` of reader/reader.h: of large containers some rows, copied."""

    _fields_ = [
        ("least_bytes", ctypes.c_uint64), ("copied", ctypes.c_void_p), ("ends", ctypes.c_uint64 * 64),
        ("rows", ctypes.c_uint32 * 64), ("count", ctypes.c_uint32),
    ]  # fmt: skip


class Sweep(ctypes.Structure):
    """``struct sweep`` of reader/reader.h. The objects it points to must outlive it."""

    _fields_ = [
        ("wanted", ctypes.POINTER(ctypes.c_uint64)), ("wanted_count", ctypes.c_uint64),
        ("picked", ctypes.c_void_p), ("types", ctypes.c_void_p), ("counts", ctypes.POINTER(ctypes.c_uint64)),
        ("most_types", ctypes.c_uint64), ("type_count", ctypes.c_uint64),
    ]  # fmt: skip


class Graph(ctypes.Structure):
    """What of ``struct graph`` is for us."""

    _fields_ = [
        (name, ctypes.c_uint64)
        for name in (
            "nodes", "edges", "reached", "total_bytes", "unreachable_count", "unreachable_bytes", "from_c_count",
            "from_c_bytes", "small_bytes", "array_bytes", "storage_bytes", "row_count", "share_count", "text_bytes",
            "type_count", "listed_count", "frozen_count", "stack_count", "sharer_count", "native_bytes", "is_sampled",
            "key_references", "device_bytes", "device_count", "beyond_malloc_bytes",
            "pool_rss_bytes", "main_begin", "main_end",
        )
    ] + [
        ("rows", ctypes.POINTER(Row)), ("shares", ctypes.POINTER(Share)), ("texts", ctypes.c_void_p),
        ("kinds", ctypes.POINTER(Kind)), ("stacks", ctypes.POINTER(ctypes.c_uint32)),
        ("sharers", ctypes.POINTER(Sharer)),
    ] + [
        (name, ctypes.c_uint64)
        for name in (
            "stray_count", "pin_count", "arena_count", "arena_bytes", "pool_bytes", "pool_count", "block_bytes",
            "held_arena_count", "held_pool_count", "held_bytes",
        )
    ] + [
        ("strays", ctypes.POINTER(Stray)), ("links", ctypes.POINTER(Link)), ("pins", ctypes.POINTER(Pin)),
        ("marks", ctypes.POINTER(Mark)), ("mark_count", ctypes.c_uint64), ("marked_rows", ctypes.c_uint64),
        ("saved_storages", ctypes.POINTER(Saved)), ("saved_count", ctypes.c_uint64),
        ("most_bytes", ctypes.c_uint64),
    ]  # fmt: skip


# In the order in which ``graph_sizes_fit`` asks for their sizes, behind the layout.
SHARED = (
    Row, Share, Graph, Sweep, Bounds, Kind, Largest, Sharer, Stray, Link, Pin, Further, Tie, Mark, Places, History,
    Saved, Room,
)  # fmt: skip
