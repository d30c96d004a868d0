"""Runs of a task in which some heads do not act."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from mha_viz.circuits.effects.experiment import Behaviour
from mha_viz.circuits.tasks.task import Example, Task, by_length, passes
from mha_viz.engine.model import AttentionModel
from mha_viz.engine.probe import Changed, HeadEdits, Probe
from mha_viz.prediction.logits import logits
from mha_viz.prediction.replay import Progress, ReplayingPass
from mha_viz.text.tokens import Encoded

_TOKENS_AT_ONCE = 2048


class TaskRuns:
    """The behaviour of a model on texts of a task, for any choice of heads.

    A head that is not kept gives its mean z over the task's other texts of the same length, by
    position; of a task without others, its z on the corrupted text.
    """

    def __init__(self, model: AttentionModel, task: Task) -> None:
        self.model = model
        self._means = {
            length: _means(model, [task.others[i] for i in rows])
            for length, rows in by_length(task.others).items()
        }

    def values(
        self,
        kept: Bool[Tensor, "setting layer head"],
        examples: Sequence[Example],
        progress: Progress,
    ) -> Float[Tensor, "setting example"]:
        """Compute logit(right) - logit(wrong) of each example while only the kept heads act."""
        found = torch.zeros(len(kept), len(examples), dtype=torch.float64)
        with torch.inference_mode(False), torch.no_grad():
            for part in passes(examples, len(kept)):
                runs, rows = ReplayingPass(self.model, part), torch.tensor(part.text)
                asked = [examples[row] for row in part.text]
                wrong = torch.tensor([example.wrong for example in asked])
                behaviour = Behaviour("logit_difference", runs.answer, wrong)
                instead = self._instead(asked)
                for layer, chosen in runs.batches(kept.float(), progress.report):
                    change = _Instead(kept[chosen, layer:], instead[layer:])
                    probe = Probe((), progress.report, edits=HeadEdits(change=change))
                    values = behaviour.each(runs.logits(len(chosen), probe, layer))
                    found[chosen[:, None], rows] = values.cpu()
                    progress.add(len(chosen) * len(rows))
        return found

    def _instead(self, examples: Sequence[Example]) -> list[Float[Tensor, "row head query d_head"]]:
        """Return each layer's z in the place of heads that do not act; one row is for all."""
        if self._means:
            return self._means[len(examples[0].clean.input_ids)]
        return z_of(self.model, [example.corrupt for example in examples])


@dataclass
class _Instead:
    """A change of z: in each setting the heads that are not kept give what stands in for them."""

    kept: Bool[Tensor, "setting layer head"]
    instead: list[Float[Tensor, "row head query d_head"]]

    def __call__(self, layer: int, z: Tensor, pattern: Tensor | None, *_: Any) -> Changed:
        kept = self.kept[:, None, layer, :, None, None].to(z.device)
        by_setting = z.unflatten(0, (len(kept), -1))
        return torch.where(kept, by_setting, self.instead[layer]).flatten(0, 1), pattern


def z_of(
    model: AttentionModel, texts: Sequence[Encoded]
) -> list[Float[Tensor, "row head query d_head"]]:
    """Return each layer's z on texts of one length."""
    probe = Probe(("z",))
    logits(model.network, texts, probe, last=True)
    return list(probe.kept["z"])


def _means(
    model: AttentionModel, others: Sequence[Encoded]
) -> list[Float[Tensor, "1 head query d_head"]]:
    """Average each head's z over texts of one length, by position."""
    size = max(1, _TOKENS_AT_ONCE // len(others[0].input_ids))
    total: list[Tensor] = []
    with torch.inference_mode(False), torch.no_grad():
        for start in range(0, len(others), size):
            found = z_of(model, others[start : start + size])
            sums = [layer.double().sum(0, keepdim=True) for layer in found]
            total = [a + b for a, b in zip(total, sums, strict=True)] if total else sums
    return [(layer / len(others)).to(model.dtype) for layer in total]
