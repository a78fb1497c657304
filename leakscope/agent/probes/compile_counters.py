"""Not yet."""

TABLE = "compile_counters"


def rows(take):
    return []
