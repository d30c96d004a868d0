"""Runs of a task's texts with some heads as they are, and every other one at its mean."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from mha_viz.circuits.decompose.behaviour import Behaviour
from mha_viz.circuits.tasks.tasks import Example, Task
from mha_viz.engine.model import AttentionModel
from mha_viz.engine.probe import Changed, HeadEdits, Probe
from mha_viz.prediction.logits import logits
from mha_viz.prediction.loss import Progress
from mha_viz.prediction.replay import ReplayingPass, in_passes
from mha_viz.prediction.targets import PredictionTargets

_TOKENS_AT_ONCE = 2048


class TaskRuns:
    """The behaviour of a model on texts of a task, for any choice of heads.

    `means` (layer, head, query, d_head) is each head's mean z by position over the task's other
    texts.
    """

    def __init__(self, model: AttentionModel, task: Task) -> None:
        self.model = model
        self.means = _means(model, task)

    def values(
        self,
        kept: Bool[Tensor, "setting layer head"],
        examples: Sequence[Example],
        progress: Progress,
    ) -> Float[Tensor, "setting example"]:
        """Compute logit(right) - logit(wrong) of each example while only the kept heads act."""
        found = torch.zeros(len(kept), len(examples), dtype=torch.float64)
        targets = PredictionTargets(
            rows=tuple(example.clean for example in examples),
            text=tuple(range(len(examples))),
            places=tuple((example.place,) for example in examples),
            answers=tuple((example.right,) for example in examples),
            n_texts=len(examples),
        )
        with torch.inference_mode(False), torch.no_grad():
            for part in in_passes(targets, len(kept)):
                wrong = torch.tensor([examples[row].wrong for row in part.text])
                self._add(found, part, wrong, kept, progress)
        return found

    def _add(
        self,
        found: Tensor,
        part: PredictionTargets,
        wrong: Int[Tensor, " row"],
        kept: Bool[Tensor, "setting layer head"],
        progress: Progress,
    ) -> None:
        runs, rows = ReplayingPass(self.model, part), list(part.text)
        behaviour = Behaviour("logit_difference", runs.answer, wrong)
        first = runs.first_layers(kept.float(), progress.report)
        for layer in first.unique().tolist():
            for chosen in torch.where(first == layer)[0].split(runs.n_settings):
                change = _MeanInstead(kept[chosen, layer:], self.means[layer:])
                probe = Probe((), progress.report, edits=HeadEdits(change=change))
                values = behaviour.each(runs.logits(len(chosen), probe, layer))
                found[chosen[:, None], torch.tensor(rows)] = values.cpu()
                progress.add(len(chosen) * len(rows))


@dataclass
class _MeanInstead:
    """A change of z: in each setting the heads that are not kept give their means."""

    kept: Bool[Tensor, "setting layer head"]
    means: Float[Tensor, "layer head query d_head"]

    def __call__(self, layer: int, z: Tensor, pattern: Tensor | None, *_: Any) -> Changed:
        rows = len(z) // len(self.kept)
        kept = self.kept[:, layer].repeat_interleave(rows, 0).to(z.device)
        return torch.where(kept[..., None, None], z, self.means[layer]), pattern


def _means(model: AttentionModel, task: Task) -> Float[Tensor, "layer head query d_head"]:
    """Average each head's z over the task's other texts, all of one length, by position."""
    total, others = None, task.others
    size = max(1, _TOKENS_AT_ONCE // len(others[0].input_ids))
    with torch.inference_mode(False), torch.no_grad():
        for start in range(0, len(others), size):
            probe = Probe(("z",))
            logits(model.network, others[start : start + size], probe, last=True)
            sums = torch.stack([layer.double().sum(0) for layer in probe.kept["z"]])
            total = sums if total is None else total + sums
    assert total is not None  # a task has other texts
    return (total / len(others)).to(model.dtype)
