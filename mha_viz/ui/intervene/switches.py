"""Choice of the changed heads and the intervention: the grid of switches, groups, undo."""

from collections.abc import Iterable
from functools import partial
from typing import Any

import numpy as np
import streamlit as st

from mha_viz.core.layer_numbers import number_at
from mha_viz.ui.heads import payloads
from mha_viz.ui.heads.predicted import fit_off
from mha_viz.ui.intervene import ANSWER, CHART, CONTROLS, HEADS, MORE, TEXTS, importance
from mha_viz.ui.operating.streamlit_run import rerun_parts
from mha_viz.ui.run import reporting
from mha_viz.ui.run.scene import Scene
from mha_viz.ui.state import state, views
from mha_viz.ui.state.faults import guarded
from mha_viz.ui.state.views import Intervene
from mha_viz.ui.widgets.components.component import carry
from mha_viz.ui.widgets.components.head_switches import head_switches
from mha_viz.ui.widgets.controls import choosing, controls
from mha_viz.ui.widgets.messages import words
from mha_viz.web.payload import MAX_SIDE, grid_payload

Heads = tuple[tuple[int, int], ...]
HOW_NAMES = views.TITLES["how_names"]
HOW_HELP = views.TITLES["how_help"]
GROUPS = views.TITLES["groups"]
LEAST = 8  # heads of the preset of the least important
NEAREST = 3
STEPS = 50  # that undo goes back


def draw(scene: Scene) -> None:
    """Draw the switches, which write into the view."""
    if missing := fit_off(scene):
        st.info(words.plain(missing))
    view = state.of(Intervene)
    values, size = importance.known(scene, view.method), scene.record.shape[:2]
    looks: dict[str, Any] = {"selected": view.chosen, "scale": view.scale}
    looks |= {"value": None if values is None else values.mean.numpy()}
    looks |= {"value_name": importance.METHOD_NAMES[view.method], "payload": _patterns(scene)}
    looks["layer_numbers"] = scene.record.layer_numbers
    head_switches(*size, off=view.off, key="switches", take=put, **looks)
    st.caption(_in_words(state.of(Intervene)))


def draw_controls(scene: Scene) -> None:
    """Draw the intervention, groups of heads and undo; then bring the labels of the heads."""
    with st.container(horizontal=True, vertical_alignment="bottom"):
        _how(len(scene.record.labels))
        _presets(scene)
    st.caption(HOW_HELP[state.of(Intervene).how])
    # They take longer than the patterns.
    carry(payloads.labels(scene, _patterns(scene), state.of(Intervene)), key="switches-notes")


def _patterns(scene: Scene) -> bytes:
    _, _, queries, keys = scene.record.shape
    size = scene.head_count * min(queries * keys, MAX_SIDE**2)
    make = partial(grid_payload, scene.record)
    return reporting.cached(scene, "switch_patterns", make=make, size=size)


def follow_switch() -> None:
    """Run what depends on the changed heads; for the end of a callback."""
    rerun_parts(ANSWER, HEADS, CONTROLS, CHART, MORE)


def follow_place() -> None:
    """Run what depends on the predicted place or the tracked token; for the end of a callback."""
    rerun_parts(ANSWER, CHART, MORE)


@guarded
def put(off: Iterable[tuple[int, int]]) -> None:
    """Change which heads are off, and remember what was; for callbacks."""
    heads = tuple(sorted(set(off)))
    if heads != state.of(Intervene).off:
        past: list[Heads] = st.session_state.setdefault("past", [])
        past.append(state.of(Intervene).off)
        del past[:-STEPS]
        state.change(off=heads)
    follow_switch()


@guarded
def _undo() -> None:
    if st.session_state.get("past"):
        state.change(off=st.session_state.past.pop())
        follow_switch()


def _how(n_tokens: int) -> None:
    choosing.menu("how", "Intervention", HOW_NAMES, width=200, also=follow_switch)
    how, also = state.of(Intervene).how, follow_switch
    if how == "scale":
        ends = -10.0, 10.0
        state.bound("factor", st.number_input, "Factor", *ends, also=also, step=0.1, width=120)
    if how.startswith("patch"):
        looks = TEXTS.control("source", length=words.count(n_tokens, "token"))
        state.bound("source", st.text_input, also=also, **looks)


def _presets(scene: Scene) -> None:
    found = presets(scene, state.of(Intervene))

    @guarded
    def take() -> None:
        chosen = st.session_state.ask_preset
        if chosen in found:
            put(found[chosen])

    st.session_state.ask_preset = None
    looks = TEXTS.control("preset")
    st.selectbox(options=list(found), index=None, key="ask_preset", on_change=take, **looks)
    framed = "The framed head; those nearest to it and its layer are among the groups."
    controls.head_menus(scene.record.n_layers, scene.record.n_heads, framed)
    none, icon = not st.session_state.get("past"), ":material/undo:"
    st.button("Undo", icon=icon, on_click=_undo, disabled=none, key="undo")
    none, icon = not state.of(Intervene).off, ":material/restart_alt:"
    st.button("All on", icon=icon, on_click=put, args=((),), disabled=none, key="all_on")


def presets(scene: Scene, view: Intervene) -> dict[str, Heads]:
    """Return groups of heads by name; those that have none are left out."""
    report = reporting.report(scene, view)
    groups: dict[str, Heads] = {}
    for key, title in GROUPS.items():
        if heads := reporting.of_kind(report, key):
            groups[f"all {title} ({len(heads)})"] = tuple(heads)
    groups |= _nearest_group(scene, view)
    values, n_heads = importance.known(scene, view.method), scene.record.n_heads
    if values is not None:
        order = np.argsort(values.mean.numpy(), axis=None, kind="stable")[:LEAST].tolist()
        groups[f"the {len(order)} least important"] = tuple(divmod(i, n_heads) for i in order)
    layer = number_at(view.layer_numbers, view.layer)
    groups[f"all of layer {layer}"] = tuple((view.layer, j) for j in range(n_heads))
    return groups


def _nearest_group(scene: Scene, view: Intervene) -> dict[str, Heads]:
    heads = scene.record.n_heads
    apart = reporting.likeness(scene, "hellinger")
    me = view.layer * heads + view.head
    others = [i for i in np.argsort(apart[me], kind="stable").tolist() if i != me][:NEAREST]
    if not others:
        return {}
    name = f"the {len(others)} nearest to {words.head_name(*view.chosen)}"
    return {name: tuple(divmod(i, heads) for i in others)}


def _in_words(view: Intervene) -> str:
    if not view.off:
        return "All heads are on. Click a tile, drag over several, or click a layer’s name."
    return f"{len(view.off)} changed: {words.listed(view.off, 12)}."
