"""What really goes into one layer's attention, and what comes out of it.

Knows core and capture; must not know figures or screens.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor, nn

from mha_viz.capture.model import AttentionModel
from mha_viz.capture.projections import _FUSED, _KEY, _OUTPUT, _QUERY
from mha_viz.capture.replay import StandIn, with_stand_ins
from mha_viz.capture.run import run
from mha_viz.core.checks import Anything
from mha_viz.core.multi_head import AttentionWeights
from mha_viz.core.record import AttentionRecord

MATRICES = ("W_Q", "W_K", "W_V", "W_O", "b_Q", "b_K", "b_V", "b_O")


@dataclass(frozen=True)
class Inside:
    """What one layer's attention was given and what it gave, as the model itself had them.

    Args:
        X: (query, d_model), what queries are made from; after the norm where that comes first.
        Y: (key, d_in), what keys and values are made from: X, but in cross-attention.
        output: (query, d_model), the layer's attention output, b_O included.
    """

    X: Anything
    Y: Anything
    output: Anything


def inside(model: AttentionModel, record: AttentionRecord, layer: int) -> Inside:
    """Run a record's text once more, and listen at the projections of one layer.

    Nothing is changed on the model: a copy of its module tree, with the same weights, is run.

    Args:
        model: the one that the record comes from. record: of one of its texts, nothing merged.
        layer: from 0.

    Raises:
        ArgumentError: no such layer. NotKeptError, AttentionUnavailableError: this family's
            projections are not known.

    >>> import mha_viz as mv
    >>> model = mv.load("tiny-gpt2")
    >>> tuple(inside(model, model.trace("The cat sat."), 0).X.shape)
    (4, 256)
    """
    model.attention_weights(layer, record.part)  # says what is wrong, where something is
    layers = model.layers(record.part)
    here = layers[layer]
    query, key, output = here.find(_QUERY), here.find(_KEY), here.find(_OUTPUT)
    if query is None or key is None:
        query = key = here.find(_FUSED)
    assert query is not None and key is not None and output is not None
    heard: dict[nn.Module, list[tuple[Tensor, Tensor]]] = {query: [], key: [], output: []}
    stand_ins = {
        path: _Listening(module, heard[module])
        for path, module in model.network.named_modules(remove_duplicate=False)
        if module in heard
    }
    source, target = model._encode(record.text, record.text_pair)
    pad = model.tokenizer.pad_token_id or 0
    run(with_stand_ins(model.network, stand_ins), model.mechanism, [source],
        None if target is None else [target], pad=pad)  # fmt: skip
    # A family may run one module again and again: the call that is this layer's.
    turn = sum(other.module is here.module for other in layers[:layer])
    found = (heard[query][turn][0], heard[key][turn][0], heard[output][turn][1])
    return Inside(*(_plain(tensor.flatten(0, -2)) for tensor in found))


class _Listening(StandIn):
    """Keeps what a projection is given and what it makes of it."""

    def __init__(self, original: nn.Module, heard: list[tuple[Tensor, Tensor]]) -> None:
        super().__init__(original)
        self.__dict__["heard"] = heard

    def forward(self, tokens: Any) -> Any:
        made = self.original(tokens)
        self.heard.append((tokens, made))
        return made


def _plain(tensor: Tensor) -> Tensor:
    """float32 on the CPU, and no longer of inference mode."""
    return tensor.detach().to("cpu", torch.float32, copy=True)


def spread(weights: AttentionWeights) -> AttentionWeights:
    """The same weights, float32 on the CPU, with a key and value head for every query head."""
    n_heads = len(weights.W_Q)

    def own(name: str) -> Tensor | None:
        part: Tensor | None = getattr(weights, name)
        if part is None:
            return None
        part = part.detach().to("cpu", torch.float32)
        shared = name[-1] in "KV" and len(part) != n_heads
        return part.repeat_interleave(n_heads // len(part), 0) if shared else part

    owned: dict[str, Any] = {name: own(name) for name in MATRICES}
    return replace(weights, **owned)
