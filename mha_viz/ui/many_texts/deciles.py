"""Texts from every decile of a head's score, and a typed text ranked among them."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from typing import Any, NamedTuple

import pandas as pd
import streamlit as st
import torch

from mha_viz.core.measure import measure
from mha_viz.core.record.attention_record import AttentionRecord
from mha_viz.corpus.query.example_texts import DecilePlace
from mha_viz.corpus.query.study import Study
from mha_viz.errors import MhaVizError
from mha_viz.paper.figures import source_line
from mha_viz.ui.many_texts import TEXTS, measures
from mha_viz.ui.many_texts.examples import MAX_ARCS, heaviest
from mha_viz.ui.many_texts.heads_link import heads_address
from mha_viz.ui.run import memory
from mha_viz.ui.state import faults
from mha_viz.ui.state.views import ManyTexts
from mha_viz.ui.widgets.components.decile_texts import Band, DrawnText, TypedText, decile_texts
from mha_viz.ui.widgets.components.sentence_arcs import Arc, Piece
from mha_viz.ui.widgets.exports import downloads
from mha_viz.ui.widgets.messages import words
from mha_viz.ui.widgets.messages.notices import plain

_MIN_WEIGHT = 0.3  # of an arc, as in a study's edges: below it, only the strongest key of a query


class Measured(NamedTuple):
    """A typed text: its record, and every metric of every head."""

    record: AttentionRecord
    scores: Mapping[str, torch.Tensor]

    def score(self, metric: str, head: tuple[int, int]) -> float:
        """Return a head's score; NaN where the metric is not defined on the text."""
        return float(self.scores[metric][head]) if metric in self.scores else float("nan")


def typed_text(view: ManyTexts) -> Measured | None:
    """Run the typed text, and measure it; None, with the reason, where that cannot be."""
    text = view.typed.strip()
    if not text:
        return None

    def run() -> Measured:
        record = memory.model(*view.checkpoint).trace(text, keep=("pattern", "z"))
        return Measured(record, measure(record))

    key = "typed text", view.checkpoint, text
    try:
        return memory.cache().get(key, run, lambda measured: measured.record.held_bytes)
    except MhaVizError as error:
        st.error(plain(faults.sentence(error)), icon=":material/error:")
        return None


def draw(study: Study, view: ManyTexts) -> None:
    """Draw three texts of every decile, the highest first, and the typed one in its own."""
    by, matched = measures.score(view), not view.any_length
    texts = study.deciles(*view.chosen, by=by, match_length=matched)
    if texts.empty:
        st.markdown("No text defines it for this head.")
        return
    name, title = words.head_name(*view.chosen), measures.score_title(view)
    length = "matched" if matched else "any_length"
    st.markdown(TEXTS("deciles.title", name=name, title=title, length=TEXTS(f"deciles.{length}")))
    limits = float(texts["band_from"].min()), float(texts["band_to"].max())
    typed = _typed(study, view, limits)
    arcs = heaviest(study, view.chosen, texts["text_id"].tolist())
    bands = [_band(view, rows, limits, arcs) for _, rows in texts.groupby("band", sort=True)][::-1]
    st.caption(TEXTS("deciles.weights", most=MAX_ARCS))
    decile_texts(bands, typed, key="many-deciles")
    table, caption = texts.drop(columns="text_id"), source_line(study, name, title, "deciles")
    file_name = f"Texts of {name} by decile of {title}"
    downloads.table_file(table, key="many-deciles-file", name=file_name, caption=caption)


def _band(
    view: ManyTexts,
    rows: pd.DataFrame,
    limits: tuple[float, float],
    arcs: Mapping[int, tuple[list[Piece], list[Arc]]],
) -> Band:
    about = rows.iloc[0]
    low, high = float(about["band_from"]), float(about["band_to"])
    ends = dict.fromkeys(words.format_number(end) for end in (low, high))
    drawn = [_text(view, row, *arcs[row["text_id"]]) for row in rows[::-1].to_dict("records")]
    count = words.count(int(about["n_texts"]), "text")
    shares = _share(low, limits), _share(high, limits)
    return Band(int(about["band"]), " to ".join(ends), count, *shares, drawn)


def _text(
    view: ManyTexts, row: Mapping[Hashable, Any], pieces: list[Piece], arcs: list[Arc]
) -> DrawnText:
    says = f"{words.format_number(row['value'])}, {words.count(row['n_tokens'], 'token')}"
    return DrawnText(says, heads_address(view, row["text"], view.chosen), pieces, arcs)


def _share(value: float, limits: tuple[float, float]) -> float:
    """Return how far a value lies on the way from the lowest score to the highest."""
    low, high = limits
    return (value - low) / (high - low) if high > low else 0.5


def _typed(study: Study, view: ManyTexts, limits: tuple[float, float]) -> TypedText | None:
    """Return the typed text with its decile; None, with the reason, where it has none."""
    measured = typed_text(view)
    if measured is None:
        return None
    by, n_tokens = measures.score(view), len(measured.record.tokens)
    value = measured.score(measures.score_metric(view), view.chosen)
    if value != value:
        st.info(TEXTS("deciles.undefined", title=measures.score_title(view)))
        return None
    decile = study.decile_of(value, n_tokens, *view.chosen, by, not view.any_length)
    pieces = [Piece(token.text, token.is_special) for token in measured.record.tokens]
    says = _decile_line(value, n_tokens, decile)
    address = heads_address(view, measured.record.text, view.chosen)
    text = DrawnText(says, address, pieces, _heaviest_arcs(measured.record, view.chosen))
    return TypedText(decile.band, _share(value, limits), "Your text", text)


def _decile_line(value: float, n_tokens: int, decile: DecilePlace) -> str:
    """Say where a score lies among those of the texts that it is compared with.

    >>> _decile_line(0.5, 7, DecilePlace(9, 0.83, 40))
    '0.5, 7 tokens: decile 9, above 83 % of 40 texts'
    """
    score = f"{words.format_number(value)}, {words.count(n_tokens, 'token')}"
    share = f"above {words.format_number(100 * decile.quantile)} %"
    return f"{score}: decile {decile.band}, {share} of {words.count(decile.n_texts, 'text')}"


def _heaviest_arcs(record: AttentionRecord, head: tuple[int, int]) -> list[Arc]:
    """Return the arcs that a study would keep of a text, the heaviest of them."""
    weights = record.patterns.head(*head)
    strongest = torch.zeros_like(weights, dtype=torch.bool)
    strongest.scatter_(1, weights.argmax(1, keepdim=True), True)
    heavy = (weights >= _MIN_WEIGHT) | (strongest & (weights > 0))
    heavy &= ~torch.tensor([token.is_special for token in record.tokens])[:, None]
    queries, keys = heavy.nonzero(as_tuple=True)
    order = weights[queries, keys].argsort(descending=True, stable=True)[:MAX_ARCS]
    pairs = zip(queries[order].tolist(), keys[order].tolist(), strict=True)
    return [Arc(query, key, float(weights[query, key])) for query, key in pairs]
