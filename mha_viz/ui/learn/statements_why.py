"""What lab 10 says about its numbers: both sides, and why a statement holds or fails here."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from mha_viz.core.record import AttentionRecord
from mha_viz.interventions.robustness import Robustness
from mha_viz.labs.statements import BY_KEY, HOLDS, LITTLE, Sides, Statement, judge
from mha_viz.labs.statements_measured import HARMED, MOST, N_DRAWS
from mha_viz.ui.widgets import words
from mha_viz.web.theme import format_number as short

SIGNS = {"=": "=", "<=": "≤", ">=": "≥"}
Numbers = Mapping[str, float]


def sides_in_words(statement: Statement, sides: Sides, layer: int) -> str:
    """Both sides in a layer; what is not exactly known as an interval."""
    low, high = sides.sampled or (sides.low, sides.high)
    ends = [short(float(end[layer])) for end in (low, high)]
    right = float(sides.right[layer])
    if words.UNDEFINED in ends or math.isnan(right):
        return words.UNDEFINED
    left = ends[0] if ends[0] == ends[1] else f"{ends[0]} to {ends[1]}"
    return f"{left} {SIGNS[statement.relation]} {short(right)} ?"


@dataclass(frozen=True)
class Question:
    """What may be asked before the numbers are read; the right answer is a measured one."""

    name: str
    asked: tuple[str, list[str], int, str]


def predictions(found: Mapping[str, Sides], layer: int) -> list[Question]:
    """The questions that this layer has an answer to."""
    asked = []
    if "orthogonal" in found and not math.isnan(_numbers(found["orthogonal"], layer)["left"]):
        asked.append(_predict_overlap(_numbers(found["orthogonal"], layer), layer))
    if "variance" in found and not math.isnan(_numbers(found["variance"], layer)["left"]):
        asked.append(_predict_variance(_numbers(found["variance"], layer), layer))
    return asked


def _predict_overlap(at: Numbers, layer: int) -> Question:
    chance = at["random subspaces"]
    none = at["left"] <= BY_KEY["orthogonal"].tolerance * chance
    right = 0 if none else 1 + (at["left"] > 1.25 * chance)
    return Question(
        "overlap",
        (
            f"How much of one head’s subspace lies in another’s, in L{layer}?",
            [
                "Nothing: they are orthogonal",
                "About as much as with random subspaces, or less",
                "Clearly more than with random subspaces",
            ],
            int(right),
            f"Two heads share {at['left']:.1%} on average. Random subspaces of this size share "
            f"{chance:.1%}; “clearly more” is a quarter more than that.",
        ),
    )


def _predict_variance(at: Numbers, layer: int) -> Question:
    ratio = at["left"] / at["right"] if at["right"] else 1.0
    right = 0 if ratio < 0.95 else 2 if ratio > 1.05 else 1
    return Question(
        "variance",
        (
            f"The heads of L{layer} are added up. What has more variance over this text?",
            ["The heads, each for itself", "Both the same, to within 5 %", "Their sum"],
            right,
            f"The variance of the sum is {short(at['left'])}, the sum of the variances "
            f"{short(at['right'])}: {short(ratio)} times as much. Heads that are independent would "
            "give 1.",
        ),
    )


def why(
    statement: Statement,
    record: AttentionRecord,
    found: Mapping[str, Sides],
    layer: int,
    failures: Robustness | None = None,
) -> str:
    """Why it holds or fails in this layer, with the numbers that show it."""
    sides = found[statement.key]
    at = _numbers(sides, layer)
    if math.isnan(at["left"]) or math.isnan(at["right"]):
        return _undefined(statement, record)
    word = judge(statement, sides)[layer].word
    if failures is not None:
        return _failure(at, failures, layer)
    if word == LITTLE:
        return (
            f"Both sides are below {statement.least:g} {statement.unit} in L{layer}. The heads say "
            "almost nothing about which token looks, so that the sides agree near 0 whatever the "
            "heads share. A text or a layer in which heads look at different places can decide."
        )
    return _WHY[statement.key](at, word == HOLDS, layer)


def _numbers(sides: Sides, layer: int) -> dict[str, float]:
    low, high = sides.sampled or (sides.low, sides.high)
    values = {
        "left": sides.left,
        "right": sides.right,
        "low": sides.low,
        "high": sides.high,
        "drawn_low": low,
        "drawn_high": high,
    } | sides.more
    return {name: float(values[name][layer]) for name in values}


def _undefined(statement: Statement, record: AttentionRecord) -> str:
    if statement.needs == "loss":
        return "No head of this layer was among those that were switched off."
    if record.n_heads == 1 and statement.key in ("orthogonal", "diversity"):
        return "Not defined: a layer of one head has no two heads to compare."
    if statement.key == "variance" and len(record.tokens) < 2:
        return "Not defined: one token has no variance."
    if statement.needs == "pattern":
        return (
            "Not defined: some token may look at nothing, or the text is too long to go through "
            "all pairs of heads."
        )
    return "Not defined in this layer: some head’s weights are all zero."


def _orthogonal(at: Numbers, holds: bool, layer: int) -> str:
    chance, nearest = at["random subspaces"], at["nearest two"]
    versus = (
        "less than"
        if at["left"] < 0.95 * chance
        else ("more than" if at["left"] > 1.05 * chance else "about what")
    )
    return (
        f"Two heads of L{layer} share {at['left']:.1%} of their directions on average, the two "
        f"nearest {nearest:.1%}. That is {versus} random subspaces of this size share "
        f"({chance:.1%}, d_head / d_model). Nothing in training asks for right angles"
        + (", yet here they nearly are." if holds else ".")
    )


def _direct_sum(at: Numbers, holds: bool, layer: int) -> str:
    rank, width, apart = (int(at[k]) for k in ("left", "right", "sum of the heads’ dimensions"))
    effective = short(at["effective rank"])
    text = f"The heads of L{layer} have {apart} dimensions one by one and {rank} together. "
    if rank < apart:
        text += f"So {apart - rank} are used twice: the sum is not direct. "
    if rank < width:
        text += f"{width - rank} of the {width} directions are left out. "
    if holds:
        text += "Almost any weights do so, random ones, too: it says nothing about training. "
    return text + (
        f"Not all directions are used alike: counted by their strength there are {effective} "
        "(effective rank)."
    )


def _norm(at: Numbers, holds: bool, layer: int) -> str:
    ratio = short(at["left"] / at["right"])
    reason = (
        "That is within the tolerance, here."
        if holds
        else "Components that are independent, each of variance 1, would give d_model. Nothing in "
        "a layer makes them so: W_O sets the size, and it is trained to fit what comes after."
    )
    return f"The output of L{layer} has {ratio} times the squared length that is claimed. {reason}"


def _variance(at: Numbers, holds: bool, layer: int) -> str:
    gap = at["left"] - at["right"]
    pull = "cancel each other in part" if gap < 0 else "push in the same direction"
    return (
        "The sides differ by twice the sum of the covariances of all pairs of heads, here "
        f"{short(gap)}: the heads of L{layer} {pull}. "
        + (
            "It holds for that reason only, and not for heads in general."
            if holds
            else "It needs covariances that sum to 0 or less; heads that agree break it."
        )
    )


def _best_head(at: Numbers, holds: bool, layer: int) -> str:
    pooled, best = at["heads’ mean pattern"], at["right"]
    worse = pooled < best - BY_KEY["best-head"].tolerance
    return (
        "This one is a theorem: whoever sees the keys of all heads can ignore all but one. For "
        f"certain, the heads of L{layer} tell {short(at['low'])} to {short(at['high'])} nats "
        f"together; by {N_DRAWS:,} random draws {short(at['drawn_low'])} to "
        f"{short(at['drawn_high'])} (95 %). But it **needs to be known which key is whose**: the "
        f"heads’ mean pattern tells {short(pooled)} nats, "
        + ("less than the best head alone." if worse else "as much as the best head alone.")
    )


def _capacity(at: Numbers, holds: bool, layer: int) -> str:
    total, most = at["right"], at[MOST]
    text = (
        f"Added up, the heads of L{layer} have {short(total)} nats; together they have "
        f"{_drawn(at)}. The gap, {_gap(at, total)} nats, is what several heads tell: their total "
        "correlation. It is never negative, so C_total is an upper bound. "
    )
    if total > most:
        text += f"Here even {short(most)} nats, ln n, would name the token, and C_total exceeds it."
    return text + ("Here the heads share so little that both sides agree." if holds else "")


def _given_query(at: Numbers, holds: bool, layer: int) -> str:
    together, total = _drawn(at), short(at["right"])
    return (
        "For a given query each head draws its key from its own row, independently of the others: "
        "the term that is subtracted is **0**, whatever the heads do. The formula then claims "
        f"that all heads of L{layer} together tell {total} nats, where they tell {together}. "
        + (
            "Here the heads share so little that both agree."
            if holds
            else "It leaves out what heads tell twice."
        )
        + " The exact formula subtracts what heads share **without** X being known, and adds what "
        "they share when it is: Σ I(X; h_i) − I(h_1; …; h_H) + I(h_1; …; h_H | X)."
    )


def _drawn(at: Numbers) -> str:
    """Write what all heads together tell: a number, or the interval of the draws."""
    return _interval(at["drawn_low"], at["drawn_high"])


def _gap(at: Numbers, total: float) -> str:
    """Write how much the heads tell one by one beyond what they tell together."""
    return _interval(*(max(total - at[end], 0.0) for end in ("drawn_high", "drawn_low")))


def _interval(low: float, high: float) -> str:
    ends = short(low), short(high)
    return ends[0] if ends[0] == ends[1] else " to ".join(ends)


def _redundancy(at: Numbers, holds: bool, layer: int) -> str:
    total = at["sum of all heads"]
    text = (
        f"One by one the heads of L{layer} tell {short(total)} nats; what pairs share is "
        f"{short(total - at['right'])}. "
    )
    if at["right"] < 0:
        text += "Subtracted, that leaves a negative amount, which no information can be. "
    return text + (
        "For two heads it is exact. With more, what three heads share is subtracted three times. "
        "The redundancy that makes the equation true is the heads’ total correlation, "
        f"{_gap(at, total)} nats here."
    )


def _diversity(at: Numbers, holds: bool, layer: int) -> str:
    return (
        f"D is {at['left']:.4f} in L{layer}; independent random matrices have "
        f"{at['mean of random matrices']:.4f} on average, and 97.5 % of their layers more than "
        f"{at['right']:.4f}. "
        + (
            "So a D near 1 is no sign of training: the heads have no more in common than chance."
            if holds
            else "The heads are **more** alike than chance: some share directions."
        )
    )


def _failure(at: Numbers, found: Robustness, layer: int) -> str:
    numbers = found.summary()
    text = (
        f"In L{layer} the worst loss of one head costs {short(at['left'])} nats per token; "
        f"{at[HARMED]:.0%} of its heads cost more than {found.tolerance:g}. Over all "
        f"layers {numbers['unharmed']:.0%} of heads change the loss by less than that, either way."
    )
    if not len(found.pairs):
        return text
    return text + (
        " A small change is no proof that others stepped in: the head may not have mattered. If "
        "two stand in for each other, both off cost more than the sum of either: so do "
        f"{numbers['compensating']:.0%} of {len(found.pairs)} pairs; {numbers['overlapping']:.0%} "
        f"cost less. The mean of what pairs cost beyond that sum is {short(numbers['extra'])} nats."
    )


_WHY: dict[str, Callable[[Numbers, bool, int], str]] = {
    "orthogonal": _orthogonal,
    "direct-sum": _direct_sum,
    "norm": _norm,
    "variance": _variance,
    "best-head": _best_head,
    "capacity": _capacity,
    "given-query": _given_query,
    "redundancy": _redundancy,
    "diversity": _diversity,
}
