"""The prediction with and without the chosen heads, in words, and the gaps of a masked model."""

import streamlit as st

from mha_viz.engine.intervention import Intervention
from mha_viz.engine.model import AttentionModel
from mha_viz.errors import MhaVizError
from mha_viz.interventions.ablation import Ablation, compare
from mha_viz.prediction.logits import mask_word_at
from mha_viz.ui.heads.predicted import (
    intervention,
    last_masked,
    predicted,
    token_table,
    where_in_words,
    word_pieces,
)
from mha_viz.ui.intervene import TEXTS, targets
from mha_viz.ui.run import memory
from mha_viz.ui.run.scene import Scene
from mha_viz.ui.state import state
from mha_viz.ui.state.faults import guarded
from mha_viz.ui.state.views import Intervene
from mha_viz.ui.widgets.messages import words
from mha_viz.ui.widgets.messages.messages import continue_on_error, notes, plain

_NAMED = 3  # tokens in the sentence


def draw(scene: Scene) -> None:
    """Draw the likeliest tokens in words, and how far the changed prediction is from the other."""
    model = memory.model(*state.of(Intervene).checkpoint)
    if not (offered := targets.places(scene, model)):
        with continue_on_error():
            if not lacks_source() and (masked := last_masked(scene, model)):
                _say(ablation(masked[0], model), bool(state.of(Intervene).off), masked[1])
        _offer_gaps(scene, model)
        return
    if state.of(Intervene).place not in offered:
        state.change(place=-1)
    if lacks_source():
        n_tokens = words.count(len(scene.record.labels), "token")
        st.info(f"Type another text of {n_tokens}, from which the outputs or weights are taken.")
        return
    with continue_on_error():
        found = ablation(scene, model)
        for fault in targets.tracked(model, found.before)[1]:
            st.error(plain(fault), icon=":material/error:")
        view = state.of(Intervene)
        if view.against.strip() and not view.target.strip():
            st.info("Name the token to follow, too: the other one is compared with it.")
        _say(found, bool(view.off))
        notes(note for note in found.after.notes if note not in scene.record.notes)


def _say(found: Ablation, changed: bool, masked: str = "") -> None:
    with st.container(horizontal=True, vertical_alignment="center", gap="medium"):
        if changed and found.value_change is None:
            kl = words.format_number(found.kl)
            st.metric("KL divergence (nats)", kl, border=True, width="content")
        st.markdown(in_words(found, changed=changed, masked=masked))


def lacks_source() -> bool:
    """Return whether the text is still to be typed from which outputs or weights are taken."""
    view = state.of(Intervene)
    return bool(view.off) and view.how.startswith("patch") and not view.source.strip()


def ablation(scene: Scene, model: AttentionModel) -> Ablation:
    """Compare before and after; the run with all heads is made once for a text and a place."""
    view = state.of(Intervene)
    change = intervention(view)
    position = None if view.place < 0 or not targets.has_positions(model) else view.place
    before = targets.followed_end(predicted(scene, model, None, position))
    after = before
    if change is not None:
        after = targets.followed_end(predicted(scene, model, change, position))
    target, against = targets.tracked(model, before)[0]
    nothing = Intervention([(model.layer_numbers[0], 0)], "scale", factor=1.0)
    return compare(model, before, after, change or nothing, target=target, against=against)


def in_words(found: Ablation, *, changed: bool, masked: str = "") -> str:
    """Name the likeliest tokens and their probabilities, as markdown; `masked` is a word's text."""
    before, after = found.before.value, found.after.value
    if before is not None and after is not None:
        was = f" (was {words.format_number(before)})" * changed
        return f"Predicted number: **{words.format_number(after)}**{was}."
    likeliest = token_table(found).sort_values("after", ascending=False, kind="stable").head(_NAMED)
    tokens = [
        f"**{plain(str(row.token))}** {row.after:.1%}" + f" (was {row.before:.1%})" * changed
        for row in likeliest.itertuples()
    ]
    where = plain(where_in_words(found.before, masked))
    return f"{where}: {', '.join(tokens)}."


MOST = 200  # words offered


def _offer_gaps(scene: Scene, model: AttentionModel) -> None:
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
    looks = TEXTS.control("mask") | {"format_func": labels.__getitem__}
    st.pills(options=list(labels), key="ask_mask", on_change=mask, **looks)


def _words(scene: Scene) -> dict[int, str]:
    """Return the first text's words by number, as markdown that shows them as they are.

    Streamlit tells choices apart by their labels: an invisible word joiner distinguishes a word
    from an earlier one with the same letters.
    """
    choices: dict[int, str] = {}
    for word, label in list(word_pieces(scene).items())[:MOST]:
        name = plain(label)
        while name in choices.values():
            name += "\u2060"
        choices[word] = name
    return choices
