"""The metrics of every head on every text of a padded batch, a layer at a time.

Each number is the one that `head_report` gives for the text by itself. The rows and keys of padding
are zeros before anything is summed, so that sums need no mask; means divide by each text's own
length. The pattern is read as few times as can be: what is asked of its diagonals, of single keys
and of repeated tokens is taken from small sums. A metric that has no formula here is computed text
by text, as for a report.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import torch
from torch import Tensor

from mha_viz.core.metrics import METRICS, head_table
from mha_viz.core.metrics.checks import exact
from mha_viz.core.metrics.focus import row_keys_for_mass
from mha_viz.core.metrics.outputs import rounding
from mha_viz.core.metrics.spread import row_entropy
from mha_viz.corpus.measure.padded import KINDS, PaddedTexts, VisibleKeys

# fmt: off
PATTERN_SCORES = (
    "entropy", "normalized_entropy", "mutual_information", "confidence", "keys_for_mass",
    "distance", "previous_token", "next_token", "self_token", "first_token", "special_token",
    "separator_token", "sink", "duplicate_token",
)
# fmt: on
OUTPUT_SCORES = ("norm_of_mean_output", "output_norm", "output_share", "variance")
SCORES = PATTERN_SCORES + OUTPUT_SCORES
NO_BASELINE = ("sink",)  # uniform attention has none


def scores_by_text() -> tuple[str, ...]:
    """Return the metrics of heads that have no formula for a batch, in the order of the table.

    Those of repeated texts are not among them: "induction" has a probe of its own.
    """
    known = {*PATTERN_SCORES, *OUTPUT_SCORES}
    there = (one for one in METRICS.values() if one.of == "head" and "period" not in one.needs)
    return tuple(one.key for one in there if one.key not in known)


@dataclass(frozen=True, eq=False)
class PatternSums:
    """The sums of one layer's pattern, for scores and for profiles alike."""

    pattern: Tensor  # float32 (batch, head, query, key), zeros in the rows of padding
    texts: PaddedTexts  # of the batch
    visible: VisibleKeys  # of the layer

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
        counting = self.visible.repeats[pairs][:, None]
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
        """Return each query's weight on the key so many places on: (batch, head, those queries)."""
        return self.pattern.diagonal(offset, -2, -1)

    @cached_property
    def strongest(self) -> Tensor:
        """Each row's largest weight: (batch, head, query)."""
        return self.pattern.amax(-1)


def pattern_scores(sums: PatternSums, has_sinks: bool = False) -> dict[str, Tensor]:
    """Compute every score that is made of weights: metric -> (batch, head), or NaN."""
    texts, visible, pattern = sums.texts, sums.visible, sums.pattern
    n = texts.lengths[:, None].float()
    rows = row_entropy(pattern)
    special = texts.special[:, None].float()
    on_special = sums.by_key * special
    no_special = ~texts.special.any(-1, keepdim=True)
    lone = n < 2
    confidence = sums.strongest.sum(-1) / n
    found = {
        "entropy": rows.sum(-1) / n,
        "normalized_entropy": (rows * visible.per_most_entropy[:, None]).sum(-1) / n,
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
        "duplicate_token": sums.on_repeats / visible.repeating_rows[:, None],  # 0 of 0 rows: NaN
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
    """Compute `core.metrics.spread.mutual_information` of rows that may sum to less than 1."""
    n = sums.texts.lengths[:, None].float()
    mean = sums.by_key / n[..., None]
    mass = mean.sum(-1)
    weighed = (rows * sums.pattern.sum(-1)).sum(-1) / n / mass
    found = torch.special.entr(mean / mass[..., None]).sum(-1) - weighed
    return torch.where(mass == 0, 0.0, found.clamp(min=0.0))


def output_scores(z: Tensor, root: Tensor, texts: PaddedTexts) -> dict[str, Tensor]:
    """Compute every score that is made of what heads write: metric -> (batch, head).

    `z` is (batch, head, query, d_head); `root` is the layer's (head, d_head, d_head) of
    `output_root`.
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
    constant = deviation <= z_rounding * n.sqrt() * size
    found = {
        "norm_of_mean_output": size,
        "output_norm": norms,
        "output_share": norms / norms.sum(-1, keepdim=True),
        "variance": torch.where(constant, 0.0, deviation).square() / n,
    }
    return {key: found[key] for key in OUTPUT_SCORES}


def chance_patterns(visible: VisibleKeys) -> Tensor:
    """Build the patterns of heads that learned nothing: (batch, 2, query, key).

    The first gives every key that it may see the same weight, the second all of it to the token
    before (the first token to itself), as `core.metrics.baselines` has it.
    """
    seen = visible.seen.float()
    uniform = seen / seen.sum(-1, keepdim=True).clamp_min(1.0)
    place = (torch.arange(seen.shape[-1], device=seen.device) - 1).clamp(min=0)
    offset = torch.nn.functional.one_hot(place, seen.shape[-1]).float().expand_as(seen)
    return torch.stack([uniform, offset * visible.texts.real[..., None]], 1)


def chance_z(patterns: Tensor, value: Tensor, n_heads: int, texts: PaddedTexts) -> list[Tensor]:
    """Compute what a layer's heads read by both of `chance_patterns`, (batch, head, query,
    d_value).
    """
    wide = value.float().masked_fill(~texts.real[:, None, :, None], 0.0)
    previous = torch.cat([wide[:, :, :1], wide[:, :, :-1]], 2)
    group = n_heads // value.shape[1]
    return [z.repeat_interleave(group, dim=1) for z in (patterns[:, :1] @ wide, previous)]


def by_text(
    names: Sequence[str],
    sums: PatternSums,
    has_sinks: bool = False,
    z: Tensor | None = None,
    W_O: Tensor | None = None,
) -> dict[str, Tensor]:
    """Compute metrics that have no formula for a batch, of each text by itself.

    `z` (batch, head, query, d_head) and `W_O` (head, d_head, d_model) are for metrics of what heads
    write. The values are (batch, head); NaN where a metric does not apply to a text.
    """
    texts, found = sums.texts, []
    for row, n in enumerate(texts.lengths.tolist()):
        pattern = sums.pattern[row : row + 1, :, :n, :n]
        about: dict[str, Any] = {"causal": texts.causal, "allowed": sums.visible.seen[row, :n, :n]}
        about["ids"] = texts.ids[row, :n]
        if texts.special[row].any():
            about["is_special"] = texts.special[row, :n]
        if has_sinks:
            about["sink"] = (1 - pattern.sum(-1)).clamp(0.0, 1.0)
        if z is not None:
            about |= {"z": z[row : row + 1, :, :n], "W_O": [W_O]}
        found.append(head_table(pattern, **about, only=names))
    heads = (sums.pattern if z is None else z).new_full((1, sums.pattern.shape[1]), torch.nan)
    return {key: torch.cat([one.get(key, heads) for one in found]) for key in names}
