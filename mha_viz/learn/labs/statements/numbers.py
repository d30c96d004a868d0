"""Lab 10: the loss with heads switched off and with heads removed, and stored runs."""

from collections.abc import Callable
from functools import partial
from typing import NamedTuple

from mha_viz.checkpoints.loading import load
from mha_viz.checkpoints.untrained_copy import untrained_copy
from mha_viz.core.stored_runs import StoredRun
from mha_viz.engine.model import AttentionModel
from mha_viz.interventions.pruning import PruningCurve, pruning_curve
from mha_viz.interventions.robustness import Robustness, robustness
from mha_viz.learn.annotated_sentences import distinct_texts


class Failures(NamedTuple):
    """The loss with heads off: of a model, and of the same with random weights, if it was asked."""

    trained: Robustness
    random: Robustness | None


def failures(
    model: AttentionModel,
    random: AttentionModel | None,
    text: str,
    *,
    on_step: Callable[[int], None] = lambda done: None,
) -> Failures:
    """Switch heads of a model off, one at a time and in pairs: all of them, or `N_DRAWS` drawn.

    `on_step` gets the hundredths that are done.
    """
    models = [network for network in (model, random) if network is not None]

    def of_one(i: int) -> Robustness:
        def step(done: int, total: int) -> None:
            on_step(round(100 * (i + done / max(total, 1)) / len(models)))

        n_heads = model.n_layers * model.n_heads
        return robustness(models[i], text, min(N_DRAWS, n_heads), on_progress=step)

    return Failures(of_one(0), of_one(1) if random is not None else None)


class Removal(NamedTuple):
    """The loss while heads are removed, the least important one first.

    Args:
        same: of the texts on which importance was measured.
        other: of texts that the order has not seen.
    """

    same: PruningCurve
    other: PruningCurve


def removal(model: AttentionModel) -> Removal:
    """Remove heads one after the other, by their importance on a few of the annotated sentences."""
    texts = distinct_texts()
    chosen_on, unseen = texts[::24], texts[1::6]
    same = pruning_curve(model, chosen_on, "ablation")
    return Removal(same, pruning_curve(model, unseen, same.removed[0]))


N_DRAWS = 100  # heads that are switched off, and pairs of them
TEXT = "The king (who was old and tired) smiled, said nothing, and went to bed."
REMOVED = StoredRun(
    *("heads-removed", (), dict[str, Removal]),
    lambda: {name: removal(load(name)) for name in ("tiny-gpt2", "tiny-bert")},
)
FAILED = tuple(
    StoredRun(
        *(f"{name}-failures", ((name, "auto", "float32"), TEXT, True), Failures),
        partial(lambda name: failures(load(name), untrained_copy(load(name)), TEXT), name),
    )
    for name in ("tiny-bert", "tiny-gpt2")
)
STORED = (*FAILED, REMOVED)
