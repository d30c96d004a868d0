"""The first page of an atlas: all heads by any two numbers, and what each has earned."""

from __future__ import annotations

from typing import Any

import numpy as np

from mha_viz.atlas.pages import head_file, made_on, page
from mha_viz.core.layer_numbers import layer_names
from mha_viz.core.metrics import LABELS
from mha_viz.corpus.query.study import Study
from mha_viz.paper.all_heads import (
    UNTRAINED,
    ScatterChoices,
    axis_measure,
    has_untrained,
    label_measure,
    scatter_axes,
)
from mha_viz.paper.figures import name_in, of_head, source_line
from mha_viz.paper.report import NOTES, titled
from mha_viz.plots.head_scatter import Measure
from mha_viz.plots.table_text import table_csv
from mha_viz.web.payload import finite

_START = {"x": ScatterChoices().x, "y": ScatterChoices().y, "colour": "entropy"}


def index_page(study: Study) -> bytes:
    """Return the first page of a study's atlas."""
    heads = list(np.ndindex(study.n_layers, study.n_heads))
    quantities = _quantities(study)
    keys = [quantity["key"] for quantity in quantities]
    labels = study.labels
    data = {
        "names": [name_in(study, head) for head in heads],
        "files": [head_file(study, head) for head in heads],
        "labels": [[LABELS[key].title for key in of_head(labels, head)["label"]] for head in heads],
        "quantities": quantities,
        "start": {axis: key if key in keys else keys[0] for axis, key in _START.items()},
    }
    labelled_heads = labels[["layer", "head"]].to_numpy().tolist()
    content = {
        "map_rows": _map_rows(study),
        "labels": titled(labels, study.layer_numbers),
        "label_files": [head_file(study, (layer, head)) for layer, head in labelled_heads],
        "labels_note": NOTES["labels"],
        "notes": study.notes,
        "units": study.unit_note,
        "made_on": made_on(),
        "versions": study.manifest["versions"],
        "manifest": study.manifest,
    }
    title = f"Atlas of {study.manifest['model']['name']}"
    return page(study, "index.html", title, content, data)


def heads_csv(study: Study) -> bytes:
    """Return the means of all heads with their intervals, as a file."""
    caption = source_line(study, study.unit_note)
    return table_csv(titled(study.heads, study.layer_numbers), caption)


def _map_rows(study: Study) -> list[tuple[str, list[tuple[str, int]]]]:
    """Return the rows of the map: a layer's name, and file and number of each of its heads."""
    names = layer_names(study.n_layers, study.layer_numbers)
    return [
        (names[layer], [(head_file(study, (layer, head)), head) for head in range(study.n_heads)])
        for layer in range(study.n_layers)
    ]


def _quantities(study: Study) -> list[dict[str, Any]]:
    """Return all that heads can be laid out by: place, metrics, and shares of texts by label."""
    is_compared = has_untrained(study)
    quantities = []
    for axis in scatter_axes(study):
        quantity = _quantity(axis, axis_measure(study, axis))
        if is_compared:
            quantity["untrained"] = finite(axis_measure(study, axis, UNTRAINED).values)
        quantities.append(quantity)
    labels = study.sql("SELECT DISTINCT label FROM labels")["label"]
    earned = [label for label in LABELS if label in set(labels)]
    return quantities + [_quantity(f"label.{key}", label_measure(study, key)) for key in earned]


def _quantity(key: str, measure: Measure) -> dict[str, Any]:
    quantity: dict[str, Any] = {"key": key, "title": measure.title}
    quantity["values"] = finite(measure.values)
    for end in ("low", "high"):
        if (values := getattr(measure, end)) is not None:
            quantity[end] = finite(values)
    return quantity
