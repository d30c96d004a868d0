"""Choices of a link that a study does not have, replaced by some that it has."""

from collections.abc import Collection
from dataclasses import fields, replace
from typing import Any

import streamlit as st

from mha_viz.core.metrics import METRICS
from mha_viz.corpus.query.study import Study
from mha_viz.corpus.run.sample_study import training_steps
from mha_viz.corpus.treebank.parts_of_speech import PARTS
from mha_viz.paper.all_heads import scatter_axes
from mha_viz.paper.figures import default_head
from mha_viz.paper.space_figures import colourings
from mha_viz.ui.many_texts import measures
from mha_viz.ui.state import selection
from mha_viz.ui.state.views import ManyTexts, two_runs

RELATION = "relation"  # of the gold trees: a kind of colour that is no label
_AXES = ("first_token", "previous_token", "entropy", "distance")  # the first that a study has


def fit(study: Study, view: ManyTexts) -> ManyTexts:
    """Replace what a link asks for and a study does not have; say so where it was asked for."""
    fitted = _measured(study, _head(study, view))
    fitted = _trees(study, fitted) if study.has_trees else _without_trees(fitted)
    if fitted.colouring not in colourings(study):
        fitted = replace(fitted, colouring="kind")
    if fitted.measure not in study.pair_measures and study.pair_measures:
        fitted = replace(fitted, measure=study.pair_measures[0])
    steps = training_steps(study)
    if steps is None:
        fitted = replace(fitted, change="studies")
    elif fitted.over not in set(steps["name"]):
        fitted = replace(fitted, over="previous_token")
    names = [choice.name for choice in fields(fitted) if choice.compare]
    changed: dict[str, Any] = {
        name: value for name in names if (value := getattr(fitted, name)) != getattr(view, name)
    }
    if changed:
        selection.change(**changed)
    return fitted


def _head(study: Study, view: ManyTexts) -> ManyTexts:
    def is_head(layer: int, head: int) -> bool:
        return 0 <= layer < study.n_layers and 0 <= head < study.n_heads

    lasso = tuple(head for head in view.lasso if is_head(*head))
    if is_head(*view.chosen):
        return replace(view, lasso=lasso)
    layer, head = default_head(study)
    if view.layer_b < 0 and two_runs(selection.current()):  # as in Heads
        view = replace(view, layer_b=layer, head_b=head)
    return replace(view, layer=layer, head=head, query=-1, key=-1, lasso=lasso)


def _measured(study: Study, view: ManyTexts) -> ManyTexts:
    """Replace metrics that were not measured."""
    axes, metrics = scatter_axes(study), measures.metrics(study)
    if view.metric not in metrics:
        title = METRICS[view.metric].title if view.metric in METRICS else repr(view.metric)
        instead = _first(("entropy", *metrics), metrics)
        st.info(f"{title} is not in this study. Showing {METRICS[instead].title}.")
        view = replace(view, metric=instead)
    if view.kind not in ("", *measures.labels(study), RELATION):
        view = replace(view, kind="")
    x = view.x_axis if view.x_axis in axes else _first(_AXES, axes)
    other_axes = [axis for axis in (*_AXES, *axes) if axis != x]
    y = view.y_axis if view.y_axis in axes else _first(other_axes, axes)
    return replace(view, x_axis=x, y_axis=y)


def _first(wanted: Collection[str], offered: Collection[str]) -> str:
    """Return the first wanted key that is offered."""
    return next(key for key in (*wanted, *offered) if key in offered)


def _trees(study: Study, view: ManyTexts) -> ManyTexts:
    """Replace relations and parts of speech that the trees do not have."""
    measured, present = measures.relations(study), measures.token_relations(study)
    if view.arc not in measured and measured:
        view = replace(view, arc=measured[0])
    if view.kind == RELATION and not measured:
        view = replace(view, kind="")
    along = view.along if view.along in present else ""
    from_upos, to_upos = (of if of in PARTS else "" for of in (view.from_upos, view.to_upos))
    return replace(view, along=along, from_upos=from_upos, to_upos=to_upos)


def _without_trees(view: ManyTexts) -> ManyTexts:
    if any((view.along, view.from_upos, view.to_upos)):
        st.info("These texts have no gold trees: relation and parts of speech were left out.")
    kind = "" if view.kind == RELATION else view.kind
    return replace(view, kind=kind, gold=False, along="", from_upos="", to_upos="")
