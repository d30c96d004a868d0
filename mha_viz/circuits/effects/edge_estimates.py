"""Estimates of all edges' effects from few passes there and back."""

from collections.abc import Sequence
from contextlib import suppress
from typing import Any

import torch
from jaxtyping import Float, Float64
from torch import Tensor

from mha_viz.circuits.effects.edge_runs import EdgePass, EdgeRuns, PairRuns
from mha_viz.circuits.effects.edge_sites import LayerSites, Recording
from mha_viz.engine.probe import EverythingKept, HeadEdits, Probe
from mha_viz.prediction.replay import MAX_TOKENS, Progress

Scores = Float64[Tensor, "sender receiver position"]
MAX_BYTES = 2**28  # of scores by position


def estimates(
    runs: EdgeRuns, shares: Sequence[float], recompute: bool, progress: Progress
) -> Scores:
    """Estimate the effect of every edge, as a mean over pairs; NaN where there is no edge.

    A step is one pass there and back over all pairs, in which the embedding is so much of the way
    from the corrupt to the clean one: `shares`. A score is the change of what a sender writes times
    the metric's mean gradient at what the receiver reads. It is a sum over positions, which are
    kept apart where all pairs have as many, and pooled into one elsewhere.
    """
    lengths, exists = {pairs.clean.final.shape[1] for pairs in runs.pairs}, runs.graph.exists
    n = lengths.pop() if len(lengths) == 1 else 1
    scores = torch.zeros(*exists.shape, n if 8 * n * exists.numel() <= MAX_BYTES else 1).double()
    for pairs in runs.pairs:
        with torch.inference_mode(False):
            _PairEstimates(runs, pairs, scores).add(shares, recompute, progress)
    return (scores / runs.n).where(exists[..., None], torch.nan)


class _PairEstimates:
    """The scores of some pairs, which are added to those of others."""

    def __init__(self, runs: EdgeRuns, pairs: PairRuns, total: Scores) -> None:
        self.runs, self.pairs, self.total = runs, pairs, total
        with torch.no_grad():
            self.change = pairs.clean.change_to(pairs.corrupt, runs.sites.layers)

    def add(self, shares: Sequence[float], recompute: bool, progress: Progress) -> None:
        graph = self.runs.graph
        z_gradients = [torch.zeros_like(z) for z in self.pairs.clean.z]
        for share in shares:
            edge_pass, gradients = self._gradients(share, 1 / len(shares))
            of_z, of_read, of_mlp, (of_final,) = gradients
            for layer in range(graph.n_layers):
                z_gradients[layer] += of_z[layer]
                if not recompute:
                    self._add_attention(layer, edge_pass.read[layer].detach(), of_read[layer])
                at = graph.of_attention(layer).stop
                self._add(graph.n_before(layer, mlp=True), slice(at, at + 1), of_mlp[layer][None])
            self._add(len(self.change), slice(-1, None), of_final[None])
            progress.add(1)
        if recompute:
            with torch.no_grad():
                for layer, gradient in enumerate(z_gradients):
                    self._add_recomputed(layer, gradient)

    def _gradients(self, share: float, weight: float) -> tuple[EdgePass, list[list[Tensor]]]:
        """Differentiate the metric by each z, projection and MLP's input, and at the logits."""
        runs = self.runs
        shares = torch.ones(1, *runs.graph.exists.shape)
        shares[:, 0] = share
        with torch.enable_grad():
            edge_pass = EdgePass(runs.sites, runs.graph, self.pairs, shares)
            total = self.pairs.behaviour.each(edge_pass.logits()).sum() * weight
        n = runs.graph.n_layers
        flat = torch.autograd.grad(
            total, [*edge_pass.z, *edge_pass.projected, *edge_pass.mlp, edge_pass.final]
        )
        return edge_pass, [list(flat[start : start + n]) for start in range(0, 3 * n + 1, n)]

    def _add(self, n: int, receivers: slice, gradient: Tensor) -> None:
        scores = torch.einsum("sbnd,rbnd->srn", self.change[:n], gradient)
        self._put(slice(n), receivers, scores)

    def _put(self, senders: slice, receivers: slice, scores: Tensor) -> None:
        into, scores = self.total[senders, receivers], scores.double().cpu()
        into += scores if into.shape[-1] == scores.shape[-1] else scores.sum(-1, keepdim=True)

    def _add_attention(self, layer: int, read: Tensor, gradient: Tensor) -> None:
        """Take gradients at queries, keys and values back through weights and norm."""
        site, graph = self.runs.sites.layers[layer], self.runs.graph
        normed = site.back(gradient)
        with torch.enable_grad():
            leaf = read.expand_as(normed).clone().requires_grad_()
            (of_read,) = torch.autograd.grad(site.norm.module(leaf), leaf, normed)
        self._add(graph.n_before(layer), graph.of_attention(layer), of_read)

    def _add_recomputed(self, layer: int, gradient: Tensor) -> None:
        """Multiply the gradient at z with the exact change of z that each sender makes.

        A head's attention is computed again with the query, the key or the value that it would
        have: its softmax may be flat at the clean run.
        """
        graph, clean = self.runs.graph, self.pairs.clean
        rows, n = clean.z[layer].shape[0], clean.z[layer].shape[2]
        at = graph.of_attention(layer)
        start = 0
        for change in self.change[: graph.n_before(layer)].split(max(1, MAX_TOKENS // (rows * n))):
            read = (clean.attention[layer] + change).flatten(0, 1)
            z = _recomputed(self.runs.sites.layers[layer], clean, layer, read)
            moved = z.unflatten(1, (len(change), rows)) - clean.z[layer]
            scores = torch.einsum("isbhnw,bhnw->sihn", moved, gradient).flatten(1, 2)
            self._put(slice(start, start + len(change)), at, scores)
            start += len(change)


def _recomputed(
    site: LayerSites, clean: Recording, layer: int, read: Float[Tensor, "row position d_model"]
) -> Float[Tensor, "3 row head position width"]:
    """Compute z with the query, the key or the value replaced by that of other streams."""
    times = len(read) // len(clean.z[layer])
    was = [tensor.repeat(times, 1, 1, 1) for tensor in clean.heads[layer]]

    def one_at_a_time(_: int, *new: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        each = [torch.cat([new[i] if i == at else was[i] for at in range(3)]) for i in range(3)]
        return each[0], each[1], each[2]

    args, kwargs = _of_one_row(clean.calls[layer], len(clean.z[layer]))
    probe = Probe(("z",), n_layers=1, stop=True, edits=HeadEdits(inputs=one_at_a_time))
    normed, kwargs = site.norm.module(read), kwargs | {"mha_probe": probe}
    with suppress(EverythingKept):  # what the module makes of z is not needed
        if args:
            site.attention(normed, *args[1:], **kwargs)
        else:
            site.attention(**kwargs | {"hidden_states": normed})
    return probe.tensors["z"][0].unflatten(0, (3, -1))


def _of_one_row(argument: Any, n_rows: int) -> Any:
    """Take masks and rotations of the first row, which are those of all rows of one length."""
    if isinstance(argument, Tensor):
        return argument[:1] if argument.ndim > 1 and len(argument) == n_rows else argument
    if isinstance(argument, tuple):
        return tuple(_of_one_row(part, n_rows) for part in argument)
    if isinstance(argument, dict):
        return {name: _of_one_row(part, n_rows) for name, part in argument.items()}
    return argument
