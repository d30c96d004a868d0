"""Accuracy of a model on a task, and the keys that heads look at where the answer belongs."""

from collections.abc import Sequence
from dataclasses import dataclass

import pandas as pd
import torch
from jaxtyping import Bool, Float
from torch import Tensor

from mha_viz.circuits.tasks.task import Example, Task, passes
from mha_viz.core.reprs import count
from mha_viz.engine.head_changes import head_place
from mha_viz.engine.model import AttentionModel
from mha_viz.engine.probe import Probe
from mha_viz.prediction.logits import check_predicts, logits
from mha_viz.prediction.replay import OnProgress, Progress, ReplayingPass

LEAST = 0.6  # of the pairs; chance is one half
KINDS = ("right answer", "wrong answer", "after a copy", "previous", "first", "itself")


@dataclass(frozen=True, eq=False)
class TaskAccuracy:
    """Accuracy of a model on a task, pair by pair."""

    model: str  # model, task: names of what was measured
    task: str
    difference: Float[Tensor, " example"]  # logit(right) - logit(wrong) on each clean text, logits
    first: Bool[Tensor, " example"]  # whether the right answer is the model's first choice there

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
        counts = (
            f"{self.model} prefers the right answer in {self.n_preferred} of {count(n, 'pair')}; "
            f"it is the first choice of all tokens in {int(self.first.sum())}."
        )
        if self.share >= LEAST:
            return counts
        return (
            f"{counts} Chance is one half, and below {LEAST:.0%} there is nothing to explain: the "
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


def attended(model: AttentionModel, task: Task, heads: Sequence[tuple[int, int]]) -> pd.DataFrame:
    """Average the weight that heads give to each kind of key where the answer belongs.

    On the held-out texts, from the query at the answer's place:

    - "right answer", "wrong answer": positions of that very token;
    - "after a copy": what followed an earlier copy of the token at hand, as an induction head does
      (of a masked model, of the token before [MASK]);
    - "previous", "first", "itself": by position.

    Returns:
        A row per head and kind: layer, head, kind, weight, uniform, n. `uniform` is the share of
        the keys that the query may see: what a head has that spreads its weight evenly. n counts
        the texts that have such a key; the means are over these.

    Raises:
        ArgumentError: no such head, a task of another model.

    >>> import mha_viz as mv
    >>> model = mv.load("tiny-gpt2")
    >>> weights = attended(model, mv.make_task(model, "induction", n_examples=8), [(1, 2)])
    >>> round(float(weights.set_index("kind").weight["after a copy"]), 1)
    0.9
    """
    task.check_model(model)
    positions = [head_place(model, layer, head) for layer, head in heads]
    masked = check_predicts(model.network) == "masked"
    rows = []
    with torch.inference_mode():
        for part in passes(task.held_out):
            examples = [task.held_out[i] for i in part.text]
            probe = Probe(("pattern",))
            logits(model.network, part.rows, probe, last=True)
            for number, example in enumerate(examples):
                kinds, n_visible = _kinds(example, masked)
                for (layer, head), (at, _) in zip(heads, positions, strict=True):
                    weights = probe.tensors["pattern"][at][number, head, example.position]
                    row = weights[:n_visible].double().cpu()
                    rows += [
                        (layer, head, kind, float(row[keys].sum()), float(keys.sum()) / n_visible)
                        for kind, keys in kinds.items()
                        if keys.any()
                    ]
    table = pd.DataFrame(rows, columns=["layer", "head", "kind", "weight", "uniform"])
    groups = table.groupby(["layer", "head", "kind"], sort=False)
    return groups.mean().assign(n=groups.size()).reset_index()


def _kinds(example: Example, masked: bool) -> tuple[dict[str, Bool[Tensor, " key"]], int]:
    """Mark the keys of each kind that the query may see, and count all that it may see."""
    n_visible = len(example.clean.input_ids) if masked else example.position + 1
    ids, key = torch.tensor(example.clean.input_ids[:n_visible]), torch.arange(n_visible)
    at_hand = example.position - masked
    copies = ids == ids[at_hand]
    copies[at_hand] = False
    after = copies.roll(1) & (key > 0) & (key != example.position)
    marks = [ids == example.right, ids == example.wrong, after]
    marks += [key == example.position - 1, key == 0, key == example.position]
    kinds = dict(zip(KINDS, marks, strict=True))
    return kinds, n_visible
