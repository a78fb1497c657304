"""Objects of the user's whose inside Python cannot see: databases, picklers, parsers, caches of C extensions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from ...agent.libraries import is_harmless
from ..tables import only

if TYPE_CHECKING:
    import pandas as pd


def opaque_holders(holders: pd.DataFrame, most: int = 3) -> list[pd.Series[Any]]:
    """Opaque objects of the user's own code in any snapshot, the shortest way first."""
    if not len(holders):
        return []
    rows = only(holders, holders["opaque"].fillna(False).astype(bool) & holders["is_user"].fillna(False).astype(bool))
    if not len(rows):
        return []
    rows = rows.drop_duplicates("path", keep="last")
    harmless = [is_harmless(str(name)) for name in rows["type_name"].fillna("")]
    rows = rows[~np.array(harmless)]
    ordered = sorted((row for _, row in rows.iterrows()), key=lambda r: (len(str(r["path"])), str(r["path"])))
    return ordered[:most]
