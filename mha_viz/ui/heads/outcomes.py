"""Charts of a prediction before and after heads are changed, its numbers, losses, continuations."""

from functools import partial
from typing import Any

import numpy as np
import pandas as pd
import streamlit as st

from mha_viz.engine.intervention import Intervention
from mha_viz.engine.model import AttentionModel
from mha_viz.interventions.ablation import Ablation
from mha_viz.plots.prediction import before_after, token_strip
from mha_viz.prediction.generation import generate
from mha_viz.ui.heads import TEXTS
from mha_viz.ui.heads.predicted import cache_key, how_in_words, intervention, token_table
from mha_viz.ui.run import memory
from mha_viz.ui.run.scene import Scene
from mha_viz.ui.state import allowed, selection
from mha_viz.ui.state.views import HeadsView
from mha_viz.ui.widgets import look
from mha_viz.ui.widgets.exports import figures
from mha_viz.ui.widgets.messages import words
from mha_viz.ui.widgets.messages.notices import continue_on_error, notes, plain

MAX_NEW_TOKENS = 20


def draw(scene: Scene, model: AttentionModel, view: HeadsView, ablation: Ablation) -> None:
    """Draw probabilities as bars, the table of numbers, losses of all tokens, and continuations."""
    changes = f"{how_in_words(view)}: {words.listed(view.off, 20)}" if view.off else "all heads on"
    caption = words.settings(scene, changes)
    bars, beside = st.columns(2, gap="medium")
    if ablation.value_change is None:  # a number has no probabilities
        with bars:
            _bars(ablation, caption)
    with beside:
        _numbers(ablation, is_changed=bool(view.off))
        notes(note for note in ablation.after.notes if note not in scene.record.notes)
        _losses(ablation, caption)
    if ablation.before.objective == "causal":
        with continue_on_error():
            _continuations(scene, model, intervention(view))


def _bars(ablation: Ablation, caption: str) -> None:
    table, ids, target = token_table(ablation), list(ablation.ids), ablation.target
    values = table["before"].to_numpy(), table["after"].to_numpy()
    row = ids.index(target.id) if target is not None and target.id in ids else None
    options: dict[str, Any] = {"names": ("all heads", "changed"), "dark": look.dark()}
    figure = before_after(table["token"].tolist(), *values, target=row, **options)
    is_token = ablation.before.objective in ("causal", "masked")
    texts = TEXTS.figure("figures.prediction" if is_token else "figures.outcomes")
    figures.show(figure, table=table, caption=caption, **texts)


def _numbers(ablation: Ablation, is_changed: bool) -> None:
    before, after, (target, against) = (
        ablation.before,
        ablation.after,
        (ablation.target, ablation.against),
    )
    rows: list[tuple[str, float | None, float | None]] = [
        ("Entropy (nats)", before.entropy, after.entropy),
        ("Loss (nats per token)", before.loss, after.loss),
    ]
    if ablation.value_change is not None:
        rows = [("Predicted number", before.value, after.value)]
    rows += [
        (f"ln p of “{token.text}”", token.before, token.after)
        for token in (target, against)
        if token
    ]
    if target is not None and against is not None:
        name = f"logit of “{target.text}” less “{against.text}”"
        rows.append((name, ablation.logit_difference_before, ablation.logit_difference_after))
    cells = [
        (plain(name), words.format_number(a), words.format_number(b), words.format_number(b - a))
        for name, a, b in rows
        if a is not None and b is not None
    ]
    columns = ["Quantity", "All heads", "Changed", "Change"]
    table = pd.DataFrame(cells, columns=columns).set_index("Quantity")
    st.table(table if is_changed else table[["All heads"]])
    if not is_changed:
        st.caption(TEXTS("outcomes.all_on"))
    elif ablation.averaged:
        st.caption(f"Mean over {plain(ablation.averaged)}.")


def _losses(ablation: Ablation, caption: str) -> None:
    """Draw the change in every token's loss, where they have losses."""
    labels = [token.text for token in ablation.before.tokens]
    changes = np.array([np.nan if c is None else c for c in ablation.loss_changes])
    if not np.isfinite(changes).any():
        return
    figure = token_strip(labels, changes, "Change in loss", "nats", dark=look.dark())
    options: dict[str, Any] = {"table": ablation.loss_table(), "caption": caption}
    figures.show(figure, on_click=_predict_clicked, **options, **TEXTS.figure("figures.losses"))


def _predict_clicked(position: object) -> None:
    """Choose the position before a clicked token, which is where the token is predicted."""
    if isinstance(position, list) and position and int(position[0]) > 0:
        selection.change(position=int(position[0]) - 1)


def _continuations(scene: Scene, model: AttentionModel, change: Intervention | None) -> None:
    n = min(MAX_NEW_TOKENS, allowed.most_written())
    if not st.toggle(f"Continue the text for {n} tokens", key="ask_goes_on"):
        return
    if change is not None and change.how in ("mean", "patch_z", "patch_pattern"):
        st.info(TEXTS("outcomes.not_continued"))
        return

    def continued(change: Intervention | None) -> str:
        return generate(model, scene.text, None, change, n).text

    changes = {"All heads": None, "Changed": change}
    for column, (name, each) in zip(st.columns(2), changes.items(), strict=True):
        key = scene.key, "goes on", each and cache_key(each)
        with column:
            st.markdown(f"**{name}**")
            st.text(memory.cache().get(key, partial(continued, each), len))
    st.caption("The likeliest token each time.")
