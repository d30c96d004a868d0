"""The first page of an atlas: all heads by any two numbers, and what each has earned."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
from jaxtyping import Float

from mha_viz.atlas.pages import head_file, linked, made_on, page
from mha_viz.core.layer_numbers import layer_names
from mha_viz.core.metrics import LABELS, METRICS
from mha_viz.corpus.query.study import Study
from mha_viz.paper.figures import by_head, name_in, of_head
from mha_viz.paper.report import NOTES, titled
from mha_viz.web.payload import finite

_START = {"x": "distance", "y": "entropy", "colour": "previous_token"}
_UNTRAINED = "untrained_heads"


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
    places = labels[["layer", "head"]].to_numpy().tolist()
    table = titled(labels, study.layer_numbers)
    content = {
        "map_rows": _map_rows(study),
        "labels": linked(study, table, [(layer, head) for layer, head in places]),
        "labels_note": NOTES["labels"],
        "notes": study.notes,
        "units": study.unit_note,
        "made_on": made_on(),
        "versions": study.manifest["versions"],
        "manifest": study.manifest,
    }
    title = f"Atlas of {study.manifest['model']['name']}"
    return page(study, "index.html", title, content, data)


def _map_rows(study: Study) -> list[tuple[str, list[tuple[str, int]]]]:
    """Return the rows of the map: a layer's name, and file and number of each of its heads."""
    names = layer_names(study.n_layers, study.layer_numbers)
    return [
        (names[layer], [(head_file(study, (layer, head)), head) for head in range(study.n_heads)])
        for layer in range(study.n_layers)
    ]


def _quantities(study: Study) -> list[dict[str, Any]]:
    """Return all that heads can be laid out by: layer, head, and each metric with its interval."""
    places = np.indices((study.n_layers, study.n_heads))
    numbers = [number or layer for layer, number in enumerate(study.layer_numbers)]
    places[0] = np.array(numbers or range(study.n_layers))[:, None]
    quantities = [
        {"key": key, "title": key.title(), "unit": "", "values": values.ravel().tolist()}
        for key, values in zip(("layer", "head"), places, strict=True)
    ]
    rows, untrained = study.heads, _untrained(study)
    for key, of_metric in rows.groupby("metric", sort=False):
        about = METRICS[str(key)]
        quantity: dict[str, Any] = {"key": key, "title": about.title, "unit": about.shown_unit}
        for name, column in (("values", "mean"), ("low", "low"), ("high", "high")):
            quantity[name] = _numbers(study, of_metric, column)
        if untrained is not None:
            random = untrained[untrained["metric"] == key]
            quantity["untrained"] = _numbers(study, random, "mean")
        quantities.append(quantity)
    return quantities


def _untrained(study: Study) -> pd.DataFrame | None:
    """Read the means of random weights, where there are any."""
    tables = study.sql("SELECT table_name FROM information_schema.tables")["table_name"]
    if _UNTRAINED not in set(tables):
        return None
    return study.sql(f"SELECT layer, head, metric, mean FROM {_UNTRAINED}")


def _numbers(study: Study, rows: pd.DataFrame, column: str) -> list[float | None]:
    values: Float[np.ndarray, "layer head"] = by_head(study, rows, column)
    return finite(values)
