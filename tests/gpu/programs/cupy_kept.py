"""Leaky without torch: CuPy arrays stay in a list; only the driver sees their memory."""

import sys
import time

import cupy

SECONDS = float(sys.argv[1]) if len(sys.argv) > 1 else 16.0


def main():
    kept, began = [], time.monotonic()
    while time.monotonic() - began < SECONDS:
        kept.append(cupy.random.rand(512, 512))  # 2 MiB
        kept[-1].sum().item()
        time.sleep(0.02)


main()
