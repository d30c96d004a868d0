"""Heads of a study: the best for gold trees, one alone, pairs, and all while the model learned."""

import pandas as pd
import streamlit as st

from mha_viz.core.metrics import LABELS, METRICS
from mha_viz.corpus.query.study import Study
from mha_viz.corpus.run.study_set import LABEL, formed
from mha_viz.corpus.treebank.relations import MIN_TARGETS
from mha_viz.paper import figures
from mha_viz.paper.figures import source_line
from mha_viz.paper.report import NOTES, answer, pairs_note, titled
from mha_viz.ui.corpus import TEXTS
from mha_viz.ui.corpus.overview import show
from mha_viz.ui.state import state
from mha_viz.ui.state.views import QUESTIONS, Corpus
from mha_viz.ui.widgets import look
from mha_viz.ui.widgets.controls import choosing, controls
from mha_viz.ui.widgets.exports import exports
from mha_viz.ui.widgets.messages import words
from mha_viz.web.labels import head_name
from mha_viz.web.theme import format_number

_HEIGHT = 320  # pixels: the map of heads begins on the first screen


def draw_best(study: Study) -> None:
    """Draw the table of best heads of a study with gold trees."""
    st.header("Which head finds what", anchor=False)
    choosing.segments("question", "Question", QUESTIONS, label_visibility="collapsed")
    by = state.of(Corpus).question
    found = study.best_heads(by)
    if found.empty:
        st.markdown(f"Nothing was asked for {MIN_TARGETS} times: the treebank is too small.")
        return
    st.markdown(answer(found, by))
    table = titled(found)
    places = found[["layer", "head"]].to_numpy()
    words.choosable(
        table,
        lambda row: words.choose(places[row].tolist()),
        key=f"best-heads-{by}",
        form="%.3f",
        height=_HEIGHT,
    )
    st.caption(f"{NOTES[by]} Click a row to see its head below.")
    exports.table_file(
        table,
        key=f"best-{by}",
        name=f"Best heads: {QUESTIONS[by].lower()}",
        caption=source_line(study, study.unit_note),
    )


def draw_one(study: Study) -> None:
    """Draw the chosen head's labels and profiles."""
    view = state.of(Corpus)
    st.header(f"One head: {head_name(*view.chosen)}", anchor=False)
    with st.container(horizontal=True):
        controls.head_menus(study.n_layers, study.n_heads, width=100)
    _labels(study)
    for column, axis in zip(st.columns([3, 2], gap="medium"), figures.PROFILES, strict=True):
        with column:
            _profile(study, axis)


def _labels(study: Study) -> None:
    found = figures.of_head(study.labels, state.of(Corpus).chosen)
    if found.empty:
        st.markdown("It earns no label on these texts.")
    else:
        st.table(titled(found).drop(columns="Head").set_index("Label").map(format_number))


def _profile(study: Study, axis: str) -> None:
    figure = figures.profile(study, axis, state.of(Corpus).chosen)
    show(figure, f"corpus-{axis}", TEXTS(f"figures.{axis}"))


def draw_distributions(study: Study) -> None:
    """Draw quantiles of all heads, and beside them the texts of the chosen one."""
    look.beside([3, 2], lambda: _all_heads(study), lambda: _one_head(study))


def _all_heads(study: Study) -> None:
    view = state.of(Corpus)
    figure = figures.quantiles(study, view.metric, view.chosen)
    show(figure, "corpus-quantiles", TEXTS("figures.quantiles"), words.choose)


def _one_head(study: Study) -> None:
    view = state.of(Corpus)
    figure = figures.histogram(study, view.metric, view.chosen)
    if figure is None:
        title, name = METRICS[view.metric].title, head_name(*view.chosen)
        st.markdown(f"{title} is defined on no text for {name}.")
    else:
        show(figure, "corpus-histogram", TEXTS("figures.histogram"))


def draw_pairs(study: Study) -> None:
    """Draw the matrix of all heads and the nearest pairs, of a study that compares heads."""
    known = {measure: METRICS[measure].title for measure in study.pair_measures}
    st.header("Pairs of heads", anchor=False)
    if state.of(Corpus).measure not in known:
        state.change(measure=next(iter(known)))
    choosing.menu("measure", "Measure", known, width=280)
    st.markdown(METRICS[state.of(Corpus).measure].meaning)
    look.beside([3, 2], lambda: _matrix(study), lambda: _nearest(study))


def _matrix(study: Study) -> None:
    view = state.of(Corpus)

    def choose(clicked: object) -> None:
        if isinstance(clicked, list) and len(clicked) == 2:
            _choose(*(divmod(int(place), study.n_heads) for place in clicked))

    figure = figures.pairs(study, view.measure, view.chosen)
    show(figure, "corpus-pairs", TEXTS("figures.pairs"), choose)


def _choose(first: tuple[int, int], second: tuple[int, int]) -> None:
    state.keep_second()
    words.choose(first)
    state.change(layer_b=second[0], head_b=second[1])


def _nearest(study: Study) -> None:
    found = study.nearest_pairs(state.of(Corpus).measure)
    st.markdown("**The nearest pairs over these texts**")
    table, places = titled(found), found[["layer", "head", "layer_b", "head_b"]].to_numpy().tolist()
    words.choosable(
        table,
        lambda row: _choose(tuple(places[row][:2]), tuple(places[row][2:])),
        key="corpus-nearest",
        form="%.3f",
    )
    st.caption(f"{pairs_note(state.of(Corpus).measure)} Click a row to choose both heads.")
    exports.table_file(
        table, key="corpus-nearest-file", name="Nearest pairs", caption=source_line(study, "pairs")
    )


_FORMING = {LABEL + "previous_token": "previous-token", "induction": "induction"}


def draw_training(study: Study, steps: pd.DataFrame) -> None:
    """Draw one of its metrics and labels over the steps, and say which heads came first."""
    st.header("While the model learned", anchor=False)
    st.markdown(f"{_order(steps)} {TEXTS('training.run', steps=steps['step'].max())}")
    known = {key: METRICS[key].title for key in METRICS if key in set(steps["name"])}
    labels = {LABEL + key: f"Label: {label.title}" for key, label in LABELS.items()}
    known |= {key: title for key, title in labels.items() if key in set(steps["name"])}
    if state.of(Corpus).over not in known:
        state.change(over="previous_token")
    choosing.menu("over", "Metric or label", known, width=280)
    view = state.of(Corpus)
    source = source_line(study, "a run of its recipe")
    show(
        figures.over_steps(steps, view.over, source, view.chosen),
        "corpus-steps",
        TEXTS("figures.steps"),
    )


def _order(steps: pd.DataFrame) -> str:
    """Say when the first head of each kind formed."""
    said = []
    for name, kind in _FORMING.items():
        if (first := formed(steps, name)) is None:
            said.append(f"{kind} head after the last step")
        else:
            head = head_name(first["layer"], first["head"])
            said.append(f"{kind} head by step {first['step']:,} ({head})")
    return f"**First {said[0]}, first {said[1]}.**"
