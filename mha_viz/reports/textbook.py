"""Statements of textbooks about the heads of a layer, and their verdicts.

textbook.toml lists them, textbook_sides.py measures both sides of each.
"""

import math
import tomllib
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor

Layers = Float[Tensor, "layer"]
HOLDS, FAILS, OPEN, UNDEFINED = "holds", "fails", "not decided", "not defined"
LITTLE = "too little to tell"


@dataclass(frozen=True)
class Statement:
    """One textbook statement: left side, relation, right side.

    Args:
        key, title, name, claim, formula: its names, of which `name` is short, its claim in words,
            and in LaTeX.
        relation: "=", "<=" or ">=".
        tolerance: how far the sides may lie apart and still hold, in units of the left side or,
            `is_relative`, as a share of the sides' `scale`. allowed: the same in words.
        needs: "weights", "outputs", "pattern" or "loss".
        left_name, right_name: what the sides are called.
        unit: of both sides.
        least: where both sides are below it, the layer says too little to decide.
    """

    key: str
    title: str
    name: str
    claim: str
    formula: str
    relation: str
    tolerance: float
    allowed: str
    needs: str
    left_name: str
    right_name: str
    is_relative: bool = False
    unit: str = ""
    least: float = 0.0


_TABLES = tomllib.loads(Path(__file__).with_suffix(".toml").read_text("utf-8"))
STATEMENTS = tuple(Statement(key, **table) for key, table in _TABLES.items())
BY_KEY = {statement.key: statement for statement in STATEMENTS}


@dataclass(frozen=True, eq=False)
class Sides:
    """Both sides of a statement in every layer; NaN is "not defined".

    Args:
        low, high: what the left side lies between, for certain; the same where it is known.
        right_side: the right side.
        sampled: the left side's 95 % interval by random draws (low, high), where it was drawn.
        scale: what a relative tolerance is a share of; the right side's size where None.
        met: what must be true besides the relation.
        more: other numbers of the layers, by name, for the picture and the explanation.
    """

    low: Layers
    high: Layers
    right_side: Layers
    sampled: tuple[Layers, Layers] | None = None
    scale: Layers | None = None
    met: Tensor | None = None
    more: dict[str, Layers] = field(default_factory=dict)

    @property
    def left_side(self) -> Layers:
        """The left side, or the middle of its interval."""
        low, high = (self.low, self.high) if self.sampled is None else self.sampled
        return (low + high) / 2

    @property
    def exact(self) -> bool:
        """The left side is a number, not an interval."""
        return bool(((self.low == self.high) | self.low.isnan()).all())

    @property
    def shares(self) -> Float[Tensor, "side layer"]:
        """Both sides of each layer as shares of the larger one."""
        both = torch.stack([self.left_side, self.right_side]).detach().cpu().double()
        return both / both.abs().amax(0).clamp(min=1e-12)

    def at(self, layer: int) -> dict[str, float]:
        """Return all numbers of a layer by name."""
        low, high = self.sampled or (self.low, self.high)
        values = {"left": self.left_side, "right": self.right_side, "low": self.low}
        values |= {"high": self.high, "drawn_low": low, "drawn_high": high, **self.more}
        return {name: float(numbers[layer]) for name, numbers in values.items()}


class Verdict(NamedTuple):
    """A layer's verdict; not `certain` where random draws had to decide."""

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
    scale = sides.right_side.abs() if sides.scale is None else sides.scale
    verdicts = []
    for layer in range(len(sides.right_side)):
        right = float(sides.right_side[layer])
        condition = sides.met is None or bool(sides.met[layer])
        room = statement.tolerance * (float(scale[layer]) if statement.is_relative else 1.0)
        low, high = float(sides.low[layer]), float(sides.high[layer])
        word, certain = _judged(statement, low, high, right, room, condition), True
        if word == OPEN and sides.sampled is not None:
            low, high = (float(end[layer]) for end in sides.sampled)
            word, certain = _judged(statement, low, high, right, room, condition), False
        verdicts.append(Verdict(word, certain))
    return verdicts


def _judged(
    statement: Statement, low: float, high: float, right: float, room: float, condition: bool
) -> str:
    if any(math.isnan(number) for number in (low, high, right)):
        return UNDEFINED
    if max(abs(low), abs(right)) < statement.least:
        return LITTLE if abs(high) < statement.least else OPEN
    above, below = low > right + room, high < right - room
    if not condition or {"<=": above, ">=": below, "=": above or below}[statement.relation]:
        return FAILS
    most, least = high <= right + room, low >= right - room
    return HOLDS if {"<=": most, ">=": least, "=": most and least}[statement.relation] else OPEN
