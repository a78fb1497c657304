"""Runs under another allocator: replays steps from a file, and prints what was resident. Standard library only."""

import ctypes
import json
import mmap
import sys
import time


def main() -> int:
    library, path, threads, places, measures, is_trimmed, period_us = sys.argv[1:]
    with open(path, "rb") as stream, mmap.mmap(stream.fileno(), 0, access=mmap.ACCESS_COPY) as steps:
        sums = sum(steps[:: mmap.PAGESIZE])  # read before it is measured
        resident = (ctypes.c_int64 * int(measures))()
        replay = ctypes.CDLL(library).replay
        number, count = ctypes.c_uint32, ctypes.c_uint64
        replay.argtypes = ctypes.c_void_p, count, number, number, ctypes.c_int, number, ctypes.c_void_p
        first = ctypes.c_char.from_buffer(steps)
        figures = map(int, (threads, places, is_trimmed, period_us))
        began_s = time.monotonic()
        failed = replay(ctypes.addressof(first), len(steps) // 16, *figures, resident)
        lasted_s = time.monotonic() - began_s
        del first
    answer = {"failed": failed, "resident_bytes": list(resident), "lasted_s": lasted_s, "read": sums >= 0}
    json.dump(answer, sys.stdout)
    return 0


sys.exit(main())
