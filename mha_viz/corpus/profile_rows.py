"""A study's profile of each head, laid out by one axis: means over queries, in order."""

from __future__ import annotations

import numpy as np
import pandas as pd

from mha_viz.corpus.database import Database
from mha_viz.corpus.padded import KINDS
from mha_viz.errors import ArgumentError

AXES = ("offset", "position", "kind")  # that the weight of a head is laid out by


def profile_rows(database: Database, axis: str) -> pd.DataFrame:
    """See `Study.profile_by`."""
    if axis not in AXES:
        raise ArgumentError(f"axis must be one of {', '.join(AXES)}, got {axis!r}.")
    found = database.ask(
        f"""SELECT layer, head, "at" AS {axis}, weight / rows AS weight FROM profile
        WHERE axis = ? AND rows > 0""",
        (axis,),
    )
    place = KINDS.index if axis == "kind" else _place
    with database.reading():
        order = [found["layer"], found["head"], found[axis].map(place)]
        ranked = np.lexsort([np.asarray(one) for one in reversed(order)])
        return found.iloc[ranked].reset_index(drop=True)


def _place(at: str) -> float:
    """Where a key of the profile stands in order: "<-32" before "-32", ">32" after "32"."""
    if at[0] in "<>≥":
        beyond = float(at.lstrip("<>=≥"))
        return beyond - 0.5 if at[0] == "<" else beyond + 0.5
    return float(at)
