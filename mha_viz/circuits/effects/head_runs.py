"""Runs of a task in which some heads do not act."""

from collections.abc import Sequence

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from mha_viz.circuits.effects.behaviour import Behaviour
from mha_viz.circuits.effects.patched_run import patch_cells, run_patched
from mha_viz.circuits.tasks.task import Example, Task, by_length, passes
from mha_viz.engine.model import AttentionModel
from mha_viz.engine.probe import Probe
from mha_viz.prediction.logits import logits
from mha_viz.prediction.replay import MAX_TOKENS, Progress, ReplayingPass
from mha_viz.text.tokens import Encoded

_TOKENS_AT_ONCE = 2048


class TaskRuns:
    """The behaviour of a model on texts of a task, for any choice of heads.

    A head that is not kept gives its mean z over the task's other texts of the same length, by
    position; of a task without further texts, its z on the corrupted text.
    """

    def __init__(self, model: AttentionModel, task: Task) -> None:
        self.model = model
        self._means = {
            length: _means(model, [task.further_texts[i] for i in rows])
            for length, rows in by_length(task.further_texts).items()
        }

    @torch.inference_mode(False)
    @torch.no_grad()
    def values(
        self,
        settings: Bool[Tensor, "setting layer head"],
        examples: Sequence[Example],
        progress: Progress,
    ) -> Float[Tensor, "setting example"]:
        """Compute logit(right) - logit(wrong) of each example while only the kept heads act."""
        values = torch.zeros(len(settings), len(examples), dtype=torch.float64)
        for part in passes(examples, MAX_TOKENS // min(len(settings), 8)):
            runs, rows = ReplayingPass(self.model, part), torch.tensor(part.text)
            chosen = [examples[row] for row in part.text]
            wrong = torch.tensor([example.wrong for example in chosen])
            behaviour = Behaviour("logit_difference", runs.answer, wrong)
            instead = self._means.get(len(part.rows[0].input_ids))
            if instead is None:
                instead = z_of(self.model, [example.corrupt for example in chosen])
            for first, numbers in runs.batches(settings.float(), progress.report):
                replaced = ~settings[numbers, :, None, :, None]  # at all positions of all rows
                patches = [
                    patch_cells(layer, "z", instead[layer][None], replaced[:, layer])
                    for layer in range(first, self.model.n_layers)
                ]
                probe = Probe((), progress.report)
                outcomes = run_patched(runs, len(numbers), patches, first, probe)
                values[numbers[:, None], rows] = behaviour.each(outcomes).cpu()
                progress.add(len(numbers) * len(rows))
        return values


def z_of(
    model: AttentionModel, texts: Sequence[Encoded]
) -> list[Float[Tensor, "row head query d_head"]]:
    """Return each layer's z on texts of one length."""
    probe = Probe(("z",))
    logits(model.network, texts, probe, last=True)
    return list(probe.tensors["z"])


@torch.inference_mode(False)
@torch.no_grad()
def _means(
    model: AttentionModel, texts: Sequence[Encoded]
) -> list[Float[Tensor, "1 head query d_head"]]:
    """Average each head's z over texts of one length, by position."""
    size = max(1, _TOKENS_AT_ONCE // len(texts[0].input_ids))
    parts = [
        [layer.double().sum(0, keepdim=True) for layer in z_of(model, texts[start : start + size])]
        for start in range(0, len(texts), size)
    ]
    by_layer = zip(*parts, strict=True)
    return [(torch.cat(sums).sum(0, True) / len(texts)).to(model.dtype) for sums in by_layer]
