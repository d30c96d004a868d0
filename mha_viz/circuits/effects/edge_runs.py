"""Runs of pairs of texts in which every reader gets its own sum of what was written."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from operator import attrgetter
from typing import Any

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn

from mha_viz.circuits.effects.behaviour import Behaviour, Metric
from mha_viz.circuits.effects.edge_graph import EdgeGraph
from mha_viz.circuits.effects.edge_sites import EdgeSites, Recording, first, no_edges
from mha_viz.circuits.effects.patched_run import Patch, run_patched
from mha_viz.circuits.tasks.task import Example, passes, targets_of
from mha_viz.engine.model import AttentionModel
from mha_viz.engine.run import rounding
from mha_viz.errors import ArgumentError
from mha_viz.prediction.replay import Progress, ReplayingPass

EDGE_METRICS: tuple[Metric, ...] = ("logit_difference", "log_probability", "kl")
MAX_BYTES = 2**28  # of what all senders write, in one pass
MAX_SETTINGS = 64  # choices of edges in one pass


@dataclass(frozen=True, eq=False)
class PairRuns:
    """Pairs of texts of one length that go into one pass: their clean and their corrupt run."""

    indices: tuple[int, ...]  # of the pairs among all
    runs: ReplayingPass  # of the clean texts
    behaviour: Behaviour
    clean: Recording
    corrupt: Recording


class EdgePass:
    """One pass over pairs, in which edges that are not kept carry the corrupt run's value.

    What a reader gets is the corrupt stream plus, of each sender kept, what it writes in this pass
    less what it wrote in the corrupt run. So all edges kept is the clean run, none the corrupt one.

    Attributes:
        projected: of each layer its queries, keys and values before rotation, (row, position, 3,
            head, width).
        z: of each layer.
        read: of each layer what its attention reads, (reader, row, position, d_model).
        mlp: of each layer what its MLP reads.
        final: what the logits are made of.
    """

    def __init__(
        self,
        sites: EdgeSites,
        graph: EdgeGraph,
        pairs: PairRuns,
        shares: Bool[Tensor, "setting sender receiver"] | Float[Tensor, "setting sender receiver"],
    ) -> None:
        """Prepare a pass; of an edge between 0 and 1 so much is kept."""
        self.sites, self.graph, self.pairs = sites, graph, pairs
        self.shares = shares.to(pairs.corrupt.final)
        embedding = pairs.clean.attention[0] - pairs.corrupt.attention[0]
        embedding.requires_grad_(torch.is_grad_enabled())  # so that all behind it is recorded
        self._written: list[Tensor] = [embedding.expand(1, len(shares), *embedding.shape)]
        self._written += [embedding] * 2 * graph.n_layers  # in whose place layers put theirs
        self.projected, self.z, self.read, self.mlp = ([embedding] * graph.n_layers for _ in "1234")
        self.final = embedding

    def logits(self) -> Float[Tensor, "setting pair d_vocab"]:
        """Run it."""
        patches = [Patch(0, self.sites.final.path, self._logits_read)]
        for layer, site in enumerate(self.sites.layers):
            shared = site.norm.path == site.mlp_norm.path
            changes: dict[str, Callable[..., Any]] = {
                "z": self._heads_write,
                site.norm.path: partial(self._attention_reads, shared),
                site.mlp.path: self._mlp_writes,
            }
            if not shared:
                changes[site.mlp_norm.path] = self._mlp_reads
            for projection in site.projections:
                changes[projection.path] = partial(self._project, projection.laid_out)
            patches += [Patch(layer, at, partial(change, layer)) for at, change in changes.items()]
        return run_patched(self.pairs.runs, len(self.shares), patches)

    def _reads(self, n_blocks: int, readers: slice, stream: Tensor, current: Tensor) -> Tensor:
        """Compute what some readers get, with a row for each: (reader, row, position, d_model)."""
        n = sum(len(block) for block in self._written[:n_blocks])
        shares = self.shares[:, :n, readers]
        if not torch.is_grad_enabled() and bool((shares == 1).all()):
            return current.reshape(1, -1, *stream.shape[1:])  # the stream of this pass itself
        if bool((shares == shares[..., :1]).all()):
            shares = shares[..., :1]  # one stands for all
        written = torch.cat(self._written[:n_blocks])
        return (stream + torch.einsum("csr,scbnd->rcbnd", shares, written)).flatten(1, 2)

    def _attention_reads(
        self, shared: bool, layer: int, norm: nn.Module, current: Tensor
    ) -> Tensor:
        readers, site = self.graph.of_attention(layer), self.sites.layers[layer]
        stream = self.pairs.corrupt.attention[layer]
        self.read[layer] = self._reads(2 * layer + 1, readers, stream, current)
        self.projected[layer] = site.read(norm(self.read[layer]))
        return self._mlp_reads(layer, norm, current) if shared else current

    def _project(self, laid_out: Callable[[Tensor], Tensor], layer: int, *_: Any) -> Tensor:
        return laid_out(self.projected[layer])

    def _heads_write(self, layer: int, z: Tensor) -> Tensor:
        self.z[layer] = z
        change = z.unflatten(0, (len(self.shares), -1)) - self.pairs.corrupt.z[layer]
        self._written[2 * layer + 1] = torch.einsum(
            "cbhnw,hwd->hcbnd", change, self.sites.layers[layer].W_O
        )
        return z

    def _mlp_reads(self, layer: int, norm: nn.Module, hidden: Tensor) -> Tensor:
        reader = self.graph.of_attention(layer).stop
        blocks = 2 * layer + (1 if self.graph.parallel else 2)
        stream = self.pairs.corrupt.mlp[layer]
        self.mlp[layer] = self._reads(blocks, slice(reader, reader + 1), stream, hidden)[0]
        return norm(self.mlp[layer]).reshape(hidden.shape)

    def _mlp_writes(self, layer: int, mlp: nn.Module, *args: Any) -> Any:
        output = mlp(*args)
        was = self.pairs.corrupt.mlp_output[layer]
        self._written[2 * layer + 2] = (first(output).reshape(-1, *was.shape) - was)[None]
        return output

    def _logits_read(self, norm: nn.Module, hidden: Tensor) -> Tensor:
        stream, blocks = self.pairs.corrupt.final, len(self._written)
        self.final = self._reads(blocks, slice(-1, None), stream, hidden)[0]
        return norm(self.final).reshape(hidden.shape)


class EdgeRuns:
    """The metric of a model on pairs of texts, for any choice of edges.

    Attributes:
        pairs: the pairs by passes.
        graph: all edges.
        clean, corrupt: (pair,), the metric with all edges kept, and with none.
    """

    def __init__(self, model: AttentionModel, examples: Sequence[Example], metric: Metric) -> None:
        """Make the clean and the corrupt runs; errors as for `edge_effects`."""
        self.model, self.n = model, len(examples)
        self.pairs: list[PairRuns] = []
        for i, (clean, corrupt, *_) in enumerate(examples, 1):
            if len(clean.input_ids) != len(corrupt.input_ids):
                raise ArgumentError(
                    f"Pair {i} has {len(clean.input_ids)} tokens and {len(corrupt.input_ids)}: "
                    "both texts of a pair must have as many. Change a word in one of them."
                )
        n_senders = 1 + model.n_layers * (model.n_heads + 1)
        n_numbers = MAX_BYTES // (n_senders * model.d_model * model.dtype.itemsize)
        corrupt_targets, self.sites = targets_of(examples, "corrupt"), EdgeSites(model)
        for part in passes(examples, n_numbers):
            runs = ReplayingPass(model, part)
            recorded = self.sites.record(runs)
            other = self.sites.record(ReplayingPass(model, corrupt_targets.part(part.text)))
            right, wrong = (
                torch.tensor([getattr(examples[i], name) for i in part.text])
                for name in ("right", "wrong")
            )
            behaviour = Behaviour(metric, right, wrong, recorded.logits)
            self.pairs.append(PairRuns(part.text, runs, behaviour, recorded, other))
        self.graph = EdgeGraph(model.n_layers, model.n_heads, self.sites.parallel)
        n_tokens = max(pairs.clean.final[..., 0].numel() for pairs in self.pairs)  # in one setting
        self.n_settings = max(1, min(n_numbers // n_tokens, MAX_SETTINGS))
        self.clean, self.corrupt = (
            self._in_order(
                [pairs.behaviour.each(end(pairs).logits[None])[0] for pairs in self.pairs]
            )
            for end in (attrgetter("clean"), attrgetter("corrupt"))
        )
        self._check()

    def values(
        self, settings: Bool[Tensor, "setting sender receiver"], progress: Progress | None = None
    ) -> Float[Tensor, "setting pair"]:
        """Compute the metric of each pair under each choice of edges, float64."""
        values = []
        with torch.inference_mode(False), torch.no_grad():
            for part in settings.split(self.n_settings):
                each = [
                    pairs.behaviour.each(EdgePass(self.sites, self.graph, pairs, part).logits()).T
                    for pairs in self.pairs
                ]
                values.append(self._in_order(each).T)
                if progress is not None:
                    progress.add(len(part))
        return torch.cat(values)

    def _in_order(self, each: list[Tensor]) -> Tensor:
        """Sort the values of all passes into the order of the pairs."""
        numbers = [number for pairs in self.pairs for number in pairs.indices]
        return torch.cat(each).cpu().double()[torch.tensor(numbers).argsort()]

    def _check(self) -> None:
        """Raise AttentionUnavailableError unless what is read is the sum of what was written."""
        clean, corrupt, graph = self.pairs[0].clean, self.pairs[0].corrupt, self.graph
        self.sites.check_values(clean)
        written = clean.change_to(corrupt, self.sites.layers)
        ends = [(clean.final, corrupt.final, len(written))]
        for i in range(graph.n_layers):
            ends.append((clean.attention[i], corrupt.attention[i], graph.n_before(i)))
            ends.append((clean.mlp[i], corrupt.mlp[i], graph.n_before(i, mlp=True)))
        for stream, other, n in ends:
            apart = float((stream + written[:n].sum(0) - other).abs().max() / other.abs().max())
            if not apart <= rounding(stream.dtype):
                raise no_edges(
                    self.model,
                    "what is read is not the sum of what was written: it misses that by "
                    f"{apart:.2g} of the largest number",
                )
