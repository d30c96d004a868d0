"""The probe: what one forward pass is to keep, reduce and change; it travels with the call."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from mha_viz.core.attention.checks import check_numbers, check_tensors
from mha_viz.core.attention.dot_product import fused_z, weights, write_weights
from mha_viz.core.attention.dot_product import z as mix
from mha_viz.core.attention.masks import visible
from mha_viz.core.attention.scoring import (
    RowReduction,
    Scoring,
    Sight,
    SinkShares,
    attention_by_rows,
    sight_and_bias,
)
from mha_viz.core.cancellation import check_cancelled
from mha_viz.errors import AttentionUnavailableError

KEEPABLE = ("pattern", "z", "query", "key", "value")
Layers = list[Tensor] | Tensor  # one tensor per layer, or all in one, layers first
# Replaces what some heads give: layer, z, pattern (which may be written to), value and what was
# added to the scores -> z, pattern; each (batch, head, ...). `intervention.py` makes them.
Changed = tuple[Tensor, Tensor | None]
HeadChange = Callable[[int, Tensor, Tensor | None, Tensor, Tensor | None], Changed]
# Replaces what some heads read: layer, query, key, value -> query, key, value; each (batch, head,
# position, width). What comes back may have as many key heads as query heads; or it is the layer's
# z, and no attention is computed.
InputChange = Callable[[int, Tensor, Tensor, Tensor], tuple[Tensor, ...] | Tensor]

# What is made of one layer's pattern block by block: its number, scoring and queries are given.
LayerReductions = Callable[[int, Scoring, Tensor], Sequence[RowReduction]]


@dataclass(frozen=True, eq=False)
class LayerAttention:
    """One layer's attention in one run, as functions of query, key and value."""

    scoring: Scoring  # its scale, soft cap and sinks
    mask: Tensor | None  # what is added to the scores

    def check(self, query: Tensor, key: Tensor, value: Tensor) -> None:
        """Refuse tensors and numbers that do not fit each other."""
        check_tensors(query, key, value, self.mask)
        check_numbers(self.scoring.scale, self.scoring.softcap)

    def weights(self, query: Tensor, key: Tensor, room: Tensor | None = None) -> Tensor:
        """Compute the pattern, in memory of the caller's where there is some."""
        scale, softcap, sinks = self.scoring.scale, self.scoring.softcap, self.scoring.sinks
        if room is None:
            return weights(query, key, self.mask, False, scale, softcap, sinks)
        write_weights(room, query, key, self.mask, scale, softcap, sinks)
        return room

    def z(self, query: Tensor, key: Tensor, value: Tensor, *, dropout: float = 0.0) -> Tensor:
        """Compute z alone, by torch's kernel where that knows the layer's rule."""
        if self.scoring.softcap is None and self.scoring.sinks is None:
            return fused_z(query, key, value, self.mask, False, self.scoring.scale, dropout)
        pattern = self.weights(query, key)
        return mix(F.dropout(pattern, dropout) if dropout else pattern, value)


@dataclass(frozen=True, eq=False)
class HeadEdits:
    """The changes to the heads of one part of a model during a run; a `Probe` carries them."""

    # factors on the heads' z, (layer, head) or (batch, layer, head), layers in call order; None
    # leaves every head as it is.
    gates: Tensor | None = None
    # what replaces the z or the pattern of some heads, or None; gates scale its result
    change: HeadChange | None = None
    part: str = "self"  # "self", or the stack of an encoder-decoder
    note: str = ""  # what a record of the run says about it
    # what replaces the queries, keys or values of some heads, or None
    inputs: InputChange | None = None


@dataclass(frozen=True, eq=False)
class ScoredLayer:
    """Sources of one layer's pattern of one text; key heads are not repeated."""

    query: Tensor
    key: Tensor
    scoring: Scoring
    sink: Tensor | None = None  # the share of each row that a learned sink took, (head, query)


@dataclass(frozen=True, eq=False)
class LayerTensors:
    """One layer of a batch while it runs, for what reduces it on the spot; (batch, head, ...)."""

    layer: int  # its number, in call order
    # (batch, head, query, key), of padded texts; may be written to, since the layer is done with
    # it. The next layer writes over it: what is to stay must be copied.
    pattern: Tensor
    # (batch, head, query, d_head); None where the family computed its attention itself
    z: Tensor | None = None
    value: Tensor | None = None  # (batch, n_kv_heads, key, d_value), likewise
    # (batch or 1, query, key), which keys a query may see; None for all
    allowed: Tensor | None = None
    has_sinks: bool = False  # whether heads have learned a sink, so that rows sum to less than 1

    def on(self, device: torch.device) -> "LayerTensors":
        """Return the layer on a device; what is there already is not copied."""
        names = ("z", "value", "allowed")
        moved = {name: t.to(device) for name in names if (t := getattr(self, name)) is not None}
        return replace(self, pattern=self.pattern.to(device), **moved)


class EverythingKept(Exception):
    """The end of a run whose layers are all kept; the rest would be thrown away."""


@dataclass
class Probe:
    """A request for what one forward pass keeps. It travels with the call, never on the model.

    Layers are numbered by call order: some families have no layer index, and ALBERT runs the
    same layer again and again.
    """

    keep: Sequence[str] = ("pattern",)  # which of "pattern", "z", "query", "key", "value" to keep
    # called with the number of layers done so far; an exception it raises abandons the run, which
    # is how a page cancels work that it no longer needs.
    on_layer: Callable[[int], None] | None = None
    # how many layers there are, where that is known and all have patterns of one shape: their
    # patterns are then written into one tensor, and never copied.
    n_layers: int = 0
    # end the run with `EverythingKept` when n_layers are kept; what the model would compute of them
    # is not computed.
    stop: bool = False
    edits: HeadEdits | None = None  # what happens to heads
    # whose layers call, in turn: a decoder's attend to themselves, then to the encoder
    parts: tuple[str, ...] = ("self",)
    # called with each layer once it is computed. With keep=() nothing of a layer is held beyond
    # that: the memory for one layer's pattern serves all layers.
    reduce: Callable[[LayerTensors], None] | None = None
    # a list that is given each layer's attention as a function of other queries, keys and values,
    # with this run's masks; or None.
    attentions: list[LayerAttention] | None = None
    # keep no pattern, and hold none: of each layer of one long text keep what computes it
    # (`scored`).
    by_rows: bool = False
    # called with the number, the scoring and the queries of each layer of a run by rows: what else
    # is to be made of its pattern meanwhile.
    reductions: LayerReductions | None = None
    # What the pass leaves behind: `replace` gives a probe for another pass.
    scored: list[ScoredLayer] = field(default_factory=list, init=False)
    tensors: dict[str, Layers] = field(default_factory=dict, init=False)
    scale: list[float] = field(default_factory=list, init=False)
    modules: list[nn.Module] = field(default_factory=list, init=False)
    allowed: list[Tensor | None] = field(default_factory=list, init=False)
    has_sinks: bool = field(default=False, init=False)
    _masks: dict[tuple[int, ...], tuple[Any, Any]] = field(default_factory=dict, init=False)
    _room: Tensor | None = field(default=None, init=False)
    _gathered: dict[str, Tensor] = field(default_factory=dict, init=False)

    @property
    def needs_pattern(self) -> bool:
        """The need to compute attention with its weights."""
        return ("pattern" in self.keep and not self.by_rows) or self.reduce is not None

    def room(self, query: Tensor, key: Tensor) -> Tensor | None:
        """Return the memory for this layer's pattern, where its size is known beforehand."""
        if query.dtype != torch.float32 or query.device.type != "cpu":
            return None  # it has to be copied for the record in any case
        if self.reduce is not None and "pattern" not in self.keep:
            shape = (*query.shape[:-1], key.shape[-2])
            if self._room is None or self._room.shape != shape:
                self._room = _pages(shape)
            return self._room
        if "pattern" not in self.keep or self.by_rows or not 0 < self.n_layers > len(self.modules):
            return None
        shape = (self.n_layers, *query.shape[:-1], key.shape[-2])
        every = self.tensors.setdefault("pattern", [] if self.modules else _pages(shape))
        if not isinstance(every, Tensor) or every.shape != shape:
            raise AttentionUnavailableError("the layers' attention weights differ in shape")
        return every[len(self.modules)]

    def next_edits(self) -> tuple[int, Tensor | None, HeadEdits | None]:
        """Return number, gates (head,) or (batch, head), and edits of the layer about to run."""
        layer, turn = divmod(len(self.modules), len(self.parts))
        if self.n_layers:
            layer %= self.n_layers  # a library runs the model once for every token
        if self.edits is None or self.edits.part != self.parts[turn]:
            return layer, None, None
        gates = self.edits.gates
        return layer, None if gates is None else gates[..., layer, :], self.edits

    def note_mask(self, bias: Tensor | None, *made_of: Tensor | None) -> None:
        """Note what a layer lets its queries see in any head; None where no mask was added."""

        def visible_keys(bias: Tensor | None) -> Tensor | None:
            return None if bias is None else visible(bias).any(1)

        self.allowed.append(self._once(visible_keys, bias, *made_of))

    def attend_by_rows(
        self, attend: LayerAttention, tensors: Sequence[Tensor], *made_of: Tensor | None
    ) -> Tensor:
        """Compute the z of one text, and keep what its pattern is computed from.

        `tensors` are query, key and value, (1, head, position, width); the layer's mask is
        `made_of` these.
        """
        query, key, value = tensors
        query, key = self._gather("query", query), self._gather("key", key)
        shape = (-1, query.shape[-2], key.shape[-2])

        def rule(added: Tensor | None) -> tuple[Sight, Tensor | None]:
            return sight_and_bias(None if added is None else added[0].expand(shape))

        sight, bias = self._once(rule, attend.mask, *made_of)
        scoring = replace(attend.scoring, sight=sight, bias=bias)
        layer = len(self.modules)
        reductions = [] if self.reductions is None else [*self.reductions(layer, scoring, query)]
        sink = None
        if scoring.sinks is not None:
            sink = SinkShares()
            reductions.append(sink)
        if not reductions and scoring.softcap is None:
            plain = bias is None and (sight.is_everything or sight.is_causal)
            mask = None if plain else attend.mask
            z = fused_z(query, key, value, mask, plain and sight.is_causal, scoring.scale)
        else:
            heads = query[0], key[0], value[0]
            z = attention_by_rows(*heads, scoring, reductions)[None]
        self.scored.append(
            ScoredLayer(query[0], key[0], scoring, None if sink is None else sink.shares)
        )
        return z

    def _gather(self, name: str, tensor: Tensor) -> Tensor:
        """Copy what is kept of a layer to the memory of all layers, and return the copy.

        Pieces that are kept between others that are not would leave holes in the process's memory:
        of 2,048 tokens half of what it takes. What is of another shape stays as it is.
        """
        shape, layer = (self.n_layers, *tensor.shape), len(self.modules)
        if layer == 0 < self.n_layers and tensor.device.type == "cpu" and not tensor.requires_grad:
            self._gathered.setdefault(name, _pages(shape, tensor.dtype))
        every = self._gathered.get(name)
        if every is None or every.shape != shape:
            return tensor
        return every[layer].copy_(tensor)

    def _gathered_of(self, name: str, tensor: Tensor) -> Tensor | None:
        """Return the memory of all layers with this one in it; None where there is none."""
        self._gather(name, tensor)
        every = self._gathered.get(name)
        if every is not None and every.shape[1:] != tensor.shape:
            raise AttentionUnavailableError(f"the layers' {name} differ in shape")
        return every

    def _once(self, make: Callable[[Tensor | None], Any], bias: Any, *made_of: Any) -> Any:
        """Make something of a mask that layers share, for all of them at once."""
        key = tuple(map(id, made_of))
        if key not in self._masks:  # it holds them, too: once they are gone, their ids are reused
            self._masks[key] = made_of, make(bias)
        return self._masks[key][1]

    def take(self, module: nn.Module, scale: float, **tensors: Tensor | None) -> None:
        """Keep one layer's tensors, each (batch, head, ...)."""
        for name in self.keep:
            tensor = tensors[name]
            if name == "pattern" and self.by_rows:
                continue
            assert tensor is not None  # `_attend` computes the pattern whenever it is to be kept
            layers = self.tensors.setdefault(name, [])
            if self.by_rows and (every := self._gathered_of(name, tensor)) is not None:
                layers = self.tensors[name] = every
            if not isinstance(layers, Tensor):  # otherwise it was written to its room
                layers.append(tensor)
        if self.reduce is not None:
            pattern, visible_keys = tensors["pattern"], self.allowed[-1]
            assert pattern is not None  # likewise
            layer, z, value = len(self.modules), tensors["z"], tensors["value"]
            self.reduce(LayerTensors(layer, pattern, z, value, visible_keys, self.has_sinks))
        self.modules.append(module)
        self.scale.append(scale)
        check_cancelled()
        if self.on_layer is not None:
            self.on_layer(len(self.modules))
        if self.stop and len(self.modules) == self.n_layers:
            raise EverythingKept


def _pages(shape: tuple[int, ...], dtype: torch.dtype = torch.float32) -> Tensor:
    """Return uninitialised memory for a record."""
    # Not by numpy, which asks for huge pages: on a machine that has been up for a while finding
    # them took 0.2 s for 150 MB, more than the page faults that they save.
    with torch.inference_mode(False):
        return torch.empty(shape, dtype=dtype)
