"""Parts of a prediction: a logit by its parts, by head, by source token; and promoted tokens."""

from functools import partial

import numpy as np
import pandas as pd
import streamlit as st

from mha_viz.circuits.attribution.logit_attribution import LogitAttribution, logit_attribution
from mha_viz.circuits.attribution.vocabulary import head_tokens, logit_lens
from mha_viz.circuits.effects.over_pairs import TaskAttribution, task_attribution
from mha_viz.core.amounts import format_share
from mha_viz.plots.bars import signed_rows, stacked_shares
from mha_viz.plots.prediction import token_strip
from mha_viz.ui.run.scene import Scene
from mha_viz.ui.state.views import Why
from mha_viz.ui.why import TEXTS, targets, tasks
from mha_viz.ui.widgets import look
from mha_viz.ui.widgets.controls import choosing
from mha_viz.ui.widgets.exports import figures
from mha_viz.ui.widgets.messages import words

N_NAMED = 5  # heads that are named above the figures
N_TOKENS = 10  # that a head promotes, and that it suppresses
N_GUESSES = 3  # after each layer
UNITS = {"logit": "logits", "log_probability": "nats"}
PILES = {"embedding": "embedding", "head": "heads", "MLP": "MLP"}
OTHER_PARTS = "biases and the rest"


def draw(scene: Scene, view: Why, position: int) -> None:
    """Draw the sum, all parts by layer and by head, and the heads that write most."""
    attribution = _attribution(scene, view, position)
    _all_parts(scene, view, attribution)
    if attribution.of == "logit" and attribution.versus is None:
        st.caption(TEXTS("parts.one_logit"))


def draw_task(scene: Scene, view: Why, chosen: tasks.Chosen) -> None:
    """Draw the same as a mean over the pairs of a task."""
    with st.spinner("Decomposing …"):
        over_task = tasks.of_task(
            view,
            "task attribution",
            chosen,
            task_attribution,
            lambda parts: int(parts.by_pair.nbytes),
        )
    _all_parts(scene, view, over_task)


def of_head(scene: Scene, view: Why, position: int) -> None:
    """Draw what the chosen head writes for the prediction at one place."""
    attribution = _attribution(scene, view, position)
    by_source = partial(_by_source, scene, view, attribution)
    look.beside(2, by_source, partial(_tokens, scene, view, position))


def _attribution(scene: Scene, view: Why, position: int) -> LogitAttribution:
    token, versus = view.target.strip() or None, view.against.strip() or None
    of = "logit" if versus else view.quantity
    size = 8 * scene.head_count * len(scene.record.tokens) + 100_000
    return targets.of_text(scene, logit_attribution, token, versus, position, of=of, size=size)


def _quantity(attribution: LogitAttribution | TaskAttribution) -> str:
    if isinstance(attribution, TaskAttribution):
        return TEXTS("tasks.whole", n=len(attribution.values))
    name = attribution.of.replace("_", "-")
    against = "" if attribution.versus is None else f" less that of “{attribution.versus}”"
    return f"the {name} of “{attribution.token}”{against}"


def _all_parts(scene: Scene, view: Why, attribution: LogitAttribution | TaskAttribution) -> None:
    """Draw the sum, all parts by layer and by head, and the heads that write most."""
    targets.whole_and_parts(attribution, _quantity(attribution))
    look.beside(
        2, partial(_by_layer, scene, attribution), partial(_by_head, scene, view, attribution)
    )
    shares = attribution.heads.numpy()
    order = np.argsort(-np.abs(shares), axis=None, kind="stable")[:N_NAMED]
    heads = [divmod(int(i), shares.shape[1]) for i in order]
    offered = {head: f"{words.head_name(*head)}: {targets.signed(shares[head])}" for head in heads}
    label = "**Heads that write most of it**"
    choosing.chips("most_written", label, offered, chosen=view.chosen, take=words.choose)
    st.caption(TEXTS("targets.frozen"))


def _caption(scene: Scene, attribution: LogitAttribution | TaskAttribution, *more: str) -> str:
    about = _quantity(attribution), *more, "scales of norms frozen"
    if isinstance(attribution, TaskAttribution):
        return tasks.settings(scene, attribution.task, *about)
    return words.settings(scene, about[0], f"position {attribution.position}", *about[1:])


def _by_layer(scene: Scene, attribution: LogitAttribution | TaskAttribution) -> None:
    stages = ["start", *(f"L{i}" for i in range(len(attribution.heads))), "end"]
    piles = {name: np.zeros(len(stages)) for name in (*PILES.values(), OTHER_PARTS)}
    for component, share in zip(attribution.components, attribution.shares.tolist(), strict=True):
        start = component.name.startswith("embedding") or component.kind == "embedding"
        at = 0 if start else len(stages) - 1 if component.layer is None else component.layer + 1
        piles[PILES.get(component.kind, OTHER_PARTS)][at] += share
    drawn = stacked_shares(
        piles, stages, UNITS[attribution.of], title="Layer by layer", dark=look.dark()
    )
    table, caption = (
        attribution.table().drop(columns=["layer", "head"]),
        _caption(scene, attribution),
    )
    texts = TEXTS.figure("figures.logit_by_layer", whole=_quantity(attribution))
    figures.show(drawn, table=table, caption=caption, **texts)


def _by_head(scene: Scene, view: Why, attribution: LogitAttribution | TaskAttribution) -> None:
    unit, shares = UNITS[attribution.of], attribution.heads.numpy()
    name = "logit_by_head" if isinstance(attribution, LogitAttribution) else "task_by_head"
    texts = TEXTS.figure(f"figures.{name}", whole=_quantity(attribution), sum=shares.sum())
    rows = attribution.table().query("kind == 'head'").sort_values(["layer", "head"])
    ends = {f"95 % {end}": rows[end].to_numpy() for end in ("low", "high") if end in rows}
    table = words.head_values(scene, {f"Share ({unit})": shares, **ends})
    caption = _caption(scene, attribution)
    targets.draw_heads(shares, view, "Head by head", unit, table=table, caption=caption, **texts)


def _by_source(scene: Scene, view: Why, attribution: LogitAttribution) -> None:
    chosen, unit = view.chosen, UNITS[attribution.of]
    shares, name = attribution.sources[chosen].numpy(), words.head_name(*chosen)
    labels, title = [token.text for token in attribution.tokens], TEXTS("parts.source", name=name)
    values = {
        "name": name,
        "whole": _quantity(attribution),
        "attribution": attribution,
        "sum": shares.sum(),
    }
    drawn = token_strip(labels, shares, title, unit, dark=look.dark())
    table, caption = attribution.sources_table(*chosen), _caption(scene, attribution, name)
    texts = TEXTS.figure("figures.logit_by_source", **values)
    figures.show(drawn, table=table, caption=caption, **texts)


def _tokens(scene: Scene, view: Why, position: int) -> None:
    chosen = view.chosen
    tokens = targets.of_text(scene, head_tokens, *chosen, position, top_k=N_TOKENS)
    name = words.head_name(*chosen)
    title = f"Tokens that {name} promotes and suppresses here"
    labels = [*tokens.promoted, *reversed(tokens.suppressed)]
    logits = np.r_[tokens.raised.numpy(), tokens.lowered.numpy()[::-1]]
    drawn = signed_rows(labels, logits, "logits", title=title, dark=look.dark())
    table, caption = tokens.table(), words.settings(scene, name, f"position {tokens.position}")
    texts = TEXTS.figure("figures.head_tokens", name=name)
    figures.show(drawn, table=table, caption=caption, **texts)


def guesses(scene: Scene, view: Why, position: int) -> None:
    """Draw what the model would predict if it ended after each layer."""
    token = view.target.strip() or None
    lens = targets.of_text(scene, logit_lens, token, position, top_k=N_GUESSES)
    st.header("The running guess, layer by layer", anchor=False)
    guesses = [
        [f"{words.plain(label)} {_percent(p)}" for label, p in zip(*row, strict=True)]
        for row in zip(lens.labels, lens.probabilities.tolist(), strict=True)
    ]
    table = {
        "After": ["embedding", *(f"L{i}" for i in range(len(lens.labels) - 1))],
        f"“{words.plain(lens.token)}”": [_percent(p) for p in lens.chosen.tolist()],
        **{f"Guess {i + 1}": [row[i] for row in guesses] for i in range(N_GUESSES)},
    }
    st.table(pd.DataFrame(table).set_index("After"))
    st.caption(TEXTS("parts.lens"))


def _percent(p: float) -> str:
    return format_share(p) if p >= 0.005 else "< 1 %"
