"""Same attention, same output? Every pair of heads by its weights, outputs and parameters."""

from functools import partial
from typing import NamedTuple

import numpy as np
import pandas as pd
import streamlit as st
from numpy.typing import NDArray

from mha_viz.core.compare.chance import Band
from mha_viz.core.metrics.chance import discoveries
from mha_viz.core.metrics.output_pairs import LEAST_TOKENS
from mha_viz.plots.pair_scatter import CORNERS, MeasuredPairs, is_constant, pair_scatter
from mha_viz.ui.compare import TEXTS, pairs
from mha_viz.ui.run import reporting
from mha_viz.ui.run.reporting import Chance, chance
from mha_viz.ui.run.scene import Scene
from mha_viz.ui.state import views
from mha_viz.ui.state.views import Compare
from mha_viz.ui.widgets import look
from mha_viz.ui.widgets.controls import lazy_sections
from mha_viz.ui.widgets.exports import figures
from mha_viz.ui.widgets.messages import words

N_ODD, N_NAMED = 8, 3  # pairs of each side in its table, and above the figure
ATTENTION, OUTPUT = "Likeness of attention", "Likeness of output"
UNLIKE = 0.05  # p-value above which a pair does not count as alike


def draw(scene: Scene, view: Compare) -> None:
    """Draw the scatter of all pairs, and those that are alike on one side only."""
    if scene.record.z is None:
        st.info("This family does not show what its heads write, only where they look.")
        return
    make = partial(_pairs, scene, view)
    table = reporting.cached(scene, "alike", view.outputs, view.space, make=make)
    if not table[OUTPUT].notna().any():
        st.info(_why_not(scene, view.outputs))
        return
    level = is_constant(table[OUTPUT].to_numpy())
    attention_chance, output_chance = chance(scene, "hellinger"), chance(scene, view.outputs)
    _scatter(scene, view, table, level, (attention_chance, output_chance))
    if level:
        measure, mean = views.OUTPUTS[view.outputs], table[OUTPUT].mean()
        st.info(TEXTS("scatter.level", measure=measure, mean=mean))
    draw_sides = partial(_sides, scene, view, table, (attention_chance, output_chance))
    lazy_sections.expander("Same attention, same output?", "alike-sides", draw_sides)


def _sides(
    scene: Scene, view: Compare, table: pd.DataFrame, chances: tuple[Chance, Chance]
) -> None:
    """Say how many pairs are alike on each side, and name those alike on one side only."""
    for side, by_chance in zip(("Attention", "Output"), chances, strict=True):
        lines = pairs.count_beyond(by_chance), pairs.given_by_chance(by_chance)
        st.markdown(f"{side}. {' '.join(lines)}".rstrip())
    reporting.offer_random(view)
    if is_constant(table[OUTPUT].to_numpy()) or any(chance.band is None for chance in chances):
        return
    for odd in _odd(scene, table, *chances):
        among = words.count(odd.among, "pair")
        answer = f"**{odd.title}: {odd.total:,} of {among}** ({pairs.AT_RATE})."
        if odd.total:
            gaps = (odd.rows[ATTENTION] - odd.rows[OUTPUT]).abs().to_numpy()[:N_NAMED]
            labels = f"{odd.key}_pairs", f"{answer} Differing most:"
            pairs.strongest(scene, view, labels, odd.pairs[:N_NAMED], gaps)
            pairs.choosable(odd.rows, odd.pairs, scene, view, odd.key)
        else:
            st.markdown(answer)
    st.caption(TEXTS("scatter.unlike", p=UNLIKE))


def _pairs(scene: Scene, view: Compare) -> pd.DataFrame:
    i, j = pairs.indices(scene)
    names = np.array(words.names(scene))
    attention, output = (
        reporting.likeness(scene, measure)[i, j] for measure in ("hellinger", view.outputs)
    )
    columns = {"Head": names[i], "Other": names[j], ATTENTION: 1 - attention, OUTPUT: output}
    matrix = reporting.parameter_likeness(view, view.space)
    overlap = {} if matrix is None else {_overlap(view.space): matrix[i, j]}
    return pd.DataFrame(columns | overlap)


def _scatter(
    scene: Scene, view: Compare, table: pd.DataFrame, level: bool, chances: tuple[Chance, Chance]
) -> None:
    space, outputs, (i, j) = view.space, view.outputs, pairs.chosen(scene, view)
    attention_chance, output_chance = chances
    # On the scatter's x axis a distance is a likeness.
    turned = attention_chance.band and Band(
        1 - attention_chance.band.high, 1 - attention_chance.band.low
    )
    weights = table.get(_overlap(space))
    measured = MeasuredPairs(
        table[ATTENTION].to_numpy(),
        table[OUTPUT].to_numpy(),
        np.stack(pairs.indices(scene), axis=1),
        words.names(scene),
        x_title="attention: 1 − Hellinger distance",
        y_title=f"output: {views.OUTPUTS[outputs]}",
        colour=None if weights is None else weights.to_numpy(),
        colour_title="" if weights is None else f"overlap of subspaces of {space}",
        n_heads=scene.record.n_heads,
    )
    bands, corners = (
        [(turned, output_chance.band), (None, output_chance.untrained)],
        None if level else CORNERS,
    )
    selected = None if i == j else (min(i, j), max(i, j))
    figures.show(
        pair_scatter(measured, corners=corners, chance=bands, selected=selected, dark=look.dark()),
        on_click=lambda clicked: words.choose_pair(clicked, scene),
        table=table,
        caption=words.settings(scene, views.OUTPUTS[outputs]),
        **TEXTS.figure("figures.alike"),
    )


def _overlap(space: str) -> str:
    return f"Overlap {space}"


class _Odd(NamedTuple):
    """Pairs that are alike on one side only."""

    title: str
    key: str
    total: int
    among: int  # so many pairs that are not alike on the other side
    rows: pd.DataFrame  # of the table, the most so first
    pairs: NDArray[np.intp]


def _odd(
    scene: Scene, table: pd.DataFrame, attention_chance: Chance, output_chance: Chance
) -> list[_Odd]:
    """Find the pairs that are alike beyond chance on one side only.

    They are found among the pairs that are not alike on the other side. Finding the pairs that are
    alike first, and dropping those alike on the other side, would leave the false ones.
    """
    gap = table[ATTENTION] - table[OUTPUT]
    both = np.stack(pairs.indices(scene), axis=1)
    sides = (
        ("Same attention, different output", "odd_look", attention_chance.p, output_chance.p, gap),
        ("Same output, different attention", "odd_do", output_chance.p, attention_chance.p, -gap),
    )
    odd_pairs = []
    for title, key, alike, other, by in sides:
        unlike = other > UNLIKE
        odd = discoveries(np.where(unlike, alike, np.nan))
        rows = by[odd].nlargest(N_ODD).index
        of = int(unlike.sum())
        odd_pairs.append(_Odd(title, key, int(odd.sum()), of, table.loc[rows], both[rows]))
    return odd_pairs


def _why_not(scene: Scene, outputs: str) -> str:
    if outputs == "cka" and len(scene.record.tokens) < LEAST_TOKENS:
        return words.TOO_SHORT_FOR_CKA
    lone = len(scene.record.tokens) < 2
    why = TEXTS("scatter.one_token" if lone else "scatter.constant")
    return f"{views.OUTPUTS[outputs]}: not defined for any two heads, because {why}"
