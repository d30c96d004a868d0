"""The labs in order, and where each has its address."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass


@dataclass(frozen=True)
class Lab:
    """One lab.

    Args:
        key: its address is /lab-key, its module mha_viz.ui.learn.key with _ for -.
        title: what it is called.
        about: what it answers, in one sentence.
        goal: what a learner can do afterwards, behind "you can".
        minutes: that it takes, with its questions.
        needs: keys of the labs that it builds on.
        parts: the blocks of the map that it is about, by their keys there.
        pictured: what its picture in the list of labs shows, for those who do not see it.
        uses_text: whether it runs on the user's sentence and model.
    """

    key: str
    title: str
    about: str
    _: KW_ONLY
    goal: str
    minutes: int
    needs: tuple[str, ...]
    parts: tuple[str, ...]
    pictured: str
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
        goal="compute attention weights by hand, and say why scores are divided by √d_k",
        minutes=10,
        needs=(),
        parts=("lookup",),
        pictured="Weights of four tokens as coloured numbers, and what each token gathers.",
    ),
    Lab(
        "own-reflection",
        "Without weights, attention looks at itself",
        "When Q = K = V = X makes tokens look at themselves, when not, and what W_Q, W_K change.",
        goal="say when a token attends to itself without W_Q and W_K, and what those change",
        minutes=12,
        needs=("soft-lookup",),
        parts=("projections",),
        pictured="Tokens as arrows in a plane, and the weights with which they look at each other.",
    ),
    Lab(
        "two-places",
        "One head cannot look at two places",
        "Two small heads against one large one, and why still more heads can hurt.",
        goal="explain why one softmax cannot pick two places, and what a second head is for",
        minutes=12,
        needs=("soft-lookup",),
        parts=("heads",),
        pictured="Two learning curves: one head stays low, two heads rise far above it.",
    ),
    Lab(
        "step-by-step",
        "Step by step through a real head",
        "Project, compute, concatenate, project: on your sentence, beside the model’s own output.",
        uses_text=True,
        goal="follow a sentence through one layer, with the shape of every tensor on the way",
        minutes=15,
        needs=("soft-lookup", "two-places"),
        parts=("embedding", "projections", "lookup", "concatenation", "output"),
        pictured="Weights of a real head as coloured numbers, a row for each word.",
    ),
    Lab(
        "value-output",
        "Why W_V and W_O?",
        "One matrix could do the work of both, at another price; and parts that add up to a whole.",
        uses_text=True,
        goal="tell which products of matrices matter, and split a layer’s output into its heads",
        minutes=12,
        needs=("step-by-step",),
        parts=("projections", "output", "stream"),
        pictured="Bars for each token: the lengths of what heads add, and of their sum.",
    ),
    Lab(
        "convolution",
        "Heads that are a convolution",
        "k × k heads with relative positions do what a k × k kernel does, to the last digit.",
        goal="build a convolution out of heads, and say how much more it costs",
        minutes=15,
        needs=("soft-lookup", "two-places"),
        parts=("positions", "heads"),
        pictured="A house sharpened by a convolution and by nine heads; where each head looks.",
    ),
    Lab(
        "any-pattern",
        "Paint a pattern, fit a head",
        "Which patterns a head of width d_k can make, and what its rank forbids.",
        goal="say which patterns a head of width d_k can make, and which it cannot",
        minutes=12,
        needs=("soft-lookup",),
        parts=("pattern",),
        pictured="A painted pattern, and what a head of width two makes of it.",
    ),
    Lab(
        "cost",
        "What attention costs",
        "Operations, memory and key-value caches: calculated, and measured on this machine.",
        uses_text=True,
        goal="estimate the operations and the memory of attention, and say what grows with n²",
        minutes=12,
        needs=("step-by-step",),
        parts=("layer", "mlp", "pattern"),
        pictured="Rising lines: key-value caches of multi-head, grouped and multi-query attention.",
    ),
    Lab(
        "how-heads-learn",
        "How heads learn",
        "A tiny model learns induction while you watch its gradients, weights and patterns.",
        goal="recognise in loss and pattern the moment when an induction head forms",
        minutes=15,
        needs=("step-by-step",),
        parts=("training", "pattern"),
        pictured="All heads of a tiny trained model as tiles, the best induction head framed.",
    ),
    Lab(
        "statements",
        "Textbook statements, measured",
        "What textbooks say about heads, beside what this model does with your sentence.",
        uses_text=True,
        goal="test a general claim about heads on a model and a sentence of your own",
        minutes=20,
        needs=("step-by-step", "value-output"),
        parts=("heads", "concatenation", "output"),
        pictured="Both sides of a statement as lines over the layers, beside random weights.",
    ),
    Lab(
        "find-the-head",
        "Find the head",
        "A game: find the head that does what is asked, with hints and a score.",
        uses_text=True,
        goal="find heads by what they look at, and doubt what you have found",
        minutes=10,
        needs=("soft-lookup", "two-places"),
        parts=("heads", "pattern"),
        pictured="The patterns of all heads of a model as a grid of tiles, one of them framed.",
    ),
    Lab(
        "what-heads-learn",
        "What heads learn",
        "Which heads find a verb’s object or who “she” is, and which only know where words stand?",
        uses_text=True,
        goal="tell a head that knows grammar from one that knows positions, by counting",
        minutes=12,
        needs=("find-the-head",),
        parts=("heads", "pattern"),
        pictured="A map of all heads: how far each beats a simple rule at finding a word.",
    ),
    Lab(
        "induction-circuit",
        "An induction circuit, taken apart",
        "Which heads feed which so that a model can go on with what was said before, and the cut.",
        goal="trace a behaviour through two layers of heads, and test it by cutting one path",
        minutes=15,
        needs=("how-heads-learn", "value-output"),
        parts=("heads", "stream"),
        pictured="A matrix of pairs of heads; one pair of writer and reader is framed.",
    ),
)
BY_KEY = {lab.key: lab for lab in LABS}
