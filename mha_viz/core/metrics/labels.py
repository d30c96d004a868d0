"""Names for what a head does, given only where a score passes a threshold and beats a baseline."""

import functools
import tomllib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from mha_viz.core.metrics.baselines import Baseline
from mha_viz.core.metrics.chance import RATE, beyond_chance
from mha_viz.core.metrics.rotation import RotatedScores, beyond_orders, least_beyond_chance


@dataclass(frozen=True)
class Label:
    """A name for a kind of head, and the rule that a head must meet to get it."""

    key: str  # its name in code
    title: str  # its name on screen
    metric: str  # key of the metric that decides
    # what the score must reach, in the metric's unit or, where `relative`, as a multiple of the
    # baseline: see `head_labels`
    threshold: float
    at_least: bool = True  # the score must be no smaller; else no larger
    relative: bool = False
    unless: tuple[str, ...] = ()  # labels that a head must not have as well
    meaning: str = ""  # one sentence in plain words
    does: str = field(default="", repr=False)  # by such heads, as it follows "These heads"
    badge: str = ""  # the title in few letters, for a small picture


@dataclass(frozen=True)
class EarnedLabel:
    """A label that a head has earned: its score, what it had to reach, and what it beat.

    >>> EarnedLabel(LABELS["self"], 0.9, 0.5, "uniform attention", 0.1).why
    'Same position 0.9 (needs 0.5; uniform attention: 0.1)'
    """

    label: Label
    score: float
    threshold: float
    baseline_name: str
    baseline: float

    @property
    def why(self) -> str:
        """The label, the score that earned it, and the numbers it had to reach and to beat."""
        sign = "needs" if self.label.at_least else "at most"
        return (
            f"{self.label.title} {self.score:.3g} ({sign} {self.threshold:.3g}; "
            f"{self.baseline_name}: {self.baseline:.3g})"
        )


_TABLES = tomllib.loads(Path(__file__).with_name("labels.toml").read_text("utf-8"))
LABELS = {
    key: Label(key, unless=tuple(entry.pop("unless", ())), **entry)
    for key, entry in _TABLES.items()
}
_MIN_DISTANCE = 3.0  # tokens; where uniform attention looks no further, near and far mean nothing


def head_labels(
    scores: Mapping[str, Float[Tensor, "layer head"]],
    baselines: Mapping[str, Baseline],
    rotated: RotatedScores | None = None,
) -> list[list[tuple[EarnedLabel, ...]]]:
    """Return the labels of every head: result[layer][head]; a head may have none.

    A score of "at least" must reach its threshold and lie above the baseline: the larger of
    uniform attention and of the best random head. On short texts the threshold of a share of the
    weight is higher: what heads that pick their keys at random hardly ever reach. "Local" and
    "long-range" are multiples of that baseline: of the distance of uniform attention, or of the
    random head that is nearest to the label where that is harder. "Broad" is what nearly every head
    is before training: it is given only where random weights are known and none of their heads is
    broad. No label is given that `too_short` names.

    With `rotated`, heads hold a label only from the score on at which chance explains at most 5 %
    of those that reach it: sharp random heads look at something, too, and some of them at what a
    label names. Heads that reach a share of the weight are left out of that chance. Of the labels
    that random heads earn (a fixed key or itself, near and far), chance must give as many heads of
    a network in less than 1 case of 160, a share of 5 % for all eight labels. They must also be
    more than heads are that only prefer some keys to others, see `beyond_orders`.

    `rotated` gives the scores of some heads with keys rotated. Labels come in the order of
    `LABELS`.
    """
    layers, heads = next(iter(scores.values())).shape
    hurdles = {
        label.key: _Hurdles.of(label, baselines.get(label.metric, Baseline()), layers)
        for label in LABELS.values()
        if label.metric in scores
    }
    reached = {key: h.cleared(scores[h.label.metric]) for key, h in hurdles.items()}
    shares = [heads for key, heads in reached.items() if not LABELS[key].relative]
    named = torch.stack(shares).any(0) if shares else torch.zeros(layers, heads, dtype=torch.bool)
    by_chance = rotated and functools.cache(functools.partial(rotated, ~named))
    by_order = rotated and functools.cache(functools.partial(rotated.in_other_orders, ~named))
    labels: list[list[list[EarnedLabel]]] = [[[] for _ in range(heads)] for _ in range(layers)]
    for key, hurdle in hurdles.items():
        label, metric = hurdle.label, scores[hurdle.label.metric]
        earned = reached[key]
        for other in set(label.unless) & reached.keys():
            earned = earned & ~reached[other]
        if by_chance and by_order and label.metric in _LINEAR and earned.any():
            earned = earned & _beyond_rotation(hurdle, metric, earned, by_chance, hurdles)
            if label.key not in _NEVER_BY_CHANCE and earned.any():
                n_by_order = hurdle.cleared(by_order(label.metric)).sum((-2, -1))
                most = RATE / len(_BY_ROTATION)
                earned = earned & beyond_orders(int(earned.sum()), n_by_order, most)
        for layer, head in earned.nonzero().tolist():
            name, least, threshold = hurdle.of_layers[layer] or ("", 0.0, 0.0)
            score = float(metric[layer, head])
            labels[layer][head].append(EarnedLabel(label, score, threshold, name, least))
    return [[tuple(of_head) for of_head in row] for row in labels]


# Metrics of labels that are linear in the weights, so that rotated ones cost one product.
_LINEAR = frozenset(
    "previous_token next_token self_token first_token separator_token duplicate_token "
    "distance".split()
)
# Labels that are tested by rotation, and those of them that no random head has earned so far: a
# single head may hold these, where the others take several to be more than chance in one network.
_BY_ROTATION = [label.key for label in LABELS.values() if label.metric in _LINEAR]
_NEVER_BY_CHANCE = ("previous_token", "next_token", "duplicate")


@dataclass(frozen=True)
class _Hurdles:
    """The scores that a label requires in each layer; None: there is nothing to compare."""

    label: Label
    of_layers: list[tuple[str, float, float] | None]

    @classmethod
    def of(cls, label: Label, baseline: Baseline, n_layers: int) -> "_Hurdles":
        of_layers = (baseline.at(layer) for layer in range(n_layers))
        return cls(label, [baseline_and_threshold(label, of_layer) for of_layer in of_layers])

    def cleared(
        self, scores: Float[Tensor, "*rotation layer head"]
    ) -> Bool[Tensor, "*rotation layer head"]:
        """Return which scores reach the threshold and beat the baseline."""
        nothing = (torch.nan, torch.nan)
        required = torch.tensor([h[1:] if h else nothing for h in self.of_layers])
        least, threshold = required.to(scores).unbind(-1)
        if self.label.at_least:
            return (scores >= threshold[:, None]) & (scores > least[:, None])
        return (scores <= threshold[:, None]) & (scores < least[:, None])


def _beyond_rotation(
    hurdle: _Hurdles,
    scores: Float[Tensor, "layer head"],
    earned: Bool[Tensor, "layer head"],
    by_chance: Callable[[str, float], Float[Tensor, "rotation layer head"]],
    hurdles: Mapping[str, _Hurdles],
) -> Bool[Tensor, "layer head"]:
    """Return which heads score what chance hardly gives, see `least_beyond_chance`."""

    def rotated(label: Label) -> Float[Tensor, "rotation layer head"]:
        return by_chance(label.metric, -torch.inf if label.relative else label.threshold)

    label, moved = hurdle.label, rotated(hurdle.label)
    counting = hurdle.cleared(moved)
    for other in set(label.unless) & hurdles.keys() if counting.any() else ():
        counting &= ~hurdles[other].cleared(rotated(LABELS[other]))
    sign = 1 if label.at_least else -1
    most = 1.0 if label.key in _NEVER_BY_CHANCE else RATE / len(_BY_ROTATION)
    least = least_beyond_chance(sign * scores[earned], sign * moved[counting], most=most)
    return sign * scores >= (torch.inf if least is None else least)


def too_short(baselines: Mapping[str, Baseline], layer: int) -> tuple[Label, ...]:
    """Return the labels that this text is too short to give: chance alone might earn them.

    Of weights: so few rows that even a score of 1 may be chance (`chance.beyond_chance`). Of
    distances: uniform attention looks less than 3 tokens away. Labels come in the order of
    `LABELS`.
    """
    return tuple(
        label
        for label in LABELS.values()
        if label.metric in baselines and _too_short(label, baselines[label.metric].at(layer))
    )


def _too_short(label: Label, baseline: Baseline) -> bool:
    if label.relative:
        least = _MIN_DISTANCE if label.metric == "distance" else 0.0
        return baseline.uniform is not None and baseline.uniform < least
    return _beyond_chance(baseline) is None


def _beyond_chance(baseline: Baseline) -> float | None:
    """See `chance.beyond_chance`; 0 where it is not known how many rows there were."""
    if baseline.uniform is None or baseline.n_rows is None:
        return 0.0
    return beyond_chance(baseline.n_rows, baseline.uniform)


def baseline_and_threshold(label: Label, baseline: Baseline) -> tuple[str, float, float] | None:
    """Return the baseline to beat and the threshold to reach for a label; see `head_labels`.

    Returns the name of the baseline, its value, the threshold; None where there is nothing to
    compare.
    """
    if _too_short(label, baseline):
        return None
    uniform = baseline.uniform
    if label.key == "broad":
        best = baseline.random_high
        if uniform is None or best is None or best >= label.threshold * uniform:
            return None
        return "best random head", best, label.threshold * uniform
    best = baseline.random_high if label.at_least else baseline.random_low
    references = {"uniform attention": uniform, "best random head": best}
    sure = {name: value for name, value in references.items() if value is not None}
    if not sure:
        # Without a repeated text, induction has no uniform baseline: only a random model gives one.
        return ("no baseline", 0.0, label.threshold) if label.key == "induction" else None
    name = (max if label.at_least else min)(sure, key=sure.__getitem__)
    hardest = sure[name]
    if label.relative:
        return name, hardest, label.threshold * hardest
    return name, hardest, max(label.threshold, _beyond_chance(baseline) or 0.0)
