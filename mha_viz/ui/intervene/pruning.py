"""The pruning curve, and one random head off many times."""

from functools import partial
from typing import Any

import pandas as pd
import streamlit as st

from mha_viz.checkpoints.loading import load
from mha_viz.core import stored_runs
from mha_viz.core.names import METHODS, Order
from mha_viz.engine.model import AttentionModel
from mha_viz.interventions.duration import pruning_passes
from mha_viz.interventions.importance import HeadImportance
from mha_viz.interventions.pruning import DRAWS, IMPORTANCE, HeadRemoval, PruningCurve, remove_heads
from mha_viz.interventions.robustness import Robustness
from mha_viz.plots.curves import pruning_curves
from mha_viz.plots.distributions import change_distribution
from mha_viz.ui.intervene import TEXTS
from mha_viz.ui.intervene.importance import UNIT, default_texts, known, texts
from mha_viz.ui.run import heavy, memory
from mha_viz.ui.run.scene import Scene
from mha_viz.ui.state import state
from mha_viz.ui.state.views import DEFAULT, Intervene
from mha_viz.ui.widgets import look
from mha_viz.ui.widgets.exports import figures
from mha_viz.ui.widgets.messages import progress, words
from mha_viz.ui.widgets.messages.messages import continue_on_error, notes, stop_on_error

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


def draw(scene: Scene) -> None:
    """Draw a button, the curves, and the distribution; no fragment, as in importance.py."""
    with stop_on_error():
        st.header("How many heads can be removed?", anchor=False)
        found = None
        with continue_on_error():
            found = _measured(scene)
        if found is None:
            st.caption(TEXTS("pruning.begin", estimate=progress.estimate(_seconds(scene))))
            return
        _curves(scene, found.curves)
        _draws(scene, found.draws)


def _seconds(scene: Scene) -> float | None:
    view, model = state.of(Intervene), memory.model(*state.of(Intervene).checkpoint)
    measured = [method for method in METHODS if known(scene, method) is not None]
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
        measured: dict[str, HeadImportance | None] = {one: known(scene, one) for one in METHODS}
        sizes = _sizes(memory.model(*view.checkpoint))
        model = heavy.model_of(view.checkpoint)
        prune = partial(remove_heads, model, chosen, measured, **sizes)
        work = heavy.work(prune, key, _seconds(scene))
        progress.keep("pruning", key, progress.done(work, "stop_pruning", "Pruning …", _part))
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
    changes = found.change.mean(1).numpy()
    drawn = change_distribution(changes, title, UNIT, heads=heads, dark=look.dark())
    table = pd.DataFrame({"Head": [words.head_name(*head) for head in heads], "Change": changes})
    caption = words.settings(scene, words.count(len(heads), "draw"))
    texts = TEXTS.figure("figures.draws", **numbers, tolerance=found.tolerance, unit=UNIT)
    figures.show(drawn, on_click=words.choose, table=table, caption=caption, **texts)
    st.markdown(TEXTS("pruning.pairs", **numbers, unit=UNIT, n_pairs=len(found.pairs)))
    notes(dict.fromkeys(found.notes))
