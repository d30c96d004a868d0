"""Chance beside a likeness, in words: how alike heads are that share nothing, how many more so."""

from __future__ import annotations

import numpy as np

from mha_viz.core.chance import Band
from mha_viz.core.metrics.chance import RATE
from mha_viz.ui.session.chance import Chance
from mha_viz.ui.widgets import words
from mha_viz.web.theme import format_number

TOO_SHORT = "On so few tokens chance may bring about any likeness: no pair is called alike."
AT_RATE = f"false-discovery rate {100 * RATE:g} %"


def counted(found: Chance) -> str:
    """How many pairs are beyond chance."""
    if found.band is None:
        return TOO_SHORT
    pairs = words.count(int(np.isfinite(found.p).sum()), "pair")
    return f"**More alike than chance: {int(found.pairs.sum()):,} of {pairs}** ({AT_RATE})."


def in_words(found: Chance) -> str:
    """How many pairs are beyond chance, and what chance gives."""
    if found.band is None:
        return TOO_SHORT
    said = (
        f"{counted(found)} Where {_permuted(found.measure)}, 95 % of pairs lie "
        f"{_span(found.band)}. By chance about {found.expected:,.0f} pairs would be more alike "
        f"than that; {found.below:,} are."
    )
    if found.untrained is None:
        return said
    said += f" Between heads with random weights 95 % lie {_span(found.untrained)}"
    n = int(found.pairs.sum())
    learned = f"; {found.learned:,} of the {n:,} pairs are more alike than those, too"
    return f"{said}{learned if n else ''}."


def _permuted(measure: str) -> str:
    what = "coordinates" if measure.startswith("redundancy") else "tokens"
    return f"the {what} of each head are permuted"


def _span(band: Band) -> str:
    return f"from {format_number(band.low)} to {format_number(band.high)}"
