"""Lab 11's tasks: questions, and what a head must reach to count."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from pathlib import Path

from mha_viz.core.metrics import LABELS, METRICS

SPARE = 0.01  # nats per token: a change of the loss that counts as none


@dataclass(frozen=True)
class Task:
    """A behaviour to find a head for.

    Args:
        key, title, question: its names, and what it asks.
        hint: what its picture looks like; the first hint.
        metric: what is compared, and `unit` of it.
        label: the label that a head must have to count; "" where the best is right, whoever it is.
        highest: the best head has the most of it, else the least.
        needs: "pattern", "pairs" or "loss".
    """

    key: str
    title: str
    question: str
    hint: str
    metric: str
    label: str = ""
    highest: bool = True
    needs: str = "pattern"

    @property
    def may_be_none(self) -> bool:
        """True if "no head does" can be right."""
        return bool(self.label) or self.needs == "loss"

    @property
    def on_paper(self) -> bool:
        """True if pictures of all heads on the text can show the answer.

        They cannot for what is measured on a text of its own, or by switching heads off.
        """
        return self.needs != "loss" and "period" not in METRICS[self.metric].needs

    @property
    def n_heads(self) -> int:
        """The number of heads that an answer names."""
        return 2 if self.needs == "pairs" else 1

    @property
    def rule(self) -> str:
        """The condition that a head must meet to count."""
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


def _read_tasks() -> tuple[Task, ...]:
    """Read `tasks.toml`, a table for each task."""
    entries = tomllib.loads(Path(__file__).with_name("tasks.toml").read_text("utf-8"))
    return tuple(
        Task(key, **entry | {"hint": " ".join(entry["hint"].split())})
        for key, entry in entries.items()
    )


TASKS = _read_tasks()
BY_KEY = {task.key: task for task in TASKS}
