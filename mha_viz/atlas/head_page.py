"""The page of a head: what it does in numbers, where it looks, and texts from every decile."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd

from mha_viz.atlas.bars import histogram_bars, kind_bars, offset_bars
from mha_viz.atlas.model_parts import ModelParts
from mha_viz.atlas.pages import head_file, page
from mha_viz.core.amounts import format_number
from mha_viz.core.metrics import LABELS, METRICS
from mha_viz.core.reprs import count
from mha_viz.corpus.query.study import Study
from mha_viz.corpus.treebank.parts_of_speech import PARTS
from mha_viz.engine.model import AttentionModel
from mha_viz.paper import figures
from mha_viz.paper.all_heads import UNTRAINED, has_untrained
from mha_viz.paper.figures import Head, name_in, of_head
from mha_viz.paper.head_sentence import head_sentence
from mha_viz.paper.report import NOTES, head_relations, titled

FALLBACK = "entropy"  # the score of a head without a label
N_RELATIONS = 12
MOST_ARCS = 24  # of a text, the heaviest


class HeadPages:
    """The pages of all heads of a study.

    Args:
        study: of any model.
        model: the study's.
        by: the metric that example texts are ranked by; None takes that of each head's label.
    """

    def __init__(self, study: Study, model: AttentionModel, by: str | None) -> None:
        self.study, self.model, self.by = study, model, by
        self.heads = list(np.ndindex(study.n_layers, study.n_heads))
        self.names = [name_in(study, head) for head in self.heads]
        self.files = [head_file(study, head).removeprefix("heads/") for head in self.heads]
        self.labels, self.means = study.labels, study.heads
        self.untrained = study.sql(f"SELECT * FROM {UNTRAINED}") if has_untrained(study) else None
        self.relations = study.relations if study.has_trees else None
        self.parts = ModelParts(study, model)

    def render(self, head: Head) -> tuple[bytes, list[int]]:
        """Return a head's page, and the texts that it shows."""
        at, (layer, number) = self.heads.index(head), head
        score = self._score(head)
        histogram = figures.histogram(self.study, score, head)
        bands, arcs = self._examples(head, score)
        labels = titled(of_head(self.labels, head), self.study.layer_numbers)
        content = {
            "name": self.names[at],
            "sentence": head_sentence(self.study, head, self.relations),
            "before": self._link(at - 1),
            "behind": self._link(at + 1),
            "labels": labels.drop(columns="Head"),
            "offsets": offset_bars(figures.profile(self.study, "offset", head).table),
            "kinds": kind_bars(figures.profile(self.study, "kind", head).table),
            "histogram": None if histogram is None else histogram_bars(histogram.table),
            "score": METRICS[score],
            "bands": bands,
            "why_no_spaces": self.parts.why_no_spaces,
            "words": self.parts.words(layer, number),
            "grammar": self._grammar(head),
            "numbers": self._numbers(head),
            "notes": NOTES,
        }
        spaces = self.parts.next_spaces()
        data = {"at": at, "layer": layer, "head": number, "arcs": arcs, "spaces": spaces}
        title = f"{self.names[at]} of {self.study.manifest['model']['name']}"
        return page(self.study, "head.html", title, content, data), [int(arc) for arc in arcs]

    def _link(self, at: int) -> tuple[str, str] | None:
        """Return file and name of the head at a place in order, None beyond the first and last."""
        return (self.files[at], self.names[at]) if 0 <= at < len(self.heads) else None

    def _score(self, head: Head) -> str:
        """Return the metric that a head's texts are ranked by: that of the label it has most."""
        if self.by is not None:
            return self.by
        rows = of_head(self.labels, head).sort_values("share_of_texts", kind="stable")
        metrics = [LABELS[label].metric for label in rows["label"]]
        measured = [metric for metric in metrics if metric in set(self.means["metric"])]
        return measured[-1] if measured else FALLBACK

    def _numbers(self, head: Head) -> pd.DataFrame:
        """Return a head's means with their intervals, beside those of random weights."""
        rows = of_head(self.means, head).set_index("metric")
        ends = rows[["low", "high"]].map(format_number)
        columns: dict[str, Any] = {
            "Metric": [METRICS[key].title for key in rows.index],
            "Unit": [METRICS[key].shown_unit for key in rows.index],
            "Mean": rows["mean"].tolist(),
            "95 % interval": (ends["low"] + " to " + ends["high"]).tolist(),
        }
        if self.untrained is not None:
            random = of_head(self.untrained, head).set_index("metric")["mean"]
            columns["Random weights"] = random.reindex(rows.index).tolist()
        return pd.DataFrame(columns | {"Texts": rows["n_texts"].tolist()})

    def _grammar(self, head: Head) -> dict[str, Any]:
        """Return what a head finds in gold trees; {} where there are none."""
        if self.relations is None:
            return {}
        rows = figures.parts_of_speech(self.study, head).table
        cells = {(a, b): of for a, b, of in rows[["from_upos", "to_upos", "weight"]].to_numpy()}
        present = [part for part in PARTS if part in set(rows["from_upos"])]
        return {
            "relations": head_relations(self.relations, head, self.study.layer_numbers).head(
                N_RELATIONS
            ),
            "parts": present,
            "cells": cells,
        }

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
        for text_id, query, key, weight in rows.itertuples(index=False, name=None):
            of_text = arcs[str(text_id)]
            if len(of_text) < MOST_ARCS:
                of_text.append([query, key, float(f"{weight:.3g}")])
        return arcs
