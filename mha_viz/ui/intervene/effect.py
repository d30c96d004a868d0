"""The prediction before and after, at a chosen place, and the loss of every token."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import streamlit as st

from mha_viz.capture.ablation import Ablation, ablate
from mha_viz.capture.generation import generate
from mha_viz.capture.intervention import Intervention
from mha_viz.capture.logits import objective
from mha_viz.capture.masking import mask_word_at
from mha_viz.capture.model import AttentionModel
from mha_viz.plots.prediction import before_after, token_strip
from mha_viz.plots.theme import format_number
from mha_viz.ui import figures, look, memory, state, words
from mha_viz.ui.intervene.switches import HOW_NAMES
from mha_viz.ui.messages import plain
from mha_viz.ui.scene import Scene
from mha_viz.ui.state import View

TOP_K = 10
MAX_NEW_TOKENS = 20


def draw(scene: Scene) -> None:
    """What the model predicts with all heads, and with the chosen ones changed."""
    view = state.current()
    model = memory.model(view.model, view.device, view.dtype)
    masked = objective(model.network) == "masked"
    if masked and not _masks(scene, model):
        _offer_masks(scene, model)
        return
    _place(scene, _masks(scene, model) if masked else None)
    if state.current().how.startswith("patch") and not view.source.strip():
        st.info("Type the text that the heads’ outputs or weights are to be taken from.")
        return
    found = _ablation(scene, model)
    left, right = st.columns([3, 2], gap="medium")
    with left:
        _bars(scene, found)
    with right:
        _numbers(found)
    if not masked:
        _losses(scene, found)
        _goes_on(scene, model)


def _masks(scene: Scene, model: AttentionModel) -> list[int]:
    """Where the text has gaps."""
    gap = model.tokenizer.mask_token_id
    return [i for i, token in enumerate(scene.record.tokens) if token.id == gap]


def _ablation(scene: Scene, model: AttentionModel) -> Ablation:
    """Two forward passes, found again as long as nothing changes."""
    view = state.current()
    asked = (view.off, view.how, view.factor, view.source, view.place, view.target, view.against)
    return memory.cache().get(
        (scene.key, "ablation", asked),
        lambda: ablate(
            model, view.text, text_pair=view.pair if view.pair.strip() else None,
            position=None if view.place < 0 else view.place, top_k=TOP_K,
            target=view.target or None, against=view.against or None, **intervention(view),
        ),
        lambda made: 2 * made.before.log_probs.nbytes,
    )  # fmt: skip


def intervention(view: View) -> dict[str, Any]:
    """What the view does to which heads, as arguments of `Intervention`."""
    if not view.off:
        return {"heads": ()}
    more: dict[str, Any] = {}
    if view.how == "scale":
        more["factor"] = view.factor
    if view.how.startswith("patch"):
        more["source"] = view.source
    return {"heads": view.off, "how": view.how, **more}


def _offer_masks(scene: Scene, model: AttentionModel) -> None:
    """A masked model fills gaps: a click on a word makes one."""
    record = scene.record
    labels = {t.word: "" for t in record.tokens if t.word is not None and not t.segment}
    for token in record.tokens:
        if token.word in labels and not token.segment:
            labels[token.word] += token.text

    def mask() -> None:
        chosen = st.session_state.ask_mask
        if chosen is not None:
            state.change(text=mask_word_at(model, record.text, chosen), place=-1)

    st.markdown(
        "**This model fills gaps.** Click the word that it is to guess, or type "
        f"{plain(str(model.tokenizer.mask_token))} into the sentence."
    )
    st.session_state.ask_mask = None
    st.pills(
        "Word to be guessed", list(labels), key="ask_mask", on_change=mask,
        format_func=lambda word: plain(labels[word]), label_visibility="collapsed",
    )  # fmt: skip


def _place(scene: Scene, masks: list[int] | None) -> None:
    """Where the prediction is looked at, and which tokens are followed there."""
    labels, view = scene.record.labels, state.current()
    places = [-1, *(range(len(labels)) if masks is None else masks[1:])]
    first = "the last token" if masks is None else "the first gap"
    if view.place not in places:
        state.change(place=-1)
    with st.container(horizontal=True, vertical_alignment="bottom"):
        state.bound(
            "place", st.selectbox, "Prediction after" if masks is None else "Prediction at", places,
            width=230, format_func=lambda i: first if i < 0 else f"{i} · {labels[i]}",
        )  # fmt: skip
        state.bound(
            "target", st.text_input, "Follow this token", width=200, placeholder="(the likeliest)",
            max_chars=100,
        )  # fmt: skip
        state.bound(
            "against", st.text_input, "against this one", width=200, placeholder="(none)",
            max_chars=100,
        )  # fmt: skip


def _bars(scene: Scene, found: Ablation) -> None:
    table = found.table()
    table["token"] = [  # a piece that goes on with the word before it is not a word of that name
        f"…{token}" if goes_on else token
        for token, goes_on in zip(table["token"], table["continues_word"], strict=True)
    ]
    ids = list(found.ids)
    target = found.target
    figures.show(
        before_after(
            table["token"].tolist(), table["before"].to_numpy(), table["after"].to_numpy(),
            names=("all heads", "changed"), dark=look.dark(),
            target=ids.index(target.id) if target is not None and target.id in ids else None,
        ),
        key="prediction", name="Prediction before and after", table=table,
        caption=words.settings(scene, described(state.current())),
        how_to_read="Probability of the likeliest tokens with all heads as they are, and with the "
        "chosen ones changed. The rest of the vocabulary shares what is left.",
    )  # fmt: skip


def _numbers(found: Ablation) -> None:
    """KL, entropies, losses and the followed tokens."""
    rows: list[tuple[str, float | None, float | None]] = [
        ("Entropy (nats)", found.before.entropy, found.after.entropy),
    ]
    if found.before.loss is not None:
        rows.append(("Loss (nats per token)", found.before.loss, found.after.loss))
    for token in (found.target, found.against):
        if token is not None:
            rows.append((f"ln p of “{token.text}”", token.before, token.after))
    if found.target is not None and found.against is not None:
        name = f"logit of “{found.target.text}” less “{found.against.text}”"
        rows.append((name, found.logit_difference_before, found.logit_difference_after))
    table = pd.DataFrame(
        [(plain(name), format_number(a), format_number(b), format_number(b - a))
         for name, a, b in rows if a is not None and b is not None],
        columns=["", "All heads", "Changed", "Change"],
    )  # fmt: skip
    st.metric("KL divergence (nats)", format_number(found.kl), border=True)
    st.table(table.set_index(""), width="stretch")
    mean = f" Mean over {found.averaged}." if found.averaged else ""
    st.caption(
        "KL: how much the changed prediction differs from the one with all heads; 0 is the same."
        + plain(mean)
    )


def _losses(scene: Scene, found: Ablation) -> None:
    changes = np.array([np.nan if c is None else c for c in found.loss_changes])
    if not np.isfinite(changes).any():
        return
    figures.show(
        token_strip(
            [t.text for t in found.before.tokens], changes, "Change in loss", "nats",
            dark=look.dark(),
        ),
        key="losses", name="Change in the loss of each token", table=found.loss_table(),
        caption=words.settings(scene, described(state.current())), on_click=_look_before,
        how_to_read="How much worse or better each token is predicted from those before it. Click "
        "one to see the prediction of it.",
    )  # fmt: skip


def _look_before(position: object) -> None:
    """The prediction of a token is made at the one before it."""
    if isinstance(position, list) and position and int(position[0]) > 0:
        state.change(place=int(position[0]) - 1)


def _goes_on(scene: Scene, model: AttentionModel) -> None:
    """How the text goes on with all heads, and with the chosen ones changed."""
    view = state.current()
    if not st.toggle(f"Let it go on for {MAX_NEW_TOKENS} tokens", key="ask_goes_on"):
        return
    if view.how.startswith("patch") or view.how == "mean":
        st.info("Going on needs a change that does not depend on the whole text: choose zero, "
                "scaled or uniform.")  # fmt: skip
        return
    change = Intervention(**intervention(view)) if view.off else None

    def make() -> tuple[str, str]:
        both = [generate(model, view.text, None, how, MAX_NEW_TOKENS) for how in (None, change)]
        return both[0].text, both[1].text

    key = (scene.key, "goes on", view.off, view.how, view.factor)
    before, after = memory.cache().get(key, make, lambda texts: len(texts[0]) + len(texts[1]))
    for column, name, text in zip(st.columns(2), ("All heads", "Changed"), (before, after),
                                  strict=True):  # fmt: skip
        with column:
            st.markdown(f"**{name}**")
            st.text(text)
    st.caption("The likeliest token each time.")


def described(view: View) -> str:
    """What is done to which heads, in one line."""
    named = ", ".join(f"L{i} H{j}" for i, j in view.off[:20]) or "no head changed"
    more = f" and {len(view.off) - 20} more" if len(view.off) > 20 else ""
    return f"{HOW_NAMES[view.how]}: {named}{more}" if view.off else named
