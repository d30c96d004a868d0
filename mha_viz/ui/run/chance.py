"""Pairs of heads that are more alike than chance: computed once for a text, for all pages."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray

from mha_viz.core.compare.chance import Band, permuted_pairs, untrained_band
from mha_viz.core.measure import as_distances
from mha_viz.core.metrics.chance import discoveries
from mha_viz.core.names import PAIR_MEASURES
from mha_viz.ui.run import memory, reporting
from mha_viz.ui.run.scene import Scene
from mha_viz.ui.state import state


@dataclass(frozen=True, eq=False)
class Chance:
    """Findings of one measure on one text beyond chance; pairs in the order of `np.triu_indices`.

    Args:
        band: where 95 % of pairs lie whose tokens are permuted; None: the text is too short.
        p: of each pair; NaN where it has no distance. pairs: those more alike than chance.
        twins: which heads have another one nearer than chance.
        expected, below: how many pairs chance puts below the band's edge, and how many lie there.
        untrained: the band of heads with random weights; None where it is not known or none.
        untrained_found: how many of their pairs are more alike than chance.
    """

    measure: str
    band: Band | None
    p: NDArray[np.float64]
    pairs: NDArray[np.bool_]
    twins: NDArray[np.bool_]
    expected: float = 0.0
    below: int = 0
    untrained: Band | None = None
    untrained_found: int = 0


def chance(scene: Scene, measure: str) -> Chance:
    """Find what is beyond chance, once for a text; with random weights where quick or asked for."""
    with_random = PAIR_MEASURES[measure] == "z" and reporting.has_random(state.current())
    return reporting.cached(
        scene,
        "chance",
        measure,
        with_random,
        make=lambda: _compare_with_chance(scene, measure, with_random),
        size=10 * scene.head_count**2,
    )


def _compare_with_chance(scene: Scene, measure: str, with_random: bool) -> Chance:
    matrix = reporting.likeness(scene, measure)
    apart = as_distances(torch.from_numpy(matrix), measure).numpy()
    each = apart[np.triu_indices(len(apart), 1)]
    permuted = permuted_pairs(scene.record, measure)
    if permuted is None:
        nothing = np.zeros(len(each), bool)
        return Chance(
            measure, None, np.full(len(each), np.nan), nothing, np.zeros(len(apart), bool)
        )
    p, pairs = permuted.p_pairs, discoveries(permuted.p_pairs)
    edge, known = permuted.edge, int(np.isfinite(p).sum())
    band, found = _untrained(scene, measure) if with_random else (None, 0)
    return Chance(
        measure,
        permuted.band,
        p,
        pairs,
        discoveries(permuted.p_nearest),
        expected=known * float((permuted.pairs < edge).mean()),
        below=int((each < edge).sum()),
        untrained=band,
        untrained_found=found,
    )


def _untrained(scene: Scene, measure: str) -> tuple[Band | None, int]:
    """Return where pairs of heads with random weights lie, and how many are beyond chance."""
    model = memory.untrained_copy(scene.model, scene.device, scene.dtype)
    if model is None or model.backend != "mha_viz":
        return None, 0
    record = model.trace(scene.text, scene.pair, part=scene.part, keep=("pattern", "z"))
    permuted = permuted_pairs(record, measure)
    found = 0 if permuted is None else int(discoveries(permuted.p_pairs).sum())
    return untrained_band(record, measure), found
