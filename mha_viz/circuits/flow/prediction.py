"""A prediction as a signed graph: each edge's contribution to a logit, or a difference of two."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
import torch
from torch import Tensor

from mha_viz.circuits.decompose.logit_attribution import component_shares, logit_weights
from mha_viz.circuits.decompose.readout import Readout, read_at, token_pair
from mha_viz.circuits.decompose.residual import ResidualStream, on_cpu
from mha_viz.circuits.flow.frozen_paths import FrozenPaths, Parts, strongest
from mha_viz.circuits.flow.pins import Pin, on_pinned_paths
from mha_viz.circuits.flow.signed_graph import COLUMNS, KINDS, PredictionGraph, named_edges
from mha_viz.core.attention.checks import Given, Number
from mha_viz.engine.model import AttentionModel
from mha_viz.errors import ArgumentError
from mha_viz.text.encoding import text_notes
from mha_viz.text.vocabulary import label_of

SHARE = 0.6
MAX_WEIGHTS = 20_000_000  # attention weights of all layers, each an edge
MAX_EDGES = 1_000_000


@torch.no_grad()
def prediction_graph(
    model: AttentionModel,
    text: str,
    token: str | int | None = None,
    versus: str | int | None = None,
    position: int | None = None,
    *,
    share: Given[Number] = SHARE,
    pins: Given[Sequence[str]] = (),
) -> PredictionGraph:
    """Draw a logit, or a difference of two, as a sum over paths through heads.

    With the attention weights and the scales of norms of this run, what a head writes is linear in
    the stream that it reads: A_hik (N x_k W_V) W_O from token k to i. So the number is a sum over
    paths through such steps and past layers. A path begins in an input token, an MLP's output or a
    bias. An edge's contribution is the sum over all paths through it, in logits: the vector that
    it carries times the gradient of the number where it arrives. At each sum of each layer, the
    contributions of its parts and of what began above it are the whole.

    An MLP is a beginning: it is not linear, and no split of its output by what it read is exact.
    Attention weights are not followed either: what makes a head look somewhere is in
    `score_attribution`.

    The largest edges are kept, on paths from a beginning to the prediction, until they hold `share`
    of the absolute contributions of all edges through heads, from MLPs, biases and input tokens;
    past later sums the stream is kept wherever it connects them. What an edge carries within what
    is kept is its `flow`: at each node of the graph what enters is what leaves.

    Args:
        model: a causal or masked language model.
        text: as for `logit_attribution`.
        token: the predicted token, likewise.
        versus: another token, whose logit is taken off.
        position: likewise.
        share: of all edges' absolute contributions, in (0, 1]; 1 keeps everything.
        pins: names of nodes, such as "L2 H3 @5", that paths must pass; two of one level are
            alternatives, and "@*" is any token.

    Returns:
        A `PredictionGraph`; with share=1 and without pins its edges' flow is their contribution.

    Raises:
        ArgumentError: no such token, position, share or pin; a text too long for it.
        AttentionUnavailableError: no head that predicts tokens, or a family that cannot be taken
            apart.
        TextError: as `logit_attribution`.

    Source: the path expansion of Elhage et al. 2021, "A mathematical framework for transformer
    circuits", with all MLPs as sources; the scales of norms frozen as in `logit_attribution`.

    >>> import mha_viz as mv
    >>> graph = mv.prediction_graph(mv.load("tiny-gpt2"), "Once upon a", "time", "day", share=1)
    >>> abs(graph.held + graph.rest - graph.value) < 1e-3
    True
    """
    if isinstance(share, bool) or not isinstance(share, int | float) or not 0 < share <= 1:
        raise ArgumentError(f"share must be a number above 0 and up to 1, got {share!r}.")
    chosen_pins = [Pin.of(name) for name in pins]
    made, place = read_at(model, text, position)
    chosen, against = token_pair(made, place, token, versus)
    encoded = made.stream.encoded
    n = place + 1 if model.causal else len(encoded.input_ids)
    _check_size(model, n)
    weights = logit_weights(made.logits, chosen, against, "logit")
    paths = FrozenPaths(ResidualStream(model, encoded, range(n)))
    gradient = torch.zeros_like(paths.start)
    gradient[place] = _direction(made, weights)
    pinned = on_pinned_paths(paths, chosen_pins)
    whole = paths.contributions(gradient, pinned)
    kept = strongest(whole, place, float(share))
    flow = paths.contributions(gradient, kept)
    edges = _edges(paths, whole, flow, kept)
    if len(edges) > MAX_EDGES:
        raise ArgumentError(
            f"More than {MAX_EDGES:,} edges hold {share:.0%} of all: choose a smaller share, or a "
            "shorter text."
        )
    value = made.logits[chosen] - (0.0 if against is None else made.logits[against])
    return PredictionGraph(
        edges=named_edges(edges, model.n_layers, paths.step),
        value=float(value),
        rest=_behind_the_stack(made, weights),
        position=place,
        share=float(share),
        pins=tuple(map(str, chosen_pins)),
        token=label_of(model.tokenizer, chosen),
        versus=None if against is None else label_of(model.tokenizer, against),
        tokens=encoded.tokens,
        n_layers=model.n_layers,
        n_heads=model.n_heads,
        step=paths.step,
        model=model.name,
        text=encoded.text,
        notes=(*model.notes, *text_notes(model.name, encoded)),
    )


def _direction(made: Readout, weights: Tensor) -> Tensor:
    """Differentiate the number by what leaves the last layer at the token that predicts."""
    direction = made.W_U @ weights
    return made.stream.final_gradient(lambda given: made.linear(given)[0] @ direction)[0]


def _behind_the_stack(made: Readout, weights: Tensor) -> float:
    """Sum what is added behind the last layer: biases of the final norm and the unembedding."""
    components, shares = component_shares(made, weights, made.W_U @ weights, "logit")
    n_stream = len(made.stream.components)
    added = [
        share
        for i, (component, share) in enumerate(zip(components, shares.tolist(), strict=True))
        if i >= n_stream or component.name.startswith("final ")
    ]
    return float(sum(added))


def _edges(
    paths: FrozenPaths, whole: Sequence[Parts], flow: Sequence[Parts], kept: Sequence[Parts]
) -> pd.DataFrame:
    """List the kept parts of every sum, the topmost first: `COLUMNS` of `signed_graph`."""
    blocks: dict[str, list[Any]] = {name: [] for name in COLUMNS}
    for i, one in reversed(list(enumerate(paths.sums))):
        for kind in KINDS:
            name = {"source": "heads", "MLP": "mlp"}.get(kind, kind)
            mask = getattr(kept[i], name)
            index = [at.cpu().numpy() for at in mask.nonzero(as_tuple=True)]
            none = np.full(len(index[0]), -1)
            head, query, key = index if kind == "source" else (none, index[0], none)
            weight = np.full(len(none), np.nan)
            if kind == "source" and one.pattern is not None:
                weight = on_cpu(one.pattern[mask]).double().numpy()
            carried = (on_cpu(getattr(each[i], name)[mask]).double() for each in (whole, flow))
            of_all = [(i + 1) * paths.step, kind, one.layer]
            row = [np.full(len(none), value) for value in of_all]
            row += [head, query, key, weight, *(values.numpy() for values in carried)]
            for column, values in zip(blocks.values(), row, strict=True):
                column.append(values)
    return pd.DataFrame({name: np.concatenate(values) for name, values in blocks.items()})


def _check_size(model: AttentionModel, n: int) -> None:
    per_pair = model.n_layers * model.n_heads
    if per_pair * n * n > MAX_WEIGHTS:
        most = int((MAX_WEIGHTS / per_pair) ** 0.5)
        raise ArgumentError(
            f"The graph takes at most {most} tokens in {model.name}, got {n}: shorten the text"
            + (", or choose an earlier position." if model.causal else ".")
        )
