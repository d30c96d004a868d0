"""Look alike, do alike? Every pair of heads by its weights, its outputs and its parameters."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pandas as pd
import streamlit as st
from numpy.typing import NDArray

from mha_viz.core.chance import Band
from mha_viz.core.metrics.output_pairs import LEAST_TOKENS
from mha_viz.plots.alike import CORNERS, is_level, pair_scatter
from mha_viz.ui.compare import pair
from mha_viz.ui.compare.chance import Chance, chance
from mha_viz.ui.session import reporting, state, views
from mha_viz.ui.session.scene import Scene
from mha_viz.ui.widgets import choosing, figures, look, words

N_ODD, N_NAMED = 8, 3  # pairs of each side in its table, and above the figure


def draw(scene: Scene) -> None:
    """The scatter; a click opens the pair."""
    if scene.record.z is None:
        st.info("This family does not show what its heads write, only where they look.")
        return
    if scene.head_count < 2:
        st.info(words.ONE_HEAD)
        return
    with st.container(horizontal=True, gap="medium"):
        choosing.segments("outputs", "Likeness of outputs", views.OUTPUTS)
        choosing.segments("space", "Likeness of parameters, as colour", views.SPACES)
    outputs, space = state.current().outputs, state.current().space
    table = reporting.remembered(
        scene, "alike", outputs, space, make=lambda: _pairs(scene, outputs, space)
    )
    if table["Do alike"].notna().any():
        level = is_level(table["Do alike"].to_numpy())
        looks, does = chance(scene, "hellinger"), chance(scene, outputs)
        look_apart = 1 - table["Look alike"].to_numpy()
        do_apart = 1 - table["Do alike"].clip(lower=0.0).to_numpy()
        odd = _odd(scene, table, looks.beyond(look_apart), does.beyond(do_apart))
        if level:
            st.info(_all_alike(table, outputs))
        else:
            _oddest(scene, odd)
        pair.beside(scene, lambda: _scatter(scene, table, outputs, level, [looks, does]))
        st.markdown(f"Look alike. {looks.in_words(look_apart)}")
        st.markdown(f"Do alike. {does.in_words(do_apart)}")
        reporting.offer_random(state.current())
        if not level:
            _odd_tables(scene, odd)
        pair.numbers(scene)
    else:
        st.info(_why_not(scene, outputs))
        pair.chosen_pair(scene)


def _pairs(scene: Scene, outputs: str, space: str) -> pd.DataFrame:
    """A row for each pair of heads, whichever is chosen."""
    i, j = _indices(scene)
    names = np.array(words.names(scene))
    table = pd.DataFrame(
        {
            "Head": names[i],
            "Other": names[j],
            "Look alike": 1 - reporting.likeness(scene, "hellinger")[i, j],
            "Do alike": reporting.likeness(scene, outputs)[i, j],
        }
    )
    matrix = reporting.parameter_likeness(state.current(), space)
    return table if matrix is None else table.assign(**{f"Overlap {space}": matrix[i, j]})


def _indices(scene: Scene) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    return np.triu_indices(scene.head_count, 1)


def _scatter(
    scene: Scene, table: pd.DataFrame, outputs: str, level: bool, by_chance: list[Chance]
) -> None:
    space = state.current().space
    weights = table.get(f"Overlap {space}")
    figure = pair_scatter(
        table["Look alike"].to_numpy(),
        table["Do alike"].to_numpy(),
        np.stack(_indices(scene), axis=1),
        words.names(scene),
        x_title="look alike: 1 − Hellinger distance",
        y_title=f"do alike: {views.OUTPUTS[outputs]}",
        colour=None if weights is None else weights.to_numpy(),
        colour_title="" if weights is None else f"overlap of subspaces of {space}",
        corners=None if level else CORNERS,
        chance=_bands(*by_chance),
        n_heads=scene.record.n_heads,
        selected=_selected(scene),
        dark=look.dark(),
    )
    figures.show(
        figure,
        key="alike",
        name="Pairs of heads that look alike or do alike",
        on_click=lambda clicked: words.choose_pair(clicked, scene),
        table=table,
        caption=words.settings(scene, views.OUTPUTS[outputs]),
        how_to_read="Each dot is a pair of heads. Bottom right: they look at the same tokens and "
        "write different things. Top left: they write the same and look elsewhere. Click one to "
        "see both. Shaded: where 95 % of pairs lie by chance, with permuted tokens; dotted: with "
        "random weights. Colour is the overlap of subspaces: unlike the cosine of weights it does "
        "not depend on the basis that each head has inside. One text is a small sample of what "
        "two heads may share.",
    )


def _bands(looks: Chance, does: Chance) -> list[tuple[Band | None, Band | None]]:
    """Permuted and untrained, for the axes of the scatter: on x a distance is a likeness."""
    turned = [
        band and Band(1 - band.high, 1 - band.low) for band in (looks.permuted, looks.untrained)
    ]
    return list(zip(turned, (does.permuted, does.untrained), strict=True))


def _selected(scene: Scene) -> tuple[int, int] | None:
    """The chosen pair, as the figure numbers it; None for a head and itself."""
    i, j = pair.chosen_places(scene)
    return None if i == j else (min(i, j), max(i, j))


class _Odd(NamedTuple):
    """Pairs that are alike on one side only; `rows`: of the table, the most so first."""

    title: str
    key: str
    total: int
    rows: pd.DataFrame
    pairs: NDArray[np.intp]


def _odd(
    scene: Scene, table: pd.DataFrame, look: NDArray[np.bool_], do: NDArray[np.bool_]
) -> list[_Odd]:
    """The pairs that stand out most, on either side; within the band of chance none is alike."""
    gap = table["Look alike"] - table["Do alike"]
    pairs = np.stack(_indices(scene), axis=1)
    sides = (
        ("Look alike, do different things", "odd_look", look & ~do, gap),
        ("Do alike, look at different tokens", "odd_do", do & ~look, -gap),
    )
    found = []
    for title, key, held, by in sides:
        rows = by[held].nlargest(N_ODD).index
        found.append(_Odd(title, key, int(held.sum()), table.loc[rows], pairs[rows]))
    return found


def _oddest(scene: Scene, sides: list[_Odd]) -> None:
    """The answer: how many pairs there are on either side, and which most."""
    for column, odd in zip(st.columns(2), sides, strict=True):
        with column:
            said = f"**{odd.title}: {words.count(odd.total, 'pair')}.**"
            if odd.total:
                most = odd.rows[:N_NAMED]
                gaps = (most["Look alike"] - most["Do alike"]).abs().to_numpy()
                label = f"{said} Differing most:"
                pair.strongest(scene, f"{odd.key}_pairs", label, odd.pairs[:N_NAMED], gaps)
            else:
                st.markdown(said)


def _odd_tables(scene: Scene, sides: list[_Odd]) -> None:
    for column, odd in zip(st.columns(2), sides, strict=True):
        with column:
            st.markdown(f"**{odd.title}**")
            if odd.total:
                pair.choosable(odd.rows, odd.pairs, scene, key=odd.key)
            else:
                st.markdown("No pair of heads on this text.")


def _all_alike(table: pd.DataFrame, outputs: str) -> str:
    return (
        f"By the {views.OUTPUTS[outputs]} all pairs are alike on this text "
        f"({table['Do alike'].mean():.4g} each). No pair stands out; try a longer text."
    )


def _why_not(scene: Scene, outputs: str) -> str:
    if outputs == "cka" and len(scene.record.tokens) < LEAST_TOKENS:
        return words.TOO_SHORT_FOR_CKA
    reason = (
        "what heads write does not vary over one token. Type a longer text"
        if len(scene.record.tokens) < 2
        else "what heads write does not vary on this text"
    )
    return f"{views.OUTPUTS[outputs]}: not defined for any two heads, because {reason}."
