"""Accuracy of a model on a task: how often it prefers the right answer."""

from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from mha_viz.circuits.tasks.task_runs import passes
from mha_viz.circuits.tasks.tasks import Task
from mha_viz.core.reprs import count
from mha_viz.engine.model import AttentionModel
from mha_viz.engine.probe import Probe
from mha_viz.prediction.loss import OnProgress, Progress
from mha_viz.prediction.replay import ReplayingPass

LEAST = 0.6  # of the pairs; chance is one half


@dataclass(frozen=True, eq=False)
class TaskAccuracy:
    """Accuracy of a model on a task, pair by pair.

    Args:
        model, task: names of what was measured.
        difference: logit(right) - logit(wrong) on each clean text, logits.
        first: whether the right answer is the model's first choice there.
    """

    model: str
    task: str
    difference: Float[Tensor, " example"]
    first: Bool[Tensor, " example"]

    @property
    def n_preferred(self) -> int:
        """The number of pairs in which the right answer has the higher logit of the two."""
        return int((self.difference > 0).sum())

    @property
    def share(self) -> float:
        """The share of pairs in which the model prefers the right answer; 0.5 is chance."""
        return self.n_preferred / len(self.difference)

    @property
    def sentence(self) -> str:
        """A sentence on both counts, and one more where there is nothing to explain."""
        n = len(self.difference)
        found = (
            f"{self.model} prefers the right answer in {self.n_preferred} of {count(n, 'pair')}; "
            f"it is the first choice of all tokens in {int(self.first.sum())}."
        )
        if self.share >= LEAST:
            return found
        return (
            f"{found} Chance is one half, and below {LEAST:.0%} there is nothing to explain: the "
            "model does not do this task."
        )

    def __repr__(self) -> str:
        return f"TaskAccuracy({self.task}: {self.sentence})"


def task_accuracy(
    model: AttentionModel, task: Task, on_progress: OnProgress | None = None
) -> TaskAccuracy:
    """Measure in how many pairs of a task the model prefers the right answer to the wrong one.

    Args:
        model: the one that the task was made for.
        task: of `make_task`.
        on_progress: called with how much is done, and of how much; an exception stops the work.

    Returns:
        TaskAccuracy: for each pair the difference of logits and whether the right answer is the
        first choice, and the shares of all pairs, in [0, 1].

    Raises:
        ArgumentError: a task of another model.

    Source: the difference of logits of Wang et al. 2023.

    >>> import mha_viz as mv
    >>> model = mv.load("tiny-gpt2")
    >>> task_accuracy(model, mv.make_task(model, "closing", n_examples=6)).share > 0.6
    True
    """
    task.check_model(model)
    difference = torch.zeros(len(task.examples), dtype=torch.float64)
    first = torch.zeros(len(task.examples), dtype=torch.bool)
    progress = Progress(on_progress, len(task.examples))
    with torch.inference_mode(False), torch.no_grad():
        for part in passes(task.examples):
            runs, rows = ReplayingPass(model, part), torch.arange(len(part.text))
            logits = runs.logits(1, Probe((), progress.report))[0].cpu()
            right, wrong = (
                torch.tensor([getattr(task.examples[i], name) for i in part.text])
                for name in ("right", "wrong")
            )
            at = torch.tensor(part.text)
            difference[at] = logits[rows, right].double() - logits[rows, wrong].double()
            first[at] = logits.argmax(-1) == right
            progress.add(len(part.text))
    return TaskAccuracy(model.name, task.name, difference, first)
