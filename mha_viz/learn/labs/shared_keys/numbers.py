"""Lab 14: whether heads that share their keys look at the same tokens, measured."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import combinations

import torch
from jaxtyping import Float
from torch import Tensor

from mha_viz.checkpoints.loading import load
from mha_viz.core.measure import head_similarity
from mha_viz.core.stored_runs import StoredRun
from mha_viz.engine.model import AttentionModel
from mha_viz.errors import ArgumentError
from mha_viz.learn.annotated_sentences import distinct_texts

MODEL = "tiny-llama"
MAX_HEADS = 8  # of a layer: all ways to group them are tried


@dataclass(frozen=True)
class Groups:
    """Distances between heads of a layer, by whether they share their keys.

    Args:
        size: query heads of a group.
        apart: (layer, head, head), mean Jensen-Shannon divergence of patterns over texts, nats.
        within, between: (text, layer), mean over pairs of the same group, of different groups.
        random: (layer, grouping), what `within` would be, over texts, for each way to group the
            heads; the model's own is the first.
    """

    size: int
    apart: Tensor
    within: Tensor
    between: Tensor
    random: Tensor

    @property
    def as_close(self) -> list[int]:
        """The number of groupings with a mean as small as the model's own, for each layer."""
        return (self.random <= self.random[:, :1]).sum(-1).tolist()

    @property
    def chance(self) -> float:
        """The share of groupings of all layers at once with a mean as small as the model's own."""
        total = torch.zeros(1, dtype=self.random.dtype)
        for layer in self.random:  # a group may be another one in each layer
            total = (total[:, None] + layer).flatten()
        return float((total <= total[0]).double().mean())

    def extreme_pairs(self, layer: int) -> tuple[tuple[int, int], tuple[int, int]]:
        """Return the most distant heads of one group, and the closest two of different groups."""
        pairs = list(combinations(range(len(self.apart[layer])), 2))
        same_group = [pair for pair in pairs if pair[0] // self.size == pair[1] // self.size]
        across, distance = sorted(set(pairs) - set(same_group)), self.apart[layer].__getitem__
        return max(same_group, key=distance), min(across, key=distance)


def groupings(heads: tuple[int, ...], size: int) -> Iterator[tuple[tuple[int, ...], ...]]:
    """Yield every way to split heads into groups of one size, that of neighbours first.

    >>> list(groupings((0, 1, 2, 3), 2))
    [((0, 1), (2, 3)), ((0, 2), (1, 3)), ((0, 3), (1, 2))]
    """
    if not heads:
        yield ()
        return
    for partners in combinations(heads[1:], size - 1):
        group = heads[0], *partners
        for split in groupings(tuple(h for h in heads if h not in group), size):
            yield group, *split


def compare_groups(model: AttentionModel, on_step: Callable[[int], None] | None = None) -> Groups:
    """Compare the patterns of heads that share their keys with those of heads that do not.

    Args:
        model: with several groups of query heads in a layer, and at most 8 heads.
        on_step: called with the number of sentences done.

    Raises:
        ArgumentError: no groups, or too many heads.

    Source: grouped-query attention, Ainslie et al. 2023; distances of heads, Clark et al. 2019.
    """
    n_layers, n_heads, n_groups = model.n_layers, model.n_heads, model.n_kv_heads
    if not 1 < n_groups < n_heads <= MAX_HEADS:
        raise ArgumentError(
            f"A layer must have several groups of heads that share keys, and at most {MAX_HEADS} "
            f"heads; {model.name} has {n_heads} heads and {n_groups} key heads. Take {MODEL}."
        )
    by_text = []
    for done, text in enumerate(sorted(distinct_texts()), 1):
        every = head_similarity(model.trace(text), "jensen_shannon").double()
        layers = every.view(n_layers, n_heads, n_layers, n_heads)
        by_text.append(layers.diagonal(dim1=0, dim2=2).permute(2, 0, 1))
        if on_step is not None:
            on_step(done)
    apart, size = torch.stack(by_text), n_heads // n_groups
    ways = list(groupings(tuple(range(n_heads)), size))
    return Groups(
        size=size,
        apart=apart.mean(0),
        within=_mean(apart, ways[0]),
        between=_mean(apart, ways[0], same=False),
        random=torch.stack([_mean(apart.mean(0), way) for way in ways], -1),
    )


def _mean(
    apart: Float[Tensor, "*text head head"], groups: tuple[tuple[int, ...], ...], same: bool = True
) -> Float[Tensor, "*text"]:
    """Return the mean over pairs of heads of the same group, or of different groups."""
    of = {head: number for number, group in enumerate(groups) for head in group}
    pairs = [pair for pair in combinations(sorted(of), 2) if (of[pair[0]] == of[pair[1]]) == same]
    first, second = zip(*pairs, strict=True)
    return apart[..., list(first), list(second)].mean(-1)


STORED = (StoredRun("shared_keys", (MODEL,), Groups, lambda: compare_groups(load(MODEL))),)
