"""Not yet."""

TABLE = "data_forms"


def rows(take):
    return []
