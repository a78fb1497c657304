"""Objects of the user's whose inside Python cannot see: databases, picklers, parsers, caches of C extensions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    import pandas as pd

# Opaque, but they hold next to nothing that could pile up.
_HARMLESS = (
    "_hashlib.", "_io.", "_random.", "_socket.", "_struct.", "_thread.", "builtins.", "datetime.", "io.", "itertools.",
    "logging.", "mmap.", "numpy.", "random.", "re.", "select.", "socket.", "ssl.", "threading.", "torch.",
)  # fmt: skip


def opaque_holders(holders: pd.DataFrame, most: int = 3) -> list[pd.Series[Any]]:
    """Opaque objects of the user's own code in any snapshot, the shortest way first."""
    rows = holders[holders["opaque"].fillna(False).astype(bool) & holders["is_user"].fillna(False).astype(bool)]
    if not len(rows):
        return []
    rows = rows.drop_duplicates("path", keep="last")
    harmless = [str(name).startswith(_HARMLESS) for name in rows["type_name"].fillna("")]  # pandas 2.0 knows no tuple
    rows = rows[~np.array(harmless)]
    ordered = sorted((row for _, row in rows.iterrows()), key=lambda r: (len(str(r["path"])), str(r["path"])))
    return ordered[:most]
