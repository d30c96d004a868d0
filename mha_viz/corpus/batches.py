"""Texts to batches: encoded, sorted by length, and cut so that little of a batch is padding."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from mha_viz.core.asking import ask
from mha_viz.corpus.source import Item
from mha_viz.errors import ArgumentError, TextError
from mha_viz.text.encoding import Reader, encode_texts
from mha_viz.text.tokens import Encoded

# What one more pass through a model costs, in tokens of padding: 16 for tiny-bert on a CPU's core
# before anything is measured, and more then.
PASS_TOKENS = 32


@dataclass(frozen=True)
class Batch:
    """Texts that go through the model together, from the shortest to the longest.

    Args:
        items: the texts.
        encoded: each as the model wants it.
    """

    items: tuple[Item, ...]
    encoded: tuple[Encoded, ...]

    @property
    def n_real(self) -> int:
        """How many tokens the texts have."""
        return sum(len(encoded.input_ids) for encoded in self.encoded)

    @property
    def n_padded(self) -> int:
        """How many they have when all are filled up to the longest."""
        return len(self.encoded) * max(len(encoded.input_ids) for encoded in self.encoded)


class Prepared(NamedTuple):
    """A shard that is ready to be measured.

    Args:
        number: of the shard.
        batches: of its texts.
        skipped: place and reason of each text that the model's tokenizer could not read.
    """

    number: int
    batches: list[Batch]
    skipped: list[tuple[str, str]]


def batches(
    reader: Reader, items: Iterable[Item], batch_tokens: int
) -> tuple[list[Batch], list[tuple[str, str]]]:
    """Texts encoded and packed; what is in which batch depends on the texts and the budget alone.

    Args:
        reader: of the model.
        items: texts, of one shard.
        batch_tokens: the most tokens of a batch, padding included; a longer text goes alone.

    Returns:
        The batches, from short texts to long ones, and the place and reason of each text that
        cannot be encoded.

    Raises:
        ArgumentError: a budget below 1.
    """
    if batch_tokens < 1:
        raise ArgumentError(f"batch_tokens={batch_tokens}: expected 1 or more.")
    pairs: list[tuple[Item, Encoded]] = []
    skipped: list[tuple[str, str]] = []
    for item in items:
        ask()
        try:
            pairs.append((item, encode_texts(reader, item.text)[0]))
        except TextError as error:
            skipped.append((item.place, str(error)))
    pairs.sort(key=lambda pair: (_length(*pair), pair[0].number))
    ends = _cuts([_length(*pair) for pair in pairs], batch_tokens)
    packed = [pairs[begin:end] for begin, end in zip([0, *ends], ends, strict=False)]
    return [Batch(*map(tuple, zip(*pairs, strict=True))) for pairs in packed], skipped


def prepared(
    shards: Iterable[tuple[int, Sequence[Item]]],
    reader: Reader,
    batch_tokens: int,
    is_done: Callable[[int], bool] = lambda number: False,
) -> Generator[Prepared, None, None]:
    """Shards in their order; while one is measured, a thread reads and encodes the next.

    What goes wrong in the thread is raised here. A consumer that stops closes the iterator, which
    waits for the one shard that is being read.

    Args:
        shards: numbers and texts (`source.shards`).
        reader: of the model.
        batch_tokens: as for `batches`.
        is_done: whether a shard is measured already; it then comes without batches.
    """
    coming = iter(shards)

    def prepare() -> Prepared | None:
        for number, items in coming:
            found = ([], []) if is_done(number) else batches(reader, items, batch_tokens)
            return Prepared(number, *found)
        return None

    with ThreadPoolExecutor(1, thread_name_prefix="texts") as thread:
        ahead = thread.submit(prepare)
        while (shard := ahead.result()) is not None:
            ahead = thread.submit(prepare)
            yield shard


def _length(item: Item, encoded: Encoded) -> int:
    """How many tokens a text has; or words, where its tree has more: of a text that was cut."""
    n_words = 0 if item.sentence is None else len(item.sentence.words)
    return max(len(encoded.input_ids), n_words)


def _cuts(lengths: list[int], batch_tokens: int) -> list[int]:
    """Where batches of texts sorted by length end, so that padding and passes cost the least.

    The cheapest cut of the first n texts is the cheapest cut of fewer and one batch more.
    """
    cost = np.zeros(len(lengths) + 1, dtype=np.int64)
    begins = np.zeros(len(lengths) + 1, dtype=np.int64)
    for end, longest in enumerate(lengths, 1):
        most = max(1, batch_tokens // longest)
        begin = np.arange(max(0, end - most), end)
        costs = cost[begin] + (end - begin) * longest + PASS_TOKENS
        begins[end], cost[end] = begin[costs.argmin()], costs.min()
    ends: list[int] = []
    end = len(lengths)
    while end:
        ends.append(end)
        end = int(begins[end])
    return ends[::-1]
