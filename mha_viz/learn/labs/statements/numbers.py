"""Lab 10: textbook statements about the heads of a layer, their verdicts, and stored runs.

`measured` has the sides.
"""

import math
import tomllib
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import NamedTuple

from jaxtyping import Float
from torch import Tensor

from mha_viz.checkpoints.loading import load
from mha_viz.checkpoints.untrained_copy import untrained_copy
from mha_viz.core.metrics.layers import ROUNDING
from mha_viz.core.stored_runs import StoredRun
from mha_viz.engine.model import AttentionModel
from mha_viz.interventions.pruning import PruningCurve, pruning_curve
from mha_viz.interventions.robustness import Robustness, robustness
from mha_viz.learn.annotated_sentences import distinct_texts

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
            where `share_of` names something, as a share of it.
        needs: "weights", "outputs", "pattern" or "loss".
        left_name, right_name: what the sides are called.
        share_of: what a relative tolerance is a share of; it is the sides' `scale`.
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
    needs: str
    left_name: str
    right_name: str
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


_TABLES = tomllib.loads(Path(__file__).with_name("statements.toml").read_text("utf-8"))
STATEMENTS = tuple(
    Statement(key, **table | {name: " ".join(table[name].split()) for name in ("claim", "formula")})
    for key, table in _TABLES.items()
)
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
        room = statement.tolerance * (float(scale[layer]) if statement.share_of else 1.0)
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


class Failures(NamedTuple):
    """The loss with heads off: of a model, and of the same with random weights, if it was asked."""

    trained: Robustness
    random: Robustness | None


def failures(
    model: AttentionModel,
    random: AttentionModel | None,
    text: str,
    *,
    on_step: Callable[[int], None] = lambda done: None,
) -> Failures:
    """Switch heads of a model off, one at a time and in pairs: all of them, or `N_DRAWS` drawn.

    `on_step` gets the hundredths that are done.
    """
    models = [network for network in (model, random) if network is not None]

    def of_one(i: int) -> Robustness:
        def step(done: int, total: int) -> None:
            on_step(round(100 * (i + done / max(total, 1)) / len(models)))

        n_heads = model.n_layers * model.n_heads
        return robustness(models[i], text, min(N_DRAWS, n_heads), on_progress=step)

    return Failures(of_one(0), of_one(1) if random is not None else None)


class Removal(NamedTuple):
    """The loss while heads are removed, the least important one first.

    Args:
        same: of the texts on which importance was measured.
        other: of texts that the order has not seen.
    """

    same: PruningCurve
    other: PruningCurve


def removal(model: AttentionModel) -> Removal:
    """Remove heads one after the other, by their importance on a few of the annotated sentences."""
    texts = distinct_texts()
    chosen_on, unseen = texts[::24], texts[1::6]
    same = pruning_curve(model, chosen_on, "ablation")
    return Removal(same, pruning_curve(model, unseen, same.removed[0]))


N_DRAWS = 100  # heads that are switched off, and pairs of them
TEXT = "The king (who was old and tired) smiled, said nothing, and went to bed."
REMOVED = StoredRun(
    *("heads-removed", (), dict[str, Removal]),
    lambda: {name: removal(load(name)) for name in ("tiny-gpt2", "tiny-bert")},
)
FAILED = tuple(
    StoredRun(
        *(f"{name}-failures", ((name, "auto", "float32"), TEXT, True), Failures),
        partial(lambda name: failures(load(name), untrained_copy(load(name)), TEXT), name),
    )
    for name in ("tiny-bert", "tiny-gpt2")
)
STORED = (*FAILED, REMOVED)
