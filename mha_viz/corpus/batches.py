"""Texts packed into batches of about one length, so that little of a batch is padding."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from mha_viz.corpus.source import Item
from mha_viz.errors import MhaVizError
from mha_viz.text.encoding import Reader, encode_texts
from mha_viz.text.tokens import Encoded


@dataclass(frozen=True)
class Batch:
    """Texts that run together.

    Args:
        items: the texts.
        encoded: each as the model reads it.
    """

    items: tuple[Item, ...]
    encoded: tuple[Encoded, ...]

    @property
    def n_real(self) -> int:
        """Tokens of the texts."""
        return sum(len(text.input_ids) for text in self.encoded)

    @property
    def n_padded(self) -> int:
        """Tokens that are run: with the padding behind shorter texts."""
        return len(self.encoded) * max(len(text.input_ids) for text in self.encoded)


def batches(
    reader: Reader, items: Sequence[Item], batch_tokens: int
) -> tuple[list[Batch], list[tuple[str, str]]]:
    """Texts by length, as many to a batch as fit a budget of padded tokens.

    Args:
        reader: of the model.
        items: the texts.
        batch_tokens: the budget; a longer text is a batch by itself.

    Returns:
        The batches, and place and reason of each text that the model cannot read.
    """
    read: list[tuple[Item, Encoded]] = []
    skipped: list[tuple[str, str]] = []
    for item in items:
        try:
            read.append((item, encode_texts(reader, item.text)[0]))
        except MhaVizError as error:
            skipped.append((item.place, str(error)))
    read.sort(key=lambda pair: (len(pair[1].input_ids), pair[0].number))
    groups: list[list[tuple[Item, Encoded]]] = []
    for pair in read:
        longest = len(pair[1].input_ids)  # so far: they come by length
        if not groups or (len(groups[-1]) + 1) * longest > batch_tokens:
            groups.append([])
        groups[-1].append(pair)
    return [Batch(*(tuple(part) for part in zip(*group, strict=True))) for group in groups], skipped
