"""tracemalloc compares two moments: the five lines that grew most, each by half a MB, are the program's."""

import tracemalloc

from busy import spin

spin()
tracemalloc.start()
before = tracemalloc.take_snapshot()
kept = []
kept.append([[i] for i in range(4_000)])
kept.append([[i] for i in range(5_000)])
kept.append([[i] for i in range(6_000)])
kept.append([[i] for i in range(7_000)])
kept.append([[i] for i in range(8_000)])
spin()
grown = tracemalloc.take_snapshot().compare_to(before, "lineno")
tracemalloc.stop()
print([stat.traceback[0].filename.rpartition("/")[2] for stat in grown[:5]])
