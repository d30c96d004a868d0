"""The metrics of every head on every text of a padded batch, a layer at a time.

Each number is the one that `head_report` gives for the text by itself. The rows and keys of padding
are zeros before anything is summed, so that sums need no mask; means divide by each text's own
length. The pattern is read as few times as can be: what is asked of its diagonals, of single keys
and of repeated tokens is taken from small sums.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

from mha_viz.core.metrics import METRICS
from mha_viz.core.metrics.checks import exact
from mha_viz.core.metrics.focus import row_keys_for_mass
from mha_viz.core.metrics.outputs import rounding
from mha_viz.core.metrics.spread import row_entropy
from mha_viz.corpus.padded import KINDS, PaddedTexts, Sight

# "induction" has a probe of its own, on texts of its own.
SCORES = tuple(key for key, one in METRICS.items() if one.of == "head" and key != "induction")
OUTPUT_SCORES = tuple(key for key in SCORES if "outputs" in METRICS[key].needs)
PATTERN_SCORES = tuple(key for key in SCORES if key not in OUTPUT_SCORES)
NO_BASELINE = ("sink",)  # uniform attention has none


@dataclass(frozen=True, eq=False)
class PatternSums:
    """What is summed of one layer's pattern, for scores and for profiles alike.

    Args:
        pattern: float32 (batch, head, query, key), zeros in the rows of padding.
        texts: of the batch.
        sight: of the layer.
    """

    pattern: Tensor
    texts: PaddedTexts
    sight: Sight

    @cached_property
    def by_key(self) -> Tensor:
        """Weight on each key, summed over queries: (batch, head, key)."""
        return self.pattern.sum(-2)

    @cached_property
    def distance(self) -> Tensor:
        """Weights times how far away their keys are, summed: (batch, head)."""
        at = torch.arange(self.pattern.shape[-1], device=self.pattern.device)
        gaps = (at[:, None] - at).abs().float()
        # a text at a time: it stays in the processor's cache
        return torch.stack([(text * gaps).sum((-2, -1)) for text in self.pattern])

    @cached_property
    def repeated(self) -> Tensor:
        """Weight between positions of one token, (pair, head), as `PaddedTexts.same_pairs`."""
        row, query, key = self.texts.same_pairs
        return exact(self.pattern[row, :, query, key])

    @cached_property
    def on_repeats(self) -> Tensor:
        """Weight on the same token elsewhere that counts as such: (batch, head)."""
        pairs = self.texts.same_pairs
        counting = self.sight.repeats[pairs][:, None]
        found = exact(self.pattern.new_zeros(self.pattern.shape[:2]))
        return found.index_add_(0, pairs[0], self.repeated * counting).float()

    @cached_property
    def kinds(self) -> Tensor:
        """Weight on each of `KINDS`, summed over queries and keys: (batch, head, kind)."""
        batch, heads, _, n = self.pattern.shape
        row, _, key = self.texts.same_pairs
        same = exact(self.pattern.new_zeros(batch * n, heads))
        same = same.index_add_(0, row * n + key, self.repeated).unflatten(0, (batch, n)).mT
        itself = self.diagonal(0)
        others = (self.by_key - itself - same).clamp(min=0.0)
        found = {"itself": exact(itself).sum(-1), "same token": same.sum(-1)}
        for kind, keys in self.texts.kinds_of_keys.items():
            found[kind] = (others * keys[:, None]).sum(-1)
        return torch.stack([found[kind] for kind in KINDS], -1)

    def diagonal(self, offset: int) -> Tensor:
        """Each query's weight on the key so many places on: (batch, head, those queries)."""
        return self.pattern.diagonal(offset, -2, -1)

    @cached_property
    def strongest(self) -> Tensor:
        """Each row's largest weight: (batch, head, query)."""
        return self.pattern.amax(-1)


def pattern_scores(sums: PatternSums, has_sinks: bool = False) -> dict[str, Tensor]:
    """Every score that is made of weights.

    Args:
        sums: of one layer.
        has_sinks: whether its heads have learned a sink.

    Returns:
        metric key -> (batch, head), in the order of `PATTERN_SCORES`; NaN where not defined.
    """
    texts, sight, pattern = sums.texts, sums.sight, sums.pattern
    n = texts.lengths[:, None].float()
    rows = row_entropy(pattern)
    special = texts.special[:, None].float()
    on_special = sums.by_key * special
    no_special = ~texts.special.any(-1, keepdim=True)
    lone = n < 2
    confidence = sums.strongest.sum(-1) / n
    found = {
        "entropy": rows.sum(-1) / n,
        "normalized_entropy": (rows * sight.per_most_entropy[:, None]).sum(-1) / n,
        "mutual_information": _mutual_information(rows, sums),
        "confidence": confidence,
        "keys_for_mass": row_keys_for_mass(pattern).sum(-1) / n,
        "distance": sums.distance / n,
        "previous_token": (sums.diagonal(-1).sum(-1) / (n - 1)).masked_fill(lone, torch.nan),
        "next_token": (sums.diagonal(1).sum(-1) / (n - 1)).masked_fill(lone, torch.nan),
        "self_token": sums.diagonal(0).sum(-1) / n,
        "first_token": sums.by_key[..., 0] / n,
        "special_token": (on_special.sum(-1) / n).masked_fill(no_special, torch.nan),
        "separator_token": (on_special[..., 1:].sum(-1) / n).masked_fill(no_special, torch.nan),
        "sink": torch.full_like(confidence, torch.nan),
        "duplicate_token": sums.on_repeats / sight.repeating_rows[:, None],  # 0 of 0 rows: NaN
    }
    if texts.causal:
        found["next_token"].fill_(torch.nan)  # nobody sees it
    idle = confidence == 0  # what is made of weights is not defined for a head that has none
    scores = {key: found[key].masked_fill(idle, torch.nan) for key in PATTERN_SCORES}
    if has_sinks:
        left = (1 - pattern.sum(-1)).clamp(0.0, 1.0) * texts.real[:, None]
        scores["sink"] = left.sum(-1) / n
    return scores


def _mutual_information(rows: Tensor, sums: PatternSums) -> Tensor:
    """As `core.metrics.spread.mutual_information`; rows that sum to less than 1 count as much."""
    n = sums.texts.lengths[:, None].float()
    mean = sums.by_key / n[..., None]
    mass = mean.sum(-1)
    weighed = (rows * sums.pattern.sum(-1)).sum(-1) / n / mass
    found = torch.special.entr(mean / mass[..., None]).sum(-1) - weighed
    return torch.where(mass == 0, 0.0, found.clamp(min=0.0))


def output_scores(z: Tensor, root: Tensor, texts: PaddedTexts) -> dict[str, Tensor]:
    """Every score that is made of what heads write.

    Args:
        z: (batch, head, query, d_head).
        root: (head, d_head, d_head) of the layer, see `output_root`.
        texts: of the batch.

    Returns:
        metric key -> (batch, head), in the order of `OUTPUT_SCORES`.
    """
    z_rounding = rounding(z)
    n = texts.lengths[:, None].float()
    real = texts.real[:, None]
    outputs = (z.float() @ root).masked_fill(~real[..., None], 0.0)
    mean = outputs.sum(-2) / n[..., None]
    norms = outputs.norm(dim=-1).sum(-1) / n
    size = mean.norm(dim=-1)
    # centred before it is squared, as in `core.metrics.outputs.variance`
    deviation = ((outputs - mean[..., None, :]).norm(dim=-1) * real).norm(dim=-1)
    alike = deviation <= z_rounding * n.sqrt() * size
    found = {
        "norm_of_mean_output": size,
        "output_norm": norms,
        "output_share": norms / norms.sum(-1, keepdim=True),
        "variance": torch.where(alike, 0.0, deviation).square() / n,
    }
    return {key: found[key] for key in OUTPUT_SCORES}


def chance_patterns(sight: Sight) -> Tensor:
    """What heads that learned nothing look at: (batch, 2, query, key).

    The first gives every key that it may see the same weight, the second all of it to the token
    before (the first token to itself), as `core.metrics.baselines` has it.

    Args:
        sight: of a layer.
    """
    seen = sight.seen.float()
    uniform = seen / seen.sum(-1, keepdim=True).clamp_min(1.0)
    place = (torch.arange(seen.shape[-1], device=seen.device) - 1).clamp(min=0)
    offset = torch.nn.functional.one_hot(place, seen.shape[-1]).float().expand_as(seen)
    return torch.stack([uniform, offset * sight.texts.real[..., None]], 1)


def chance_outputs(patterns: Tensor, value: Tensor, root: Tensor, texts: PaddedTexts) -> Tensor:
    """What each head of a layer would score if it looked as chance does: (batch, head, 2, score).

    Args:
        patterns: of `chance_patterns`.
        value: (batch, n_kv_heads, key, d_value) of the layer.
        root: (head, d_head, d_head) of the layer.
        texts: of the batch.
    """
    group = len(root) // value.shape[1]
    wide = value.float().masked_fill(~texts.real[:, None, :, None], 0.0)
    previous = torch.cat([wide[:, :, :1], wide[:, :, :-1]], 2)
    ways = []
    for z in (patterns[:, :1] @ wide, previous):
        scores = output_scores(z.repeat_interleave(group, dim=1), root, texts)
        ways.append(torch.stack(list(scores.values()), -1))
    return torch.stack(ways, 2)
