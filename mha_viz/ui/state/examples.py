"""Sentences that teach something, and what to look for in them; examples.toml lists them."""

import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Any


@dataclass(frozen=True, slots=True)
class Example:
    """A text worth looking at."""

    title: str  # in the menu
    text: str  # as it is typed
    model: str  # shipped, that shows it
    look: str  # what to look for, in words
    head: tuple[int, int] | None = None  # (layer, head); None where there is nothing to find
    pair: str = ""  # a second sentence
    n_tokens: int = 0  # of a long text, all of which has to be read; 0 is a sentence


def _read(entry: dict[str, Any]) -> Example:
    head = entry.pop("head", None)
    return Example(**entry, head=None if head is None else (head[0], head[1]))


_FILE = Path(__file__).with_suffix(".toml")
EXAMPLES = tuple(map(_read, tomllib.loads(_FILE.read_text("utf-8"))["example"]))


def example_head(model: str, text: str) -> tuple[int, int] | None:
    """Return the head that an example points at, on its model; None for any other text."""
    heads = (example.head for example in EXAMPLES if (example.model, example.text) == (model, text))
    return next(heads, None)
