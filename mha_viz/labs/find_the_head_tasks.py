"""Lab 11's tasks: what may be looked for, how it is asked, and what a head must reach to count."""

from __future__ import annotations

from dataclasses import dataclass

from mha_viz.core.metrics import LABELS, METRICS

SPARE = 0.01  # nats per token: a change of the loss that counts as none


@dataclass(frozen=True)
class Task:
    """Something that a head may do.

    Args:
        key, title, ask: its names, and the question.
        looks: what its picture looks like; the first hint.
        metric: what is compared, and `unit` of it.
        label: the label that a head must have to count; "" where the best is right, whoever it is.
        highest: the best head has the most of it, else the least.
        needs: "pattern", "pairs" or "loss".
    """

    key: str
    title: str
    ask: str
    looks: str
    metric: str
    label: str = ""
    highest: bool = True
    needs: str = "pattern"

    @property
    def may_be_nobody(self) -> bool:
        """Whether "no head does" can be right."""
        return bool(self.label) or self.needs == "loss"

    @property
    def on_paper(self) -> bool:
        """Whether pictures of all heads on the text can show the answer.

        They cannot for what is measured on a text of its own, or by switching heads off.
        """
        return self.needs != "loss" and "period" not in METRICS[self.metric].needs

    @property
    def n_heads(self) -> int:
        """How many heads an answer names."""
        return 2 if self.needs == "pairs" else 1

    @property
    def rule(self) -> str:
        """What a head must reach to count."""
        if self.label:
            label, title = LABELS[self.label], METRICS[self.metric].title
            if self.key == "broad":
                return (
                    f"It counts if “{title}” is at least {label.threshold:g} of what uniform "
                    "attention has, and no head with random weights reaches that."
                )
            return (
                f"It counts if “{title}” is at least {label.threshold:g} (on a short text, more) "
                "and more than in heads that have learned nothing."
            )
        if self.needs == "pairs":
            return "Likeness is measured by the Hellinger distance: 0 is the same picture."
        sign = "less" if not self.highest else "more"
        return (
            f"It counts if the loss on this text changes by {sign} than {SPARE:g} nats per token."
        )


def _of_label(key: str, name: str, title: str, ask: str, looks: str) -> Task:
    return Task(name, title, ask, looks, LABELS[key].metric, key)


TASKS = (
    _of_label(
        "previous_token",
        "previous",
        "The token before",
        "Which head looks at the token just before?",
        "A line of dark cells one step to the left of the diagonal.",
    ),
    _of_label(
        "next_token",
        "next",
        "The token after",
        "Which head looks at the token just after?",
        "A line of dark cells one step to the right of the diagonal.",
    ),
    _of_label(
        "self",
        "self",
        "Itself",
        "In which head does each token look at itself?",
        "A dark diagonal.",
    ),
    _of_label(
        "first_token",
        "sink",
        "The first token (sink)",
        "Which head rests on the first token, whatever the text says?",
        "A dark column at the left edge.",
    ),
    _of_label(
        "separator",
        "separator",
        "Separators",
        "Which head rests on the special tokens after the first, such as [SEP]?",
        "A dark column at the right edge, or wherever such a token stands.",
    ),
    _of_label(
        "duplicate",
        "duplicate",
        "The same word elsewhere",
        "Which head leads from a token to the same token elsewhere in the text?",
        "Single dark cells: in the row of a token that occurs twice, at its other place.",
    ),
    _of_label(
        "induction",
        "induction",
        "What came next last time",
        "Which head looks at what followed the same token the last time (induction)?",
        "Single dark cells: in the row of a token that occurs again, one place to the right "
        "of its earlier place. It is measured on random text said twice, so other cells of "
        "this picture may be dark, too.",
    ),
    _of_label(
        "broad",
        "broad",
        "Everything at once",
        "Which head spreads its weight most evenly over all tokens it may see?",
        "Pale and even everywhere; under a causal mask paler from row to row.",
    ),
    Task(
        "twins",
        "The two most alike",
        "Which two heads look most alike on this text?",
        "Two pictures that you cannot tell apart: the same columns, the same lines.",
        "hellinger",
        highest=False,
        needs="pairs",
    ),
    Task(
        "spare",
        "A head that can go",
        "Which head can be switched off without a change of the prediction?",
        "The picture does not tell: a sharp pattern may not matter. Pale heads and sinks are a "
        "first guess.",
        "loss",
        highest=False,
        needs="loss",
    ),
    Task(
        "needed",
        "The head that is needed most",
        "Without which head does the prediction suffer most?",
        "The picture does not tell. Heads that many later ones build on stand in the lower layers.",
        "loss",
        needs="loss",
    ),
)
BY_KEY = {task.key: task for task in TASKS}
