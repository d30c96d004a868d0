"""The labs in order, and where each has its address."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Lab:
    """One lab.

    Args:
        key: its address is /lab-key, its module mha_viz.ui.learn.key with _ for -.
        title: what it is called.
        about: what it answers, in one sentence.
        uses_text: whether it runs on the user's sentence and model.
    """

    key: str
    title: str
    about: str
    uses_text: bool = False

    @property
    def module(self) -> str:
        """The module that draws it."""
        return f"mha_viz.ui.learn.{self.key.replace('-', '_')}"

    @property
    def address(self) -> str:
        """The last part of its address."""
        return f"lab-{self.key}"


LABS = (
    Lab(
        "soft-lookup",
        "Attention as soft lookup",
        "Every number of softmax(QKᵀ/√d)V on a few tokens, and why scores are divided by √d.",
    ),
    Lab(
        "own-reflection",
        "Without weights, attention looks at itself",
        "When Q = K = V = X makes tokens look at themselves, when not, and what W_Q, W_K change.",
    ),
    Lab(
        "two-places",
        "One head cannot look at two places",
        "Two small heads against one large one, and why still more heads can hurt.",
    ),
    Lab(
        "step-by-step",
        "Step by step through a real head",
        "Project, compute, concatenate, project: on your sentence, beside the model’s own output.",
        uses_text=True,
    ),
    Lab(
        "value-output",
        "Why W_V and W_O?",
        "One matrix could do the work of both, at another price; and parts that add up to a whole.",
        uses_text=True,
    ),
    Lab(
        "convolution",
        "Heads that are a convolution",
        "k × k heads with relative positions do what a k × k kernel does, to the last digit.",
    ),
    Lab(
        "any-pattern",
        "Paint a pattern, fit a head",
        "Which patterns a head of width d_k can make, and what its rank forbids.",
    ),
    Lab(
        "cost",
        "What attention costs",
        "Operations, memory and key-value caches: calculated, and measured on this machine.",
        uses_text=True,
    ),
    Lab(
        "how-heads-learn",
        "How heads learn",
        "A tiny model learns induction while you watch its gradients, weights and patterns.",
    ),
    Lab(
        "statements",
        "Textbook statements, measured",
        "What textbooks say about heads, beside what this model does with your sentence.",
        uses_text=True,
    ),
    Lab(
        "find-the-head",
        "Find the head",
        "A game: find the head that does what is asked, with hints and a score.",
        uses_text=True,
    ),
)
BY_KEY = {lab.key: lab for lab in LABS}
