"""The view Connections: which head reads which, by weights, by effect here, or over a task."""

from collections.abc import Mapping
from functools import partial

import pandas as pd
import streamlit as st

from mha_viz.circuits.composition.head_pairs import KINDS, Composition, composition
from mha_viz.circuits.composition.ov_circuit import copying_scores, favoured_pairs
from mha_viz.core.amounts import format_share
from mha_viz.ui.heads.head_words import of_weights
from mha_viz.ui.run.scene import Scene
from mha_viz.ui.state.views import THROUGH, TITLES, Why
from mha_viz.ui.why import TEXTS, edges, effects, pairs, targets, tasks
from mha_viz.ui.widgets.controls import choosing, lazy_sections
from mha_viz.ui.widgets.messages import words
from mha_viz.ui.widgets.messages.notices import continue_on_error, notes, number_columns


def draw(scene: Scene, view: Why) -> None:
    """Draw one matrix of heads by heads; over a task also the edges that carry it."""
    has_pairs = scene.record.n_layers > 1
    if view.connections == "task":
        chosen = tasks.choose(scene, view, _task_row)
        if has_pairs:
            effects.draw_task(scene, view, chosen)
        edges.draw(scene, view, chosen)
        return
    with st.container(horizontal=True, vertical_alignment="bottom"):
        _switches()
        position = effects.choices(scene, view) if view.connections == "effect" else 0
    if not has_pairs:
        st.info("This model has one layer: no head can read what another one has written.")
    elif view.connections == "effect":
        effects.draw(scene, view, position)
    else:
        _by_weights(scene, view)


def _switches() -> None:
    titles = TITLES["connections"]
    choosing.segments("connections", "Connections", titles, label_visibility="collapsed")
    inputs = {name: title.removeprefix("its ") for name, title in THROUGH.items()}
    choosing.menu("through", "Reads into", inputs, width=130)


def _task_row() -> None:
    _switches()
    tasks.menu()
    with choosing.more("effect-more"):
        effects.behaviour_and_way()


def _by_weights(scene: Scene, view: Why) -> None:
    """Draw the map of all pairs, and what Q-, K- and V-composition say of one."""
    kind = view.through
    size = 8 * scene.head_count**2  # two matrices of float32
    kinds = {str(name): of_weights(view.checkpoint, composition, name, size=size) for name in KINDS}
    zscore, n_heads = kinds[kind].zscore.numpy(), kinds[kind].n_heads
    view = pairs.fit_pair(view, zscore, n_heads)
    matrix_column, pair_column = st.columns([3, 2], gap="medium")
    with matrix_column:
        more = {"score": kinds[kind].score.numpy()}
        texts = TEXTS.figure("figures.composition", kind=kind)
        caption = words.settings(scene, f"{kind}-composition by weights")
        pairs.draw_map(scene, view, zscore, more=more, caption=caption, **texts)
    with pair_column:
        _pair(pairs.shown_pair(view, zscore, n_heads), kinds)
        label = "**Furthest from chance (z)**"
        pairs.chips(view, "most_composed", label, zscore, n_heads)
        notes(kinds[kind].notes)
        st.caption(TEXTS("composition.chance"))
    st.header("Who copies", anchor=False)
    with continue_on_error():
        _copying(scene, view)


def _copying(scene: Scene, view: Why) -> None:
    copying = of_weights(view.checkpoint, copying_scores, size=50_000)
    map_column, head_column = st.columns([3, 2], gap="medium")
    with map_column:
        scores, caption = copying.score.numpy(), words.settings(scene, "OV circuits by weights")
        table, texts = copying.table(), TEXTS.figure("figures.copying")
        targets.draw_heads(scores, view, "Copying score", table=table, caption=caption, **texts)
    with head_column:
        layer, head = view.chosen
        name, share = words.head_name(layer, head), float(copying.positive_share[layer, head])
        score, z = (
            targets.signed(values[layer, head]) for values in (copying.score, copying.zscore)
        )
        st.markdown(TEXTS("composition.copying", name=name, score=score, z=z, share=share))
        lazy_sections.in_expander(f"Tokens {name} favours", "favoured", partial(_favoured, view))


def _favoured(view: Why) -> None:
    favoured = of_weights(view.checkpoint, favoured_pairs, *view.chosen, size=20_000)
    pairs = favoured.pairs[["source", "destination", "strength"]]
    st.dataframe(pairs, hide_index=True, column_config=number_columns(pairs))
    error = "" if favoured.exact else f" ± {format_share(favoured.copied_error, 1)}"
    st.caption(TEXTS("composition.favoured", favoured=favoured, error=error))


def _pair(pair: pairs.Pair, kinds: Mapping[str, Composition]) -> None:
    st.header(pairs.named(pair), anchor=False)
    rows = []
    for kind, composed in kinds.items():
        writer, reader = pairs.numbers(pair, composed.n_heads)
        score, z = float(composed.score[writer, reader]), float(composed.zscore[writer, reader])
        numbers = (words.format_number(number) for number in (score, composed.expected, z))
        rows.append((f"{kind}: {THROUGH[kind]}", *numbers))
    table = pd.DataFrame(rows, columns=["Read into", "Score", "By chance", "z"])
    st.table(table.set_index("Read into"))
