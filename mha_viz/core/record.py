"""AttentionRecord: what one run of one text through one model left behind."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from mha_viz.core import display, record_file, views
from mha_viz.core.record_checks import Place, check_place, check_record, check_tokens
from mha_viz.core.showing import record_line
from mha_viz.core.token import Token as Token
from mha_viz.errors import ArgumentError, NotKeptError

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True, eq=False, repr=False)
class AttentionRecord:
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

    pattern: Float[Tensor, "layer head query key"]
    tokens: tuple[Token, ...]
    key_tokens: tuple[Token, ...] = ()
    z: Float[Tensor, "layer head query d_head"] | None = None
    query: Float[Tensor, "layer head query d_key"] | None = None
    key: Float[Tensor, "layer head key d_key"] | None = None
    value: Float[Tensor, "layer head key d_value"] | None = None
    scale: tuple[float, ...] = ()
    W_O: tuple[Tensor, ...] = ()
    model: str = ""
    family: str = ""
    part: str = "self"
    text: str = ""
    text_pair: str | None = None
    causal: bool = False
    merged: bool = False
    removed: Float[Tensor, "layer head query"] | None = None
    sink: Float[Tensor, "layer head query"] | None = None
    allowed: Bool[Tensor, "layer query_token key_token"] | None = None
    notes: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        tokens = check_tokens("tokens", self.tokens)
        object.__setattr__(self, "tokens", tokens)
        keys = check_tokens("key_tokens", self.key_tokens)
        object.__setattr__(self, "key_tokens", keys or tokens)
        check_record(self)

    # -- sizes ---------------------------------------------------------------------------------

    @property
    def n_layers(self) -> int:
        """Layers of attention."""
        return self.pattern.shape[0]

    @property
    def n_heads(self) -> int:
        """Query heads in each layer."""
        return self.pattern.shape[1]

    @property
    def is_cross(self) -> bool:
        """Queries and keys are different texts."""
        return self.part == "cross"

    @property
    def labels(self) -> tuple[str, ...]:
        """The text of each token of the query axis."""
        return tuple(token.text for token in self.tokens)

    @property
    def key_labels(self) -> tuple[str, ...]:
        """The text of each token of the key axis."""
        return tuple(token.text for token in self.key_tokens)

    @property
    def removed_mass(self) -> Float[Tensor, "layer head"] | None:
        """The mean mass per query that was taken away, in [0, 1]; None where nothing was."""
        return None if self.removed is None else self.removed.mean(-1)

    @property
    def sink_mass(self) -> Float[Tensor, "layer head"] | None:
        """The mean mass per query that went to the head's sink, in [0, 1]; None without sinks."""
        return None if self.sink is None else self.sink.mean(-1)

    def kept(self, name: str) -> Tensor:
        """A tensor that not every record holds.

        Args:
            name: "z", "query", "key" or "value".

        Raises:
            NotKeptError: this record does not hold it; the message says what to do.
        """
        tensor: Tensor | None = getattr(self, name)
        if tensor is None:
            raise NotKeptError(
                f"This record does not hold {name}: it was traced without it, the file was saved "
                f"without it, or the {self.family or 'model'} family does not expose it. Trace "
                f'again with keep=("pattern", "{name}").'
            )
        return tensor

    @property
    def head_output(self) -> Float[Tensor, "layer head query d_model"]:
        """Each head's part of its layer's attention output: z times that head's slice of W_O.

        Summed over heads, plus b_O, it is the layer's attention output. Computed when asked.

        Raises:
            NotKeptError: z or the output weights are missing (a record read from a file).
        """
        z = self.kept("z")
        if not self.W_O:
            raise NotKeptError(
                "head_output needs the model's output weights W_O, which a record read from a file "
                "does not carry, or which are not known for this family: trace the text again."
            )
        return torch.stack(
            [torch.matmul(z[layer], W_O.to(z)) for layer, W_O in enumerate(self.W_O)]
        )

    # -- one head, two heads, all of them ------------------------------------------------------

    def head(self, layer: int, head: int) -> Float[Tensor, "query key"]:
        """The weights of one head.

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
        """The weights of one head: `record[layer, head]` is `record.head(layer, head)`."""
        layer, head = check_place(place)
        return self.head(layer, head)

    __iter__ = None  # Python would ask for record[0], record[1], ...

    def plot(self, layer: int, head: int) -> Any:
        """One head as a Plotly heatmap of exact weights: see `mha_viz.show_head`.

        Args:
            layer: counted from 0.
            head: counted from 0.

        Raises:
            ArgumentError: no such layer or head.
        """
        return display.known(display.head_plotter)(self, layer, head)

    def explore(self) -> Any:
        """All heads and a chosen one in a notebook; see `mha_viz.explorer.Explorer`.

        Raises:
            ArgumentError: anywidget is not installed.
        """
        return display.known(display.explorer)(self)

    def compare(self, a: Place, b: Place) -> pd.Series[float]:
        """Every measure between two heads; `mha_viz.head_similarity` gives one for all pairs.

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
        from mha_viz.core.two_heads import compared

        places = [check_place(place) for place in (a, b)]
        first, second = (self.head(*place) for place in places)
        z = None if self.z is None else torch.stack([self.z[place] for place in places])
        names = [f"L{i % self.n_layers} H{j % self.n_heads}" for i, j in places]
        return compared(torch.stack([first, second]), z).rename(" and ".join(names))

    def to_frame(self) -> pd.DataFrame:
        """All weights as one long table, a row for each layer, head, query and key.

        Returns:
            DataFrame with the columns layer, head, query, key (numbers from 0), query_token,
            key_token (their labels, as categories) and weight (float32): 18 bytes a row, so some
            160 MB for 144 heads on 250 tokens.

        >>> import mha_viz as mv
        >>> table = mv.load("tiny-bert").trace("The cat sat on the mat").to_frame()
        >>> table.groupby(["layer", "head", "query"]).weight.sum().round(3).unique()
        array([1.], dtype=float32)
        """
        from mha_viz.core.long_table import long_table

        return long_table(self.pattern, self.labels, self.key_labels)

    # -- other views of the same run -----------------------------------------------------------

    def merge_words(self) -> AttentionRecord:
        """Sub-words merged to words: mass to a split-up word is summed, mass from it averaged.

        Special tokens stay as they are. Token-level quantities (query, key, value) do not survive;
        z is averaged, which is what its pattern times values gives. Source: Clark et al. 2019,
        section 4.1.
        """
        return self if self.merged else views.merged(self)

    def without_special(self, renormalize: bool = True) -> AttentionRecord:
        """Special tokens left out on both axes; `removed_mass` says how much went.

        Args:
            renormalize: scale each row back to a sum of 1; a row whose whole mass lay on special
                tokens becomes a row of zeros.
        """
        special, special_keys = (
            [token.is_special for token in axis] for axis in (self.tokens, self.key_tokens)
        )
        return views.without(self, special, special_keys, renormalize)

    def without_first(self, renormalize: bool = True) -> AttentionRecord:
        """The first token (where many heads of causal models rest) left out on both axes.

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
        record_file.write(path, self)
        return Path(path)

    def describe(self) -> dict[str, Any]:
        """Everything but the tensors, as plain JSON values."""
        return record_file.describe(self)

    @classmethod
    def load(cls, path: str | Path) -> AttentionRecord:
        """Read a record that `save` wrote; every value is checked again.

        Args:
            path: the file's name.

        Raises:
            RecordError: no such file, not a record, damaged, or larger than 4 GB.
        """
        return cls(**record_file.read(Path(path)))

    def __repr__(self) -> str:
        return record_line(self)

    def _repr_mimebundle_(self, *_: Any, **__: Any) -> dict[str, str]:
        """The grid of all heads in a notebook; only the repr where nothing can draw it."""
        drawn = {} if display.record_bundle is None else display.record_bundle(self)
        return {"text/plain": repr(self), **drawn}

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, AttentionRecord):
            return NotImplemented
        return self.describe() == other.describe() and all(
            _same(getattr(self, name), getattr(other, name)) for name in record_file.TENSORS
        )

    __hash__ = None  # type: ignore[assignment]  # equality compares tensors


def _same(a: Tensor | None, b: Tensor | None) -> bool:
    if a is None or b is None:
        return a is b
    return a.shape == b.shape and bool(torch.equal(a.cpu(), b.cpu()))
