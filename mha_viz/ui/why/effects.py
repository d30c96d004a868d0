"""Effects of paths from head to head: measured beside estimated."""

from dataclasses import dataclass
from functools import partial
from typing import Any, TypeGuard, cast

import numpy as np
import pandas as pd
import streamlit as st
from numpy.typing import NDArray

from mha_viz.circuits.effects.over_pairs import task_paths
from mha_viz.circuits.effects.patched_run import INPUTS
from mha_viz.circuits.effects.patching_map import PatchingMap
from mha_viz.circuits.effects.path_effect import path_effect
from mha_viz.circuits.effects.path_effects import (
    N_MEASURED,
    PathEffects,
    expected_passes,
    path_effects,
)
from mha_viz.plots.pair_scatter import MeasuredPairs, pair_scatter
from mha_viz.ui.run import heavy, reporting
from mha_viz.ui.run.page_lock import cancel_if_superseded, turn_for
from mha_viz.ui.run.scene import Scene
from mha_viz.ui.state import selection
from mha_viz.ui.state.examples import EXAMPLES
from mha_viz.ui.state.views import BEHAVIOURS, THROUGH, WAYS, Why
from mha_viz.ui.why import TEXTS, pairs, targets, tasks
from mha_viz.ui.widgets import look
from mha_viz.ui.widgets.controls import choosing
from mha_viz.ui.widgets.exports import figures
from mha_viz.ui.widgets.messages import progress, words
from mha_viz.ui.widgets.messages.notices import notes

AT_ONCE_SECONDS = 10.0  # longer estimates begin on request
N_TEXTS = 4  # examples over which a head's mean is taken where no other text is typed
LOW, HIGH = "95 % low", "95 % high"  # names of columns
UNITS = {"logit_difference": "logits", "logit": "logits", "loss": "nats", "kl": "nats"}


@dataclass(frozen=True)
class PathSettings:
    """Arguments of `path_effect` and its relatives, as the view has them."""

    corrupt: str | tuple[str, ...]
    metric: str
    target: str | None
    against: str | None
    position: int

    @property
    def tracked(self) -> dict[str, Any]:
        """The tokens whose logits are followed, and where."""
        return {"target": self.target, "against": self.against, "position": self.position}


def choices(scene: Scene, view: Why) -> int:
    """Draw the menu of the prediction that paths change and of the other text; return its place."""
    with st.popover("Prediction", icon=":material/tune:", key="effect-prediction"):
        with st.container(horizontal=True, vertical_alignment="bottom"):
            position = targets.pickers(scene, view)
        selection.bound("source", st.text_input, **TEXTS.control("source", n=N_TEXTS))
        behaviour_and_way()
    return position


def draw(scene: Scene, view: Why, position: int) -> None:
    """Draw all paths to a prediction of the sentence, one of them, and the estimates' worth."""
    none = tuple(example.text for example in EXAMPLES[:N_TEXTS])
    settings = settings_of(view, position, view.source if view.source.strip() else none)
    paths = _paths(scene, view, settings)
    if paths is not None:
        _draw(scene, view, settings, paths)
        return
    empty = np.full((scene.head_count, scene.head_count), np.nan)
    _pair(scene, view, settings, pairs.shown_pair(view, empty, scene.record.n_heads))


def draw_task(scene: Scene, view: Why, chosen: tasks.Chosen) -> None:
    """Draw the same as a mean over the pairs of a task."""
    paths = _paths(scene, view, chosen)
    if paths is not None:
        _draw(scene, view, paths, paths)


def behaviour_and_way() -> None:
    """Draw the choices of the behaviour and of the path that is patched."""
    choosing.menu("behaviour", "Effect on", BEHAVIOURS, width=220)
    choosing.segments("way", "Path", WAYS)


def settings_of(view: Why, position: int, corrupt: str | tuple[str, ...]) -> PathSettings:
    """Return the view's behaviour and tokens, for a prediction and the text patched from."""
    target = view.target.strip() or None if view.behaviour != "kl" else None
    against = view.against.strip() or None if view.behaviour == "logit_difference" else None
    return PathSettings(corrupt, view.behaviour, target, against, position)


def _draw(scene: Scene, view: Why, of: PathSettings | PathEffects, paths: PathEffects) -> None:
    """Draw the matrix, its chosen pair, and what the estimates are worth."""
    n_heads, values = scene.record.n_heads, _flat(view, paths.effect)
    view = pairs.fit_pair(view, values, n_heads)
    say_clean(paths)
    matrix_column, pair_column = st.columns([3, 2], gap="medium")
    with matrix_column:
        _map(scene, view, paths, values)
    with pair_column:
        _pair(scene, view, of, pairs.shown_pair(view, values, n_heads))
        if np.isfinite(values).any():
            label = "**Paths that matter most**"
            measured = _measured(view, paths)
            pairs.chips(view, "most_effect", label, values, n_heads, measured)
        _at_logits(scene, view, paths)
    _measure(paths)
    if paths.n_measured:
        _agreement(scene, view, paths)
    st.caption(TEXTS("paths.tells", n_measured=N_MEASURED))


def _paths(scene: Scene, view: Why, of: PathSettings | tasks.Chosen) -> PathEffects | None:
    """Return all estimates, computed once; None until a button requests long work."""
    model, chosen = targets.model(scene), None if isinstance(of, PathSettings) else of
    source = (scene.key, of) if chosen is None else (view.checkpoint, chosen.source, view.behaviour)
    key, estimates = (source, view.way), progress.results("paths")
    if key in estimates:
        return cast(PathEffects, estimates[key])
    seconds = None
    if chosen is None:
        passes = expected_passes(model, view.way)
        seconds = progress.seconds((view.checkpoint, scene.key), model, (scene.text,), passes)
    at_once = seconds is not None and seconds <= AT_ONCE_SECONDS and reporting.small(view)
    if seconds is not None and not at_once:
        st.info(TEXTS("paths.long", about=progress.about(seconds)))
    if not at_once and not st.button("Estimate all paths", key="estimate_paths"):
        return None
    if isinstance(of, PathSettings):
        spin = st.spinner("Estimating all paths …")
        with spin, cancel_if_superseded(), turn_for(model, scene.text):
            texts = scene.text, of.corrupt
            paths = path_effects(model, *texts, of.metric, view.way, **of.tracked)
    else:
        make = partial(task_paths, model, of.task, view.behaviour, view.way)
        of_pairs = partial(progress.of_total, of=" pairs")
        work = heavy.work_here(make, (heavy.session(), key))
        paths = progress.done(work, "stop_paths", "Estimating …", of_pairs)
    estimates.clear()  # they hold the model's runs: one is enough
    estimates[key] = paths
    if not at_once:
        st.rerun()  # without the time that it takes
    return paths


def say_clean(result: PathEffects | PatchingMap) -> None:
    """Say what the behaviour is in the clean run, and what was cut off."""
    token = f" of “{result.target}”" * bool(result.target)
    less = f" less that of “{result.against}”" * bool(result.against)
    behaviour = words.plain(f"{BEHAVIOURS[result.metric]}{token}{less}")
    over = f", a mean over {result.n_pairs} pairs" if _of_task(result) else ""
    st.markdown(f"Clean, the {behaviour} is **{words.format_number(result.clean)}**{over}.")
    notes(result.notes)


def _of_task(result: object) -> TypeGuard[PathEffects]:
    return isinstance(result, PathEffects) and result.n_pairs > 1


def _flat(view: Why, values: NDArray[Any]) -> NDArray[Any]:
    """Take the paths into the chosen input, as (writer, reader)."""
    input_index = list(THROUGH).index(view.through)
    n = int(np.prod(values.shape[:2]))
    return values[..., input_index].reshape(n, n)


def _measured(view: Why, paths: PathEffects) -> NDArray[np.bool_] | None:
    """Mark the measured paths into the chosen input; None where all paths are measured."""
    return None if paths.n_measured == paths.n_paths else _flat(view, np.isfinite(paths.exact))


def _map(scene: Scene, view: Why, paths: PathEffects, values: NDArray[np.float64]) -> None:
    if not np.isfinite(values).any():
        st.info("KL is flat where nothing is changed, so that no gradient tells it: measure below.")
        return
    more = {"estimate": _flat(view, paths.estimate), "measured": _flat(view, paths.exact)}
    more |= {LOW: _flat(view, paths.low), HIGH: _flat(view, paths.high)} if _of_task(paths) else {}
    named = {"way": WAYS[paths.way], "through": THROUGH[view.through]}
    pairs.draw_map(
        *(scene, view, values),
        unit=UNITS[paths.metric],
        more=more,
        measured=_measured(view, paths),
        caption=_caption(scene, view, paths),
        **TEXTS.figure("figures.path_effects", paths=paths, **named),
    )


def _caption(scene: Scene, view: Why, paths: PathEffects) -> str:
    if _of_task(paths):
        pairs_of = f"mean over {paths.n_pairs} pairs"
        return tasks.settings(scene, view.task, paths.metric, pairs_of)
    source = view.source.strip() or f"mean over {N_TEXTS} example sentences"
    followed = " less ".join(f"“{token}”" for token in (paths.target, paths.against) if token)
    return words.settings(scene, f"{paths.metric} {followed}".strip(), f"from: {source[:200]}")


def _pair(scene: Scene, view: Why, settings: PathSettings | PathEffects, pair: pairs.Pair) -> None:
    """Draw the numbers of one pair of heads: of the text, or of a task."""
    st.header(pairs.named(pair), anchor=False)
    sender, (layer, head) = pair
    input_index = list(THROUGH).index(view.through)
    into = INPUTS[input_index]
    if not isinstance(settings, PathSettings):
        at = (*sender, layer, head, input_index)
        each = {"Measured": settings.exact, LOW: settings.low, HIGH: settings.high}
        numbers = {name: [values[at]] for name, values in each.items()}
        numbers["Estimated"] = [settings.estimate[at]]
        _numbers(numbers, [WAYS[settings.way]], settings.metric)
        return
    (start, (number, _)) = words.by_number([sender, (layer, head)])
    arguments = settings.corrupt, start, (number, head, into), settings.metric
    path = targets.of_text(scene, path_effect, *arguments, **settings.tracked)
    estimated = [path.direct_estimate, path.total_estimate]
    numbers = {"Measured": [path.direct, path.total], "Estimated": estimated}
    _numbers(numbers, ["Direct", "Total"], settings.metric)


def _numbers(numbers: dict[str, list[float]], ways: list[str], metric: str) -> None:
    table = pd.DataFrame(numbers, index=pd.Index(ways, name="Path"))
    st.table(table.map(targets.signed))
    st.caption(TEXTS("paths.path", unit=UNITS[metric]))


def _at_logits(scene: Scene, view: Why, paths: PathEffects) -> None:
    columns = {"measured": paths.at_logits, "estimate": paths.estimate_at_logits}
    if _of_task(paths):
        columns |= {LOW: paths.low_at_logits, HIGH: paths.high_at_logits}
    title, unit = f"{WAYS[paths.way]} effect on the prediction", UNITS[paths.metric]
    table, caption = words.head_values(scene, columns), _caption(scene, view, paths)
    texts = TEXTS.figure("figures.at_logits", way=WAYS[paths.way])
    targets.draw_heads(paths.at_logits, view, title, unit, table=table, caption=caption, **texts)


def _measure(paths: PathEffects) -> None:
    """Draw the button and the progress; a stopped measurement keeps what it has."""
    n_estimated = paths.n_paths - paths.n_measured
    if not n_estimated:
        return
    st.caption(f"{n_estimated:,} of {paths.n_paths:,} paths are estimated, and not measured.")
    label = "Measure all paths"
    if not st.button(label, icon=":material/play_arrow:", key="measure_paths", type="primary"):
        return
    # Here, and not in another process: it is the session's own, and keeps what it has when stopped.
    work = heavy.work_here(paths.measure, (id(paths), "measure"))
    progress.done(work, "stop_paths", "Measuring …", partial(progress.of_total, of=" paths"))
    st.rerun()


def _agreement(scene: Scene, view: Why, paths: PathEffects) -> None:
    exact, estimate = _flat(view, paths.exact), _flat(view, paths.estimate)
    i, j = np.nonzero(np.isfinite(exact) & np.isfinite(estimate))
    if not len(i):
        return
    names, unit, n_heads = words.names(scene), UNITS[paths.metric], scene.record.n_heads
    shown = pairs.shown_pair(view, _flat(view, paths.effect), n_heads)
    head_pairs = np.stack([i, j], axis=-1)
    titles = f"estimated ({unit})", f"measured ({unit})"
    st.header("May the estimate be trusted?", anchor=False)
    shares = {"share": paths.recall(), "top": min(N_MEASURED, paths.n_paths)}
    recall = TEXTS("paths.recall" if paths.recall() >= 0 else "paths.no_recall", **shares)
    st.markdown(TEXTS("paths.agreement", paths=paths, recall=recall))
    points = MeasuredPairs(estimate[i, j], exact[i, j], head_pairs, names, n_heads, *titles)
    selected = pairs.numbers(shown, n_heads)
    heads = {"Writes": [names[at] for at in i], "Reads": [names[at] for at in j]}
    numbers = {"measured": exact[i, j], "estimate": estimate[i, j]}
    figures.show(
        pair_scatter(points, corners=None, selected=selected, dark=look.dark()),
        on_click=partial(pairs.choose_numbers, n_heads),
        table=words.sorted_table(heads, numbers),
        caption=_caption(scene, view, paths),
        **TEXTS.figure("figures.path_agreement", through=THROUGH[view.through]),
    )
