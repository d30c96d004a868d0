"""Two studies: which heads differ, by metrics or by what they find in gold trees."""

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import pandas as pd
import streamlit as st

from mha_viz.checkpoints.catalog import find_model
from mha_viz.core.metrics import METRICS
from mha_viz.core.metrics.chance import RATE
from mha_viz.corpus.query import comparison
from mha_viz.corpus.query.study import Study
from mha_viz.errors import MhaVizError
from mha_viz.paper.figures import StudyFigure, by_head, source_line
from mha_viz.paper.report import titled
from mha_viz.plots.difference import head_changes
from mha_viz.ui.corpus import TEXTS, texts
from mha_viz.ui.corpus.overview import show
from mha_viz.ui.run import memory, reporting
from mha_viz.ui.run.studies import studies
from mha_viz.ui.state import allowed, state
from mha_viz.ui.state.session import session
from mha_viz.ui.state.views import COMPARED, SAME_MODEL, Corpus
from mha_viz.ui.widgets.controls import choosing
from mha_viz.ui.widgets.exports import exports
from mha_viz.ui.widgets.messages import words

_BY = {
    "distributions": comparison.compare_distributions,
    "matched": comparison.compare_matched,
}  # without gold trees
FAR = 3.0  # standard errors that are worth a word
FEW = 30  # texts, of which a standard error is itself uncertain
_SAMPLE = "sample"


def fit() -> None:
    """Replace what a link compares with and this machine does not have."""
    view = state.of(Corpus)
    if view.corpus_model_b not in _models():
        state.add_problem(TEXTS("two.no_model", name=repr(view.corpus_model_b)))
        state.change(corpus_model_b="")
    if view.corpus_b not in _texts():
        state.add_problem("The other texts that this link names are no longer on this server.")
        state.change(corpus_b="")
    if state.of(Corpus) != view:
        st.rerun()  # the message is drawn above


def draw(study: Study) -> None:
    """Draw the choice of a second study, and each head's difference from it."""
    st.header("Two studies", anchor=False)
    _controls()
    view = state.of(Corpus)
    other = _other(view)
    if (other.corpus, other.checkpoint) == (view.corpus, view.checkpoint):
        st.info("Choose another model, or other texts, to compare this study with.")
        return
    if not view.corpus_model_b:  # random weights stand beside every question as it is
        _by_metric(study, _cached(comparison.compare_with_random, study))
    elif (beside := texts.made(other, "other-study")) is not None:
        _choose_what(study, beside)
        by = state.of(Corpus).compared
        if by == "metrics":
            _by_metric(study, _cached(comparison.compare, beside, study))
        else:
            _table(
                study,
                by,
                _cached(_BY.get(by, partial(comparison.compare_trees, by=by)), beside, study),
            )


def _choose_what(study: Study, other: Study) -> None:
    """Offer what both studies can be compared by."""
    alike = (study.n_layers, study.n_heads) == (other.n_layers, other.n_heads)
    trees = study.has_trees and other.has_trees
    offered = {
        key: title
        for key, title in COMPARED.items()
        if (alike or key in ("best", *_BY)) and (trees or key in ("metrics", *_BY))
    }
    if state.of(Corpus).compared not in offered:
        state.change(compared=next(iter(offered)))
    choosing.segments("compared", "Compared by", offered)


def _controls() -> None:
    with st.container(horizontal=True, vertical_alignment="bottom"):
        choosing.menu("corpus_model_b", "Against", _models(), width=280)
        off, hint = not state.of(Corpus).corpus_model_b, TEXTS("two.on")
        choosing.menu("corpus_b", "On", _texts(), width=280, disabled=off, help=hint)


def _models() -> dict[str, str]:
    """Return the models to compare with, which have as many layers and heads."""
    known = {info.name: info for info in allowed.models()}
    for name in session().typed_models or ():
        try:
            known[name] = find_model(name, download=False)
        except MhaVizError:
            continue  # a folder that has been taken away since
    view = state.of(Corpus)
    others = {name: name for name in known if name != view.model}
    return {"": "Random weights", SAME_MODEL: "The same model"} | others


def _texts() -> dict[str, str]:
    return {"": "The same texts", _SAMPLE: "The sample"} | texts.own()


def _other(view: Corpus) -> Corpus:
    corpus = view.corpus if view.corpus_b == "" else view.corpus_b.removeprefix(_SAMPLE)
    model = view.model if view.corpus_model_b == SAME_MODEL else view.corpus_model_b
    return replace(view, corpus=corpus, model=model)


def _cached(make: Callable[..., pd.DataFrame], *both: Study) -> pd.DataFrame:
    """Return the comparison of studies, made once."""
    key = (repr(make), *(study.folder for study in both))
    return memory.cache().get(key, lambda: make(*both), reporting.table_bytes)


def _by_metric(study: Study, found: pd.DataFrame) -> None:
    rows = found[found["metric"] == state.of(Corpus).metric]
    _answer(rows)
    _map(study, rows)


def _table(study: Study, by: str, found: pd.DataFrame) -> None:
    """Draw what differs in more than single heads' metrics, the surest first."""
    if found.empty:
        st.info("Nothing can be said: no head was asked the same on both.")
        return
    if by == "distributions":
        found = found[["metric", "50%_b", "50%_a", "apart"]]
    elif by == "matched":
        found = found.rename(columns={"layer_b": "layer", "head_b": "head"})  # of this study
    else:
        known, sure = found["q"].notna().sum(), (found["q"] <= RATE).sum()
        st.markdown(TEXTS("two.differ", what=COMPARED[by], sure=sure, known=known, rate=100 * RATE))
        sides = {"b": "this study", "a": "the other"}
        found = found.rename(columns={"layer_b": "layer", "head_b": "head"})  # of this study
        found = found.assign(better=found["better"].replace(sides))
    table = titled(found, study.layer_numbers)
    numbers = words.number_columns(table)
    st.dataframe(table, hide_index=True, placeholder=words.UNDEFINED, column_config=numbers)
    st.caption(TEXTS(f"two.{by if by in _BY else 'trees'}"))
    caption = source_line(study, f"against {_reference(state.of(Corpus))}", COMPARED[by])
    exports.table_file(table, key="corpus-two-trees", name="Two studies", caption=caption)


def _answer(rows: pd.DataFrame) -> None:
    """Say how many heads differ, and how many would by chance alone."""
    known = rows["standard_errors"].abs().dropna()
    if known.empty:
        st.info("Nothing can be said: it takes two texts or more on which the metric is defined.")
        return
    n, best, title = len(known), rows.iloc[0], METRICS[state.of(Corpus).metric].title
    by_chance = [comparison.beyond_by_chance(n, errors) for errors in (FAR, 2)]
    told = {"title": title, "far": int((known >= FAR).sum()), "n": n, "errors": FAR}
    most = words.head_name(int(best["layer"]), int(best["head"]))
    st.markdown(TEXTS("two.answer", **told, most=most, by_chance=by_chance))
    if (n_texts := int(rows["n_texts"].min())) < FEW:
        st.caption(TEXTS("two.few", texts=words.count(n_texts, "text")))


def _map(study: Study, rows: pd.DataFrame) -> None:
    view = state.of(Corpus)
    metric, against = METRICS[view.metric].title, _reference(view)
    apart = by_head(study, rows, "standard_errors")
    left, right = st.columns([3, 2], gap="medium")
    table = titled(rows.drop(columns="metric"), study.layer_numbers)
    with right:
        st.markdown(f"**{words.plain(metric)} of each head**, the largest difference first")
        head = {"Head": st.column_config.Column(pinned=True), **words.number_columns(table)}
        st.dataframe(table, hide_index=True, placeholder=words.UNDEFINED, column_config=head)
    with left:
        means = (by_head(study, rows, name).tolist() for name in ("mean_b", "mean_a"))
        notes = [
            [
                f"{words.format_number(a)} here, {words.format_number(b)} there"
                for a, b in zip(*row, strict=True)
            ]
            for row in zip(*means, strict=True)
        ]
        title = f"{metric}: this study minus the other"
        looks: dict[str, Any] = {"selected": view.chosen, "diverging": True, "hover_notes": notes}
        looks["layer_numbers"] = study.layer_numbers
        draw = partial(head_changes, apart, title, "standard errors", **looks)
        caption = source_line(study, f"against {against}", metric)
        figure = StudyFigure(f"{metric} in two studies", draw, table, caption)
        show(figure, "two", words.choose, against=against)


def _reference(view: Corpus) -> str:
    names = {"": "random weights", SAME_MODEL: "the same model"}
    model = names.get(view.corpus_model_b, view.corpus_model_b)
    other_texts = view.corpus_model_b and view.corpus_b
    on = studies().own().get(view.corpus_b, "the sample") if other_texts else "the same texts"
    return f"{model} on {on}"
