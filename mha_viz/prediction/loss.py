"""The loss of texts with some heads switched off, for many choices of heads at once."""

from collections.abc import Callable, Sequence

import torch
from jaxtyping import Float
from torch import Tensor

from mha_viz.engine.model import AttentionModel
from mha_viz.prediction.replay import ReplayingPass, in_passes
from mha_viz.prediction.targets import PredictionTargets

OnProgress = Callable[[int, int], None]


class Progress:
    """The progress of a measurement, reported often, so that a listener may stop it.

    `on_progress` is called with how much is done, and of how much; None: not called.
    """

    def __init__(self, on_progress: OnProgress | None, total: int) -> None:
        self.on_progress, self.total, self.done = on_progress, total, 0
        self.report()

    def add(self, more: int) -> None:
        """Report that so much more is done."""
        self.done += more
        self.report()

    def report(self, _layer: int = 0) -> None:
        """Report the same once more; takes a layer's number, to serve as `on_layer`."""
        if self.on_progress is not None:
            self.on_progress(self.done, self.total)


@torch.inference_mode()
def losses(
    model: AttentionModel,
    targets: PredictionTargets,
    off: Sequence[Sequence[int]],
    on_progress: OnProgress | None = None,
) -> Float[Tensor, "setting text"]:
    """Compute the loss of texts with some of a model's heads switched off.

    The mean of -ln p over the target tokens of a text (`prediction_targets`): of a
    causal model each given those before it, of a masked one each with its share hidden.

    Args:
        model: the model that the targets were made for.
        targets: the tokens to predict.
        off: of every setting the heads that are off, numbered layer * n_heads + head; [] is the
            model as it is. Equal settings are run once.
        on_progress: called with how much is done, and of how much (rows of text under a setting),
            at least once a layer; an exception it raises stops the work.

    Returns:
        (setting, text), nats per token, 0 or more, float64; the same at every call.

    >>> import mha_viz as mv
    >>> from mha_viz.prediction.targets import prediction_targets
    >>> model = mv.load("tiny-gpt2")
    >>> all_on, all_off = losses(model, prediction_targets(model, "The cat sat."), [[], range(32)])
    >>> bool(all_on < all_off)
    True
    """
    gates = torch.ones(len(off), model.n_layers * model.n_heads)
    for setting, heads in zip(gates, off, strict=True):
        setting[list(heads)] = 0.0
    gates, which = torch.unique(gates, dim=0, return_inverse=True)
    gates = gates.unflatten(1, (model.n_layers, model.n_heads))
    total = torch.zeros(len(gates), targets.n_texts, dtype=torch.float64)
    progress = Progress(on_progress, len(gates) * len(targets.rows))
    for part in in_passes(targets, len(gates)):
        prepared = ReplayingPass(model, part)
        first = prepared.first_layers(gates, progress.report)
        for layer in first.unique().tolist():
            for chosen in torch.where(first == layer)[0].split(prepared.n_settings):
                found = prepared.log_p(gates[chosen], layer, progress.report)
                total[chosen] -= part.of_texts(found.cpu().double())
                progress.add(len(chosen) * len(part.rows))
    return (total / targets.n_answers)[which]
