"""Score attribution: a query's score with a key by what the components wrote to each."""

from collections.abc import Mapping
from dataclasses import dataclass

import pandas as pd
import torch
from jaxtyping import Float
from torch import Tensor

from mha_viz.circuits.attribution.layout import Component
from mha_viz.circuits.attribution.residual_stream import ResidualStream, on_cpu
from mha_viz.core.arguments import check_index
from mha_viz.core.record.attention_record import Token
from mha_viz.engine.model import AttentionModel
from mha_viz.errors import ArgumentError
from mha_viz.text.encoding import encode_texts, text_notes


@dataclass(frozen=True, eq=False)
class ScoreAttribution:
    """The score of one query and one key, or the difference of two, as a sum of products."""

    # what the query is a sum of; the last one is the bias of its projection.
    query_components: tuple[Component, ...]
    # what the key, or the difference of two, is a sum of, likewise.
    key_components: tuple[Component, ...]
    # of a query's component and a key's, scale and rotation included.
    shares: Float[Tensor, "query_component key_component"]
    # what is in the score and no product: "position bias" (T5), "soft cap" (Gemma 2).
    beyond: Mapping[str, float]
    value: float  # the score that the run itself used
    layer: int  # layer, head: which head
    head: int
    query: int  # query, key, versus: positions; versus is None without a second key
    key: int
    versus: int | None
    tokens: tuple[Token, ...]  # of the text
    model: str = ""  # model, text, notes: as in a record
    text: str = ""
    notes: tuple[str, ...] = ()

    def sum(self) -> float:
        """Sum all shares and what lies beyond them: the score but for rounding."""
        return float(self.shares.double().sum()) + sum(self.beyond.values())

    @property
    def remainder(self) -> float:
        """The score minus the sum, which is rounding."""
        return self.value - self.sum()

    def table(self) -> pd.DataFrame:
        """Make a row for each pair of components, and for what lies beyond them."""
        names = [c.name for c in self.query_components], [c.name for c in self.key_components]
        pairs = pd.MultiIndex.from_product(names, names=["query_component", "key_component"])
        table = pd.DataFrame({"share": self.shares.flatten().numpy()}, index=pairs).reset_index()
        beyond = pd.DataFrame(
            [(name, name, share) for name, share in self.beyond.items()], columns=table.columns
        )
        return pd.concat([table, beyond], ignore_index=True) if len(beyond) else table

    def __repr__(self) -> str:
        pair = f"from {self.query} to {self.key}"
        pair += "" if self.versus is None else f" less to {self.versus}"
        rows, columns = self.shares.shape
        return (
            f"ScoreAttribution(L{self.layer} H{self.head} {pair}: {self.value:.4g} = the sum of "
            f"{rows} × {columns} shares)"
        )


@torch.no_grad()
def score_attribution(
    model: AttentionModel,
    text: str,
    layer: int,
    head: int,
    query: int,
    key: int,
    versus: int | None = None,
) -> ScoreAttribution:
    """Split the score of a query and key before softmax by what components wrote to each.

    score = scale * q . k = sum over components a, b of scale * q_a . k_b, where q_a is what head
    (layer, head) makes a query of from component a: through the norm before the layer, linear with
    the scale of this run; W_Q; the norm of queries where there is one (Qwen3, Gemma 3), frozen
    likewise; and the rotation by position. So for k_b. The biases of W_Q and W_K are components.
    The mask is no part of it. With `versus` the key is the difference of two: what is in both
    scores alike moves no attention weight, and is gone.

    A score is a product: component a has no share of its own, only with each component of the key.

    Args:
        model: any that our attention runs in; of an encoder-decoder, the encoder.
        text: as for `trace`.
        layer: from 0.
        head: from 0.
        query: position of the token that looks.
        key: position of the token that it looks at.
        versus: position of another such token, whose score is taken off.

    Returns:
        ScoreAttribution; `.sum()` is the score (the difference) but for rounding, and `.remainder`
        says by how much it is not.

    Raises:
        AttentionUnavailableError: the family cannot be taken apart, or bends its scores in a way
            that is not known here.
        ArgumentError: no such head or position; a key that the query does not see; versus = key.
        TextError: text that cannot be used.

    Source: Elhage et al. 2021, "QK circuits" with the products of all earlier components; it is
    what Kamath et al. 2025 call QK attributions.

    >>> import mha_viz as mv
    >>> attribution = mv.score_attribution(mv.load("tiny-gpt2"), "The cat saw the cat", 1, 0, 4, 1)
    >>> round(attribution.sum() - attribution.value, 3), attribution.query_components[0].name
    (0.0, 'embedding')
    >>> attribution.table().columns.tolist()
    ['query_component', 'key_component', 'share']
    """
    encoded, _ = encode_texts(model.stored_reader, text)
    n, keys = len(encoded.tokens), [key] if versus is None else [key, versus]
    check_index("layer", layer, model.n_layers)
    check_index("head", head, model.n_heads)
    for name, position in zip(("query", "key", "versus"), (query, *keys), strict=False):
        check_index(name, position, n)
    if versus == key:
        raise ArgumentError(f"versus is the key itself, {key}: choose another position.")
    positions = sorted({query, *keys})
    stream = ResidualStream(model, encoded, positions)
    allowed = stream.run.probe.allowed[layer]
    for at in keys:  # the mask hides a score that is computed and never used
        if allowed is not None and not bool(allowed[0, query, at]):
            raise ArgumentError(
                f"Query {query} does not see key {at} in layer {layer} of {model.name}: choose a "
                "key that it may attend to."
            )
    all_q, all_k = stream.queries_and_keys(layer)
    q, of_group = all_q[:, head, positions.index(query)], head // (model.n_heads // all_k.shape[1])
    k = all_k[:, of_group, positions.index(key)]
    if versus is not None:
        k = k - all_k[:, of_group, positions.index(versus)]
    reached = ((q != 0).any(-1) | (k != 0).any(-1)).nonzero().flatten().tolist()
    scores = [_score(stream, layer, head, query, at) for at in keys]
    value, beyond = scores[0]
    if versus is not None:
        value = value - scores[1][0]
        beyond = {name: share - scores[1][1][name] for name, share in beyond.items()}
    return ScoreAttribution(
        query_components=_named(stream, reached, "query bias"),
        key_components=_named(stream, reached, "key bias"),
        shares=on_cpu(stream.run.probe.scale[layer] * q[reached] @ k[reached].T),
        beyond=beyond,
        value=value,
        layer=layer,
        head=head,
        query=query,
        key=key,
        versus=versus,
        tokens=encoded.tokens,
        model=model.name,
        text=encoded.text,
        notes=model.notes + text_notes(model.name, encoded),
    )


def _named(stream: ResidualStream, reached: list[int], bias: str) -> tuple[Component, ...]:
    components = (*stream.components, Component(bias, "projection bias"))
    return tuple(components[i] for i in reached)


def _score(
    stream: ResidualStream, layer: int, head: int, query: int, key: int
) -> tuple[float, dict[str, float]]:
    """Compute the score that the run used, and what in it is no product of query and key."""
    probe, at = stream.run.probe, stream.positions.index(query)
    q, k = probe.tensors["query"][layer][0, head, at], probe.tensors["key"][layer][0]
    product = probe.scale[layer] * (q @ k[head // (stream.model.n_heads // len(k)), key])
    score, beyond = product, {}
    cap = getattr(stream.model.config, "attn_logit_softcapping", None)
    if cap is not None:
        score = cap * torch.tanh(product / cap)
        beyond["soft cap"] = float(score - product)
    bias = probe.position_bias[layer]
    if bias is not None:
        added = bias[0, head, at, key]
        score = score + added
        beyond["position bias"] = float(added)
    return float(score), beyond
