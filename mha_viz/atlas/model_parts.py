"""The model's parts of a head's page: four spaces over tokens of texts, and words."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from mha_viz.circuits.attribution.head_spaces import spaces_of_heads
from mha_viz.circuits.composition.head_vocabulary import head_vocabulary
from mha_viz.core.compare.token_spaces import SPACES, HeadSpaces
from mha_viz.corpus.query.study import Study
from mha_viz.engine.model import AttentionModel
from mha_viz.errors import MhaVizError
from mha_viz.paper.space_figures import colourings, token_colours
from mha_viz.text.encoding import encode_texts
from mha_viz.web.labels import clean

RECEIVED = "received"  # the colouring that each head has its own values of
N_TEXTS = 200  # whose tokens are drawn
MAX_POINTS = 300  # tokens in each space
N_COMPONENTS = 4
MAX_WORDS = 4_096  # tokens between which words are looked for
N_PAIRS, N_RANDOM = 8, 2  # of words; random matrices that chance is taken from


class Words(NamedTuple):
    """The strongest pairs of words of each circuit, and what is to be said of them."""

    circuits: dict[str, pd.DataFrame]
    notes: tuple[str, ...]


class ModelParts:
    """The spaces and words of the heads of a study's model, over its texts.

    Args:
        study: whose texts are drawn; without them there are no spaces.
        model: the study's.
    """

    def __init__(self, study: Study, model: AttentionModel) -> None:
        self.study, self.model = study, model
        self.texts = _drawn_texts(study) if study.has_texts else {}
        self.tokens = _frequent_tokens(model, list(self.texts))
        self.why_no_spaces = "" if self.texts else "This study keeps no single texts."
        self.sample: dict[str, Any] = {}  # the tokens of the spaces, once a head was read
        self._spaces: Iterator[HeadSpaces] = iter(())
        if self.texts:
            texts = list(self.texts)
            try:
                self._spaces = iter(
                    spaces_of_heads(model, texts, n_components=N_COMPONENTS, max_tokens=MAX_POINTS)
                )
            except MhaVizError as refusal:
                self.why_no_spaces = str(refusal)

    def next_spaces(self) -> dict[str, Any]:
        """Return the spaces of the next head, in order of layer; {} where there are none."""
        if self.why_no_spaces:
            return {}
        spaces = next(self._spaces)
        self.sample = self.sample or self._described(spaces)
        axes = spaces.coordinates.numpy().transpose(0, 2, 1)
        return {
            "names": [name.title() for name in SPACES],
            "axes": [[_short(axis) for axis in space] for space in axes],
            "explained": [_short(shares) for shares in spaces.explained.numpy()],
            RECEIVED: _short(spaces.received.numpy()),
        }

    def _described(self, spaces: HeadSpaces) -> dict[str, Any]:
        """Return label, text and position of each token, and what it can be coloured by."""
        colours = {}
        for key in colourings(self.study):
            if key != RECEIVED:
                title, values, names = vars(token_colours(self.study, spaces, key)).values()
                colours[key] = {"title": title, "values": values.tolist(), "names": names}
        return {
            "label": [clean(token.text) for token in spaces.tokens],
            "text": [self.texts[spaces.texts[number]] for number in spaces.text.tolist()],
            "position": spaces.position.tolist(),
            "colours": colours,
        }

    def words(self, layer: int, head: int) -> Words:
        """Return the pairs of words that a head's weights favour, or why there are none."""
        try:
            vocabulary = head_vocabulary(
                self.model, layer, head,
                top_k=N_PAIRS, n_random=N_RANDOM, tokens=self.tokens,
            )  # fmt: skip
        except MhaVizError as refusal:
            return Words({}, (str(refusal),))
        tables = {
            name: circuit.pairs.iloc[:, :4].rename(columns=str.capitalize)
            for name, circuit in vocabulary.circuits.items()
        }
        return Words(tables, vocabulary.notes)


def _drawn_texts(study: Study) -> dict[str, int]:
    """Draw texts of a study; return their numbers."""
    rows = study.sql(
        f"SELECT text, text_id FROM sentences ORDER BY hash(text_id, 0), text_id LIMIT {N_TEXTS}"
    )
    return {str(text): int(text_id) for text, text_id in rows.itertuples(index=False, name=None)}


def _frequent_tokens(model: AttentionModel, texts: Sequence[str]) -> list[int] | None:
    """Return the tokens that words are looked for among; None for all of a small vocabulary."""
    if model.d_vocab <= MAX_WORDS or not texts:
        return None
    counts = Counter(
        token.id for text in texts for token in encode_texts(model.reader, text)[0].tokens
    )
    return [number for number, _ in counts.most_common(MAX_WORDS)]


def _short(values: np.ndarray) -> list[float]:
    """Return numbers with the digits that a picture needs."""
    return [float(f"{value:.3g}") for value in values.tolist()]
