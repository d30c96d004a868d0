"""Names for what a head does, given only where a score passes a threshold and beats a baseline."""

from collections.abc import Mapping
from dataclasses import dataclass

from jaxtyping import Float
from torch import Tensor

from mha_viz.core.metrics.baselines import Baseline
from mha_viz.core.metrics.chance import beyond_chance


@dataclass(frozen=True)
class Label:
    """A name for a kind of head, and the rule that a head must meet to get it.

    Args:
        key: its name in code.
        title: its name on screen.
        metric: key of the metric that decides.
        threshold: what the score must reach, in the metric's unit or, where `relative`, as a
            multiple of the baseline: see `head_labels`.
        at_least: the score must be no smaller; else no larger.
        relative: see `threshold`.
        unless: labels that a head must not have as well.
        meaning: one sentence in plain words.
        badge: the title in few letters, for a small picture.
    """

    key: str
    title: str
    metric: str
    threshold: float
    at_least: bool = True
    relative: bool = False
    unless: tuple[str, ...] = ()
    meaning: str = ""
    badge: str = ""


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


HALF = 0.5  # of the weight: more than all other tokens together
SINKS = ("first_token", "separator")

_ALL = (
    Label(
        "previous_token",
        "Previous token",
        "previous_token",
        HALF,
        meaning="Looks mostly at the token just before.",
        badge="prev",
    ),
    Label(
        "next_token",
        "Next token",
        "next_token",
        HALF,
        meaning="Looks mostly at the token just after.",
        badge="next",
    ),
    Label(
        "self",
        "Same position",
        "self_token",
        HALF,
        meaning="Looks mostly at the token itself.",
        badge="self",
    ),
    Label(
        "first_token",
        "First token (sink)",
        "first_token",
        HALF,
        meaning="Rests on the first token, as many heads do when they have nothing to do.",
        badge="first",
    ),
    Label(
        "separator",
        "Separator",
        "separator_token",
        HALF,
        meaning="Rests on special tokens after the first, such as [SEP].",
        badge="sep",
    ),
    Label(
        "duplicate",
        "Same token elsewhere",
        "duplicate_token",
        HALF,
        meaning="A token that occurs again looks mostly at its other occurrences.",
        badge="same",
    ),
    Label(
        "induction",
        "Induction",
        "induction",
        0.4,
        meaning="On random text said twice, looks at what came next the first time.",
        badge="induct",
    ),
    Label(
        "broad",
        "Broad",
        "normalized_entropy",
        0.85,
        relative=True,
        meaning="Spreads its weight over nearly all tokens it may see, as no head does untrained.",
        badge="broad",
    ),
    Label(
        "local",
        "Local",
        "distance",
        0.5,
        at_least=False,
        relative=True,
        meaning="Looks at most half as far away as a head that looks everywhere alike.",
        badge="local",
    ),
    Label(
        "long_range",
        "Long-range",
        "distance",
        1.25,
        relative=True,
        unless=SINKS,
        meaning="Looks further away than a head that looks everywhere alike, and not at a sink.",
        badge="far",
    ),
)

LABELS: dict[str, Label] = {label.key: label for label in _ALL}
_MIN_DISTANCE = 3.0  # tokens; where uniform attention looks no further, near and far mean nothing


def head_labels(
    scores: Mapping[str, Float[Tensor, "layer head"]], baselines: Mapping[str, Baseline]
) -> list[list[tuple[EarnedLabel, ...]]]:
    """The labels of every head: result[layer][head]; a head may have none.

    A score of "at least" must reach its threshold and lie above the baseline: the larger of
    uniform attention and of the best random head. On short texts the threshold of a share of the
    weight is higher: what heads that pick their keys at random hardly ever reach. "Local" and
    "long-range" are multiples of that baseline: of the distance of uniform attention, or of the
    random head that is nearest to the label where that is harder. "Broad" is what nearly every head
    is before training: it is given only where random weights are known and none of their heads is
    broad. No label is given that `too_short` names.

    Args:
        scores: metric key -> (layer, head).
        baselines: metric key -> Baseline, from `baselines`.

    Returns:
        result[layer][head]: labels in the order of `LABELS`.
    """
    layers, heads = next(iter(scores.values())).shape
    found: list[list[dict[str, EarnedLabel]]] = [[{} for _ in range(heads)] for _ in range(layers)]
    for label in LABELS.values():
        whole = baselines.get(label.metric, Baseline())
        for layer, row in enumerate(
            scores[label.metric].tolist() if label.metric in scores else ()
        ):
            beaten = to_beat(label, whole.at(layer))
            if beaten is None:
                continue
            name, least, threshold = beaten
            for held, score in zip(found[layer], row, strict=True):
                enough = score >= threshold if label.at_least else score <= threshold
                better = score > least if label.at_least else score < least
                if enough and better and not held.keys() & set(label.unless):
                    held[label.key] = EarnedLabel(label, score, threshold, name, least)
    return [[tuple(held.values()) for held in row] for row in found]


def too_short(baselines: Mapping[str, Baseline], layer: int) -> tuple[Label, ...]:
    """The labels that this text is too short to give: chance alone might earn them.

    Of weights: so few rows that even a score of 1 may be chance (`chance.beyond_chance`). Of
    distances: uniform attention looks less than 3 tokens away.

    Args:
        baselines: metric key -> Baseline, from `baselines`.
        layer: of the head, counted from 0; its window decides as well.

    Returns:
        Labels in the order of `LABELS`.
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


def to_beat(label: Label, baseline: Baseline) -> tuple[str, float, float] | None:
    """What a head must beat and reach for a label, as `head_labels` gives it.

    Args:
        label: of `LABELS`.
        baseline: of its metric, in the head's layer.

    Returns:
        The name of the baseline, its value, the threshold; None where there is nothing to compare.
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
    known = {"uniform attention": uniform, "best random head": best}
    sure = {name: value for name, value in known.items() if value is not None}
    if not sure:
        # Without a repeated text, induction has no uniform baseline: only a random model gives one.
        return ("no baseline", 0.0, label.threshold) if label.key == "induction" else None
    name = (max if label.at_least else min)(sure, key=sure.__getitem__)
    hardest = sure[name]
    if label.relative:
        return name, hardest, label.threshold * hardest
    return name, hardest, max(label.threshold, _beyond_chance(baseline) or 0.0)
