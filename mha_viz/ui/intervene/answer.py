"""The prediction with and without the chosen heads, in words, and the gaps of a masked model."""

from collections.abc import Hashable
from dataclasses import replace

import pandas as pd
import streamlit as st

from mha_viz.core.layer_numbers import numbered
from mha_viz.engine.intervention import Intervention
from mha_viz.engine.model import AttentionModel
from mha_viz.errors import MhaVizError
from mha_viz.interventions.ablation import Ablation, compare
from mha_viz.prediction.logits import mask_word_at
from mha_viz.prediction.outcomes import ENDS
from mha_viz.prediction.prediction import Prediction, predict
from mha_viz.ui.intervene import TEXTS, targets
from mha_viz.ui.run import memory
from mha_viz.ui.run.page_lock import turn_for
from mha_viz.ui.run.scene import Scene
from mha_viz.ui.state import state
from mha_viz.ui.state.faults import guarded
from mha_viz.ui.state.views import Intervene
from mha_viz.ui.widgets.messages import words
from mha_viz.ui.widgets.messages.messages import continue_on_error, notes, plain

TOP_K = 10
_NAMED = 3  # tokens in the sentence
_WHERE = {
    "causal": "Next token after “{}”",
    "masked": "Most likely at “{}”",
    "token_class": "Class of “{}”",
    "class": "Class of the text",
    "multi_label": "Labels of the text, each by itself",
    "start": "Start of the answer",
    "end": "End of the answer",
}


def draw(scene: Scene) -> None:
    """Draw the likeliest tokens in words, and how far the changed prediction is from the other."""
    model = memory.model(*state.of(Intervene).checkpoint)
    if not (offered := targets.places(scene, model)):
        with continue_on_error():
            if not lacks_source() and (masked := _last_masked(scene, model)):
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
    change = intervention(state.of(Intervene))
    before = targets.followed_end(_predicted(scene, model, None))
    after = before
    if change is not None:
        after = targets.followed_end(_predicted(scene, model, change))
    target, against = targets.tracked(model, before)[0]
    nothing = Intervention([(model.layer_numbers[0], 0)], "scale", factor=1.0)
    return compare(model, before, after, change or nothing, target=target, against=against)


def in_words(found: Ablation, *, changed: bool, masked: str = "") -> str:
    """Name the likeliest tokens and their probabilities, as markdown; `masked` is a word's text."""
    before, after = found.before.value, found.after.value
    if before is not None and after is not None:
        was = f" (was {words.format_number(before)})" * changed
        return f"Predicted number: **{words.format_number(after)}**{was}."
    likeliest = table(found).sort_values("after", ascending=False, kind="stable").head(_NAMED)
    tokens = [
        f"**{plain(str(row.token))}** {row.after:.1%}" + f" (was {row.before:.1%})" * changed
        for row in likeliest.itertuples()
    ]
    where = _WHERE[found.before.objective]
    if masked:
        where = "Most likely in place of the last word “{}”"
    place = masked or found.before.tokens[found.before.position].text
    return f"{where.format(plain(place))}: {', '.join(tokens)}."


def table(found: Ablation) -> pd.DataFrame:
    """Return the tokens' probabilities; what continues a word is marked, as no word of its own.

    Tokens of the text itself, where an answer starts or ends, come with their positions.
    """
    numbers = found.table()
    if found.before.objective in ENDS:
        return numbers.assign(
            token=[
                f"{n} · {label}" for n, label in zip(numbers["id"], numbers["token"], strict=True)
            ]
        )
    marks = numbers["continues_word"].map({True: "…", False: ""})
    return numbers.assign(token=marks + numbers["token"])


def _predicted(scene: Scene, model: AttentionModel, change: Intervention | None) -> Prediction:
    """Run one forward pass, cached as long as nothing that it depends on changes."""
    view = state.of(Intervene)
    place = None if view.place < 0 or not targets.has_positions(model) else view.place

    def make() -> Prediction:
        with turn_for(model, scene.text + (scene.pair or "")):
            return predict(model, scene.text, None, change, TOP_K, place, text_pair=scene.pair)

    key = scene.key, "prediction", place, change and cache_key(change)
    return memory.cache().get(key, make, lambda it: (1 + len(it.others)) * it.log_probs.nbytes)


def intervention(view: Intervene) -> Intervention | None:
    """Return the view's intervention; None where no head is changed."""
    if not view.off:
        return None
    factor = view.factor if view.how == "scale" else 0.0
    source = view.source if view.how.startswith("patch") else None
    heads = numbered(view.off, view.layer_numbers)
    return Intervention(heads, view.how, factor, source=source)


def cache_key(change: Intervention) -> Hashable:
    """Return all that a run under this change depends on."""
    return (change.heads, change.how, change.factor, change.source)


MOST = 200  # words offered


def _last_masked(scene: Scene, model: AttentionModel) -> tuple[Scene, str] | None:
    """Return the run of the text with its last word masked, and that word; None without a word."""
    found = [(word, text) for word, text in _pieces(scene).items() if any(map(str.isalnum, text))]
    if not found:
        return None
    word, text = found[-1]
    try:
        return replace(scene, text=mask_word_at(model, scene.record.text, word)), text
    except MhaVizError:  # a tokenizer that cannot tell where its words stand
        return None


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
