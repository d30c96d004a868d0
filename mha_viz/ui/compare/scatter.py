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
from mha_viz.ui.compare import TEXTS, pair
from mha_viz.ui.compare.pair import AT_RATE
from mha_viz.ui.run import reporting
from mha_viz.ui.run.reporting import Chance, chance
from mha_viz.ui.run.scene import Scene
from mha_viz.ui.state import state, views
from mha_viz.ui.state.views import Compare
from mha_viz.ui.widgets import look
from mha_viz.ui.widgets.controls import choosing
from mha_viz.ui.widgets.exports import figures
from mha_viz.ui.widgets.messages import words

N_ODD, N_NAMED = 8, 3  # pairs of each side in its table, and above the figure
ATTENTION, OUTPUT = "Likeness of attention", "Likeness of output"
UNLIKE = 0.05  # p-value above which a pair does not count as alike


def draw(scene: Scene) -> None:
    """Draw the scatter; a click opens the pair."""
    if scene.record.z is None:
        st.info("This family does not show what its heads write, only where they look.")
        return
    if scene.head_count < 2:
        st.info(words.ONE_HEAD)
        return
    with st.container(horizontal=True, gap="medium"):
        choosing.segments("outputs", "Likeness of outputs", views.OUTPUTS)
        choosing.segments("space", "Likeness of parameters, as colour", views.SPACES)
    outputs, space = state.of(Compare).outputs, state.of(Compare).space
    make = partial(_pairs, scene, outputs, space)
    table = reporting.cached(scene, "alike", outputs, space, make=make)
    if not table[OUTPUT].notna().any():
        st.info(_why_not(scene, outputs))
        pair.chosen_pair(scene)
        return
    level = is_constant(table[OUTPUT].to_numpy())
    looks, does = chance(scene, "hellinger"), chance(scene, outputs)
    odd = _odd(scene, table, looks, does)
    short = looks.band is None or does.band is None
    if level:
        measure, mean = views.OUTPUTS[outputs], table[OUTPUT].mean()
        st.info(TEXTS("scatter.level", measure=measure, mean=mean))
    elif not short:
        _oddest(scene, odd)
    pair.beside(scene, lambda: _scatter(scene, table, outputs, level, looks, does))
    for side, found in (("Attention", looks), ("Output", does)):
        st.markdown(f"{side}. {pair.count_beyond(found)} {pair.given_by_chance(found)}".rstrip())
    reporting.offer_random(state.of(Compare))
    if not level and not short:
        _odd_tables(scene, odd)
    pair.numbers(scene)


def _pairs(scene: Scene, outputs: str, space: str) -> pd.DataFrame:
    i, j = pair.indices(scene)
    names = np.array(words.names(scene))
    attention, output = (reporting.likeness(scene, one)[i, j] for one in ("hellinger", outputs))
    columns = {"Head": names[i], "Other": names[j], ATTENTION: 1 - attention, OUTPUT: output}
    matrix = reporting.parameter_likeness(state.of(Compare), space)
    return pd.DataFrame(columns if matrix is None else columns | {_overlap(space): matrix[i, j]})


def _scatter(
    scene: Scene, table: pd.DataFrame, outputs: str, level: bool, looks: Chance, does: Chance
) -> None:
    space, (i, j) = state.of(Compare).space, pair.chosen_places(scene)
    # On the scatter's x axis a distance is a likeness.
    turned = looks.band and Band(1 - looks.band.high, 1 - looks.band.low)
    weights = table.get(_overlap(space))
    pairs = MeasuredPairs(
        table[ATTENTION].to_numpy(),
        table[OUTPUT].to_numpy(),
        np.stack(pair.indices(scene), axis=1),
        words.names(scene),
        x_title="likeness of attention: 1 − Hellinger distance",
        y_title=f"likeness of output: {views.OUTPUTS[outputs]}",
        colour=None if weights is None else weights.to_numpy(),
        colour_title="" if weights is None else f"overlap of subspaces of {space}",
        n_heads=scene.record.n_heads,
    )
    chance, corners = [(turned, does.band), (None, does.untrained)], None if level else CORNERS
    selected = None if i == j else (min(i, j), max(i, j))
    figures.show(
        pair_scatter(pairs, corners=corners, chance=chance, selected=selected, dark=look.dark()),
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


def _odd(scene: Scene, table: pd.DataFrame, looks: Chance, does: Chance) -> list[_Odd]:
    """Find the pairs that are alike beyond chance on one side only.

    They are found among the pairs that are not alike on the other side. Finding the pairs that are
    alike first, and dropping those alike on the other side, would leave the false ones.
    """
    gap = table[ATTENTION] - table[OUTPUT]
    pairs = np.stack(pair.indices(scene), axis=1)
    sides = (
        ("Same attention, different output", "odd_look", looks.p, does.p, gap),
        ("Same output, different attention", "odd_do", does.p, looks.p, -gap),
    )
    found = []
    for title, key, alike, other, by in sides:
        unlike = other > UNLIKE
        odd = discoveries(np.where(unlike, alike, np.nan))
        rows = by[odd].nlargest(N_ODD).index
        of = int(unlike.sum())
        found.append(_Odd(title, key, int(odd.sum()), of, table.loc[rows], pairs[rows]))
    return found


def _oddest(scene: Scene, sides: list[_Odd]) -> None:
    """Write the answer: how many pairs there are on either side, and which differ most."""
    for column, odd in zip(st.columns(2), sides, strict=True):
        among = words.count(odd.among, "pair")
        answer = f"**{odd.title}: {odd.total:,} of {among}** ({AT_RATE})."
        with column:
            if not odd.total:
                st.markdown(answer)
                continue
            gaps = (odd.rows[ATTENTION] - odd.rows[OUTPUT]).abs().to_numpy()[:N_NAMED]
            key, label = f"{odd.key}_pairs", f"{answer} Differing most:"
            pair.strongest(scene, key, label, odd.pairs[:N_NAMED], gaps)


def _odd_tables(scene: Scene, sides: list[_Odd]) -> None:
    for column, odd in zip(st.columns(2), sides, strict=True):
        with column:
            st.markdown(f"**{odd.title}**")
            if odd.total:
                pair.choosable(odd.rows, odd.pairs, scene, key=odd.key)
            else:
                st.markdown("No pair of heads on this text.")
    st.caption(TEXTS("scatter.unlike", p=UNLIKE))


def _why_not(scene: Scene, outputs: str) -> str:
    if outputs == "cka" and len(scene.record.tokens) < LEAST_TOKENS:
        return words.TOO_SHORT_FOR_CKA
    lone = len(scene.record.tokens) < 2
    why = TEXTS("scatter.one_token" if lone else "scatter.constant")
    return f"{views.OUTPUTS[outputs]}: not defined for any two heads, because {why}"
