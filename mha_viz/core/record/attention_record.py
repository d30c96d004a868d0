"""AttentionRecord: the result of one run of one text through one model."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from jaxtyping import Float
from torch import Tensor

from mha_viz.core.layer_numbers import checked_numbers, head_name, is_counted
from mha_viz.core.record import display, file, views
from mha_viz.core.record.checks import (
    Place,
    check_place,
    check_position,
    check_positions,
    check_record,
    check_tokens,
    place_in,
)
from mha_viz.core.record.fields import RecordFields
from mha_viz.core.record.fields import Token as Token
from mha_viz.core.record.patterns import Patterns, StoredPatterns
from mha_viz.core.reprs import record_line
from mha_viz.errors import ArgumentError

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True, eq=False, repr=False, init=False)
class AttentionRecord(RecordFields):
    """The attention of every head of every layer on one text. Immutable and validated.

    Axis order is always layer, head, query, key. Methods return new records.

    Args:
        pattern: float32 (layer, head, query, key); the attention weights, in [0, 1]; a row sums
            to 1, to 0 (a query that may see nothing), or to less where mass was removed. Or
            `patterns`: what computes them when they are asked for, as it does for long texts.
        tokens: labels of the query axis.
        key_tokens: labels of the key axis where it is not the query axis (cross attention).
        z: float32 (layer, head, query, d_head), pattern times values; None where not kept.
        query: float32 (layer, head, query, d_head) as the scores saw it, after rotary embedding;
            None where not kept.
        key, value: float32 (layer, kv_head, key, d_head | d_value), likewise, and what is read from
            each key, biases included; None where not kept. Where query heads share key heads there
            are fewer of these: `for_query_heads` repeats them.
        scale: what each layer multiplies query . key with; empty where not known.
        W_O: each layer's output weights (head, d_head, d_model), shared with the model, not
            copied, and not saved; empty where not known.
        model, family, part, text, text_pair, causal: where the record comes from. `part` is
            "self" for a single stack, or "encoder", "decoder", "cross".
        merged: sub-words were merged to words.
        removed: float32 (layer, head, query), the share of each row's mass that `without_special`
            or `without_first` took away; None where nothing was removed.
        sink: float32 (layer, head, query), the share of each row's softmax that went to a sink
            which the head has learned and which is no key (gpt-oss); None where there are none.
        allowed: bool (layer, query, key), which keys each layer lets a query see; None where all
            of them or, if `causal`, all up to its own, as it is without a sliding window; and
            where `patterns` are computed, which know it as a rule: see `visible_keys`.
            Merged words keep it of the tokens that they were made of.
        notes: what the user needs to know (a truncated text, weights newly initialised).
        layer_numbers: the model's own number, from 0, of each row of the `layer` axis, which lacks
            the layers without attention of a hybrid model; 0, 1, 2 ... if not given. Axes are
            indexed by position, and heads named by number: `record[record.layer_of(7), 1]`.

    Raises:
        RecordError: shapes that do not fit each other, numbers that are not weights.

    >>> import mha_viz as mv
    >>> record = mv.load("tiny-bert").trace("The photographer waved")
    >>> record.shape, record.merge_words().labels
    ((4, 8, 7, 7), ('[CLS]', 'The', 'photographer', 'waved', '[SEP]'))
    >>> record.describe()["model"], record.describe()["shape"]
    ('tiny-bert', [4, 8, 7, 7])
    """

    def __init__(
        self,
        pattern: Any = None,
        tokens: Any = (),
        key_tokens: Any = (),
        *,
        patterns: Patterns | None = None,
        **fields: Any,
    ) -> None:
        if pattern is not None or patterns is None:  # `dataclasses.replace` gives both
            patterns = StoredPatterns(pattern)
        tokens = check_tokens("tokens", tokens)
        keys = check_tokens("key_tokens", key_tokens) or tokens
        super().__init__(patterns, tokens, keys, **fields)
        check_record(self)
        # `dataclasses.replace` hands on what was counted, also to a record of fewer layers
        numbers = () if is_counted(self.layer_numbers) else self.layer_numbers
        object.__setattr__(self, "layer_numbers", checked_numbers(numbers, self.n_layers))

    # -- one head, two heads, all of them ------------------------------------------------------

    def head(self, layer: int, head: int) -> Float[Tensor, "query key"]:
        """Return the weights of one head: (query, key), in [0, 1].

        `layer` and `head` are counted from 0, negative numbers from the end, as in Python. Raises
        ArgumentError: no such layer or head.

        >>> import mha_viz as mv
        >>> mv.load("tiny-bert").trace("The cat sat").head(0, -1).sum(-1)
        tensor([1.0000, 1.0000, 1.0000, 1.0000, 1.0000])
        """
        return self.patterns.head(*place_in(self, layer, head))

    def __getitem__(self, layer_head: Place) -> Float[Tensor, "query key"]:
        """Return the weights of one head: `record[layer, head]` is `record.head(layer, head)`."""
        layer, head = check_place(layer_head)
        return self.head(layer, head)

    def rows(
        self, layer: int, head: int, queries: slice | Iterable[int]
    ) -> Float[Tensor, "row key"]:
        """Return some rows of one head's weights: (row, key), in [0, 1].

        `layer` and `head` are as in `head`; `queries` is a slice, or whole numbers, whose order the
        rows have. Raises ArgumentError: no such layer, head or token.

        >>> import mha_viz as mv
        >>> mv.load("tiny-bert").trace("The cat sat").rows(0, 1, [2, 0]).shape
        torch.Size([2, 5])
        """
        return self.region(layer, head, queries, slice(None))

    def region(
        self, layer: int, head: int, queries: slice | Iterable[int], keys: slice | Iterable[int]
    ) -> Float[Tensor, "row column"]:
        """Return the weights of one head from some tokens to some tokens, (row, column), in [0, 1].

        `queries` and `keys` are slices, or numbers, of which negative ones count from the end.
        Raises ArgumentError: no such layer, head or token.

        >>> import mha_viz as mv
        >>> mv.load("tiny-bert").trace("The cat sat").region(0, 1, slice(2), [0, 2, -1]).shape
        torch.Size([2, 3])
        """
        layer, head = place_in(self, layer, head)
        rows = check_positions("queries", queries, self.shape[2])
        columns = check_positions("keys", keys, self.shape[3])
        return self.patterns.full_rows(layer, rows, [head])[0][:, columns]

    def from_token(self, query: int) -> Float[Tensor, "layer head key"]:
        """Return the weights from one token, of all heads: (layer, head, key), in [0, 1].

        A negative `query` counts from the end. Raises ArgumentError: no such token.

        >>> import mha_viz as mv
        >>> mv.load("tiny-bert").trace("The cat sat").from_token(-1).shape
        torch.Size([4, 8, 5])
        """
        return self.patterns.from_token(check_position("query", query, self.shape[2]))

    def to_token(self, key: int) -> Float[Tensor, "layer head query"]:
        """Return the weights to one token, of all heads: (layer, head, query), in [0, 1].

        A negative `key` counts from the end. Raises ArgumentError: no such token.

        >>> import mha_viz as mv
        >>> mv.load("tiny-gpt2").trace("The cat sat").to_token(2)[0, 0, :2]  # hidden future
        tensor([0., 0.])
        """
        return self.patterns.to_token(check_position("key", key, self.shape[3]))

    def tiles(self, side: int = 128, pool: str = "max") -> Float[Tensor, "layer head row column"]:
        """Return all heads' weights, pooled in squares: (layer, head, row, column).

        A square is the least for which no axis has more than `side` of them; `pool` is "max" of
        their weights, in [0, 1], or "sum". Raises ArgumentError: a side below 1, or another pool.

        >>> import mha_viz as mv
        >>> mv.load("tiny-bert").trace("The cat sat on the mat").tiles(side=5).shape
        torch.Size([4, 8, 4, 4])
        """
        if not isinstance(side, int) or isinstance(side, bool) or side < 1:
            raise ArgumentError(f"side must be a whole number from 1, got {side!r}.")
        if pool not in ("max", "sum"):
            raise ArgumentError(f'pool must be "max" or "sum", got {pool!r}.')
        return self.patterns.tiles(side, pool)

    __iter__ = None  # Python would iterate over record[0], record[1], ...

    def plot(self, layer: int, head: int) -> Any:
        """Return one head as a Plotly heatmap of exact weights: see `mha_viz.show_head`.

        Raises ArgumentError: no such layer or head.

        >>> import mha_viz as mv
        >>> figure = mv.load("tiny-bert").trace("The cat sat").plot(0, 1)
        >>> figure.data[0].z.shape
        (5, 5)
        """
        return display.installed(display.head_plotter)(self, layer, head)

    def explore(self) -> Any:
        """Show all heads and a chosen one in a notebook; ArgumentError without anywidget.

        Example:
            mv.load("tiny-bert").trace("The cat sat on the mat").explore()
        """
        return display.installed(display.explorer)(self)

    def compare(self, a: Place, b: Place) -> pd.Series[float]:
        """Compute every measure between two heads; see `head_similarity` for all pairs.

        Args:
            a: layer and head, counted from 0; negative numbers count from the end.
            b: layer and head of the other.

        Returns:
            A number for each measure by its key: "hellinger" and "jensen_shannon" (distances of
            the weights, 0 is the same) and, where z was kept, "correlation", "redundancy", "cka"
            and more (likeness of what the heads write, 1 is the same); NaN is "not defined".

        Raises:
            ArgumentError: no such head.

        >>> import mha_viz as mv
        >>> record = mv.load("tiny-bert").trace("The cat sat on the mat")
        >>> print(round(record.compare((0, 1), (0, 1))["cka"], 3))
        1.0
        """
        from mha_viz.core.metrics.table import compare_heads

        layer_heads = [place_in(self, *check_place(layer_head)) for layer_head in (a, b)]
        weights = torch.stack([self.patterns.head(*layer_head) for layer_head in layer_heads])
        z = (
            None
            if self.z is None
            else torch.stack([self.z[layer_head] for layer_head in layer_heads])
        )
        names = (head_name(*layer_head, numbers=self.layer_numbers) for layer_head in layer_heads)
        return compare_heads(weights, z).rename(" and ".join(names))

    def to_frame(self) -> pd.DataFrame:
        """Return all weights as one long table, a row for each layer, head, query and key.

        Returns:
            DataFrame with the columns layer (the model's number), head, query, key (from 0),
            query_token, key_token (their labels, as categories) and weight (float32): 18 bytes a
            row, so some 160 MB for 144 heads on 250 tokens.

        >>> import mha_viz as mv
        >>> table = mv.load("tiny-bert").trace("The cat sat on the mat").to_frame()
        >>> table.groupby(["layer", "head", "query"]).weight.sum().round(3).unique()
        array([1.], dtype=float32)
        """
        return views.long_table(self.pattern, self.labels, self.key_labels, self.layer_numbers)

    # -- other views of the same run -----------------------------------------------------------

    def merge_words(self) -> AttentionRecord:
        """Merge sub-words to words: sum the mass to a split-up word, average the mass from it.

        Special tokens stay as they are. Token-level quantities (query, key, value) do not survive;
        z is averaged, which is what its pattern times values gives. Returns a record over words,
        whose rows sum to what they did. Source: Clark et al. 2019, section 4.1.

        >>> import mha_viz as mv
        >>> record = mv.load("tiny-bert").trace("The astronomers slept")
        >>> len(record.tokens) > len(record.merge_words().tokens) == 5
        True
        """
        return self if self.merged else views.merged(self)

    def without_special(self, renormalize: bool = True) -> AttentionRecord:
        """Leave special tokens out on both axes; `removed_mass` says how much went.

        `renormalize` scales each row back to a sum of 1; a row whose whole mass lay on special
        tokens becomes a row of zeros. Returns a record whose `removed_mass` is (layer, head), the
        mean share of a row's weight that went, in [0, 1].

        >>> import mha_viz as mv
        >>> mv.load("tiny-bert").trace("The cat sat").without_special().labels
        ('The', 'cat', 'sat')
        """
        special, special_keys = (
            [token.is_special for token in axis] for axis in (self.tokens, self.key_tokens)
        )
        return views.without(self, special, special_keys, renormalize)

    def without_first(self, renormalize: bool = True) -> AttentionRecord:
        """Leave out the first token, where many heads of causal models rest, on both axes.

        `renormalize` and what comes back are as in `without_special`.

        >>> import mha_viz as mv
        >>> mv.load("tiny-gpt2").trace("The cat sat").without_first().shape
        (4, 8, 2, 2)
        """
        first, first_key = ([i == 0 for i in range(n)] for n in self.shape[2:])
        return views.without(self, first, first_key, renormalize)

    # -- files ---------------------------------------------------------------------------------

    def save(self, path: str | Path) -> Path:
        """Write a safetensors file with the description as JSON in its header. Never pickle.

        Missing folders are made; see `mha_viz.core.output_file` for links and devices. Returns the
        path. Raises WriteError: it cannot be written there; what was there before is as it was.

        >>> import tempfile, mha_viz as mv
        >>> record = mv.load("tiny-bert").trace("The cat sat")
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     mv.AttentionRecord.load(record.save(f"{folder}/cat.safetensors")).text
        'The cat sat'
        """
        file.write(path, self)
        return Path(path)

    def describe(self) -> dict[str, Any]:
        """Describe everything but the tensors, as plain JSON values."""
        return file.describe(self)

    @classmethod
    def load(cls, path: str | Path) -> AttentionRecord:
        """Return the record that `save` wrote; every value is checked again.

        Raises RecordError: no such file, not a record, damaged, or larger than 4 GB.
        """
        return cls(**file.read(Path(path)))

    def __repr__(self) -> str:
        return record_line(self)

    def _repr_mimebundle_(self, *_: Any, **__: Any) -> dict[str, str]:
        """Draw the grid of all heads in a notebook; the repr where nothing can draw it."""
        drawn = {} if display.record_bundle is None else display.record_bundle(self)
        return {"text/plain": repr(self), **drawn}

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, AttentionRecord):
            return NotImplemented
        tensors, other_tensors = file.tensors(self), file.tensors(other)
        return (
            self.describe() == other.describe()
            and tensors.keys() == other_tensors.keys()
            and all(torch.equal(a.cpu(), other_tensors[name].cpu()) for name, a in tensors.items())
        )

    __hash__ = None  # type: ignore[assignment]  # equality compares tensors
