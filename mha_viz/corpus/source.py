"""The texts of a corpus, one after another."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Item:
    """One text of a source.

    Args:
        number: its place among the readable texts of the source, from 0.
        text: as it was read.
        place: where it stands, "speech.txt:17".
        sentence: its annotation, of a treebank.
    """

    number: int
    text: str
    place: str
    sentence: Any = None
