"""Pruning: how many heads can be removed, in four orders, and what one random head off costs."""

from functools import partial
from typing import Any

import pandas as pd
import streamlit as st

from mha_viz.checkpoints.loading import load
from mha_viz.core import stored_runs
from mha_viz.core.names import METHODS, Order
from mha_viz.engine.model import AttentionModel
from mha_viz.interventions.importance import HeadImportance, pruning_passes
from mha_viz.interventions.pruning import DRAWS, IMPORTANCE, HeadRemoval, PruningCurve, remove_heads
from mha_viz.interventions.robustness import Robustness
from mha_viz.plots.bars import change_distribution
from mha_viz.plots.curves import pruning_curves
from mha_viz.prediction.logits import objective
from mha_viz.prediction.outcomes import unit_of
from mha_viz.ui.heads.targets import is_language_model
from mha_viz.ui.run import heavy, memory
from mha_viz.ui.run.scene import Scene
from mha_viz.ui.state.views import DEFAULT, Why
from mha_viz.ui.why import TEXTS
from mha_viz.ui.why import several_texts as texts_of
from mha_viz.ui.why.importance import measured, measured_inputs
from mha_viz.ui.widgets import look
from mha_viz.ui.widgets.exports import figures
from mha_viz.ui.widgets.messages import progress, words
from mha_viz.ui.widgets.messages.notices import continue_on_error, notes

ORDERS = TEXTS.labels("pruning.orders")
N_SEEDS = 5
N_STEPS = 8  # points of a curve, after the one with all heads on
N_DRAWS = 100


def _prune(name: str, over: tuple[str, ...]) -> HeadRemoval:
    model = load(name)
    return remove_heads(model, over, {}, **_sizes(model))


_BEGIN = tuple(dict.fromkeys([DEFAULT.text, *texts_of.examples()]))  # the texts of the default page
STORED = tuple(
    stored_runs.StoredRun(
        *(f"pruning-{name}", ((name, "auto", "float32"), _BEGIN), HeadRemoval),
        partial(_prune, name, _BEGIN),
    )
    for name in ("tiny-bert", "tiny-gpt2")
)


def draw(scene: Scene, view: Why) -> None:
    """Draw a button, the curves, and the distribution."""
    st.header("How many heads can be removed?", anchor=False)
    model = memory.model(*view.checkpoint)
    if scene.pair and not is_language_model(model):
        st.caption(TEXTS("importance.no_pairs"))
        return
    removal = None
    with continue_on_error():
        removal = _removal(scene, model, view)
    if removal is None:
        estimate = progress.estimate(_seconds(scene, model, view))
        st.caption(TEXTS("pruning.begin", estimate=estimate))
        return
    _curves(scene, removal.curves)
    _draws(scene, model, removal.draws)


def _measured(scene: Scene, view: Why) -> dict[str, HeadImportance | None]:
    """Return the importance measured over the texts and the loss that pruning is over."""
    is_same = measured_inputs(scene, view) == (texts_of.measured(scene), None, None)
    return {method: measured(scene, view, method) if is_same else None for method in METHODS}


def _seconds(scene: Scene, model: AttentionModel, view: Why) -> float | None:
    methods = [method for method, value in _measured(scene, view).items() if value is not None]
    orders = len(ORDERS) - 1 + N_SEEDS
    passes = pruning_passes(model, orders, N_STEPS, _sizes(model)["n_draws"], methods)
    return progress.seconds(view.checkpoint, model, texts_of.measured(scene), passes)


def _sizes(model: AttentionModel) -> dict[str, Any]:
    n_draws = min(N_DRAWS, model.n_layers * model.n_heads)
    return {"steps": N_STEPS, "n_seeds": N_SEEDS, "n_draws": n_draws}


def _removal(scene: Scene, model: AttentionModel, view: Why) -> HeadRemoval | None:
    """Return the results for the present model and texts, stored or of a run that a button starts.

    Of what was stored the button remains, to run it anew.
    """
    key, results = (view.checkpoint, texts_of.measured(scene)), progress.results("pruning")
    stored = None if key in results else next((run for run in STORED if run.settings == key), None)
    row = st.container(horizontal=True, vertical_alignment="center")
    label, icon = TEXTS("pruning.again" if stored else "pruning.label"), ":material/content_cut:"
    if row.button(label, icon=icon, key="prune", disabled=key in results):
        loaded, importance = heavy.model_of(view.checkpoint), _measured(scene, view)
        prune = partial(remove_heads, loaded, texts_of.measured(scene), importance, **_sizes(model))
        work = heavy.work(prune, key, _seconds(scene, model, view))
        results[key] = progress.done(work, "stop_pruning", "Pruning …", _part)
    elif stored:
        row.caption(TEXTS("pruning.stored"))
        return stored_runs.read(stored)
    removal: HeadRemoval | None = results.get(key)
    return removal


def _part(part: str, share: float) -> progress.Progress:
    labels = {IMPORTANCE: "Measuring importance …", DRAWS: "One random head off …"}
    labels |= {order: f"Pruning {name} …" for order, name in ORDERS.items()}
    return share, labels[part]


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
    options: dict[str, Any] = {"title": title, "band_name": name, "dark": look.dark()}
    figure = pruning_curves(lines, band, float(random.loss[0]), **options)
    table = pd.concat(tables, ignore_index=True)
    caption = words.settings(scene, words.count(random.n_texts, "text"))
    figures.show(figure, table=table, caption=caption, **TEXTS.figure("figures.pruning"))


def _draws(scene: Scene, model: AttentionModel, draws: Robustness) -> None:
    numbers, title = draws.summary(), "Change in loss with one random head off"
    heads = [(int(i), int(j)) for i, j in draws.heads.tolist()]
    unit = unit_of(objective(model.network) or "causal")
    changes = draws.change.mean(1).numpy()
    options: dict[str, Any] = {"layer_numbers": draws.layer_numbers, "dark": look.dark()}
    figure = change_distribution(changes, title, unit, heads=heads, **options)
    names = [words.head_name(*head, numbers=draws.layer_numbers) for head in heads]
    table = pd.DataFrame({"Head": names, "Change": changes})
    caption = words.settings(scene, words.count(len(heads), "draw"))
    texts = TEXTS.figure("figures.draws", **numbers, tolerance=draws.tolerance, unit=unit)
    figures.show(figure, on_click=words.choose, table=table, caption=caption, **texts)
    st.markdown(TEXTS("pruning.pairs", **numbers, unit=unit, n_pairs=len(draws.pairs)))
    notes(dict.fromkeys(draws.notes))
