"""The page of a head: what it does in numbers, where it looks, and texts from every decile."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from mha_viz.atlas.pages import head_file, page
from mha_viz.core.amounts import format_number, true_minus
from mha_viz.core.metrics import LABELS, METRICS
from mha_viz.core.reprs import count
from mha_viz.corpus.query.study import Study
from mha_viz.engine.model import AttentionModel
from mha_viz.paper import figures
from mha_viz.paper.figures import Head, StudyFigure, name_in, of_head
from mha_viz.paper.report import NOTES, titled

FALLBACK = "entropy"  # the score of a head without a label
MOST_ARCS = 24  # of a text, the heaviest


class Bar(NamedTuple):
    """A bar of a picture: shares of its width and height, and what it says."""

    left: str
    width: str
    height: str
    name: str
    says: str


class HeadPages:
    """The pages of all heads of a study; `by` is the metric of their examples, None their labels'."""

    def __init__(self, study: Study, model: AttentionModel, by: str | None) -> None:
        self.study, self.model, self.by = study, model, by
        self.heads = list(np.ndindex(study.n_layers, study.n_heads))
        self.names = [name_in(study, head) for head in self.heads]
        self.files = [head_file(study, head).removeprefix("heads/") for head in self.heads]
        self.labels, self.means = study.labels, study.heads

    def render(self, head: Head) -> tuple[bytes, list[int]]:
        """Return a head's page, and the texts that it shows."""
        at, (layer, number) = self.heads.index(head), head
        score = self._score(head)
        bands, arcs = self._examples(head, score)
        labels = titled(of_head(self.labels, head), self.study.layer_numbers)
        content = {
            "name": self.names[at],
            "before": (self.files[at - 1], self.names[at - 1]) if at else None,
            "behind": (self.files[at + 1], self.names[at + 1])
            if at + 1 < len(self.files)
            else None,
            "labels": labels.drop(columns="Head"),
            "labels_note": NOTES["labels"],
            "offsets": _offset_bars(figures.profile(self.study, "offset", head)),
            "kinds": _kind_bars(figures.profile(self.study, "kind", head)),
            "histogram": _histogram_bars(figures.histogram(self.study, score, head)),
            "score": METRICS[score],
            "bands": bands,
            "numbers": self._numbers(head),
        }
        data = {
            "name": self.names[at], "layer": layer, "head": number, "arcs": arcs,
            "names": self.names, "files": self.files,
        }  # fmt: skip
        title = f"{self.names[at]} of {self.study.manifest['model']['name']}"
        return page(self.study, "head.html", title, content, data), [int(one) for one in arcs]

    def _score(self, head: Head) -> str:
        """Return the metric that a head's texts are ranked by: that of the label it has most."""
        if self.by is not None:
            return self.by
        rows = of_head(self.labels, head).sort_values("share_of_texts", kind="stable")
        metrics = [LABELS[label].metric for label in rows["label"]]
        measured = [metric for metric in metrics if metric in set(self.means["metric"])]
        return measured[-1] if measured else FALLBACK

    def _numbers(self, head: Head) -> pd.DataFrame:
        rows = of_head(self.means, head)
        ends = [
            f"{format_number(low)} to {format_number(high)}"
            for low, high in rows[["low", "high"]].to_numpy().tolist()
        ]
        return pd.DataFrame(
            {
                "Metric": [METRICS[key].title for key in rows["metric"]],
                "Unit": [METRICS[key].shown_unit for key in rows["metric"]],
                "Mean": rows["mean"].tolist(),
                "95 % interval": ends,
                "Texts": rows["n_texts"].tolist(),
            }
        )

    def _examples(self, head: Head, score: str) -> tuple[list[dict[str, Any]], dict[str, Any]]:
        """Return the bands of deciles with their texts, and the arcs of each text."""
        if not self.study.has_texts:
            return [], {}
        rows = self.study.deciles(*head, by=score)
        bands = [
            {
                "number": number,
                "ends": [float(of_band[end].iloc[0]) for end in ("band_from", "band_to")],
                "n_texts": count(int(of_band["n_texts"].iloc[0]), "text"),
                "texts": of_band.to_dict("records"),
            }
            for number, of_band in rows.groupby("band")
        ]
        return bands[::-1], self._arcs(head, rows["text_id"].tolist())

    def _arcs(self, head: Head, text_ids: Sequence[int]) -> dict[str, Any]:
        """Return the heaviest weights of each text that the study keeps: query, key, weight."""
        arcs: dict[str, Any] = {str(text_id): [] for text_id in text_ids}
        ids = ", ".join(map(str, text_ids)) or "NULL"
        rows = self.study.sql(
            f"""SELECT text_id, query, key, weight FROM edges WHERE text_id IN ({ids})
            AND layer = {head[0]} AND head = {head[1]} ORDER BY weight DESC, query, key"""
        )
        for row in rows.itertuples():
            of_text = arcs[str(row.text_id)]
            if len(of_text) < MOST_ARCS:
                of_text.append([int(row.query), int(row.key), float(f"{row.weight:.3g}")])
        return arcs


def _percent(share: float) -> str:
    return f"{100 * share:.4g}"


def _offset_bars(figure: StudyFigure) -> tuple[StudyFigure, list[Bar]]:
    rows = figure.table[figure.table["offset"].isin(figures.NEAR)]
    top = max(rows["weight"].max(), 1e-9) if len(rows) else 1.0
    width = 1 / max(1, len(rows))
    bars = [
        Bar(
            _percent((at + 0.1) * width),
            _percent(0.8 * width),
            _percent(row.weight / top),
            true_minus(str(row.offset)),
            f"{true_minus(str(row.offset))}: {format_number(row.weight)}",
        )
        for at, row in enumerate(rows.itertuples())
    ]
    return figure, bars


def _kind_bars(figure: StudyFigure) -> tuple[StudyFigure, list[Bar]]:
    bars = [
        Bar("0", _percent(row.weight), "", str(row.kind), format_number(row.weight))
        for row in figure.table.itertuples()
    ]
    return figure, bars


def _histogram_bars(figure: StudyFigure | None) -> tuple[StudyFigure, list[Bar]] | None:
    if figure is None:
        return None
    rows = figure.table.set_axis(["low", "high", "texts"], axis=1)
    first, reach = rows["low"].min(), rows["high"].max() - rows["low"].min()
    bars = [
        Bar(
            _percent((row.low - first) / reach),
            _percent((row.high - row.low) / reach),
            _percent(row.texts / rows["texts"].max()),
            "",
            f"{format_number(row.low)} to {format_number(row.high)}: {count(row.texts, 'text')}",
        )
        for row in rows.itertuples()
    ]
    return figure, bars
