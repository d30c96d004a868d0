"""Importance of each head over several texts, by ablation or by gradient, beside other scores."""

from collections.abc import Callable, Hashable
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import streamlit as st

from mha_viz.core.metrics import METRICS
from mha_viz.core.names import METHODS
from mha_viz.engine.model import AttentionModel
from mha_viz.errors import AttentionUnavailableError
from mha_viz.interventions.importance import (
    HeadImportance,
    agreement,
    head_importance,
    importance_passes,
)
from mha_viz.plots.head_scatter import head_scatter
from mha_viz.plots.head_values import importance_map
from mha_viz.prediction.logits import objective
from mha_viz.prediction.outcomes import ENDS, own_tokens
from mha_viz.prediction.targets import NUMBER
from mha_viz.ui.heads.predicted import refusal
from mha_viz.ui.heads.targets import boxes, is_language_model, offered_outcomes, position
from mha_viz.ui.run import heavy, memory, reporting
from mha_viz.ui.run.scene import Scene
from mha_viz.ui.state import selection
from mha_viz.ui.state.session import session
from mha_viz.ui.state.views import Why
from mha_viz.ui.why import TEXTS
from mha_viz.ui.why import several_texts as texts_of
from mha_viz.ui.widgets import look
from mha_viz.ui.widgets.controls import choosing
from mha_viz.ui.widgets.exports import figures
from mha_viz.ui.widgets.messages import progress, words
from mha_viz.ui.widgets.messages.notices import continue_on_error, notes, plain

METHOD_NAMES = {"ablation": "importance by ablation", "gradient": "importance by gradient"}
N_LEAST = 8  # heads that can be switched off as the least important
REDUNDANCY = "redundancy"  # beside the metrics: likeness of outputs to the nearest twin


def draw(scene: Scene, view: Why, draw_switch: Callable[[], object]) -> None:
    """Draw the choice of method and outcome, the measured importance, and other scores beside it.

    `draw_switch` draws what stands before them. Raises AttentionUnavailableError: heads of this
    model cannot be changed.
    """
    model = memory.model(*view.checkpoint)
    with st.container(horizontal=True, vertical_alignment="bottom"):
        draw_switch()
        if reason := refusal(model):
            raise AttentionUnavailableError(reason)
        ways = {"ablation": "Each head off, one at a time", "gradient": "Gradient of the loss"}
        choosing.menu("method", "Method", ways, width=250)
        if not is_language_model(model):
            boxes(scene, model, view, has_against=False)
        with st.popover("Texts to measure on", icon=":material/notes:", key="measured-texts"):
            texts_of.box(scene)
        # Before what comes and goes: a press on a button that then moves away is no click.
        label, icon = "Measure", ":material/play_arrow:"
        is_pressed = st.button(label, icon=icon, key="measure", type="primary")
    with continue_on_error():
        _measure(scene, model, view, is_pressed)
    if (importance := measured(scene, view, view.method)) is not None:
        _map(scene, view, importance)
        _beside(scene, view, importance)


def measured(scene: Scene, view: Why, method: str) -> HeadImportance | None:
    """Return the measured importance for the present model and texts, or None."""
    importance: HeadImportance | None = progress.results("importance").get(
        _key(scene, view, method)
    )
    return importance


def _key(scene: Scene, view: Why, method: str) -> Hashable:
    return view.checkpoint, method, *measured_inputs(scene, view)


def measured_inputs(scene: Scene, view: Why) -> tuple[tuple[str, ...], str | None, str | None]:
    """Return the texts, the outcome and the second text that importance is measured for."""
    model = memory.model(*view.checkpoint)
    if is_language_model(model):
        return texts_of.measured(scene), None, None
    outcome = _outcome(scene, model, view)
    # Further sentences are no questions about this context.
    is_alone = outcome.is_of_one_text or (scene.pair and session().more_texts is None)
    over = (scene.record.text,) if is_alone else texts_of.measured(scene)
    return over, outcome.labels, scene.pair


class _Outcome(NamedTuple):
    """The outcome that importance is measured for."""

    labels: str | None  # as `head_importance` takes it
    sentence: str = ""  # about it
    is_of_one_text: bool = False  # it is at a token, which other texts do not have


def _outcome(scene: Scene, model: AttentionModel, view: Why) -> _Outcome:
    """Return the outcome to measure: the tracked class or token, if one is chosen."""
    kind, tokens = objective(model.network), scene.record.tokens
    if kind == "regression":
        return _Outcome(None, NUMBER)
    if is_language_model(model):
        return _Outcome(None)
    offered = offered_outcomes(model, tokens)
    chosen = view.target if view.target in offered else ""
    name = plain(offered.get(chosen, ""))
    if kind == "answer":
        end = ENDS[view.position == 1]
        if not chosen:
            return _Outcome(end, TEXTS("importance.end", end=end))
        return _Outcome(f"{end}:{chosen}", TEXTS("importance.label", name=f"{end} {name}"), True)
    if not chosen:
        return _Outcome(None, TEXTS("importance.own_classes"))
    if kind != "token_class":
        return _Outcome(chosen, TEXTS("importance.label", name=name))
    shown = position(scene, model, view)
    at = own_tokens(tokens)[0] if shown is None else shown
    where = f"{name} at {at} · {plain(tokens[at].text)}"
    return _Outcome(f"{at}:{chosen}", TEXTS("importance.label", name=where), True)


def _measure(scene: Scene, model: AttentionModel, view: Why, is_pressed: bool) -> None:
    """Measure where the button was pressed, with its progress; another click or text ends it."""
    over, labels, pair = measured_inputs(scene, view)
    passes = importance_passes(model, view.method)
    seconds = progress.seconds(view.checkpoint, model, over, passes)
    of: dict[str, Any] = {"labels": labels, "text_pair": pair}
    loaded = heavy.model_of(view.checkpoint)
    measure = partial(head_importance, loaded, over, view.method, **of)
    key = _key(scene, view, view.method)
    work, outcome = heavy.work(measure, key, seconds), _outcome(scene, model, view)
    if outcome.sentence:
        st.caption(outcome.sentence)
    if measured(scene, view, view.method) is None:
        heavy.expect(work)
        n = len(over)
        interval = TEXTS("importance.several" if n > 1 else "importance.one_text", n=n)
        about = TEXTS("importance.only_here") if outcome.is_of_one_text else interval
        st.caption(f"{about} {progress.estimate(seconds)}")
    if not is_pressed:
        return
    progress.results("importance")[key] = progress.done(
        work, "stop_measuring", "Measuring …", progress.of_total
    )
    st.rerun()  # without the estimate


def _map(scene: Scene, view: Why, importance: HeadImportance) -> None:
    name = METHOD_NAMES[importance.method]
    options: dict[str, Any] = {"selected": view.chosen, "dark": look.dark()}
    options["layer_numbers"] = importance.layer_numbers
    if importance.n_texts > 1:
        options["interval"] = importance.low.numpy(), importance.high.numpy()
    figure = importance_map(importance.mean.numpy(), name, importance.unit, **options)
    caption = words.settings(scene, words.count(importance.n_texts, "text"))
    texts = TEXTS.figure("figures.importance", method=name.capitalize())
    shown: dict[str, Any] = {"table": importance.table(), "caption": caption, **texts}
    figures.show(figure, on_click=words.choose, **shown)
    notes(note for note in importance.notes if note != NUMBER)  # said above
    order = np.argsort(importance.mean.numpy(), axis=None, kind="stable")[:N_LEAST].tolist()
    least = tuple(sorted(divmod(number, scene.record.n_heads) for number in order))
    label = f"Switch off the {len(least)} least important in Heads"
    choosing.page_button("heads", label, number="_least", off=least)
    both = [measured(scene, view, method) for method in METHODS]
    if both[0] is not None and both[1] is not None:
        rho, n = agreement(both[0], both[1])
        st.markdown(TEXTS("importance.agreement", n=n, rho=rho))


def _beside(scene: Scene, view: Why, importance: HeadImportance) -> None:
    """Draw importance beside redundancy, or any metric."""
    report, twin = reporting.report(scene, view), "CKA with the nearest twin"
    titles = {REDUNDANCY: f"Redundancy: {twin}"}
    titles |= {key: METRICS[key].title for key in report.scores}
    chosen = session().beside if session().beside in titles else REDUNDANCY
    selection.control(
        *("ask_beside", st.selectbox, "Importance beside", list(titles)),
        value=chosen,
        take=partial(setattr, session(), "beside"),
        format_func=titles.__getitem__,
        width=320,
    )
    scores = _redundancy(scene) if chosen == REDUNDANCY else report.scores[chosen].numpy()
    title, name = twin if chosen == REDUNDANCY else titles[chosen], METHOD_NAMES[importance.method]
    values, axes = importance.mean.numpy(), (title, f"{name} ({importance.unit})")
    options: dict[str, Any] = {"layer_numbers": importance.layer_numbers, "dark": look.dark()}
    figure = head_scatter(scores, values, *axes, selected=view.chosen, **options)
    table = words.head_values(scene, {title: scores, "Importance": values})
    caption = words.settings(scene, words.count(importance.n_texts, "text"))
    texts = TEXTS.figure("figures.beside", method=name.capitalize(), title=title)
    figures.show(figure, table=table, caption=caption, on_click=words.choose, **texts)


def _redundancy(scene: Scene) -> np.ndarray:
    """Return each head's CKA with its nearest twin: (layer, head)."""
    matrix = reporting.likeness(scene, "cka").copy()
    np.fill_diagonal(matrix, np.nan)
    best = np.fmax.reduce(matrix, axis=1)  # NaN where it is like no other head
    return best.reshape(scene.record.n_layers, scene.record.n_heads)
