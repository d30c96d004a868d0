"""Two studies: which heads differ, by metrics or by what they find in gold trees."""

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
from mha_viz.ui.many_texts import TEXTS, measures, texts
from mha_viz.ui.many_texts.study_figure import show
from mha_viz.ui.run.studies import studies
from mha_viz.ui.state import allowed, selection
from mha_viz.ui.state.session import session
from mha_viz.ui.state.views import COMPARED, SAME_MODEL, ManyTexts
from mha_viz.ui.widgets import look
from mha_viz.ui.widgets.controls import choosing
from mha_viz.ui.widgets.exports import downloads
from mha_viz.ui.widgets.messages import words

_BY = {
    "distributions": comparison.compare_distributions,
    "matched": comparison.compare_matched,
}  # without gold trees
FAR = 3.0  # standard errors that are worth a word
FEW = 30  # texts; with fewer a standard error is itself uncertain
_SAMPLE = "sample"


def fit(view: ManyTexts) -> None:
    """Replace what a link compares with and this machine does not have."""
    unknown: dict[str, Any] = {}
    if view.corpus_model_b not in _models(view):
        selection.add_problem(TEXTS("two.no_model", name=repr(view.corpus_model_b)))
        unknown["corpus_model_b"] = ""
    if view.corpus_b not in _texts(view):
        selection.add_problem("The other texts that this link names are no longer on this server.")
        unknown["corpus_b"] = ""
    if unknown:
        selection.change(**unknown)
        st.rerun()  # the message is drawn above


def draw(study: Study, view: ManyTexts) -> None:
    """Draw each head's difference from a second study."""
    other = other_view(view)
    if (other.corpus, other.checkpoint) == (view.corpus, view.checkpoint):
        st.info("Choose another model, or other texts, to compare this study with.")
    elif not view.corpus_model_b:  # random weights stand beside every question as it is
        _by_metric(study, view, measures.cached(comparison.compare_with_random, study))
    elif (beside := texts.study_of(other, "other-study")) is not None:
        with st.container(horizontal=True, vertical_alignment="bottom"):
            by = _choose_what(study, beside, view)
            if by == "metrics":
                measures.metric_menu(study)
        if by == "metrics":
            _by_metric(study, view, measures.cached(comparison.compare, beside, study))
        else:
            compare = _BY.get(by, partial(comparison.compare_trees, by=by))
            _table(study, view, by, measures.cached(compare, beside, study))


def _choose_what(study: Study, other: Study, view: ManyTexts) -> str:
    """Draw the menu of what both studies can be compared by; return the choice."""
    alike = (study.n_layers, study.n_heads) == (other.n_layers, other.n_heads)
    trees = study.has_trees and other.has_trees
    offered = {
        key: title
        for key, title in COMPARED.items()
        if (alike or key in ("best", *_BY)) and (trees or key in ("metrics", *_BY))
    }
    by = view.compared if view.compared in offered else next(iter(offered))
    choosing.segments("compared", "Compared by", offered, displayed=by)
    return by


def controls(study: Study, view: ManyTexts) -> None:
    """Draw the choice of a second study."""
    choosing.menu("corpus_model_b", "Against", _models(view), width=230)
    if view.corpus_model_b:  # random weights are run over the texts of each study, with it
        choosing.menu("corpus_b", "On", _texts(view), width=230)
    else:
        measures.metric_menu(study)


def _models(view: ManyTexts) -> dict[str, str]:
    """Return the models with as many layers and heads, which can be compared."""
    models = {info.name: info for info in allowed.models()}
    for name in session().typed_models or ():
        try:
            models[name] = find_model(name, download=False)
        except MhaVizError:
            continue  # a folder that has been taken away since
    other_models = {name: name for name in models if name != view.model}
    return {"": "Random weights", SAME_MODEL: "The same model"} | other_models


def _texts(view: ManyTexts) -> dict[str, str]:
    return {"": "The same texts", _SAMPLE: "The sample"} | texts.own_texts(view)


def other_view(view: ManyTexts) -> ManyTexts:
    """Return the view of the study that is compared with."""
    corpus = view.corpus if view.corpus_b == "" else view.corpus_b.removeprefix(_SAMPLE)
    model = view.model if view.corpus_model_b == SAME_MODEL else view.corpus_model_b
    return replace(view, corpus=corpus, model=model)


def _by_metric(study: Study, view: ManyTexts, differences: pd.DataFrame) -> None:
    rows = differences[differences["metric"] == view.metric]
    if _answer(rows, view):
        look.beside([2, 3], partial(_map, study, view, rows), partial(_rows, study, view, rows))


def _table(study: Study, view: ManyTexts, by: str, differences: pd.DataFrame) -> None:
    """Draw the table of differences, the surest first."""
    if differences.empty:
        st.info("Nothing can be said: no head was asked the same on both.")
        return
    if by == "distributions":
        differences = differences[["metric", "50%_b", "50%_a", "apart"]]
    else:  # the heads of this study
        differences = differences.rename(columns={"layer_b": "layer", "head_b": "head"})
    if by not in ("distributions", "matched"):
        n_tested, sure = differences["q"].notna().sum(), (differences["q"] <= RATE).sum()
        st.markdown(
            TEXTS("two.differ", what=COMPARED[by], sure=sure, known=n_tested, rate=100 * RATE)
        )
        sides = {"b": "this study", "a": "the other"}
        differences = differences.assign(better=differences["better"].replace(sides))
    table = titled(differences, study.layer_numbers)
    words.plain_table(table)
    st.caption(TEXTS(f"two.{by if by in _BY else 'trees'}"))
    caption = source_line(study, f"against {_reference(view)}", COMPARED[by])
    downloads.table_file(table, key="many-two-trees", name="Two studies", caption=caption)


def _answer(rows: pd.DataFrame, view: ManyTexts) -> bool:
    """Say how many heads differ, and how many would by chance alone; return whether any could."""
    standard_errors = rows["standard_errors"].abs().dropna()
    if standard_errors.empty:
        st.info("Nothing can be said: it takes two texts or more on which the metric is defined.")
        return False
    n, best, title = len(standard_errors), rows.iloc[0], METRICS[view.metric].title
    by_chance = [comparison.beyond_by_chance(n, errors) for errors in (FAR, 2)]
    values = {"title": title, "far": int((standard_errors >= FAR).sum()), "n": n, "errors": FAR}
    most = words.head_name(int(best["layer"]), int(best["head"]))
    st.markdown(TEXTS("two.answer", **values, most=most, by_chance=by_chance))
    if (n_texts := int(rows["n_texts"].min())) < FEW:
        st.caption(TEXTS("two.few", texts=words.count(n_texts, "text")))
    return True


def _rows(study: Study, view: ManyTexts, rows: pd.DataFrame) -> None:
    title = words.plain(METRICS[view.metric].title)
    st.markdown(f"**{title} of each head**, the largest difference first")
    words.plain_table(titled(rows.drop(columns="metric"), study.layer_numbers))


def _map(study: Study, view: ManyTexts, rows: pd.DataFrame) -> None:
    metric, against = METRICS[view.metric].title, _reference(view)
    apart = by_head(study, rows, "standard_errors")
    means = (by_head(study, rows, name).tolist() for name in ("mean_b", "mean_a"))
    notes = [
        [
            f"{words.format_number(a)} here, {words.format_number(b)} there"
            for a, b in zip(*row, strict=True)
        ]
        for row in zip(*means, strict=True)
    ]
    title = f"{metric}: this study minus the other"
    options: dict[str, Any] = {"selected": view.chosen, "diverging": True, "hover_notes": notes}
    options["layer_numbers"] = study.layer_numbers
    draw = partial(head_changes, apart, title, "standard errors", **options)
    table = titled(rows.drop(columns="metric"), study.layer_numbers)
    caption = source_line(study, f"against {against}", metric)
    figure = StudyFigure(f"{metric} in two studies", draw, table, caption)
    show(figure, "two", words.choose, against=against)


def _reference(view: ManyTexts) -> str:
    names = {"": "random weights", SAME_MODEL: "the same model"}
    model = names.get(view.corpus_model_b, view.corpus_model_b)
    other_texts = view.corpus_model_b and view.corpus_b
    on = studies().titles().get(view.corpus_b, "the sample") if other_texts else "the same texts"
    return f"{model} on {on}"
