"""The prediction before and after, at a chosen place, and the loss of every token."""

from collections.abc import Hashable

import numpy as np
import pandas as pd
import streamlit as st

from mha_viz.engine.intervention import Intervention
from mha_viz.engine.model import AttentionModel
from mha_viz.interventions.ablation import Ablation, compare
from mha_viz.plots.prediction import before_after, token_strip
from mha_viz.prediction.generation import generate
from mha_viz.prediction.logits import objective
from mha_viz.prediction.prediction import Prediction, predict
from mha_viz.text.vocabulary import id_of
from mha_viz.ui.intervene import TEXTS, masking
from mha_viz.ui.intervene.switches import HOW_NAMES
from mha_viz.ui.run import memory
from mha_viz.ui.run.page_lock import turn_for
from mha_viz.ui.run.scene import Scene
from mha_viz.ui.state import allowed, state
from mha_viz.ui.state.views import Intervene
from mha_viz.ui.widgets import look
from mha_viz.ui.widgets.controls import choosing, controls
from mha_viz.ui.widgets.exports import figures
from mha_viz.ui.widgets.messages import words
from mha_viz.ui.widgets.messages.messages import continue_on_error, plain
from mha_viz.web.theme import format_number

TOP_K = 10
_NOTHING = Intervention([(0, 0)], "scale", factor=1.0)  # for when no head is changed


def draw(scene: Scene) -> None:
    """Draw the prediction with all heads, and with the chosen ones changed."""
    view = state.of(Intervene)
    model = memory.model(*view.checkpoint)
    masked = objective(model.network) == "masked"
    found = masking.places(scene, model) if masked else None
    if masked and not found:
        masking.offer(scene, model)
        return
    _place(scene, found)
    if view.off and view.how.startswith("patch") and not view.source.strip():
        n_tokens = words.count(len(scene.record.labels), "token")
        st.info(f"Type another text of {n_tokens}, from which the outputs or weights are taken.")
        return
    _show(scene, model, _ablation(scene, model))


def _show(scene: Scene, model: AttentionModel, found: Ablation) -> None:
    left, right = st.columns([3, 2], gap="medium")
    with right:
        _numbers(found)
    with left:
        _bars(scene, found)
    if found.before.objective == "causal":
        _losses(scene, found)
        with continue_on_error():
            _continuations(scene, model, intervention(state.of(Intervene)))


def _ablation(scene: Scene, model: AttentionModel) -> Ablation:
    """Compare before and after; the run with all heads is made once for a text and a place."""
    change = intervention(state.of(Intervene))
    before = _predicted(scene, model, None)
    after = before if change is None else _predicted(scene, model, change)
    target, against = _followed(model, before)
    return compare(model, before, after, change or _NOTHING, target=target, against=against)


def _predicted(scene: Scene, model: AttentionModel, change: Intervention | None) -> Prediction:
    """Run one forward pass, cached as long as nothing that it depends on changes."""
    view = state.of(Intervene)
    place = None if view.place < 0 else view.place
    pair = view.pair if view.pair.strip() else None

    def make() -> Prediction:
        with turn_for(model, view.text + (pair or "")):
            return predict(model, view.text, None, change, TOP_K, place, text_pair=pair)

    return memory.cache().get(
        (scene.key, "prediction", place, change and cache_key(change)),
        make,
        lambda made: (1 + len(made.others)) * made.log_probs.nbytes,
    )


def _followed(model: AttentionModel, before: Prediction) -> list[int | None]:
    """Return the ids of the tokens to track; say so where a word is not a token."""
    found: list[int | None] = []
    for typed in (state.of(Intervene).target, state.of(Intervene).against):
        found.append(None)
        with continue_on_error():
            if typed.strip():
                found[-1] = id_of(model.tokenizer, typed, before.spaced)
    if found[0] is None and found[1] is not None:
        st.info("Name the token to follow, too: the other one is compared with it.")
        found[1] = None
    return found


def intervention(view: Intervene) -> Intervention | None:
    """Return the view's intervention; None where no head is changed."""
    if not view.off:
        return None
    factor = view.factor if view.how == "scale" else 0.0
    source = view.source if view.how.startswith("patch") else None
    return Intervention(view.off, view.how, factor, source=source)


def _place(scene: Scene, masks: list[int] | None) -> None:
    labels, view = scene.record.labels, state.of(Intervene)
    if masks is None:
        title, places = "Prediction after", {-1: "the last token", **words.places(labels)}
    else:
        gaps_after = {place: f"{place} · {labels[place]}" for place in masks[1:]}
        title, places = "Prediction at", {-1: "the first gap", **gaps_after}
    if view.place not in places:
        state.change(place=-1)
    with st.container(horizontal=True, vertical_alignment="bottom"):
        choosing.menu("place", title, places, width=230)
        controls.token_boxes(200)


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
            table["token"].tolist(),
            table["before"].to_numpy(),
            table["after"].to_numpy(),
            names=("all heads", "changed"),
            dark=look.dark(),
            target=ids.index(target.id) if target is not None and target.id in ids else None,
        ),
        key="prediction",
        table=table,
        caption=words.settings(scene, described(state.of(Intervene))),
        **TEXTS.figure("figures.prediction"),
    )


def _numbers(found: Ablation) -> None:
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
        [
            (plain(name), format_number(a), format_number(b), format_number(b - a))
            for name, a, b in rows
            if a is not None and b is not None
        ],
        columns=["Quantity", "All heads", "Changed", "Change"],
    ).set_index("Quantity")
    if not state.of(Intervene).off:
        st.table(table[["All heads"]], width="stretch")
        st.caption("Switch a head off to see how the prediction changes.")
        return
    st.metric("KL divergence (nats)", format_number(found.kl), border=True)
    st.table(table, width="stretch")
    mean = f" Mean over {found.averaged}." if found.averaged else ""
    st.caption(
        "KL divergence of the changed prediction from that with all heads (0 = identical)."
        + plain(mean)
    )


def _losses(scene: Scene, found: Ablation) -> None:
    changes = np.array([np.nan if c is None else c for c in found.loss_changes])
    if not np.isfinite(changes).any():
        return
    figures.show(
        token_strip(
            [t.text for t in found.before.tokens],
            changes,
            "Change in loss",
            "nats",
            dark=look.dark(),
        ),
        key="losses",
        table=found.loss_table(),
        caption=words.settings(scene, described(state.of(Intervene))),
        on_click=_look_before,
        **TEXTS.figure("figures.losses"),
    )


def _look_before(position: object) -> None:
    """Choose the place before a clicked token, which is where the token is predicted."""
    if isinstance(position, list) and position and int(position[0]) > 0:
        state.change(place=int(position[0]) - 1)


def described(view: Intervene) -> str:
    """Describe the view's intervention in one line."""
    if not view.off:
        return "no head changed"
    how = HOW_NAMES[view.how]
    if view.how == "scale":
        how += f" by {view.factor:g}"
    if view.how.startswith("patch"):
        how += f" ({view.source[:100]})"
    return f"{how}: {words.listed(view.off, 20)}"


MAX_NEW_TOKENS = 20


def _continuations(scene: Scene, model: AttentionModel, change: Intervention | None) -> None:
    """Draw both continuations side by side, where asked for."""
    if not st.toggle(f"Continue the text for {_most()} tokens", key="ask_goes_on"):
        return
    if change is not None and change.how in ("mean", "patch_z", "patch_pattern"):
        st.info(TEXTS("effect.not_so"))
        return
    before = _text(scene, model, None)
    after = before if change is None else _text(scene, model, change)
    for column, name, text in zip(
        st.columns(2), ("All heads", "Changed"), (before, after), strict=True
    ):
        with column:
            st.markdown(f"**{name}**")
            st.text(text)
    st.caption("The likeliest token each time.")


def _most() -> int:
    return min(MAX_NEW_TOKENS, allowed.most_written())


def cache_key(change: Intervention) -> Hashable:
    """Return all that a run under this change depends on."""
    return (change.heads, change.how, change.factor, change.source)


def _text(scene: Scene, model: AttentionModel, change: Intervention | None) -> str:
    text = state.of(Intervene).text
    return memory.cache().get(
        (scene.key, "goes on", change and cache_key(change)),
        lambda: generate(model, text, None, change, _most()).text,
        len,
    )
