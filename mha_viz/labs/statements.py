"""Lab 10: what textbooks say about the heads of a layer, and the verdict once both sides are known.

`statements_measured` has the sides.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import NamedTuple

from jaxtyping import Float
from torch import Tensor

Layers = Float[Tensor, "layer"]
ROUNDING = 1e-4  # what sums of float32 may be off by
HOLDS, FAILS, OPEN, UNDEFINED = "holds", "fails", "not decided", "not defined"
LITTLE = "too little to tell"
RIGHT = "the right side"
LEAST_NATS = 0.1  # below it the keys are almost independent of the query, and 0 = 0 says nothing


@dataclass(frozen=True)
class Statement:
    """One textbook statement: left side, relation, right side.

    Args:
        key, title, says, formula: its names, what it claims in words, and in LaTeX.
        relation: "=", "<=" or ">=".
        tolerance: how far the sides may lie apart and still hold, in units of the left side or,
            where `share_of` names something, as a share of it.
        needs: "weights", "outputs", "pattern" or "loss".
        left, right: what the sides are called.
        share_of: what a relative tolerance is a share of; it is the sides' `scale`.
        unit: of both sides.
        least: where both sides are below it, the layer says too little to decide.
    """

    key: str
    title: str
    says: str
    formula: str
    relation: str
    tolerance: float
    needs: str
    left: str
    right: str
    share_of: str = ""
    unit: str = ""
    least: float = 0.0

    @property
    def allowed(self) -> str:
        """The tolerance in words."""
        if self.tolerance == 0:
            return "exactly"
        if self.tolerance <= ROUNDING:
            return "up to rounding"
        if self.share_of:
            return f"to within {100 * self.tolerance:g} % of {self.share_of}"
        return f"to within {self.tolerance:g} {self.unit}".strip()


STATEMENTS = (
    Statement(
        "orthogonal",
        "The heads’ subspaces are orthogonal",
        "Each head works in a subspace of its own, at right angles to those of all others.",
        r"\frac{1}{d_\text{head}}\,\lVert U_i^\top U_j \rVert_F^2 = 0 \quad (i \ne j)",
        "=",
        0.1,
        "weights",
        "mean overlap of two heads",
        "0 if orthogonal",
        share_of="what random subspaces share",
    ),
    Statement(
        "direct-sum",
        "Together the subspaces fill the whole space",
        "The residual stream, the row of d_model numbers that a token carries from layer to layer, "
        "is the direct sum of what the heads use: no direction is left out, and none is used "
        "twice. Books write the *union* of the subspaces, but a union is no subspace unless one "
        "holds all others. What is measured is their sum: every direction that can be put "
        "together from them.",
        r"\bigoplus_i \operatorname{span}(W_i) = \mathbb{R}^{d_\text{model}}",
        "=",
        0.0,
        "weights",
        "dimension of the sum",
        "d_model",
    ),
    Statement(
        "norm",
        "The output has the squared length d_model",
        "What the heads write together has components of mean square 1.",
        r"\mathbb{E}\,\lVert \operatorname{MHA}(x) \rVert^2 = d_\text{model}",
        "=",
        0.1,
        "outputs",
        "mean squared length",
        "d_model",
        share_of=RIGHT,
    ),
    Statement(
        "variance",
        "Adding heads up never adds more variance than they have",
        "The variance of the sum is at most the sum of the variances.",
        r"\operatorname{Var}\Big(\sum_i \text{head}_i\Big) \le "
        r"\sum_i \operatorname{Var}(\text{head}_i)",
        "<=",
        ROUNDING,
        "outputs",
        "variance of the sum",
        "sum of the variances",
        share_of=RIGHT,
    ),
    Statement(
        "best-head",
        "All heads tell at least what the best head tells",
        "What the heads together say about the token that looks is no less than what any one says.",
        r"I(q;\, k_1 \dots k_H) \ge \max_i\, I(q;\, k_i)",
        ">=",
        ROUNDING,
        "pattern",
        "all heads together",
        "best single head",
        unit="nats",
    ),
    Statement(
        "capacity",
        "The layer’s capacity is the sum of its heads’",
        "C_i is the information that the key of head i carries about the token that looks. "
        "C_total adds the C_i up. The keys of all heads together carry the joint information: the "
        "layer’s capacity. With n tokens it is at most ln n.",
        r"I(q;\, k_1 \dots k_H) = C_\text{total} = \sum_i C_i, \qquad C_i = I(q;\, k_i)",
        "=",
        0.1,
        "pattern",
        "all heads together",
        "C_total",
        share_of=RIGHT,
        unit="nats",
        least=LEAST_NATS,
    ),
    Statement(
        "given-query",
        "The whole is the sum of the parts less what they share given X",
        "The textbook’s own formula for redundancy: add up what each head tells about X, subtract "
        "what the heads share once X is known. Here X is the token that looks, and h_i the key "
        "k_i that head i looks at.",
        r"\begin{aligned} I(X;\, h_1 \dots h_H) =\; &\sum_i I(X;\, h_i) \\ "
        r"&- I(h_1;\, \dots;\, h_H \mid X) \end{aligned}",
        "=",
        0.1,
        "pattern",
        "all heads together",
        "sum of all heads, less 0",
        share_of=RIGHT,
        unit="nats",
        least=LEAST_NATS,
    ),
    Statement(
        "redundancy",
        "The whole is the sum of the parts less what pairs share",
        "Another reading, ours: add up what each head tells, subtract what every pair of heads "
        "tells twice.",
        r"\begin{aligned} I(q;\, k_1 \dots k_H) =\; &\sum_i I(q;\, k_i) \\ "
        r"&- \sum_{i<j} I(k_i;\, k_j) \end{aligned}",
        "=",
        0.1,
        "pattern",
        "all heads together",
        "sum less what pairs share",
        share_of=RIGHT,
        unit="nats",
        least=LEAST_NATS,
    ),
    Statement(
        "diversity",
        "Heads are diverse",
        "Training makes the heads of a layer differ: their weights point in different directions, "
        "at least as much as independent random matrices do. D_random is what 97.5 % of layers "
        "of random matrices exceed.",
        r"\begin{aligned} D &= \frac{2}{H(H-1)} \sum_{i<j} \big(1 - |\cos\theta_{ij}|\big) \\ "
        r"&\ge D_\text{random} \end{aligned}",
        ">=",
        ROUNDING,
        "weights",
        "diversity D",
        "least of random matrices",
    ),
    Statement(
        "failure",
        "If one head fails, the others make up for it",
        "Switch any one head of the layer off: the loss on this text does not rise.",
        r"\max_i\; L(\text{head}_i = 0) - L \;\le\; 0.01",
        "<=",
        0.0,
        "loss",
        "largest rise of the loss",
        "what counts as none",
        unit="nats",
    ),
)
BY_KEY = {statement.key: statement for statement in STATEMENTS}


@dataclass(frozen=True, eq=False)
class Sides:
    """Both sides of a statement in every layer; NaN is "not defined".

    Args:
        low, high: what the left side lies between, for certain; the same where it is known.
        right: the right side.
        sampled: the left side's 95 % interval by random draws (low, high), where it was drawn.
        scale: what a relative tolerance is a share of; the right side's size where None.
        met: what must be true besides the relation.
        more: other numbers of the layers, by name, for the picture and the explanation.
    """

    low: Layers
    high: Layers
    right: Layers
    sampled: tuple[Layers, Layers] | None = None
    scale: Layers | None = None
    met: Tensor | None = None
    more: dict[str, Layers] = field(default_factory=dict)

    @property
    def left(self) -> Layers:
        """The left side, or the middle of what is known of it."""
        low, high = (self.low, self.high) if self.sampled is None else self.sampled
        return (low + high) / 2

    @property
    def exact(self) -> bool:
        """The left side is a number, not an interval."""
        return bool(((self.low == self.high) | self.low.isnan()).all())


class Verdict(NamedTuple):
    """What is found in one layer; not `certain` where random draws had to decide."""

    word: str
    certain: bool = True


def judge(statement: Statement, sides: Sides) -> list[Verdict]:
    """Judge a statement in each layer: one of the five words above.

    Certain bounds decide first. Where they leave it open, the interval of random draws does.

    >>> import torch
    >>> one, two = torch.ones(1), 2 * torch.ones(1)
    >>> judge(BY_KEY["variance"], Sides(one, one, two))[0].word
    'holds'
    >>> judge(BY_KEY["norm"], Sides(one, 3 * one, two))[0].word
    'not decided'
    """
    scale = sides.right.abs() if sides.scale is None else sides.scale
    verdicts = []
    for layer in range(len(sides.right)):
        right = float(sides.right[layer])
        also = sides.met is None or bool(sides.met[layer])
        room = statement.tolerance * (float(scale[layer]) if statement.share_of else 1.0)
        low, high = float(sides.low[layer]), float(sides.high[layer])
        word, certain = _judged(statement, low, high, right, room, also), True
        if word == OPEN and sides.sampled is not None:
            low, high = (float(end[layer]) for end in sides.sampled)
            word, certain = _judged(statement, low, high, right, room, also), False
        verdicts.append(Verdict(word, certain))
    return verdicts


def _judged(
    statement: Statement, low: float, high: float, right: float, room: float, also: bool
) -> str:
    if any(math.isnan(number) for number in (low, high, right)):
        return UNDEFINED
    if max(abs(low), abs(right)) < statement.least:
        return LITTLE if abs(high) < statement.least else OPEN
    above, below = low > right + room, high < right - room
    if not also or {"<=": above, ">=": below, "=": above or below}[statement.relation]:
        return FAILS
    most, least = high <= right + room, low >= right - room
    return HOLDS if {"<=": most, ">=": least, "=": most and least}[statement.relation] else OPEN
