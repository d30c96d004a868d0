"""All heads of a study by one number, and as dots in any two of its numbers."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from mha_viz.core.metrics import LABELS, METRICS
from mha_viz.corpus.query.study import Study
from mha_viz.corpus.treebank.relations import ALL, TO_HEAD
from mha_viz.corpus.treebank.split_half import wilson
from mha_viz.errors import ArgumentError
from mha_viz.paper.figures import Head, StudyFigure, by_head, name_in, source_line
from mha_viz.plots.head_scatter import Matrix, Measure, ScatterParts, measured_scatter

PLACES = {"layer": "Layer", "head": "Head number"}  # beside metrics, what heads can be laid out by
UNTRAINED = "untrained_heads"


class ScatterChoices(NamedTuple):
    """The measures that a scatter's heads are laid out by, and which of its parts are drawn."""

    x: str = "first_token"
    y: str = "previous_token"
    colour: Measure | None = None
    intervals: bool = False
    untrained: bool = True  # the same heads of the model with random weights


def split_arc(arc: str) -> tuple[str, str]:
    """Return relation and direction of a choice.

    >>> split_arc("nsubj:pass.to_head")
    ('nsubj:pass', 'to_head')
    """
    relation, _, direction = arc.rpartition(".")
    return relation, direction


def arc_title(arc: str) -> str:
    """Return a choice's name on screen.

    >>> arc_title("obj.to_dependent"), arc_title("all.to_head")
    ('obj: head looks at dependent', 'any relation: dependent looks at head')
    """
    relation, direction = split_arc(arc)
    who = ("dependent", "head") if direction == TO_HEAD else ("head", "dependent")
    name = "any relation" if relation == ALL else relation
    return f"{name}: {who[0]} looks at {who[1]}"


def scatter_axes(study: Study) -> dict[str, str]:
    """Return what heads can be laid out by: layer, head number and metrics, with their titles."""
    measured = set(study.heads["metric"])
    return PLACES | {key: METRICS[key].title for key in METRICS if key in measured}


def has_untrained(study: Study) -> bool:
    """Return whether a study measured the same heads with random weights."""
    tables = study.sql("SELECT table_name FROM information_schema.tables")["table_name"]
    return UNTRAINED in set(tables)


def metric_measure(study: Study, metric: str, table: str = "heads") -> Measure:
    """Return the means of a metric by head with their 95 % intervals.

    `table` is "heads", or "untrained_heads" for those of the model with random weights.
    """
    about, rows = METRICS[metric], study.heads
    if table != "heads":
        rows = study.sql(f'SELECT layer, head, metric, mean, low, high FROM "{table}"')
    rows = rows[rows["metric"] == about.key]
    title = f"{about.title} ({about.shown_unit})" if about.shown_unit else about.title
    return Measure(title, *(by_head(study, rows, name) for name in ("mean", "low", "high")))


def label_measure(study: Study, label: str) -> Measure:
    """Return on which share of texts each head would have got a label; the interval is Wilson's."""
    rows = study.sql("SELECT layer, head, label, share_of_texts FROM labels")
    shares = by_head(study, rows[rows["label"] == label], "share_of_texts")
    ends = wilson(shares * study.n_texts, np.full(shares.shape, study.n_texts))
    return Measure(f"{LABELS[label].title}: share of texts", shares, *ends)


def relation_measure(study: Study, arc: str, scores: pd.DataFrame | None = None) -> Measure:
    """Return how often each head finds the word of a relation, as "nsubj.to_head".

    `scores` are `study.relations`, which are computed where they are not given.
    """
    relation, direction = split_arc(arc)
    rows = study.relations if scores is None else scores
    rows = rows[(rows["relation"] == relation) & (rows["direction"] == direction)]
    numbers = (by_head(study, rows, name) for name in ("accuracy", "low", "high"))
    return Measure(f"{arc_title(arc)}: accuracy", *numbers)


def scatter(
    study: Study,
    choices: ScatterChoices | None = None,
    head: Head | None = None,
    heads: Sequence[Head] = (),
) -> StudyFigure:
    """Make the scatter of all heads by two measures; `head` is marked, and `heads` are ringed.

    Raises ArgumentError: a measure that `scatter_axes` does not name.
    """
    choices, axis_titles = choices or ScatterChoices(), scatter_axes(study)
    for axis in (choices.x, choices.y):
        if axis not in axis_titles:
            raise ArgumentError(
                f"There is no {axis!r} in this study; there are: {list(axis_titles)}."
            )
    x, y = (axis_measure(study, axis) for axis in (choices.x, choices.y))
    elsewhere: tuple[Matrix, Matrix] | None = None
    if choices.untrained and has_untrained(study):
        elsewhere = tuple(
            axis_measure(study, axis, UNTRAINED).values for axis in (choices.x, choices.y)
        )  # type: ignore[assignment]
    parts = ScatterParts(choices.colour, choices.intervals, elsewhere, ringed=heads)
    options: dict[str, Any] = {"selected": head, "layer_numbers": study.layer_numbers}
    draw = partial(measured_scatter, x, y, parts, **options)
    names = [name_in(study, layer_head) for layer_head in np.ndindex(study.n_layers, study.n_heads)]
    columns: dict[str, Any] = {"Head": names}
    for measure in (x, y, *(() if choices.colour is None else (choices.colour,))):
        columns |= _columns(measure, columns)
    if elsewhere is not None:
        for measure, values in zip((x, y), elsewhere, strict=True):
            columns |= {f"{measure.title}, {parts.elsewhere_name}": np.ravel(values)}
    title = f"{axis_titles[choices.y]} by {axis_titles[choices.x]}"
    return StudyFigure(
        f"{title}, all heads", draw, pd.DataFrame(columns), source_line(study, title)
    )


def axis_measure(study: Study, axis: str, table: str = "heads") -> Measure:
    """Return a metric, or the layers or numbers of the heads."""
    if axis not in PLACES:
        return metric_measure(study, axis, table)
    layers, heads = np.indices((study.n_layers, study.n_heads), dtype=float)
    if axis == "head":
        return Measure(PLACES[axis], heads)
    numbers = np.asarray(study.layer_numbers or range(study.n_layers), dtype=float)
    return Measure(PLACES[axis], numbers[layers.astype(int)])


def _columns(measure: Measure, drawn: dict[str, Any]) -> dict[str, Any]:
    """Return a measure's columns in the table, with its interval where it has one."""
    if measure.title in drawn:
        return {}
    columns = {measure.title: np.ravel(measure.values)}
    if measure.low is not None and measure.high is not None:
        columns |= {
            f"{measure.title}, low": np.ravel(measure.low),
            f"{measure.title}, high": np.ravel(measure.high),
        }
    return columns
