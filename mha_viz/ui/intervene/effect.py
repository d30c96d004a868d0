"""Charts of the prediction before and after, and the loss of every token."""

from functools import partial
from typing import Any

import numpy as np
import pandas as pd
import streamlit as st

from mha_viz.engine.intervention import Intervention
from mha_viz.engine.model import AttentionModel
from mha_viz.errors import MhaVizError
from mha_viz.interventions.ablation import Ablation
from mha_viz.plots.prediction import before_after, token_strip
from mha_viz.prediction.generation import generate
from mha_viz.ui.heads.predicted import cache_key, intervention, token_table
from mha_viz.ui.intervene import TEXTS, answer, switches, targets
from mha_viz.ui.run import memory
from mha_viz.ui.run.scene import Scene
from mha_viz.ui.state import allowed, state
from mha_viz.ui.state.views import Intervene
from mha_viz.ui.widgets import look
from mha_viz.ui.widgets.exports import figures
from mha_viz.ui.widgets.messages import words
from mha_viz.ui.widgets.messages.messages import continue_on_error, plain


def chart(scene: Scene) -> None:
    """Draw the choice of place and tokens, and probabilities before and after as bars."""
    model = memory.model(*state.of(Intervene).checkpoint)
    if not targets.places(scene, model):
        return
    with st.container(horizontal=True, vertical_alignment="bottom"):
        targets.boxes(scene, model, also=switches.follow_place)
    if (found := _found(scene, model)) is not None:
        _bars(scene, found)


def more(scene: Scene) -> None:
    """Draw the numbers of the prediction, the loss of every token, and continuations."""
    model = memory.model(*state.of(Intervene).checkpoint)
    found = _found(scene, model) if targets.places(scene, model) else None
    if found is None:
        return
    numbers, losses = st.columns([2, 3], gap="medium")
    with numbers:
        _numbers(found)
    if found.before.objective == "causal":
        with losses:
            _losses(scene, found)
        with continue_on_error():
            _continuations(scene, model, intervention(state.of(Intervene)))


def _found(scene: Scene, model: AttentionModel) -> Ablation | None:
    """Return what the answer is made of; None where it says why there is none."""
    if answer.lacks_source():
        return None
    try:
        return answer.ablation(scene, model)
    except MhaVizError:
        return None


def _bars(scene: Scene, found: Ablation) -> None:
    if found.value_change is not None:
        return  # a number has no probabilities
    table, ids, target = token_table(found), list(found.ids), found.target
    values = table["before"].to_numpy(), table["after"].to_numpy()
    at = ids.index(target.id) if target is not None and target.id in ids else None
    looks: dict[str, Any] = {"names": ("all heads", "changed"), "dark": look.dark()}
    drawn = before_after(table["token"].tolist(), *values, target=at, **looks)
    caption = words.settings(scene, described(state.of(Intervene)))
    classes = found.before.objective not in ("causal", "masked")
    figure = "figures.outcomes" if classes else "figures.prediction"
    figures.show(drawn, table=table, caption=caption, **TEXTS.figure(figure))


def _numbers(found: Ablation) -> None:
    before, after = found.before, found.after
    rows: list[tuple[str, float | None, float | None]] = [
        ("Entropy (nats)", before.entropy, after.entropy),
        ("Loss (nats per token)", before.loss, after.loss),
    ]
    if found.value_change is not None:
        rows = [("Predicted number", before.value, after.value)]
    for token in (found.target, found.against):
        if token is not None:
            rows.append((f"ln p of “{token.text}”", token.before, token.after))
    if found.target is not None and found.against is not None:
        name = f"logit of “{found.target.text}” less “{found.against.text}”"
        rows.append((name, found.logit_difference_before, found.logit_difference_after))
    told = [
        (plain(name), words.format_number(a), words.format_number(b), words.format_number(b - a))
        for name, a, b in rows
        if a is not None and b is not None
    ]
    columns = ["Quantity", "All heads", "Changed", "Change"]
    table = pd.DataFrame(told, columns=columns).set_index("Quantity")
    if not state.of(Intervene).off:
        st.table(table[["All heads"]])
        st.caption("Switch a head off to see how the prediction changes.")
        return
    st.table(table)
    mean = f" Mean over {found.averaged}." if found.averaged else ""
    about = TEXTS("effect.kl") if found.value_change is None else TEXTS("effect.number")
    st.caption(about + plain(mean))


def _losses(scene: Scene, found: Ablation) -> None:
    labels = [token.text for token in found.before.tokens]
    changes = np.array([np.nan if c is None else c for c in found.loss_changes])
    if not np.isfinite(changes).any():
        return
    drawn = token_strip(labels, changes, "Change in loss", "nats", dark=look.dark())
    table, caption = found.loss_table(), words.settings(scene, described(state.of(Intervene)))
    texts = TEXTS.figure("figures.losses")
    figures.show(drawn, table=table, caption=caption, on_click=_look_before, **texts)


def _look_before(position: object) -> None:
    """Choose the place before a clicked token, which is where the token is predicted."""
    if isinstance(position, list) and position and int(position[0]) > 0:
        state.change(place=int(position[0]) - 1)
        switches.follow_place()


def described(view: Intervene) -> str:
    """Describe the view's intervention in one line."""
    if not view.off:
        return "no head changed"
    how = switches.HOW_NAMES[view.how]
    if view.how == "scale":
        how += f" by {view.factor:g}"
    if view.how.startswith("patch"):
        how += f" ({view.source[:100]})"
    return f"{how}: {words.listed(view.off, 20)}"


MAX_NEW_TOKENS = 20


def _continuations(scene: Scene, model: AttentionModel, change: Intervention | None) -> None:
    """Draw both continuations side by side, where asked for."""
    n = min(MAX_NEW_TOKENS, allowed.most_written())
    if not st.toggle(f"Continue the text for {n} tokens", key="ask_goes_on"):
        return
    if change is not None and change.how in ("mean", "patch_z", "patch_pattern"):
        st.info(TEXTS("effect.not_so"))
        return
    text, changes = state.of(Intervene).text, {"All heads": None, "Changed": change}

    def written(change: Intervention | None) -> str:
        return generate(model, text, None, change, n).text

    for column, (name, one) in zip(st.columns(2), changes.items(), strict=True):
        key = scene.key, "goes on", one and cache_key(one)
        with column:
            st.markdown(f"**{name}**")
            st.text(memory.cache().get(key, partial(written, one), len))
    st.caption("The likeliest token each time.")
