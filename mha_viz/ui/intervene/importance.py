"""Heads that matter: importance of each over several texts, and how many can be removed."""

from collections.abc import Hashable
from functools import partial
from typing import Any

import numpy as np
import pandas as pd
import streamlit as st

from mha_viz.checkpoints.loading import load
from mha_viz.core import stored_runs
from mha_viz.core.metrics import METRICS
from mha_viz.core.names import METHODS, Order
from mha_viz.engine.model import AttentionModel
from mha_viz.interventions.importance import (
    HeadImportance,
    agreement,
    head_importance,
    importance_passes,
    pruning_passes,
)
from mha_viz.interventions.pruning import DRAWS, IMPORTANCE, HeadRemoval, PruningCurve, remove_heads
from mha_viz.interventions.robustness import Robustness
from mha_viz.plots.bars import change_distribution
from mha_viz.plots.curves import pruning_curves
from mha_viz.plots.head_values import head_scatter, importance_map
from mha_viz.prediction.logits import objective
from mha_viz.prediction.outcomes import unit_of
from mha_viz.prediction.targets import NUMBER
from mha_viz.ui.intervene import TEXTS, targets
from mha_viz.ui.run import heavy, memory, reporting
from mha_viz.ui.run.scene import Scene
from mha_viz.ui.state import state
from mha_viz.ui.state.examples import EXAMPLES
from mha_viz.ui.state.views import DEFAULT, Intervene
from mha_viz.ui.widgets import look
from mha_viz.ui.widgets.controls import choosing
from mha_viz.ui.widgets.exports import figures
from mha_viz.ui.widgets.messages import progress, words
from mha_viz.ui.widgets.messages.messages import continue_on_error, notes, stop_on_error

METHOD_NAMES = {"ablation": "importance by ablation", "gradient": "importance by gradient"}
MAX_TEXTS = 32
N_EXAMPLES = 4  # beside the sentence: enough for an interval, and soon measured
REDUNDANCY = "redundancy"  # beside the metrics: likeness of outputs to the nearest twin


def known(scene: Scene, method: str) -> HeadImportance | None:
    """Return the measured importance for the present model and texts, or None."""
    found: HeadImportance | None = progress.results("importance").get(_key(scene, method))
    return found


def _key(scene: Scene, method: str) -> Hashable:
    return state.of(Intervene).checkpoint, method, *_measured_texts(scene)


def _measured_texts(scene: Scene) -> tuple[tuple[str, ...], str | None, str | None]:
    """Return the texts, the outcome and the second text that importance is measured for."""
    model = memory.model(*state.of(Intervene).checkpoint)
    chosen = targets.followed(scene, model)
    if targets.is_language_model(model):
        return texts(scene), None, None
    # Further sentences are no questions about this context.
    alone = chosen.one_text or (scene.pair and st.session_state.get("more_texts") is None)
    return (scene.record.text,) if alone else texts(scene), chosen.labels, scene.pair


def texts(scene: Scene) -> tuple[str, ...]:
    """Return the texts that importance and pruning are measured over: this one, and more."""
    return tuple(_all_texts(scene))[:MAX_TEXTS]


def _all_texts(scene: Scene) -> list[str]:
    typed = st.session_state.get("more_texts")
    lines = default_texts() if typed is None else typed.splitlines()
    stripped = (line.strip() for line in lines)
    return list(dict.fromkeys([scene.record.text, *(line for line in stripped if line)]))


def default_texts() -> list[str]:
    """Return the first few examples: measuring takes as long as there are texts."""
    return list(dict.fromkeys(example.text for example in EXAMPLES))[:N_EXAMPLES]


def draw(scene: Scene) -> None:
    """Draw what matters over some texts, and beside it other scores.

    Not a fragment: a button in a fragment does not end the run that draws it, but Stop must.
    """
    with stop_on_error():
        st.header("Which heads matter", anchor=False)
        texts_box(scene, "Texts to measure on")
        ways = {"ablation": "Each head off, one at a time", "gradient": "Gradient of the loss"}
        choosing.segments("method", "Method", ways)
        with continue_on_error():
            _measure(scene)
        found = known(scene, state.of(Intervene).method)
        if found is not None:
            _map(scene, found)
            _beside(scene, found)


def texts_box(scene: Scene, title: str) -> None:
    """Draw the box of texts beside the sentence, which pages share."""
    with st.expander(f"{title} (one per line)"):
        kept = st.session_state.get("more_texts")
        state.control(
            *("ask_more", st.text_area),
            value="\n".join(default_texts()) if kept is None else kept,
            take=lambda typed: st.session_state.update(more_texts=typed),
            **TEXTS.control("more_texts", most=MAX_TEXTS),
        )
    count = len(_all_texts(scene))
    if count > MAX_TEXTS:
        st.info(f"{count} texts: the first {MAX_TEXTS} are measured, this sentence among them.")


def _measure(scene: Scene) -> None:
    """Draw the button and the progress; another click or text ends it."""
    view, (chosen, labels, pair) = state.of(Intervene), _measured_texts(scene)
    model = memory.model(*view.checkpoint)
    followed = targets.followed(scene, model)
    passes = importance_passes(model, view.method)
    seconds = progress.seconds(view.checkpoint, model, chosen, passes)
    of: dict[str, Any] = {"labels": labels, "text_pair": pair}
    loaded = heavy.model_of(view.checkpoint)
    measure = partial(head_importance, loaded, chosen, view.method, **of)
    key = _key(scene, view.method)
    work = heavy.work(measure, key, seconds)
    if followed.sentence:
        st.caption(followed.sentence)
    # Above what comes and goes: a press on a button that then moves away is no click.
    pressed = st.button("Measure", icon=":material/play_arrow:", key="measure", type="primary")
    if known(scene, view.method) is None:
        heavy.expect(work)
        n = len(chosen)
        interval = TEXTS("importance.several" if n > 1 else "importance.one_text", n=n)
        only_here = TEXTS("importance.only_here") if followed.one_text else interval
        st.caption(f"{only_here} {progress.estimate(seconds)}")
    if not pressed:
        return
    found = progress.done(work, "stop_measuring", "Measuring …", progress.of_total)
    progress.results("importance")[key] = found
    st.rerun()  # the switches above take their colours from it


def _map(scene: Scene, found: HeadImportance) -> None:
    name, ends = METHOD_NAMES[found.method], {"low": found.low.numpy(), "high": found.high.numpy()}
    looks: dict[str, Any] = {"selected": state.of(Intervene).chosen, "dark": look.dark()}
    looks["layer_numbers"] = found.layer_numbers
    looks |= ends if found.n_texts > 1 else {}
    drawn = importance_map(found.mean.numpy(), name, found.unit, **looks)
    table, caption = found.table(), words.settings(scene, words.count(found.n_texts, "text"))
    texts = TEXTS.figure("figures.importance", method=name.capitalize())
    figures.show(drawn, on_click=words.choose, table=table, caption=caption, **texts)
    notes(note for note in found.notes if note != NUMBER)  # said above
    both = [known(scene, method) for method in METHODS]
    if both[0] is not None and both[1] is not None:
        rho, n = agreement(both[0], both[1])
        st.markdown(
            f"The two methods rank {n} heads with Spearman’s ρ = **{words.format_number(rho)}**."
        )


def _beside(scene: Scene, found: HeadImportance) -> None:
    """Draw importance beside redundancy, or any metric."""
    view, twin = state.of(Intervene), "CKA with the nearest twin"
    report = reporting.report(scene, view)
    titles = {key: METRICS[key].title for key in report.scores}
    titles = {REDUNDANCY: f"Redundancy: {twin}"} | titles
    kept = st.session_state.get("chosen_beside")
    chosen = kept if kept in titles else REDUNDANCY
    state.control(
        *("ask_beside", st.selectbox, "Importance beside", list(titles)),
        value=chosen,
        take=lambda key: st.session_state.update(chosen_beside=key),
        format_func=titles.__getitem__,
        width=320,
    )
    values = _redundancy(scene) if chosen == REDUNDANCY else report.scores[chosen].numpy()
    title, name = twin if chosen == REDUNDANCY else titles[chosen], METHOD_NAMES[found.method]
    importance, axes = found.mean.numpy(), (title, f"{name} ({found.unit})")
    looks: dict[str, Any] = {"layer_numbers": found.layer_numbers, "dark": look.dark()}
    drawn = head_scatter(values, importance, *axes, selected=view.chosen, **looks)
    table = words.head_values(scene, {title: values, "Importance": importance})
    caption = words.settings(scene, words.count(found.n_texts, "text"))
    texts = TEXTS.figure("figures.beside", method=name.capitalize(), title=title)
    figures.show(drawn, table=table, caption=caption, on_click=words.choose, **texts)


def _redundancy(scene: Scene) -> np.ndarray:
    """Return each head's CKA with its nearest twin: (layer, head)."""
    matrix = reporting.likeness(scene, "cka").copy()
    np.fill_diagonal(matrix, np.nan)
    best = np.fmax.reduce(matrix, axis=1)  # NaN where it is like no other head
    return best.reshape(scene.record.n_layers, scene.record.n_heads)


ORDERS = TEXTS.labels("pruning.orders")
N_SEEDS = 5
N_STEPS = 8  # points of a curve, after the one with all heads on
N_DRAWS = 100


def _prune(name: str, over: tuple[str, ...]) -> HeadRemoval:
    model = load(name)
    return remove_heads(model, over, {}, **_sizes(model))


_BEGIN = tuple(dict.fromkeys([DEFAULT.text, *default_texts()]))  # the texts of the default page
STORED = tuple(
    stored_runs.StoredRun(
        *(f"pruning-{name}", ((name, "auto", "float32"), _BEGIN), HeadRemoval),
        partial(_prune, name, _BEGIN),
    )
    for name in ("tiny-bert", "tiny-gpt2")
)


def draw_pruning(scene: Scene) -> None:
    """Draw a button, the curves, and the distribution; no fragment, as above."""
    with stop_on_error():
        st.header("How many heads can be removed?", anchor=False)
        if scene.pair and not _of_tokens(scene):
            st.caption(TEXTS("importance.no_pairs"))
            return
        found = None
        with continue_on_error():
            found = _measured(scene)
        if found is None:
            st.caption(TEXTS("pruning.begin", estimate=progress.estimate(_seconds(scene))))
            return
        _curves(scene, found.curves)
        _draws(scene, found.draws)


def _of_tokens(scene: Scene) -> bool:
    """Return whether importance is of predicted tokens, as pruning is of a language model."""
    return targets.is_language_model(memory.model(*state.of(Intervene).checkpoint))


def _over_same(scene: Scene, method: str) -> HeadImportance | None:
    """Return the measured importance over the texts and the loss that pruning is over."""
    same = _measured_texts(scene) == (texts(scene), None, None)
    return known(scene, method) if same else None


def _seconds(scene: Scene) -> float | None:
    view, model = state.of(Intervene), memory.model(*state.of(Intervene).checkpoint)
    measured = [method for method in METHODS if _over_same(scene, method) is not None]
    orders = len(ORDERS) - 1 + N_SEEDS
    passes = pruning_passes(model, orders, N_STEPS, _sizes(model)["n_draws"], measured)
    return progress.seconds(view.checkpoint, model, texts(scene), passes)


def _sizes(model: AttentionModel) -> dict[str, Any]:
    n_draws = min(N_DRAWS, model.n_layers * model.n_heads)
    return {"steps": N_STEPS, "n_seeds": N_SEEDS, "n_draws": n_draws}


def _measured(scene: Scene) -> HeadRemoval | None:
    """Return the results for the present model and texts, stored or of a run that a button starts.

    Of what was stored the button remains, to run it anew.
    """
    view, chosen = state.of(Intervene), texts(scene)
    key, results = (view.checkpoint, chosen), progress.results("pruning")
    stored = None if key in results else next((one for one in STORED if one.settings == key), None)
    place = st.container(horizontal=True, vertical_alignment="center")
    label, icon = TEXTS("pruning.again" if stored else "pruning.label"), ":material/content_cut:"
    if place.button(label, icon=icon, key="prune", disabled=key in results):
        measured: dict[str, HeadImportance | None]
        measured = {one: _over_same(scene, one) for one in METHODS}
        sizes = _sizes(memory.model(*view.checkpoint))
        model = heavy.model_of(view.checkpoint)
        prune = partial(remove_heads, model, chosen, measured, **sizes)
        work = heavy.work(prune, key, _seconds(scene))
        results[key] = progress.done(work, "stop_pruning", "Pruning …", _part)
    elif stored:
        place.caption(TEXTS("pruning.stored"))
        return stored_runs.read(stored)
    found: HeadRemoval | None = results.get(key)
    return found


def _part(part: str, share: float) -> progress.Progress:
    words = {IMPORTANCE: "Measuring importance …", DRAWS: "One random head off …"}
    words |= {order: f"Pruning {name} …" for order, name in ORDERS.items()}
    return share, words[part]


def _curves(scene: Scene, curves: dict[Order, PruningCurve]) -> None:
    random = curves["random"]
    lines = {
        ORDERS[order]: (curve.share_left.numpy(), curve.loss.numpy())
        for order, curve in curves.items()
        if order != "random"
    }
    band = (random.share_left.numpy(), random.lowest.numpy(), random.highest.numpy())
    tables = [curve.table().assign(order=order) for order, curve in curves.items()]
    title, name = "Loss while heads are taken away", f"at random ({N_SEEDS} orders)"
    looks: dict[str, Any] = {"title": title, "band_name": name, "dark": look.dark()}
    drawn = pruning_curves(lines, band, float(random.loss[0]), **looks)
    table = pd.concat(tables, ignore_index=True)
    caption = words.settings(scene, words.count(random.n_texts, "text"))
    figures.show(drawn, table=table, caption=caption, **TEXTS.figure("figures.pruning"))


def _draws(scene: Scene, found: Robustness) -> None:
    numbers, title = found.summary(), "Change in loss with one random head off"
    heads = [(int(i), int(j)) for i, j in found.heads.tolist()]
    unit = unit_of(objective(memory.model(*state.of(Intervene).checkpoint).network) or "causal")
    changes = found.change.mean(1).numpy()
    looks: dict[str, Any] = {"layer_numbers": found.layer_numbers, "dark": look.dark()}
    drawn = change_distribution(changes, title, unit, heads=heads, **looks)
    names = [words.head_name(*head, numbers=found.layer_numbers) for head in heads]
    table = pd.DataFrame({"Head": names, "Change": changes})
    caption = words.settings(scene, words.count(len(heads), "draw"))
    texts = TEXTS.figure("figures.draws", **numbers, tolerance=found.tolerance, unit=unit)
    figures.show(drawn, on_click=words.choose, table=table, caption=caption, **texts)
    st.markdown(TEXTS("pruning.pairs", **numbers, unit=unit, n_pairs=len(found.pairs)))
    notes(dict.fromkeys(found.notes))
