"""AttentionRecord: the result of one run of one text through one model."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from jaxtyping import Float
from torch import Tensor

from mha_viz.core.record import display, file, views
from mha_viz.core.record.checks import Place, check_place, check_record, check_tokens
from mha_viz.core.record.fields import RecordFields
from mha_viz.core.record.token import Token as Token
from mha_viz.core.reprs import record_line
from mha_viz.errors import ArgumentError

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True, eq=False, repr=False)
class AttentionRecord(RecordFields):
    """The attention of every head of every layer on one text. Immutable and validated.

    Axis order is always layer, head, query, key. Methods return new records.

    Args:
        pattern: float32 (layer, head, query, key); the attention weights, in [0, 1]; a row sums
            to 1, to 0 (a query that may see nothing), or to less where mass was removed.
        tokens: labels of the query axis.
        key_tokens: labels of the key axis where it is not the query axis (cross attention).
        z: float32 (layer, head, query, d_head), pattern times values; None where not kept.
        query, key: float32 (layer, head, query | key, d_head) as the scores saw them (after
            rotary embedding, key heads repeated for their query heads); None where not kept.
        value: float32 (layer, head, key, d_value), what is read from each key, biases included, and
            repeated as the key heads are; None where not kept.
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
            of them or, if `causal`, all up to its own, as it is without a sliding window.
            Merged words keep it of the tokens that they were made of.
        notes: what the user needs to know (a truncated text, weights newly initialised).

    Raises:
        RecordError: shapes that do not fit each other, numbers that are not weights.
    """

    def __post_init__(self) -> None:
        tokens = check_tokens("tokens", self.tokens)
        object.__setattr__(self, "tokens", tokens)
        keys = check_tokens("key_tokens", self.key_tokens)
        object.__setattr__(self, "key_tokens", keys or tokens)
        check_record(self)

    # -- one head, two heads, all of them ------------------------------------------------------

    def head(self, layer: int, head: int) -> Float[Tensor, "query key"]:
        """Return the weights of one head.

        Args:
            layer: counted from 0; negative numbers count from the end, as in Python.
            head: counted likewise.

        Returns:
            (query, key), in [0, 1].

        Raises:
            ArgumentError: no such layer or head.
        """
        for name, number, size in (("layer", layer, self.n_layers), ("head", head, self.n_heads)):
            if not -size <= number < size:
                raise ArgumentError(f"{name} must lie in 0..{size - 1}, got {number}.")
        return self.pattern[layer, head]

    def __getitem__(self, place: Place) -> Float[Tensor, "query key"]:
        """Return the weights of one head: `record[layer, head]` is `record.head(layer, head)`."""
        layer, head = check_place(place)
        return self.head(layer, head)

    __iter__ = None  # Python would iterate over record[0], record[1], ...

    def plot(self, layer: int, head: int) -> Any:
        """Draw one head as a Plotly heatmap of exact weights: see `mha_viz.show_head`.

        Args:
            layer: counted from 0.
            head: counted from 0.

        Raises:
            ArgumentError: no such layer or head.
        """
        return display.known(display.head_plotter)(self, layer, head)

    def explore(self) -> Any:
        """Show all heads and a chosen one in a notebook; see `mha_viz.explorer.Explorer`.

        Raises:
            ArgumentError: anywidget is not installed.
        """
        return display.known(display.explorer)(self)

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

        places = [check_place(place) for place in (a, b)]
        first, second = (self.head(*place) for place in places)
        z = None if self.z is None else torch.stack([self.z[place] for place in places])
        names = [f"L{i % self.n_layers} H{j % self.n_heads}" for i, j in places]
        return compare_heads(torch.stack([first, second]), z).rename(" and ".join(names))

    def to_frame(self) -> pd.DataFrame:
        """Return all weights as one long table, a row for each layer, head, query and key.

        Returns:
            DataFrame with the columns layer, head, query, key (numbers from 0), query_token,
            key_token (their labels, as categories) and weight (float32): 18 bytes a row, so some
            160 MB for 144 heads on 250 tokens.

        >>> import mha_viz as mv
        >>> table = mv.load("tiny-bert").trace("The cat sat on the mat").to_frame()
        >>> table.groupby(["layer", "head", "query"]).weight.sum().round(3).unique()
        array([1.], dtype=float32)
        """
        return views.long_table(self.pattern, self.labels, self.key_labels)

    # -- other views of the same run -----------------------------------------------------------

    def merge_words(self) -> AttentionRecord:
        """Merge sub-words to words: sum the mass to a split-up word, average the mass from it.

        Special tokens stay as they are. Token-level quantities (query, key, value) do not survive;
        z is averaged, which is what its pattern times values gives. Source: Clark et al. 2019,
        section 4.1.
        """
        return self if self.merged else views.merged(self)

    def without_special(self, renormalize: bool = True) -> AttentionRecord:
        """Leave special tokens out on both axes; `removed_mass` says how much went.

        Args:
            renormalize: scale each row back to a sum of 1; a row whose whole mass lay on special
                tokens becomes a row of zeros.
        """
        special, special_keys = (
            [token.is_special for token in axis] for axis in (self.tokens, self.key_tokens)
        )
        return views.without(self, special, special_keys, renormalize)

    def without_first(self, renormalize: bool = True) -> AttentionRecord:
        """Leave out the first token, where many heads of causal models rest, on both axes.

        Args:
            renormalize: as in `without_special`.
        """
        first, first_key = ([i == 0 for i in range(n)] for n in self.pattern.shape[2:])
        return views.without(self, first, first_key, renormalize)

    # -- files ---------------------------------------------------------------------------------

    def save(self, path: str | Path) -> Path:
        """Write a safetensors file with the description as JSON in its header. Never pickle.

        Args:
            path: the file's name; folders that are missing are made.

        Returns:
            The path.

        See `mha_viz.core.output_file` for links and devices.

        Raises:
            WriteError: it cannot be written there; what was there before is as it was.
        """
        file.write(path, self)
        return Path(path)

    def describe(self) -> dict[str, Any]:
        """Describe everything but the tensors, as plain JSON values."""
        return file.describe(self)

    @classmethod
    def load(cls, path: str | Path) -> AttentionRecord:
        """Read a record that `save` wrote; every value is checked again.

        Args:
            path: the file's name.

        Raises:
            RecordError: no such file, not a record, damaged, or larger than 4 GB.
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
        return self.describe() == other.describe() and all(
            _same(getattr(self, name), getattr(other, name)) for name in file.TENSORS
        )

    __hash__ = None  # type: ignore[assignment]  # equality compares tensors


def _same(a: Tensor | None, b: Tensor | None) -> bool:
    if a is None or b is None:
        return a is b
    return a.shape == b.shape and bool(torch.equal(a.cpu(), b.cpu()))
