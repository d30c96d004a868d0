"""The loss when one head fails, or two: a test of whether others make up for it."""

from collections.abc import Sequence
from dataclasses import dataclass

import pandas as pd
import torch
from jaxtyping import Float, Int
from torch import Tensor

from mha_viz.engine.model import AttentionModel
from mha_viz.errors import ArgumentError
from mha_viz.interventions.importance import HeadImportance, t_interval
from mha_viz.prediction.replay import OnProgress, losses
from mha_viz.prediction.targets import prediction_targets

QUANTILES = (0.05, 0.25, 0.5, 0.75, 0.95)


@dataclass(frozen=True, eq=False)
class Robustness:
    """The loss with one random head off, and with pairs of heads off."""

    loss: Float[Tensor, " text"]  # with all heads on, nats per token
    heads: Int[Tensor, "draw 2"]  # the position (layer, head) that is off; no head twice
    change: Float[Tensor, "draw text"]  # the loss then, less `loss`
    pairs: Int[Tensor, "pair 2 2"]  # two heads that are off together
    pair_change: Float[Tensor, "pair text"]  # the loss then, less `loss`
    apart: Float[Tensor, "pair text"]  # the sum of the changes when either is off alone
    tolerance: float  # nats per token; a smaller change counts as none
    notes: tuple[str, ...] = ()  # what to know before reading it
    layer_numbers: tuple[int, ...] = ()  # the model's own, which the tables name; none: 0, 1, 2 ...

    @property
    def extra(self) -> Float[Tensor, "pair text"]:
        """The cost of a pair beyond the sum of the two.

        Above 0, each partly stood in for the other; below 0, both did the same work, or harm.
        """
        return self.pair_change - self.apart

    def summary(self) -> dict[str, float]:
        """Return the numbers to quote; nats per token, and shares in [0, 1] of draws or of pairs.

        `mean`, `extra`: with `_low` and `_high`, their 95 % t-interval over texts (NaN for one).
        `q05` ... `q95`: quantiles over heads of the change, each head's mean over texts.
        `unharmed`: share of heads whose change is within the tolerance, either way; `worse`,
        `better`: beyond it. `compensating`, `overlapping`: share of pairs whose `extra` is above or
        below 0 by more than the tolerance.
        """
        intervals: dict[str, float] = {}
        for name, changes in (("mean", self.change), ("extra", self.extra)):
            ends = (name, f"{name}_low", f"{name}_high")
            intervals |= dict(zip(ends, map(float, t_interval(changes.mean(0))), strict=True))
        heads, pairs = self.change.mean(1), self.extra.mean(1)
        points = torch.tensor(QUANTILES, dtype=heads.dtype)
        quantiles = torch.quantile(heads, points).tolist()
        limit = self.tolerance
        return intervals | {
            **{f"q{round(100 * q):02d}": v for q, v in zip(QUANTILES, quantiles, strict=True)},
            "unharmed": float((heads.abs() <= limit).double().mean()),
            "worse": float((heads > limit).double().mean()),
            "better": float((heads < -limit).double().mean()),
            "compensating": float((pairs > limit).double().mean()),
            "overlapping": float((pairs < -limit).double().mean()),
        }

    def table(self) -> pd.DataFrame:
        """Return a row per head that was off: layer, head, change (mean over texts)."""
        layer, head = self._named(self.heads).T.numpy()
        return pd.DataFrame({"layer": layer, "head": head, "change": self.change.mean(1).numpy()})

    def _named(self, heads: Int[Tensor, "*rest 2"]) -> Int[Tensor, "*rest 2"]:
        """Put the model's own numbers of layers for their positions."""
        if not self.layer_numbers:
            return heads
        numbers = torch.tensor(self.layer_numbers)
        return torch.stack([numbers[heads[..., 0]], heads[..., 1]], -1)

    def pair_table(self) -> pd.DataFrame:
        """Return a row per pair: both heads, and changes together, apart and extra (means)."""
        names = ("layer", "head", "other_layer", "other_head")
        flat = self._named(self.pairs).flatten(1).T.numpy()
        return pd.DataFrame(dict(zip(names, flat, strict=True))).assign(
            change=self.pair_change.mean(1).numpy(),
            apart=self.apart.mean(1).numpy(),
            extra=self.extra.mean(1).numpy(),
        )


def robustness(
    model: AttentionModel,
    texts: str | Sequence[str],
    n_draws: int = 100,
    *,
    tolerance: float = 0.01,
    seed: int = 0,
    importance: HeadImportance | None = None,
    on_progress: OnProgress | None = None,
) -> Robustness:
    """Switch one random head off, many times, and test whether other heads make up for it.

    "If one head fails, others compensate" cannot be read off a small change alone: the head may
    never have mattered here. So pairs are switched off, too. If the second of two heads makes up
    for the loss of the first, then losing both costs more than the sum of losing either: `extra`
    above 0. That is what compensation would look like, not proof of it: any loss that bends
    upwards gives the same, and a head far down may make up by more than one other.

    Args:
        model: a causal or masked model of one stack, through our attention function.
        texts: each counts the same, however long it is.
        n_draws: heads that are drawn, and pairs, none of them twice; all of them where there are
            no more, which is exact.
        tolerance: nats per token, 0 or more; a smaller change counts as none. 0.01 is a change of
            1 % in perplexity.
        seed: of the draws.
        importance: what `head_importance` found by ablation for this model and these
            texts: single heads are then taken from it instead of being run again.
        on_progress: see `losses`.

    Raises:
        ArgumentError: no draws, a negative tolerance, an importance of something else; and what
            `prediction_targets` raises.

    Source: the idea of backup heads, Wang et al. 2023; the test is interaction of two factors.

    >>> import mha_viz as mv
    >>> draws = robustness(mv.load("tiny-gpt2"), "The cat sat on the mat.", n_draws=6)
    >>> draws.change.shape, draws.pairs.shape, sorted(draws.summary())[:3]
    (torch.Size([6, 1]), torch.Size([6, 2, 2]), ['better', 'compensating', 'extra'])
    """
    if n_draws < 1 or not tolerance >= 0:
        raise ArgumentError(
            f"n_draws must be 1 or more and tolerance 0 or more, got {n_draws} and {tolerance}."
        )
    targets = prediction_targets(model, texts)
    total = model.n_layers * model.n_heads
    generator = torch.Generator().manual_seed(seed)
    drawn = torch.randperm(total, generator=generator)[:n_draws].sort().values
    both = torch.combinations(torch.arange(total), 2)
    both = both[torch.randperm(len(both), generator=generator)[:n_draws].sort().values]
    alone = torch.cat([drawn, both.flatten()]).unique()
    singles = alone[:, None].tolist() if importance is None else []
    text_losses = losses(model, targets, [[], *singles, *both.tolist()], on_progress)
    change = text_losses[1:] - text_losses[0]
    by_head = torch.full((total, targets.n_texts), torch.nan, dtype=change.dtype)
    if importance is None:
        by_head[alone] = change[: len(alone)]
    else:
        shape, by_head = by_head.shape, importance.values.flatten(1).T
        if importance.method != "ablation" or by_head.shape != shape:
            raise ArgumentError(
                f"importance must be by ablation, of {shape[0]} heads over {shape[1]} texts; got "
                f"{importance.method} of {by_head.shape[0]} over {by_head.shape[1]}."
            )
    grid = model.n_layers, model.n_heads
    return Robustness(
        loss=text_losses[0],
        heads=torch.stack(torch.unravel_index(drawn, grid), -1),
        change=by_head[drawn],
        pairs=torch.stack(torch.unravel_index(both, grid), -1),
        pair_change=change[len(singles) :],
        apart=by_head[both].sum(1),
        tolerance=tolerance,
        notes=targets.notes,
        layer_numbers=model.layer_numbers,
    )
