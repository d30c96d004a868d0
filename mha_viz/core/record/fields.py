"""The tokens, tensors and names that a record consists of, and the sizes they have."""

from dataclasses import dataclass, replace
from itertools import pairwise

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from mha_viz.core.arguments import renamed
from mha_viz.core.layer_numbers import position_of
from mha_viz.core.record.patterns import Patterns
from mha_viz.errors import NotKeptError


@dataclass(frozen=True, slots=True)
class Token:
    """One position on an axis of the pattern.

    Args:
        text: the label that people read ("cat", "·the", "[CLS]", "👍 1/4"); never HTML.
        id: number in the vocabulary; -1 for a word merged from several tokens.
        start, end: character offsets into the text (of its segment), or None for special tokens.
        word: index of the word that the token belongs to, counted through both segments;
            None for special tokens.
        is_special: added by the tokenizer ([CLS], [SEP], <s> ...), not typed.
        segment: 0 for the text, 1 for the second text of a pair.
        parts: how many tokens a merged word was.

    >>> import mha_viz as mv
    >>> token = mv.load("tiny-gpt2").trace("The cat sat").tokens[1]
    >>> token.text, token.start, token.end, token.word
    ('cat', 4, 7, 1)
    """

    text: str
    id: int
    start: int | None = None
    end: int | None = None
    word: int | None = None
    is_special: bool = False
    segment: int = 0
    parts: int = 1


def merge(
    tokens: tuple[Token, ...], text: str, text_pair: str | None
) -> tuple[Int[Tensor, " token"], tuple[Token, ...]]:
    """Return the number of each token's word, and the words as tokens of their own.

    Neighbours with the same word and segment belong together; special tokens stand alone. A word's
    label is its slice of the text that it was typed in.

    >>> parts = (Token("wal", 7, 0, 3, word=0), Token("king", 8, 3, 7, word=0))
    >>> places, words = merge(parts, "walking", None)
    >>> places.tolist(), words[0].text, words[0].id
    ([0, 0], 'walking', -1)
    >>> words[0].parts
    2
    """
    groups = [[0]] if tokens else []
    for i, (previous, token) in enumerate(pairwise(tokens), start=1):
        word_and_segment = (token.word, token.segment)
        if token.word is not None and word_and_segment == (previous.word, previous.segment):
            groups[-1].append(i)
        else:
            groups.append([i])
    sizes = torch.tensor([len(group) for group in groups])
    word_numbers = torch.arange(len(groups)).repeat_interleave(sizes)
    return word_numbers, tuple(
        _word([tokens[i] for i in group], text, text_pair) for group in groups
    )


def _word(parts: list[Token], text: str, text_pair: str | None) -> Token:
    first, last = parts[0], parts[-1]
    if len(parts) == 1:
        return first
    source = (text_pair if first.segment else text) or ""
    label = "" if first.start is None else source[first.start : last.end].strip()
    label = label or "".join(part.text for part in parts)
    return replace(first, text=label, id=-1, end=last.end, parts=sum(part.parts for part in parts))


@renamed(kept="require")
@dataclass(frozen=True, eq=False, repr=False)
class RecordFields:
    """The fields of an `AttentionRecord`, which says what each of them is and checks them."""

    patterns: Patterns
    tokens: tuple[Token, ...]
    key_tokens: tuple[Token, ...] = ()
    z: Float[Tensor, "layer head query d_head"] | None = None
    query: Float[Tensor, "layer head query d_key"] | None = None
    key: Float[Tensor, "layer kv_head key d_key"] | None = None
    value: Float[Tensor, "layer kv_head key d_value"] | None = None
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
    layer_numbers: tuple[int, ...] = ()

    # -- sizes ---------------------------------------------------------------------------------

    @property
    def pattern(self) -> Float[Tensor, "layer head query key"]:
        """All attention weights, in [0, 1]; computed on access where they are not stored.

        Raises:
            NotKeptError: they take more than 2 GiB; the message names the ways to a part of them.
        """
        return self.patterns.all()

    @property
    def shape(self) -> tuple[int, int, int, int]:
        """Layers, heads, queries and keys."""
        return self.patterns.shape

    @property
    def n_layers(self) -> int:
        """Layers of attention."""
        return self.patterns.shape[0]

    @property
    def n_heads(self) -> int:
        """Query heads in each layer."""
        return self.patterns.shape[1]

    def layer_of(self, number: int) -> int:
        """Return the position on the layer axis of the layer that the model gives a number.

        Args:
            number: the model's own, one of `layer_numbers`.

        Raises:
            ArgumentError: that layer has no attention, or there is none.

        >>> import mha_viz as mv
        >>> mv.load("tiny-bert").trace("The cat sat").layer_of(2)
        2
        """
        return position_of(self.layer_numbers, number)

    @property
    def held_bytes(self) -> int:
        """The memory that all its tensors take, but for the model's own W_O."""
        names = ("z", "query", "key", "value", "removed", "sink", "allowed")
        stored = (getattr(self, name) for name in names)
        storages = (t.untyped_storage() for t in (*self.patterns.tensors, *stored) if t is not None)
        return sum({storage.data_ptr(): storage.nbytes() for storage in storages}.values())

    @property
    def is_cross(self) -> bool:
        """True where queries and keys are different texts."""
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

    def require(self, name: str) -> Tensor:
        """Return a tensor that not every record holds.

        Args:
            name: "z", "query", "key" or "value".

        Raises:
            NotKeptError: this record does not hold it; the message says what to do.

        >>> import mha_viz as mv
        >>> mv.load("tiny-bert").trace("The cat sat").require("z").shape
        torch.Size([4, 8, 5, 32])
        """
        tensor: Tensor | None = getattr(self, name)
        if tensor is None:
            raise NotKeptError(
                f"This record does not hold {name}: it was traced without it, the file was saved "
                f"without it, or the {self.family or 'model'} family does not expose it. Trace "
                f'again with keep=("pattern", "{name}").'
            )
        return tensor

    def for_query_heads(self, name: str, layer: int) -> Float[Tensor, "head token d_head"]:
        """Return what is kept of one layer, a matrix for each query head.

        Args:
            name: as for `require`; key heads are repeated for the query heads that share them.
            layer: counted from 0.

        Raises:
            NotKeptError: as `require`.

        >>> import mha_viz as mv
        >>> record = mv.load("tiny-llama").trace("The cat sat", keep=("pattern", "key"))
        >>> len(record.key[0]) < record.n_heads == len(record.for_query_heads("key", 0))
        True
        """
        tensor = self.require(name)[layer]
        group = self.n_heads // len(tensor)
        return tensor if group == 1 else tensor.repeat_interleave(group, 0)

    @property
    def head_output(self) -> Float[Tensor, "layer head query d_model"]:
        """Each head's part of its layer's attention output: z times that head's slice of W_O.

        Summed over heads, plus b_O, it is the layer's attention output. Computed on access.

        Raises:
            NotKeptError: z or the output weights are missing (a record read from a file).
        """
        z = self.require("z")
        if not self.W_O:
            raise NotKeptError(
                "head_output needs the model's output weights W_O, which a record read from a file "
                "does not carry, or which are not known for this family: trace the text again."
            )
        return torch.stack(
            [torch.matmul(z[layer], W_O.to(z)) for layer, W_O in enumerate(self.W_O)]
        )
