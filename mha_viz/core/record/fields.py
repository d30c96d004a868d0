"""RecordFields: the tensors and names that a record consists of, and the sizes they have."""

from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from mha_viz.core.record.patterns import Patterns
from mha_viz.core.record.token import Token
from mha_viz.errors import NotKeptError


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

    @property
    def held_bytes(self) -> int:
        """The memory that all its tensors take, but for the model's own W_O."""
        names = ("z", "query", "key", "value", "removed", "sink", "allowed")
        kept = (getattr(self, name) for name in names)
        storages = (t.untyped_storage() for t in (*self.patterns.held, *kept) if t is not None)
        return sum({one.data_ptr(): one.nbytes() for one in storages}.values())

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

    def kept(self, name: str) -> Tensor:
        """Return a tensor that not every record holds.

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

    def for_query_heads(self, name: str, layer: int) -> Float[Tensor, "head token d_head"]:
        """Return what is kept of one layer, a matrix for each query head.

        Args:
            name: as for `kept`; key heads are repeated for the query heads that share them.
            layer: counted from 0.

        Raises:
            NotKeptError: as `kept`.
        """
        found = self.kept(name)[layer]
        group = self.n_heads // len(found)
        return found if group == 1 else found.repeat_interleave(group, 0)

    @property
    def head_output(self) -> Float[Tensor, "layer head query d_model"]:
        """Each head's part of its layer's attention output: z times that head's slice of W_O.

        Summed over heads, plus b_O, it is the layer's attention output. Computed on access.

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
