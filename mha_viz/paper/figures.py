"""Figures of a study: each with its numbers and its source, for the page, a paper and a report."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import plotly.graph_objects as go
import torch
from jaxtyping import Float

from mha_viz.core.amounts import true_minus
from mha_viz.core.compare.twins import head_order
from mha_viz.core.measure import as_distances
from mha_viz.core.metrics import LABELS, METRICS
from mha_viz.core.output_file import write_file
from mha_viz.core.reprs import count
from mha_viz.corpus.measure.profiles import N_BINS, bin_limits
from mha_viz.corpus.query.comparison import scores_of_head
from mha_viz.corpus.query.study import Study
from mha_viz.corpus.run.study_set import LABEL
from mha_viz.corpus.run.summary import QUANTILES
from mha_viz.corpus.treebank.parts_of_speech import PARTS
from mha_viz.corpus.treebank.relations import MIN_TARGETS
from mha_viz.errors import ArgumentError
from mha_viz.plots import cells
from mha_viz.plots.bars import histogram_bars, token_bars
from mha_viz.plots.column_image import column_image
from mha_viz.plots.curves import LineAxes, curves, ticks
from mha_viz.plots.difference import difference_heatmap
from mha_viz.plots.head_values import head_quantiles, importance_map
from mha_viz.plots.similarity_matrix import HeadPairs, Marks, similarity_matrix
from mha_viz.web.labels import head_name

Head = tuple[int, int]
_ENDS = ("mean", "low", "high")
PROFILES = {"offset": "Weight by offset", "kind": "Weight by kind of key"}
DRAWN_OFFSETS = [
    str(offset) for offset in range(-10, 11)
]  # drawn: few texts are long enough for more


class StudyFigure(NamedTuple):
    """A figure of a study."""

    name: str
    draw: Callable[..., go.Figure]  # with dark=True for a dark page
    table: pd.DataFrame  # its numbers
    caption: str  # where they come from: model, texts, settings

    def save(self, file: str | Path, column: str = "single") -> None:
        """Write it for a paper: .pdf, .svg or .png, 3.25 inches wide ("single") or 6.75 ("double").

        ArgumentError: another format or width. WriteError: the file cannot be written.
        """
        write_file(file, self.image(Path(file).suffix.lstrip("."), column))

    def image(self, file_format: str = "pdf", column: str = "single") -> bytes:
        """Return what `save` writes."""
        texts = dict(title=self.name, caption=self.caption)
        return column_image(self.draw(), file_format=file_format, column=column, **texts)


def default_head(study: Study) -> Head:
    """Return the head to begin with: the one with a label on most single texts."""
    labels = study.labels
    if labels.empty:
        return 0, 0
    best = labels.sort_values("share_of_texts", kind="stable").iloc[-1]
    return int(best["layer"]), int(best["head"])


def name_in(study: Study, head: Sequence[int]) -> str:
    """Return the name of a head of a study, by the model's own number of its layer."""
    return head_name(head[0], head[1], numbers=study.layer_numbers)


def source_line(study: Study, *more: str) -> str:
    """Return the source of a figure: model, texts and settings, in one line."""
    texts = f"{count(study.n_texts, 'text')} of {study.manifest['source_name']}"
    return " · ".join((study.manifest["model"]["name"], texts, *more))


def by_head(study: Study, rows: pd.DataFrame, column: str) -> Float[np.ndarray, "layer head"]:
    """Return a column of rows as a matrix; NaN where there is no row."""
    matrix = np.full((study.n_layers, study.n_heads), np.nan)
    matrix[rows["layer"], rows["head"]] = rows[column]
    return matrix


def of_head(rows: pd.DataFrame, head: Head) -> pd.DataFrame:
    """Return the rows of one head."""
    return rows[(rows["layer"] == head[0]) & (rows["head"] == head[1])]


def metric_map(study: Study, metric: str, selected: Head | None = None) -> StudyFigure:
    """Make the map of all heads by a metric's mean."""
    rows, about = study.heads, METRICS[metric]
    rows = rows[rows["metric"] == metric]
    numbers = [by_head(study, rows, name) for name in ("mean", "low", "high")]
    return value_map(study, (about.title, about.shown_unit), *numbers, selected=selected)


def value_map(
    study: Study,
    title: tuple[str, str],
    values: Float[np.ndarray, "layer head"],
    low: Float[np.ndarray, "layer head"],
    high: Float[np.ndarray, "layer head"],
    *,
    selected: Head | None = None,
) -> StudyFigure:
    """Make a map of all heads by values with 95 % intervals; `title` comes with their unit."""
    options: dict[str, Any] = {"selected": selected, "layer_numbers": study.layer_numbers}
    draw = partial(importance_map, values, *title, interval=(low, high), **options)
    names = [name_in(study, head) for head in np.ndindex(values.shape)]
    columns = {title[0]: values, "Low": low, "High": high}
    table = pd.DataFrame({"Head": names} | {n: column.ravel() for n, column in columns.items()})
    return StudyFigure(f"{title[0]} of all heads", draw, table, source_line(study, title[0]))


def quantiles(study: Study, metric: str, selected: Head | None = None) -> StudyFigure:
    """Make the picture of how a metric is spread over texts, for all heads."""
    rows, title = study.heads, METRICS[metric].title
    rows = rows[rows["metric"] == metric]
    spread = np.stack([by_head(study, rows, name) for name in QUANTILES])
    options: dict[str, Any] = {"selected": selected, "layer_numbers": study.layer_numbers}
    draw = partial(head_quantiles, spread, title, METRICS[metric].shown_unit, **options)
    table = rows[["layer", "head", "n_texts", "std", *QUANTILES]].reset_index(drop=True)
    name = f"{title} over texts, all heads"
    return StudyFigure(name, draw, table, source_line(study, title, "quantiles over texts"))


_MOST_LINES = 5  # of heads over the steps of a training run


def over_steps(
    steps: pd.DataFrame,
    name: str,
    source: str,
    head: Head | None = None,
    layer_numbers: Sequence[int] = (),
) -> StudyFigure:
    """Make the picture of a metric or label while a model learned, for the heads that change most.

    `steps` is of `StudySet.over_steps`, `name` as for `StudySet.figure`; `head` is drawn first.
    Raises ArgumentError: there is no such name.
    """
    rows = steps[steps["name"] == name]
    if rows.empty:
        names = ", ".join(dict.fromkeys(steps["name"]))
        raise ArgumentError(f"There is no {name!r} in this training run; there are: {names}.")
    key, label = name.removeprefix(LABEL), LABELS.get(name)
    if name == key:
        title, unit = METRICS[key].title, METRICS[key].shown_unit or "mean over texts"
    else:
        title, unit = f"Label “{LABELS[key].title}”", "share of texts"
    if name == "induction":
        source += " · random tokens, repeated, in place of these texts"
    by = {end: rows.pivot(index="step", columns=["layer", "head"], values=end) for end in _ENDS}
    reach = (by["mean"].max() - by["mean"].min()).sort_values(ascending=False, kind="stable")
    first = [] if head is None or head not in reach.index else [head]
    moving = [layer_head for layer_head in reach.index[reach > 0] if layer_head not in first]
    drawn = [*first, *moving][:_MOST_LINES] or [reach.index[0]]
    positions = range(len(by["mean"]))
    axes = LineAxes(
        title=f"{title} while the model learned",
        x_title="training step",
        y_title=unit,
        bands={
            head_name(*layer_head, numbers=layer_numbers): (
                by["low"][layer_head],
                by["high"][layer_head],
            )
            for layer_head in drawn
        },
        more={"xaxis": ticks(by["mean"].index.tolist(), positions)},
    )
    if label is not None and label.metric == name and not label.relative:
        axes["levels"] = {f"label: {label.threshold:g}": label.threshold}
    lines = {
        head_name(*layer_head, numbers=layer_numbers): (positions, by["mean"][layer_head])
        for layer_head in drawn
    }
    return StudyFigure(
        axes["title"], partial(curves, lines, axes), rows.drop(columns="name"), source
    )


def histogram(
    study: Study, metric: str, head: Head, mark: float | None = None
) -> StudyFigure | None:
    """Make the histogram of one head's scores over texts; None where no text defines any.

    `mark` is the score of another text, which is marked. Bins fit the texts, where the study keeps
    single ones; else they are the stored ones.
    """
    about, name = METRICS[metric], name_in(study, head)
    counts = of_head(study.sql(f"SELECT * FROM histogram WHERE metric = '{about.key}'"), head)
    if counts.empty:
        return None
    limits, numbers = bin_limits(metric), np.zeros(N_BINS, int)
    numbers[counts["bin"]] = counts["n"]
    if study.has_texts:
        scores = scores_of_head(study, *head)[about.key].dropna().to_numpy(float)
        limits = fitting_limits(scores)
        numbers = np.histogram(scores.clip(limits[0], limits[-1]), limits)[0]
    at = np.flatnonzero(numbers)
    title = f"{about.title}, {name}"
    draw = partial(histogram_bars, limits, numbers, title, about.shown_unit, mark=mark)
    table = pd.DataFrame({"from": limits[at], "to": limits[at + 1], "texts": numbers[at]})
    caption = source_line(study, name, about.title, "histogram over texts")
    return StudyFigure(f"{about.title} of {name} over texts", draw, table, caption)


def fitting_limits(scores: Float[np.ndarray, " text"]) -> Float[np.ndarray, " limit"]:
    """Return limits of bins for finite scores: of a round width, more of them for more scores.

    There are at most 64 bins, and three times what Rice's rule says (6 n^(1/3)); or fewer, since
    the width is 1, 2 or 5 times a power of ten. Scores that are all equal have one bin around them.

    >>> fitting_limits(np.array([0.31, 0.5, 0.94]))
    array([0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1. ])
    """
    low, high = float(scores.min()), float(scores.max())
    if low == high:
        return np.array([low - 0.5, low + 0.5])
    least = (high - low) / min(np.ceil(6 * len(scores) ** (1 / 3)), N_BINS)
    exponent = int(np.floor(np.log10(least)))
    width = next(step for step in (1, 2, 5, 10) if step * 10.0**exponent >= least) * 10.0**exponent
    limits = width * np.arange(np.floor(low / width), np.ceil(high / width) + 1)
    return limits.round(1 - exponent)  # 0.47, not 0.47000000000000003


def profile(study: Study, axis: str, head: Head) -> StudyFigure:
    """Make the bars of where one head's weight goes, by "offset" or "kind" of key."""
    rows = of_head(study.profile_by(axis), head)
    title, name = PROFILES[axis], name_in(study, head)
    drawn = rows[rows[axis].isin(DRAWN_OFFSETS)] if axis == "offset" else rows
    keys = [true_minus(str(key)) if axis == "offset" else key for key in drawn[axis]]
    draw = partial(token_bars, {name: drawn["weight"].to_numpy()}, keys, "weight")
    table = rows[[axis, "weight"]].reset_index(drop=True)
    return StudyFigure(f"{title} of {name}", draw, table, source_line(study, name, title))


def pairs(study: Study, measure: str, selected: Head | None = None) -> StudyFigure:
    """Make the matrix of every two heads' likeness over texts, ordered by cluster."""
    about, matrix = METRICS[measure], study.pairs(measure)
    apart = as_distances(torch.from_numpy(matrix), measure)
    names = [name_in(study, head) for head in np.ndindex(study.n_layers, study.n_heads)]
    ordered = head_order(apart, by="cluster")
    shape: dict[str, Any] = {"n_heads": study.n_heads, "layer_numbers": study.layer_numbers}
    compared = HeadPairs(matrix, names, ordered, unit=about.shown_unit, **shape)
    lowest, highest = about.limits
    limits = (lowest, 1.0 if highest is None else highest)
    marks = Marks(selected=selected)
    draw = partial(
        similarity_matrix,
        compared,
        title=f"{about.title}, mean over texts",
        limits=limits,
        diverging=lowest < 0,
        marks=marks,
    )
    table = pd.DataFrame(matrix, columns=names, index=names).reset_index(names="Head")
    caption = source_line(study, about.title, "mean over texts, order: cluster")
    return StudyFigure(f"{about.title} of every two heads", draw, table, caption)


def parts_of_speech(study: Study, head: Head) -> StudyFigure:
    """Make the matrix of one head's weight from part of speech to part of speech."""
    rows, name = of_head(study.parts_of_speech, head), name_in(study, head)
    weight, expected = (
        rows.pivot(index="from_upos", columns="to_upos", values=column)
        .reindex(index=PARTS, columns=PARTS)
        .to_numpy(float)
        for column in ("weight", "expected")
    )
    words = rows.groupby("from_upos")["n_words"].first()
    looking = [f"{part} {words.get(part, 0):,}" for part in PARTS]
    few = [row for row, part in enumerate(PARTS) if 0 < words.get(part, 0) < MIN_TARGETS]

    def draw(dark: bool = False) -> go.Figure:
        figure = difference_heatmap(
            (expected, weight),
            (looking, PARTS),
            title=f"Weight from part of speech to part of speech, {name}",
            names=("spread evenly", "this head"),
            side=420,
            dark=dark,
        )
        cells.fade_rows(figure, few, len(PARTS), dark)
        return figure

    table = rows.drop(columns=["layer", "head"]).reset_index(drop=True)
    caption = source_line(study, name, "weight by part of speech")
    return StudyFigure(f"Parts of speech of {name}", draw, table, caption)
