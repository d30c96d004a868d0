"""A prediction as a signed graph: each edge's contribution to a logit, or a difference of two."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
import torch
from torch import Tensor

from mha_viz.circuits.attribution.graph_tables import part_rows
from mha_viz.circuits.attribution.logit_attribution import component_shares, logit_weights
from mha_viz.circuits.attribution.paths import FrozenPaths, strongest
from mha_viz.circuits.attribution.pins import Pin, on_pinned_paths
from mha_viz.circuits.attribution.readout import Readout, read_at, token_pair
from mha_viz.circuits.attribution.residual_stream import ResidualStream
from mha_viz.circuits.attribution.residual_sums import Parts
from mha_viz.circuits.attribution.signed_graph import PredictionGraph, named_edges
from mha_viz.core.attention.checks import Given, Number
from mha_viz.engine.model import AttentionModel
from mha_viz.errors import ArgumentError
from mha_viz.interventions.importance import t_interval
from mha_viz.text.encoding import label_of, text_notes

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
    >>> abs(graph.path_sum + graph.final_bias - graph.value) < 1e-3
    True
    """
    chosen_pins = checked(share, pins)
    run, at = read_at(model, text, position)
    chosen, against = token_pair(run, at, token, versus)
    encoded = run.stream.encoded
    return graph_of(
        model,
        [PathsToLogit(model, run, at, chosen, against)],
        float(share),
        chosen_pins,
        token=label_of(model.tokenizer, chosen),
        versus=None if against is None else label_of(model.tokenizer, against),
        tokens=encoded.tokens,
        text=encoded.text,
        notes=(*model.notes, *text_notes(model.name, encoded)),
    )


def checked(share: object, pins: Sequence[object]) -> list[Pin]:
    """Return the pins; ArgumentError unless they are some and the share is above 0 and up to 1."""
    if isinstance(share, bool) or not isinstance(share, int | float) or not 0 < share <= 1:
        raise ArgumentError(f"share must be a number above 0 and up to 1, got {share!r}.")
    return [Pin.of(name) for name in pins]


class PathsToLogit:
    """A logit of one run, or a difference of two, as a sum over paths.

    Attributes:
        paths, position: of the run, and the position that predicts.
        gradient: (position, d_model), of the number by the stream behind the last layer.
        value, final_bias: as of `PredictionGraph`.
    """

    def __init__(
        self, model: AttentionModel, run: Readout, position: int, token: int, versus: int | None
    ) -> None:
        encoded = run.stream.encoded
        n = position + 1 if model.causal else len(encoded.input_ids)
        _check_size(model, n)
        weights = logit_weights(run.logits, token, versus, "logit")
        self.paths, self.position = FrozenPaths(ResidualStream(model, encoded, range(n))), position
        # Of the number by what leaves the last layer, at the token that predicts.
        self.gradient, direction = torch.zeros_like(self.paths.start), run.W_U @ weights
        *_, behind = run.stream.gradients(lambda output: run.linear(output)[0] @ direction)
        self.gradient[position] = behind[0]
        value = run.logits[token] - (0.0 if versus is None else run.logits[versus])
        self.value, self.final_bias = float(value), _behind_the_stack(run, weights)


def graph_of(
    model: AttentionModel,
    runs: Sequence[PathsToLogit],
    share: float,
    pins: Sequence[Pin],
    **named: Any,
) -> PredictionGraph:
    """Make the graph of one run, or of the mean over several.

    Runs of as many tokens that predict at the same position share positions; those of others are
    pooled, and the graph has one position. `named` are fields of the graph.
    """
    first = runs[0]
    pooled = len({(run.paths.n, run.position) for run in runs}) > 1
    position = 0 if pooled else first.position

    def contributions(masks: Sequence[Parts] | None) -> list[list[Parts]]:
        """Compute each run's contributions, by the positions of the graph."""
        by_run = []
        for run in runs:
            parts_of_run = on_pinned_paths(run.paths, pins) if masks is None else masks
            parts = run.paths.contributions(run.gradient, parts_of_run)
            by_run.append([part.pooled() for part in parts] if pooled else parts)
        return by_run

    every = contributions(None)
    contribution = _over(every, 0)
    masks = strongest(contribution, position, share)
    columns = {"contribution": contribution, "flow": _over(contributions(masks), 0)}
    if len(runs) > 1:
        columns |= {"low": _over(every, 1), "high": _over(every, 2)}
    edges = _edges(first.paths, columns, masks, weighted=len(runs) == 1)
    if len(edges) > MAX_EDGES:
        raise ArgumentError(
            f"More than {MAX_EDGES:,} edges hold {share:.0%} of all: choose a smaller share, or a "
            "shorter text."
        )
    return PredictionGraph(
        edges=named_edges(edges, model.n_layers, first.paths.step),
        value=float(np.mean([run.value for run in runs])),
        final_bias=float(np.mean([run.final_bias for run in runs])),
        position=position,
        share=share,
        pins=tuple(map(str, pins)),
        n_layers=model.n_layers,
        n_heads=model.n_heads,
        step=first.paths.step,
        model=model.name,
        **named,
    )


def _over(by_run: Sequence[Sequence[Parts]], end: int) -> list[Parts]:
    """Return the mean over runs of each sum's parts, or the lower or upper end of its interval."""
    if len(by_run) == 1:
        return list(by_run[0])
    by_sum = [zip(*parts, strict=True) for parts in zip(*by_run, strict=True)]

    def of(parts_of_runs: tuple[Tensor, ...]) -> Tensor:
        return (
            t_interval(torch.stack(parts_of_runs))[end]
            if parts_of_runs[0].numel()
            else parts_of_runs[0]
        )

    return [Parts(*map(of, parts)) for parts in by_sum]


def _behind_the_stack(run: Readout, weights: Tensor) -> float:
    """Sum what is added behind the last layer: biases of the final norm and the unembedding."""
    components, shares = component_shares(run, weights, run.W_U @ weights, "logit")
    n_stream = len(run.stream.components)
    added = [
        share
        for i, (component, share) in enumerate(zip(components, shares.tolist(), strict=True))
        if i >= n_stream or component.name.startswith("final ")
    ]
    return float(sum(added))


def _edges(
    paths: FrozenPaths,
    columns: Mapping[str, Sequence[Parts]],
    masks: Sequence[Parts],
    weighted: bool,
) -> pd.DataFrame:
    """List the kept parts of every sum, the topmost first: `COLUMNS` of `signed_graph`, and more.

    Attention weights are those of the paths' run, where `weighted`.
    """
    blocks = []
    for i, path_sum in reversed(list(enumerate(paths.sums))):
        values = {name: parts[i] for name, parts in columns.items()}
        weight = path_sum.pattern if weighted else None
        level = (i + 1) * paths.step
        blocks.append(part_rows(masks[i], values, weight, level=level, layer=path_sum.parts.layer))
    return pd.concat(blocks, ignore_index=True)


def _check_size(model: AttentionModel, n: int) -> None:
    per_pair = model.n_layers * model.n_heads
    if per_pair * n * n > MAX_WEIGHTS:
        most = int((MAX_WEIGHTS / per_pair) ** 0.5)
        raise ArgumentError(
            f"The graph takes at most {most} tokens in {model.name}, got {n}: shorten the text"
            + (", or choose an earlier position." if model.causal else ".")
        )
