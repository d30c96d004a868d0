"""The section "Prediction in detail": an intervention, a position, and what is predicted there."""

import numpy as np
import streamlit as st

from mha_viz.core.layer_numbers import number_at
from mha_viz.engine.model import AttentionModel
from mha_viz.errors import MhaVizError
from mha_viz.prediction.logits import mask_word_at
from mha_viz.ui.heads import TEXTS, outcomes, targets
from mha_viz.ui.heads.predicted import compared, lacks_source, refusal, word_pieces
from mha_viz.ui.run import memory, reporting
from mha_viz.ui.run.scene import Scene
from mha_viz.ui.state import selection
from mha_viz.ui.state.faults import guarded
from mha_viz.ui.state.session import from_browser, to_browser
from mha_viz.ui.state.views import TITLES, HeadsView
from mha_viz.ui.widgets.controls import choosing
from mha_viz.ui.widgets.messages import words
from mha_viz.ui.widgets.messages.notices import continue_on_error, plain

Heads = tuple[tuple[int, int], ...]
N_NEAREST = 3
MAX_WORDS = 200  # offered for a mask


def draw(scene: Scene, view: HeadsView) -> None:
    """Draw the choices, and what they make of the prediction."""
    model = memory.model(*view.checkpoint)
    if reason := refusal(model):
        st.info(plain(reason), icon=":material/block:")
        return
    with st.container(horizontal=True, vertical_alignment="bottom"):
        _intervention(scene, view)
        _groups(scene, view)
        choosing.page_button("why", "Which heads matter", why="test", test="importance")
    st.caption(TITLES["how_help"][view.how])
    with st.container(horizontal=True, vertical_alignment="bottom"):
        targets.boxes(scene, model, view)
    if not targets.positions(scene, model):
        _offer_gaps(scene, model, view)
    if message := lacks_source(scene, view):
        st.info(plain(message))
        return
    with continue_on_error():
        ablation, where, faults = compared(scene, model, view)
        for fault in faults:
            st.error(plain(fault), icon=":material/error:")
        if view.against.strip() and not view.target.strip():
            st.info(TEXTS("prediction_detail.no_target"))
        is_divergent = view.off and ablation.value_change is None
        name = "prediction_detail.divergence" if is_divergent else "prediction_detail.where"
        st.markdown(TEXTS(name, where=plain(where), kl=ablation.kl))
        outcomes.draw(scene, model, view, ablation)


def _intervention(scene: Scene, view: HeadsView) -> None:
    choosing.menu("how", "Intervention", TITLES["how_names"], width=200)
    if view.how == "scale":
        selection.bound("factor", st.number_input, "Factor", -10.0, 10.0, step=0.1, width=120)
    if view.how.startswith("patch"):
        n_tokens = words.count(len(scene.record.labels), "token")
        selection.bound("source", st.text_input, **TEXTS.control("source", length=n_tokens))


def _groups(scene: Scene, view: HeadsView) -> None:
    offered = groups(scene, view)

    @guarded
    def switch_off() -> None:
        if (chosen := from_browser("ask_group")) in offered:
            selection.change(off=tuple(sorted(offered[chosen])))

    to_browser("ask_group", None)
    options = TEXTS.control("group")
    st.selectbox(
        options=list(offered), index=None, key="ask_group", on_change=switch_off, **options
    )


def groups(scene: Scene, view: HeadsView) -> dict[str, Heads]:
    """Return groups of heads by name; those that have none are left out."""
    report, n_heads = reporting.report(scene, view), scene.record.n_heads
    named_groups: dict[str, Heads] = {}
    for key, title in TITLES["groups"].items():
        if heads := reporting.of_kind(report, key):
            named_groups[f"all {title} ({len(heads)})"] = tuple(heads)
    named_groups |= _nearest_group(scene, view)
    layer = number_at(view.layer_numbers, view.layer)
    return named_groups | {f"all of layer {layer}": tuple((view.layer, j) for j in range(n_heads))}


def _nearest_group(scene: Scene, view: HeadsView) -> dict[str, Heads]:
    n_heads, chosen = scene.record.n_heads, view.layer * scene.record.n_heads + view.head
    distances = reporting.likeness(scene, "hellinger")[chosen]
    order = np.argsort(distances, kind="stable").tolist()
    nearest = [number for number in order if number != chosen][:N_NEAREST]
    if not nearest:
        return {}
    name = f"the {len(nearest)} nearest to {words.head_name(*view.chosen)}"
    return {name: tuple(divmod(number, n_heads) for number in nearest)}


def _offer_gaps(scene: Scene, model: AttentionModel, view: HeadsView) -> None:
    """Offer the text's words; a click masks one."""
    text, labels = scene.record.text, _distinct_words(scene)

    @guarded
    def mask() -> None:
        chosen = from_browser("ask_mask")
        if chosen is None:
            return
        try:
            selection.change(text=mask_word_at(model, text, chosen), position=-1)
        except MhaVizError as error:
            selection.add_problem(str(error))

    token = plain(str(model.tokenizer.mask_token))
    st.markdown(TEXTS("prediction_detail.masking", mask=token))
    to_browser("ask_mask", None)
    options = TEXTS.control("mask") | {"format_func": labels.__getitem__}
    st.pills(options=list(labels), key="ask_mask", on_change=mask, **options)
    if view.text != scene.text:
        st.rerun()  # the page is still of the text without a gap


def _distinct_words(scene: Scene) -> dict[int, str]:
    """Return the first text's words by number, as markdown that shows them as they are.

    Streamlit tells choices apart by their labels: an invisible word joiner distinguishes a word
    from an earlier one with the same letters.
    """
    choices: dict[int, str] = {}
    for word, label in list(word_pieces(scene).items())[:MAX_WORDS]:
        name = plain(label)
        while name in choices.values():
            name += "\u2060"
        choices[word] = name
    return choices
