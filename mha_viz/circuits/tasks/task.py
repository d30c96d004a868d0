"""Tasks: pairs of encoded texts that ask a model for one behaviour, and their passes."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

from mha_viz.core.arguments import renamed
from mha_viz.core.reprs import count
from mha_viz.engine.model import AttentionModel
from mha_viz.errors import ArgumentError
from mha_viz.prediction.replay import MAX_TOKENS
from mha_viz.prediction.targets import PredictionTargets
from mha_viz.text.tokens import Encoded

StandIn = Literal["mean", "corrupt"]


@renamed(place="position")
class Example(NamedTuple):
    """A text in which the behaviour shows, and one of as many tokens in which another one does.

    `right` is the token at `position` of the clean text, `wrong` that of the corrupt one.
    """

    clean: Encoded
    corrupt: Encoded
    position: int
    right: int
    wrong: int


@renamed(others="further_texts")
@dataclass(frozen=True, eq=False)
class Task:
    """Texts that ask one model for one behaviour."""

    name: str  # one of `TASKS`, or `PAIRS` or `TEMPLATE`
    model: str  # its name
    seed: int  # by which the texts were drawn
    examples: tuple[Example, ...]  # no two of the same clean text
    further_texts: tuple[Encoded, ...]  # for the means that take a head's place; or none
    left_out: tuple[str, ...] = ()  # a sentence on each pair or word that does not fit the model

    @property
    def to_choose_on(self) -> tuple[Example, ...]:
        """The first half of the examples: a search for heads sees these alone."""
        return self.examples[: len(self.examples) // 2]

    @property
    def held_out(self) -> tuple[Example, ...]:
        """The other half, on which heads are tested; no text of it is in the first."""
        return self.examples[len(self.examples) // 2 :]

    @property
    def stand_in(self) -> StandIn:
        """The output that a head gives which does not act.

        "mean": its mean over `further_texts` of the same length, by position. "corrupt": its output
        on the corrupted text, where a task has none.
        """
        return "mean" if self.further_texts else "corrupt"

    def check_model(self, model: AttentionModel) -> None:
        """Raise ArgumentError unless the task was made for this model."""
        if self.model != model.name:
            raise ArgumentError(
                f"The task was made for {self.model}, whose tokens it has: make one for "
                f"{model.name}."
            )

    def __repr__(self) -> str:
        lengths = sorted({len(example.clean.tokens) for example in self.examples})
        size = " to ".join(map(str, lengths[:: max(1, len(lengths) - 1)]))
        left_out = f", {len(self.left_out)} left out" if self.left_out else ""
        return f"Task({self.name}, {count(len(self.examples), 'text')} of {size} tokens{left_out})"


def passes(examples: Sequence[Example], n_tokens: int = MAX_TOKENS) -> Iterator[PredictionTargets]:
    """Yield clean texts in passes, each of one length and up to so many tokens.

    `text` of a pass counts the examples.
    """
    targets = targets_of(examples)
    for rows in by_length([example.clean for example in examples]).values():
        yield from targets.part(rows).parts(n_tokens)


def targets_of(
    examples: Sequence[Example], name: Literal["clean", "corrupt"] = "clean"
) -> PredictionTargets:
    """Return the clean or the corrupt texts with the right answer at its place."""
    return PredictionTargets(
        rows=tuple(getattr(example, name) for example in examples),
        text=tuple(range(len(examples))),
        positions=tuple((example.position,) for example in examples),
        answers=tuple((example.right,) for example in examples),
        n_texts=len(examples),
    )


def by_length(texts: Sequence[Encoded]) -> dict[int, list[int]]:
    """Group the numbers of texts by their count of tokens."""
    numbers_of: dict[int, list[int]] = {}
    for number, text in enumerate(texts):
        numbers_of.setdefault(len(text.input_ids), []).append(number)
    return numbers_of
