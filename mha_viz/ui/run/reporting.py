"""Baselines, labels, likenesses of heads and chance, computed once for all pages."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
import pandas as pd
import streamlit as st
import torch
from numpy.typing import NDArray

from mha_viz.core.compare.chance import Band, permuted_pairs, untrained_band
from mha_viz.core.measure import as_distances, head_similarity
from mha_viz.core.metrics.chance import discoveries
from mha_viz.core.names import PAIR_MEASURES
from mha_viz.errors import AttentionUnavailableError, NotKeptError
from mha_viz.reports.parameters import parameter_similarity
from mha_viz.reports.report import Report
from mha_viz.reports.report import report as make_report
from mha_viz.ui.run import memory
from mha_viz.ui.run.page_lock import turn_for
from mha_viz.ui.run.scene import Scene
from mha_viz.ui.state import selection
from mha_viz.ui.state.faults import guarded
from mha_viz.ui.state.session import session
from mha_viz.ui.state.views import Shared

if TYPE_CHECKING:
    from mha_viz.engine.model import AttentionModel

T = TypeVar("T")
_ABOUT_RANDOM = (
    "Makes the same architecture with random weights and runs this text through it. For a model of "
    "this size that takes some seconds and as much memory again."
)
AT_ONCE = 30_000_000  # parameters; a larger model is made anew with random weights on request only


def report(scene: Scene, view: Shared) -> Report:
    """Return scores, baselines and labels of all heads; see `has_random` for random weights.

    Computed once for a text; a click on another head finds it here.
    """
    checkpoint, with_random = view.checkpoint, has_random(view)

    def make() -> Report:
        if scene.record.part == "cross":
            return make_report(scene.record)
        if (stored := scene.stored) is not None:
            stored_scores: dict[str, Any] = {"random_scores": stored.random_scores}
            return make_report(scene.record, induction=stored.induction, **stored_scores)
        part = scene.record.part
        more: dict[str, Any] = {
            "random": memory.untrained_copy(*checkpoint) if with_random else None
        }
        with turn_for(memory.model(*checkpoint), scene.text + (scene.pair or "")):
            more["induction"] = memory.induction(*checkpoint, part, False)
            more["random_induction"] = (
                memory.induction(*checkpoint, part, True) if with_random else None
            )
            return make_report(scene.record, **more)

    return cached(scene, "report", with_random, make=make)


def of_kind(report: Report, key: str) -> list[tuple[int, int]]:
    """Return the heads that have earned a label, as (layer, head)."""
    heads = ((i, j, row[j]) for i, row in enumerate(report.labels) for j in range(len(row)))
    return [(i, j) for i, j, earned in heads if key in {entry.label.key for entry in earned}]


def has_random(view: Shared) -> bool:
    """Return whether random weights are a baseline: the model is small, or somebody asked."""
    return small(view) or view.checkpoint in session().random_wanted


def small(view: Shared) -> bool:
    """Return whether random weights of this model are made without asking."""
    return memory.facts(*view.checkpoint).n_parameters <= AT_ONCE


def offer_random(view: Shared) -> None:
    """Offer the baseline of random weights, where it has not been made at once."""
    if has_random(view):
        return

    label, icon = "Add random weights as a baseline", ":material/casino:"
    st.button(label, on_click=request_random, args=(view,), icon=icon, help=_ABOUT_RANDOM)


@guarded
def request_random(view: Shared) -> None:
    """Take random weights of the view's model as a baseline from now on."""
    session().random_wanted.add(view.checkpoint)


def cached(scene: Scene, *key: Hashable, make: Callable[[], T], size: int = 200_000) -> T:
    """Return what follows from the scene alone, made once and kept; `size` is in bytes."""
    return scene.derive(*key, make=make, size=lambda value: size)


def table_bytes(table: pd.DataFrame) -> int:
    """Return the bytes that a table holds, for the cache."""
    return int(table.memory_usage(deep=True).sum())


def likeness(scene: Scene, measure: str) -> NDArray[np.float32]:
    """Return `head_similarity` of the scene's record: (layer * head, layer * head)."""

    def make() -> NDArray[np.float32]:
        return head_similarity(scene.record, measure).numpy()

    return cached(scene, "pairs", measure, make=make, size=4 * scene.head_count**2)


def parameter_likeness(
    view: Shared, space: str, measure: str = "subspace_overlap"
) -> NDArray[np.float32] | None:
    """Return `parameter_similarity` of the view's model; None where it is unknown."""

    def make(model: AttentionModel) -> NDArray[np.float32]:
        return parameter_similarity(model, space, measure, view.part).cpu().numpy()

    return of_parameters(view, "pairs", space, measure, make=make)


def of_parameters(
    view: Shared, *key_parts: Hashable, make: Callable[[AttentionModel], T]
) -> T | None:
    """Return what follows from a model's parameters alone; None where they are not known."""
    model = memory.model(*view.checkpoint)

    def compute() -> T | None:
        try:
            return make(model)
        except (NotKeptError, AttentionUnavailableError):
            return None

    key = (*view.checkpoint, view.part, "parameters", *key_parts)
    return memory.cache().get(key, compute, lambda value: int(getattr(value, "nbytes", 10_000)))


@dataclass(frozen=True, eq=False)
class Chance:
    """Findings of one measure on a text beyond chance; pairs in the order of `np.triu_indices`."""

    measure: str
    band: Band | None  # where 95 % of pairs with permuted tokens lie; None: the text is too short
    p: NDArray[np.float64]  # of each pair; NaN where it has no distance
    pairs: NDArray[np.bool_]  # those more alike than chance
    twins: NDArray[np.bool_]  # which heads have another one nearer than chance
    expected: float = 0.0  # so many pairs chance puts below the band's edge
    below: int = 0  # so many lie there
    untrained: Band | None = None  # of heads with random weights, where known
    untrained_found: int = 0  # how many of their pairs are more alike than chance


def chance(scene: Scene, measure: str) -> Chance:
    """Find what is beyond chance, once for a text; with random weights where quick or asked for."""
    with_random = PAIR_MEASURES[measure] == "z" and has_random(selection.current())
    make = partial(_compare_with_chance, scene, measure, with_random)
    size = 10 * scene.head_count**2
    return cached(scene, "chance", measure, with_random, make=make, size=size)


def _compare_with_chance(scene: Scene, measure: str, with_random: bool) -> Chance:
    matrix = likeness(scene, measure)
    apart = as_distances(torch.from_numpy(matrix), measure).numpy()
    each = apart[np.triu_indices(len(apart), 1)]
    permuted = permuted_pairs(scene.record, measure)
    if permuted is None:
        no_pairs, no_twins = np.zeros(len(each), bool), np.zeros(len(apart), bool)
        return Chance(measure, None, np.full(len(each), np.nan), no_pairs, no_twins)
    p, pairs = permuted.p_pairs, discoveries(permuted.p_pairs)
    edge, n_defined = permuted.edge, int(np.isfinite(p).sum())
    expected = n_defined * float((permuted.pairs < edge).mean())
    values = p, pairs, discoveries(permuted.p_nearest), expected, int((each < edge).sum())
    untrained = _untrained(scene, measure) if with_random else (None, 0)
    return Chance(measure, permuted.band, *values, *untrained)


def _untrained(scene: Scene, measure: str) -> tuple[Band | None, int]:
    """Return the range of pairs of heads with random weights, and the number beyond chance."""
    model = memory.untrained_copy(scene.model, scene.device, scene.dtype)
    if model is None or model.backend != "mha_viz":
        return None, 0
    record = model.trace(scene.text, scene.pair, part=scene.part, keep=("pattern", "z"))
    permuted = permuted_pairs(record, measure)
    n_discoveries = 0 if permuted is None else int(discoveries(permuted.p_pairs).sum())
    return untrained_band(record, measure), n_discoveries
