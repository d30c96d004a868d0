"""What a likeness of heads finds beyond chance, for all pages: made once for a text."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray

from mha_viz.core.chance import Band, ChancePairs, permuted_pairs, untrained_pairs
from mha_viz.core.measure import as_distances
from mha_viz.core.metrics.chance import discoveries
from mha_viz.core.names import PAIR_MEASURES
from mha_viz.core.twins import nearest_others
from mha_viz.ui.session import memory, reporting, state
from mha_viz.ui.session.scene import Scene


@dataclass(frozen=True, eq=False)
class Chance:
    """What one measure finds on one text beyond chance; pairs in the order of `np.triu_indices`.

    Args:
        measure: which one.
        band: where 95 % of pairs lie whose tokens are permuted; None: the text is too short.
        p: of each pair; NaN where it has no distance.
        pairs: which pairs are more alike than chance.
        twins: which heads have another one nearer than chance.
        expected, below: how many pairs chance puts below the band's edge, and how many lie there.
        untrained: the band of heads with random weights; None where it is not known or none.
        learned: how many of `pairs` are more alike than those, too.
    """

    measure: str
    band: Band | None
    p: NDArray[np.float64]
    pairs: NDArray[np.bool_]
    twins: NDArray[np.bool_]
    expected: float = 0.0
    below: int = 0
    untrained: Band | None = None
    learned: int = 0


def chance(scene: Scene, measure: str) -> Chance:
    """What is beyond chance, made once for a text; with random weights where quick or asked for."""
    wanted = PAIR_MEASURES[measure] == "z" and reporting.has_random(state.current())
    return reporting.remembered(
        scene,
        "chance",
        measure,
        wanted,
        make=lambda: _held_against_chance(scene, measure, wanted),
        size=10 * scene.head_count**2,
    )


def _held_against_chance(scene: Scene, measure: str, wanted: bool) -> Chance:
    matrix = reporting.likeness(scene, measure)
    apart = as_distances(torch.from_numpy(matrix), measure).numpy()
    each = apart[np.triu_indices(len(apart), 1)]
    permuted = permuted_pairs(scene.record, measure)
    if permuted is None:
        nothing = np.zeros(len(each), bool)
        return Chance(
            measure, None, np.full(len(each), np.nan), nothing, np.zeros(len(apart), bool)
        )
    p = permuted.p_pairs(each)
    edge, known = permuted.edge, int(np.isfinite(p).sum())
    untrained = _untrained(scene, measure) if wanted else None
    learned = np.zeros(0, bool)
    if untrained is not None:
        learned = discoveries(np.maximum(p, untrained.p_pairs(each)))
    return Chance(
        measure,
        permuted.band,
        p,
        discoveries(p),
        discoveries(permuted.p_nearest(nearest_others(apart)[1])),
        expected=known * float((permuted.pairs < edge).mean()),
        below=int((each < edge).sum()),
        untrained=None if untrained is None else untrained.band,
        learned=int(learned.sum()),
    )


def _untrained(scene: Scene, measure: str) -> ChancePairs | None:
    model = memory.untrained_copy(scene.model, scene.device, scene.dtype)
    if model is None or model.backend != "mha_viz":
        return None
    record = model.trace(scene.text, scene.pair, part=scene.part, keep=("pattern", "z"))
    return untrained_pairs(record, measure)
