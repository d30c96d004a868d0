"""Effects of paths from head to head: measured beside estimated."""

from collections.abc import Hashable
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeGuard

import numpy as np
import pandas as pd
import streamlit as st
from numpy.typing import NDArray

from mha_viz.circuits.effects.over_pairs import task_paths
from mha_viz.circuits.effects.patched_run import INPUTS
from mha_viz.circuits.effects.patching_map import PatchingMap
from mha_viz.circuits.effects.path_effect import path_effect
from mha_viz.circuits.effects.path_effects import N_MEASURED, PathEffects, path_effects
from mha_viz.plots.pair_scatter import MeasuredPairs, pair_scatter
from mha_viz.ui.circuits import TEXTS, pairs, targets
from mha_viz.ui.run import heavy, reporting
from mha_viz.ui.run.page_lock import cancel_if_superseded, turn_for
from mha_viz.ui.run.scene import Scene
from mha_viz.ui.state import state
from mha_viz.ui.state.examples import EXAMPLES
from mha_viz.ui.state.views import BEHAVIOURS, THROUGH, WAYS, Circuits
from mha_viz.ui.widgets import look
from mha_viz.ui.widgets.controls import choosing
from mha_viz.ui.widgets.exports import figures
from mha_viz.ui.widgets.messages import progress, words

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


def draw(scene: Scene) -> None:
    """Draw one path, all, and the estimates' worth. Not a fragment: Stop must end what measures."""
    chosen = targets.over_pairs()
    place = targets.pickers(scene, quantity=False) if chosen is None else 0
    with st.container(horizontal=True, vertical_alignment="bottom"):
        choosing.menu("behaviour", "Effect on", BEHAVIOURS, width=200)
        choosing.segments("way", "Path", WAYS)
        choosing.segments("through", "The later head reads into", THROUGH)
    given = _settings(place) if chosen is None else chosen
    if pairs.lacks_pairs(scene):
        return
    n_heads, found = scene.record.n_heads, _paths(scene, given)
    if found is None:
        if isinstance(given, PathSettings):
            none = np.full((scene.head_count, scene.head_count), np.nan)
            _pair(scene, given, pairs.shown_pair(none, n_heads))
        return
    say_clean(found)
    values = _flat(found.effect)
    if np.isfinite(values).any():
        label = "**Paths that matter most**"
        pairs.chips("most_effect", label, values, n_heads, _measured(found))
    left, right = st.columns([3, 2], gap="medium")
    with left:
        _map(scene, found, values)
    with right:
        numbers = given if isinstance(given, PathSettings) else found
        _pair(scene, numbers, pairs.shown_pair(values, n_heads))
        _at_logits(scene, found)
    _measure(found)
    if found.n_measured:
        _agreement(scene, found)
    st.caption(TEXTS("paths.tells", n_measured=N_MEASURED))


def _settings(place: int) -> PathSettings:
    """Draw the choice of the text that the sender's output comes from; return all choices."""
    state.bound("source", st.text_input, **TEXTS.control("source", n=N_TEXTS))
    source = state.of(Circuits).source
    none = tuple(one.text for one in EXAMPLES[:N_TEXTS])
    return settings_of(place, source if source.strip() else none)


def settings_of(place: int, corrupt: str | tuple[str, ...]) -> PathSettings:
    """Return the view's behaviour and tokens, for a prediction and the text patched from."""
    view = state.of(Circuits)
    target = view.target.strip() or None if view.behaviour != "kl" else None
    against = view.against.strip() or None if view.behaviour == "logit_difference" else None
    return PathSettings(corrupt, view.behaviour, target, against, place)


def _paths(scene: Scene, of: PathSettings | targets.Chosen) -> PathEffects | None:
    """Return all estimates, computed once; None until they are requested of long work."""
    view = state.of(Circuits)
    model, chosen = targets.model(), None if isinstance(of, PathSettings) else of
    what = (scene.key, of) if chosen is None else (view.checkpoint, chosen.source, view.behaviour)
    key = what, view.way
    kept: tuple[Hashable, PathEffects] | None = st.session_state.get("paths")
    if kept is not None and kept[0] == key:
        return kept[1]
    at_once = chosen is None and reporting.small(view)
    if not at_once and not st.button("Estimate all paths", key="estimate_paths"):
        return None
    if isinstance(of, PathSettings):
        spin = st.spinner("Estimating all paths …")
        with spin, cancel_if_superseded(), turn_for(model, scene.text):
            texts = scene.text, of.corrupt
            found = path_effects(model, *texts, of.metric, view.way, **of.tracked)
    else:
        make = partial(task_paths, model, of.task, view.behaviour, view.way)
        of_pairs = partial(progress.of_total, of=" pairs")
        work = heavy.work_here(make, (heavy.session(), key))
        found = progress.done(work, "stop_paths", "Estimating …", of_pairs)
    st.session_state.paths = key, found
    return found


def say_clean(found: PathEffects | PatchingMap) -> None:
    """Say what the behaviour is in the clean run, and what was cut off."""
    token = f" of “{found.target}”" * bool(found.target)
    less = f" less that of “{found.against}”" * bool(found.against)
    behaviour = words.plain(f"{BEHAVIOURS[found.metric]}{token}{less}")
    over = f", a mean over {found.n_pairs} pairs" if _of_task(found) else ""
    st.markdown(f"Clean, the {behaviour} is **{words.format_number(found.clean)}**{over}.")
    words.notes(found.notes)


def _of_task(found: object) -> TypeGuard[PathEffects]:
    return isinstance(found, PathEffects) and found.n_pairs > 1


def _flat(values: NDArray[Any]) -> NDArray[Any]:
    """Take the paths into the chosen input, as (writer, reader)."""
    which = list(THROUGH).index(state.of(Circuits).through)
    n = int(np.prod(values.shape[:2]))
    return values[..., which].reshape(n, n)


def _measured(found: PathEffects) -> NDArray[np.bool_] | None:
    """Mark the measured paths into the chosen input; None where all paths are measured."""
    return None if found.n_measured == found.n_paths else _flat(np.isfinite(found.exact))


def _map(scene: Scene, found: PathEffects, values: NDArray[np.float64]) -> None:
    if not np.isfinite(values).any():
        st.info("KL is flat where nothing is changed, so that no gradient tells it: measure below.")
        return
    more = {"estimate": _flat(found.estimate), "measured": _flat(found.exact)}
    more |= {LOW: _flat(found.low), HIGH: _flat(found.high)} if _of_task(found) else {}
    told = {"way": WAYS[found.way], "through": THROUGH[state.of(Circuits).through]}
    pairs.draw_map(
        *(scene, values),
        unit=UNITS[found.metric],
        more=more,
        measured=_measured(found),
        caption=_caption(scene, found),
        **TEXTS.figure("figures.path_effects", found=found, **told),
    )


def _caption(scene: Scene, found: PathEffects) -> str:
    source = state.of(Circuits).source.strip() or f"mean over {N_TEXTS} example sentences"
    if _of_task(found):
        task = f"task: {state.of(Circuits).task}, mean over {found.n_pairs} pairs"
        return words.settings(scene, found.metric, task)
    followed = " less ".join(f"“{one}”" for one in (found.target, found.against) if one)
    return words.settings(scene, f"{found.metric} {followed}".strip(), f"from: {source[:200]}")


def _pair(scene: Scene, settings: PathSettings | PathEffects, pair: pairs.Pair) -> None:
    """Draw the numbers of one pair of heads: of the text, or as they were found over a task."""
    st.header(pairs.named(pair), anchor=False)
    sender, (layer, head) = pair
    which = list(THROUGH).index(state.of(Circuits).through)
    into = INPUTS[which]
    if not isinstance(settings, PathSettings):
        at = (*sender, layer, head, which)
        each = {"Measured": settings.exact, LOW: settings.low, HIGH: settings.high}
        numbers = {name: [values[at]] for name, values in each.items()}
        numbers["Estimated"] = [settings.estimate[at]]
        _numbers(numbers, [WAYS[settings.way]], settings.metric)
        return
    (start, (number, _)) = words.by_number([sender, (layer, head)])
    given = settings.corrupt, start, (number, head, into), settings.metric
    path = targets.of_text(scene, path_effect, *given, **settings.tracked)
    estimated = [path.direct_estimate, path.total_estimate]
    numbers = {"Measured": [path.direct, path.total], "Estimated": estimated}
    _numbers(numbers, ["Direct", "Total"], settings.metric)


def _numbers(numbers: dict[str, list[float]], ways: list[str], metric: str) -> None:
    table = pd.DataFrame(numbers, index=pd.Index(ways, name="Path"))
    st.table(table.map(targets.signed))
    st.caption(TEXTS("paths.path", unit=UNITS[metric]))


def _at_logits(scene: Scene, found: PathEffects) -> None:
    columns = {"measured": found.at_logits, "estimate": found.estimate_at_logits}
    if _of_task(found):
        columns |= {LOW: found.low_at_logits, HIGH: found.high_at_logits}
    title, unit = f"{WAYS[found.way]} effect on the prediction", UNITS[found.metric]
    table, caption = words.head_values(scene, columns), _caption(scene, found)
    texts = TEXTS.figure("figures.at_logits", way=WAYS[found.way])
    targets.draw_heads(found.at_logits, title, unit, table=table, caption=caption, **texts)


def _measure(found: PathEffects) -> None:
    """Draw the button and the progress; a stopped measurement keeps what it has."""
    left = found.n_paths - found.n_measured
    if not left:
        return
    st.caption(f"{left:,} of {found.n_paths:,} paths are estimated, and not measured.")
    label = "Measure all paths"
    if not st.button(label, icon=":material/play_arrow:", key="measure_paths", type="primary"):
        return
    # Here, and not in another process: it is the session's own, and keeps what it has when stopped.
    work = heavy.work_here(found.measure, (id(found), "measure"))
    progress.done(work, "stop_paths", "Measuring …", partial(progress.of_total, of=" paths"))
    st.rerun()


def _agreement(scene: Scene, found: PathEffects) -> None:
    exact, estimate = _flat(found.exact), _flat(found.estimate)
    i, j = np.nonzero(np.isfinite(exact) & np.isfinite(estimate))
    if not len(i):
        return
    names, unit, n_heads = words.names(scene), UNITS[found.metric], scene.record.n_heads
    shown, places = pairs.shown_pair(_flat(found.effect), n_heads), np.stack([i, j], axis=-1)
    titles = f"estimated ({unit})", f"measured ({unit})"
    st.header("May the estimate be trusted?", anchor=False)
    told = {"share": found.recall(), "top": min(N_MEASURED, found.n_paths)}
    recall = TEXTS("paths.recall" if found.recall() >= 0 else "paths.no_recall", **told)
    st.markdown(TEXTS("paths.agreement", found=found, recall=recall))
    points = MeasuredPairs(estimate[i, j], exact[i, j], places, names, n_heads, *titles)
    selected = pairs.numbers(shown, n_heads)
    heads = {"Writes": [names[at] for at in i], "Reads": [names[at] for at in j]}
    numbers = {"measured": exact[i, j], "estimate": estimate[i, j]}
    figures.show(
        pair_scatter(points, corners=None, selected=selected, dark=look.dark()),
        on_click=partial(pairs.choose_numbers, n_heads),
        table=words.sorted_table(heads, numbers),
        caption=_caption(scene, found),
        **TEXTS.figure("figures.path_agreement", through=THROUGH[state.of(Circuits).through]),
    )
