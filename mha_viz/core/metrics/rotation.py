"""The scores that heads reach by chance: their own weights, moved to other keys."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from mha_viz.core.cancellation import check_cancelled
from mha_viz.core.metrics.chance import RATE
from mha_viz.core.metrics.checks import NO_FACTS, TokenFacts
from mha_viz.core.metrics.pairs import AllRows
from mha_viz.core.metrics.preference import (
    N_ORDERS,
    key_preferences,
    other_orders,
    scores_by_preference,
)
from mha_viz.core.metrics.table import head_table

N_ROTATIONS = 20
KeyMask = Bool[Tensor, "query key"]  # the keys that a query may see
Counts = Float[Tensor, "query key"]  # what a weight counts in a metric
_AT_ONCE = 2**21  # numbers that are made of rotated rows
_MOST_ROWS = 64  # that the preferences of heads are read from


@dataclass(frozen=True, eq=False)
class RotatedScores:
    """Scores of patterns of self-attention whose keys are rotated within what each query may see.

    A head that looks at one key, at one distance, or at some few keys does so after a rotation as
    well, at other places. Rotation r of a query that may see m keys moves the weight of each to
    the key 1 + floor((r + 1/2)(m - 1) / 20) places further on among them, and those beyond the last
    to the first ones.

    Source: the permutation of labels of Tusher, Tibshirani and Chu 2001 (SAM), as a rotation: it
    keeps what neighbouring keys have in common.
    """

    rows: AllRows  # the weights
    # layers and the keys that their queries may see, (query, key), of each different mask
    masks: Sequence[tuple[list[int], KeyMask]]
    facts: TokenFacts = NO_FACTS

    def __call__(
        self, heads: Bool[Tensor, "layer head"], metric: str, least: float = -torch.inf
    ) -> Float[Tensor, "rotation layer head"]:
        """Compute a score in 20 rotations.

        `metric` is the key of one that is linear in the weights, such as "first_token". Of `heads`,
        those that reach less than `least` in every rotation may be left out. NaN for heads that are
        left out or attend to nothing, and where the metric does not apply.
        """
        scores = torch.full((N_ROTATIONS, heads.numel()), torch.nan)
        strongest = self._strongest.view(*heads.shape, -1)
        heads = heads & (strongest > 0).any(-1)
        for layers, mask in self.masks:
            check_cancelled()
            weight = _weight(metric, self.facts, mask)
            if weight is None:
                continue
            # A row gives a key no more than its largest weight, wherever that stands.
            reaches = strongest @ weight.abs().sum(-1).to(strongest) >= least
            within = torch.isin(torch.arange(len(heads)), torch.tensor(layers))[:, None]
            (chosen,) = (heads & reaches & within).flatten().nonzero(as_tuple=True)
            if len(chosen):
                scores[:, chosen] = self._product(chosen, weight.to(strongest), mask)
        return scores.view(N_ROTATIONS, *heads.shape)

    def in_other_orders(
        self, heads: Bool[Tensor, "layer head"], metric: str
    ) -> Float[Tensor, "order layer head"]:
        """Compute a score of heads as if all they knew were which keys they prefer, in each order.

        Random heads of deep networks prefer some keys to others in nearly all rows. Where a row
        sees only the tokens before it, the best of n keys is the first one in one case of n, and
        keys that grow better towards the end look like attention to what is near. The scores are
        those of `key_preferences` in each of `other_orders`. NaN for heads that are left out, and
        where the metric does not apply. Of more than 64 rows, 64 are taken.
        """
        scores = torch.full((N_ORDERS, heads.numel()), torch.nan)
        for layers, mask in self.masks:
            check_cancelled()
            weight = _weight(metric, self.facts, mask)
            if weight is None:
                continue
            within = torch.isin(torch.arange(len(heads)), torch.tensor(layers))[:, None]
            (chosen,) = (heads & within).flatten().nonzero(as_tuple=True)
            counts = weight[self._some_rows]
            share = weight.abs().sum() / counts.abs().sum().clamp_min(1e-12)
            orders = other_orders(self._preferences[chosen])
            of_orders = scores_by_preference(orders, counts, mask[self._some_rows])
            scores[:, chosen] = of_orders.float() * share
        return scores.view(N_ORDERS, *heads.shape)

    @cached_property
    def _some_rows(self) -> Int[Tensor, "row"]:
        """Up to 64 rows, evenly spread."""
        n_rows = self.rows.n_query
        return torch.linspace(0, n_rows - 1, min(n_rows, _MOST_ROWS)).round().long()

    @cached_property
    def _preferences(self) -> Float[Tensor, "all_heads key"]:
        """See `key_preferences`."""
        weights = self._some_weights
        n_heads = len(weights) // sum(len(layers) for layers, _ in self.masks)
        preferences = weights.new_zeros(len(weights), weights.shape[-1])
        for layers, mask in self.masks:
            chosen = (torch.tensor(layers)[:, None] * n_heads + torch.arange(n_heads)).flatten()
            preferences[chosen] = key_preferences(weights[chosen], mask[self._some_rows])
        return preferences

    @property
    def _some_weights(self) -> Float[Tensor, "all_heads row key"]:
        """The weights of `_some_rows`."""
        if len(self._some_rows) == self.rows.n_query:
            return torch.cat([self.rows.rows(span, None) for span in self.rows.spans], 1).float()
        rows = [self.rows.rows(slice(row, row + 1), None) for row in self._some_rows.tolist()]
        return torch.cat(rows, 1).float()

    @cached_property
    def _strongest(self) -> Float[Tensor, "all_heads query"]:
        """The largest weight of each row."""
        return torch.cat([self.rows.rows(span, None).amax(-1) for span in self.rows.spans], 1)

    def _product(
        self, heads: Int[Tensor, " head"], weight: Counts, visible: KeyMask
    ) -> Float[Tensor, "rotation head"]:
        """Sum all weights times what each counts after a rotation, some rows at a time."""
        total = weight.new_zeros((N_ROTATIONS, len(heads)))
        n_rows = max(1, _AT_ONCE // (N_ROTATIONS * weight.shape[1]))
        for begin in range(0, len(weight), n_rows):
            check_cancelled()
            span = slice(begin, begin + n_rows)
            moved = rotations(weight[span], visible[span]).flatten(1)
            total += moved @ self.rows.rows(span, heads).flatten(1).mT
        return total


def rotations(weight: Counts, visible: KeyMask) -> Float[Tensor, "rotation query key"]:
    """Return what a key counts once its weight is moved: `RotatedScores` as a linear form."""
    n_keys = visible.sum(-1, keepdim=True)
    rank = visible.cumsum(-1) - 1
    key_at = torch.sort(~visible, dim=-1, stable=True).indices  # visible keys come first
    at = (torch.arange(N_ROTATIONS, device=visible.device)[:, None, None] + 0.5) / N_ROTATIONS
    moved = rank + 1 + (at * (n_keys - 1)).long()
    moved -= n_keys * (moved >= n_keys)
    in_order = (weight * visible).gather(-1, key_at)
    return in_order.expand(N_ROTATIONS, -1, -1).gather(-1, moved.clamp(min=0)) * visible


def least_beyond_chance(
    scores: Float[Tensor, "head"],
    rotated: Float[Tensor, "..."],
    *,
    most: float = 1.0,
) -> float | None:
    """Return the least score at which at most 5 % of the heads are expected by chance.

    `scores` are those of the heads that reach a label's threshold, higher being better; `rotated`
    those of all heads that reach it in any of the 20 rotations. Heads at or above a score t are
    expected by chance as often as rotations reach t, on average over them, the pattern as it stands
    counted with them (Phipson and Smyth 2010). If heads reached t independently of each other, as
    many as do so would come with a probability of at most `most` (Poisson's). None where chance
    explains as many at every score.
    """
    ordered = scores.sort(descending=True).values
    n_found = (scores >= ordered[:, None]).sum(-1)
    expected = ((rotated.flatten() >= ordered[:, None]).sum(-1) + 1) / (N_ROTATIONS + 1)
    as_many = torch.special.gammainc(n_found.to(expected), expected)
    surprising = ordered[(expected / n_found <= RATE) & (as_many <= most)]
    return float(surprising.min()) if len(surprising) else None


def beyond_orders(n_found: int, by_order: Int[Tensor, "order"], most: float) -> bool:
    """Tell whether more heads reach a label than heads that only prefer some keys to others.

    `by_order` counts these for each of the orders. None may give as many heads, and where they
    are independent with their mean number, as many come with a probability of at most `most`.
    """
    expected = by_order.float().mean()
    as_many = torch.special.gammainc(torch.tensor(float(n_found)), expected)
    return n_found > int(by_order.max()) and float(as_many) <= most


def _weight(metric: str, facts: TokenFacts, visible: KeyMask) -> Counts | None:
    """Return what each weight counts in a metric that is linear in them: its gradient."""
    with torch.inference_mode(False), torch.enable_grad():
        uniform = (visible / visible.sum(-1, keepdim=True).clamp(min=1))[
            None, None
        ].requires_grad_()
        table = head_table(uniform, replace(facts, allowed=visible), only=(metric,))
        if metric not in table:
            return None
        (gradient,) = torch.autograd.grad(table[metric].sum(), uniform)
    return gradient[0, 0]
