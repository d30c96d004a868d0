"""The gaps that a masked model fills: where they are, and how to make one with a click."""

from dataclasses import replace

import streamlit as st

from mha_viz.engine.model import AttentionModel
from mha_viz.errors import MhaVizError
from mha_viz.prediction.logits import mask_word_at
from mha_viz.ui.intervene import TEXTS
from mha_viz.ui.run.scene import Scene
from mha_viz.ui.state import state
from mha_viz.ui.state.faults import guarded
from mha_viz.ui.widgets.messages.messages import plain

MOST = 200  # words offered


def places(scene: Scene, model: AttentionModel) -> list[int]:
    """Return the positions of mask tokens."""
    gap = model.tokenizer.mask_token_id
    return [i for i, token in enumerate(scene.record.tokens) if token.id == gap]


def last_masked(scene: Scene, model: AttentionModel) -> tuple[Scene, str] | None:
    """Return the run of the text with its last word masked, and that word; None without a word."""
    found = [(word, text) for word, text in _pieces(scene).items() if any(map(str.isalnum, text))]
    if not found:
        return None
    word, text = found[-1]
    try:
        return replace(scene, text=mask_word_at(model, scene.record.text, word)), text
    except MhaVizError:  # a tokenizer that cannot tell where its words stand
        return None


def offer(scene: Scene, model: AttentionModel) -> None:
    """Offer the text's words; a click masks one."""
    text, labels = scene.record.text, _words(scene)

    @guarded
    def mask() -> None:
        chosen = st.session_state.ask_mask
        if chosen is None:
            return
        try:
            state.change(text=mask_word_at(model, text, chosen), place=-1)
        except MhaVizError as error:
            state.add_problem(str(error))

    st.markdown(TEXTS("masking.offer", mask=plain(str(model.tokenizer.mask_token))))
    st.session_state.ask_mask = None
    st.pills(
        "Word to mask",
        list(labels),
        key="ask_mask",
        on_change=mask,
        format_func=labels.__getitem__,
        label_visibility="collapsed",
    )


def _words(scene: Scene) -> dict[int, str]:
    """Return the first text's words by number, as markdown that shows them as they are.

    Streamlit tells choices apart by their labels: an invisible word joiner distinguishes a word
    from an earlier one with the same letters.
    """
    choices: dict[int, str] = {}
    for word, label in list(_pieces(scene).items())[:MOST]:
        name = plain(label)
        while name in choices.values():
            name += "\u2060"
        choices[word] = name
    return choices


def _pieces(scene: Scene) -> dict[int, str]:
    """Return the first text's words by number."""
    pieces: dict[int, str] = {}
    for token in scene.record.tokens:
        if token.word is not None and not token.segment and not token.is_special:
            pieces[token.word] = pieces.get(token.word, "") + token.text
    return pieces
