"""The loss of texts by its definition: one plain pass for each text under each setting."""

from collections.abc import Sequence

import torch

from mha_viz.engine.model import AttentionModel
from mha_viz.engine.probe import HeadEdits, Probe
from mha_viz.prediction.logits import logits
from mha_viz.prediction.targets import MASKED_SHARE, prediction_targets


def plain_losses(
    model: AttentionModel,
    texts: str | Sequence[str],
    gates: torch.Tensor | None = None,
    masked_share: float = MASKED_SHARE,
) -> torch.Tensor:
    """(text,), or (setting, text) for gates (setting, layer, head); the rows of a text together."""
    if gates is not None and gates.ndim == 3:
        return torch.stack([plain_losses(model, texts, one, masked_share) for one in gates])
    targets = prediction_targets(model, texts, masked_share)
    total = torch.zeros(targets.n_texts, dtype=torch.float64)
    for text in range(targets.n_texts):
        chosen = [i for i, number in enumerate(targets.text) if number == text]
        probe = None if gates is None else Probe((), edits=HeadEdits(gates))
        with torch.no_grad():
            found = logits(model.network, [targets.rows[i] for i in chosen], probe).double()
        for row, i in zip(found.log_softmax(-1), chosen, strict=True):
            places, answers = torch.tensor(targets.positions[i]), torch.tensor(targets.answers[i])
            total[text] -= row[places, answers].sum()
    return total / targets.n_answers
