"""Chance beside a likeness: how alike heads are that share nothing, and how many are more so."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from mha_viz.core.chance import Band, permuted_band, untrained_band
from mha_viz.core.names import PAIR_MEASURES
from mha_viz.ui.session import memory, reporting, state
from mha_viz.ui.session.scene import Scene
from mha_viz.ui.widgets import words
from mha_viz.web.theme import format_number

TOO_SHORT = "On so few tokens chance may bring about any likeness: no pair is called alike."


class Chance(NamedTuple):
    """Two bands of one measure on one text; None where there is none."""

    measure: str
    permuted: Band | None
    untrained: Band | None

    def beyond(self, apart: NDArray[np.floating]) -> NDArray[np.bool_]:
        """Which of these distances are of pairs more alike than with permuted tokens."""
        return _nearer(apart, self.permuted, self.measure)

    def counted(self, apart: NDArray[np.floating]) -> str:
        """How many pairs are beyond chance; the argument as for `in_words`."""
        if self.permuted is None:
            return TOO_SHORT
        pairs = words.count(int(np.isfinite(apart).sum()), "pair")
        return f"**More alike than chance: {int(self.beyond(apart).sum())} of {pairs}.**"

    def in_words(self, apart: NDArray[np.floating]) -> str:
        """How many pairs are beyond chance, and what chance gives.

        Args:
            apart: the measure as a distance, of each pair once.
        """
        if self.permuted is None:
            return TOO_SHORT
        alike = self.beyond(apart)
        said = (
            f"{self.counted(apart)} Where {_permuted(self.measure)}, 95 % of pairs lie "
            f"{_span(self.permuted)}."
        )
        if self.untrained is not None:
            learned = alike & _nearer(apart, self.untrained, self.measure)
            said += (
                f" Between heads with random weights they lie {_span(self.untrained)}; "
                f"{int(learned.sum())} of these pairs are more alike than that, too. For the others"
                " no training was needed."
            )
        return said


def chance(scene: Scene, measure: str) -> Chance:
    """Both bands, made once for a text; that of random weights where quick or asked for."""
    wanted = reporting.has_random(state.current())
    return reporting.remembered(
        scene,
        "chance",
        measure,
        wanted,
        make=lambda: Chance(
            measure,
            permuted_band(scene.record, measure),
            _untrained(scene, measure) if wanted else None,
        ),
    )


def _untrained(scene: Scene, measure: str) -> Band | None:
    model = memory.untrained_copy(scene.model, scene.device, scene.dtype)
    made_of = PAIR_MEASURES[measure]
    if model is None or (made_of == "z" and model.backend != "mha_viz"):
        return None
    keep = ("pattern", "z") if made_of == "z" else ("pattern",)
    record = model.trace(scene.text, scene.pair, part=scene.part, keep=keep)
    return untrained_band(record, measure)


def _nearer(apart: NDArray[np.floating], band: Band | None, measure: str) -> NDArray[np.bool_]:
    if band is None:
        return np.zeros(apart.shape, dtype=bool)
    return np.asarray(apart < band.edge(measure))


def _permuted(measure: str) -> str:
    what = "coordinates" if measure.startswith("redundancy") else "tokens"
    return f"one head of a pair has its {what} permuted"


def _span(band: Band) -> str:
    return f"from {format_number(band.low)} to {format_number(band.high)}"
