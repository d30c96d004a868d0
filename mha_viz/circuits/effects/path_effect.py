"""Path patching: the effect of one head's output through what another head reads of it."""

import math
import operator
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Unpack

import pandas as pd

from mha_viz.circuits.effects.behaviour import Metric
from mha_viz.circuits.effects.experiment import (
    Other,
    PatchingExperiment,
    Tracked,
    patching_experiment,
)
from mha_viz.circuits.effects.patched_run import INPUTS, Input
from mha_viz.circuits.effects.path_runs import Head
from mha_viz.core.layer_numbers import head_name, number_at
from mha_viz.core.reprs import table_html
from mha_viz.engine.head_changes import head_place
from mha_viz.engine.model import AttentionModel
from mha_viz.errors import ArgumentError

LOGITS = "logits"
Receiver = tuple[int, int, Input] | str


@dataclass(frozen=True, eq=False)
class PathEffect:
    """The effect of one path on a behaviour: the change that patching it makes."""

    sender: Head  # (layer, head)
    receiver: Receiver  # (layer, head, input), or "logits"
    metric: Metric  # of the behaviour; its unit is nats for "loss" and "kl"
    clean: float  # the behaviour with nothing patched
    # direct, total: its change: by the path alone, and with all between answering to the sender.
    direct: float
    total: float
    # direct_estimate, total_estimate: the same, estimated by a gradient; NaN for "kl", whose
    # gradient at the clean run is 0 whatever a head does.
    direct_estimate: float
    total_estimate: float
    # target, against: labels of the tokens that were followed; "" where there is none.
    target: str = ""
    against: str = ""
    notes: tuple[str, ...] = ()  # what was cut off

    def table(self) -> pd.DataFrame:
        """Make a row for "direct" and one for "total": exact, and estimated."""
        direct = ("direct", self.direct, self.direct_estimate)
        total = ("total", self.total, self.total_estimate)
        return pd.DataFrame([direct, total], columns=["path", "exact", "estimate"])

    def __repr__(self) -> str:
        sender = head_name(*self.sender)
        return (
            f"PathEffect({sender} -> {receiver_name(self.receiver)}, {self.metric} "
            f"{self.clean:.4g}, direct {self.direct:+.3g}, total {self.total:+.3g})"
        )

    def _repr_html_(self) -> str:
        return table_html(repr(self), self.table(), " ".join(self.notes))


def path_effect(
    model: AttentionModel,
    clean: str,
    corrupt: Other,
    sender: Sequence[int],
    receiver: Sequence[Any] | str = LOGITS,
    metric: str = "logit_difference",
    **tracked: Unpack[Tracked],
) -> PathEffect:
    """Measure what changes when one head reads another's output from a corrupted text.

    This is path patching.

    The sender's z becomes that of the corrupted run; what then arrives at the receiver's query,
    key or value takes its clean value's place in a run that is clean otherwise. Direct: all other
    heads and all MLPs between the two give what they gave in the clean run, so that the sender is
    heard through the residual stream and its norms alone. Total: what is between answers to the
    sender, too. At the logits, total is plain activation patching. Norms are computed anew
    everywhere, never frozen. The effect is the behaviour then less the clean one: a head that
    makes the answer likelier has a negative one under "logit_difference".

    The estimate computes the receiver's attention again with what it then reads, and multiplies the
    change of its z with the gradient of the behaviour by that z. So a path into attention that is
    all on one token, whose softmax has no gradient, is not missed. What follows the receiver is
    taken as linear: the estimate is wrong where later heads, MLPs and norms bend over that change.

    Args:
        model: a causal or masked language model of one stack, through our attention function.
        clean: the text; for a masked model with [MASK], or with `position`.
        corrupt: a text of as many tokens in which the behaviour is another one; or several texts,
            over whose positions the sender's mean z is taken; or such means (`reference_means`).
        sender: (layer, head), the layer by the model's own number.
        receiver: (layer, head, "query" or "key" or "value") of a later layer, or "logits". Of a
            key that several query heads share, this head's copy alone changes.
        metric: "logit_difference" (target less against), "logit" (of the target), "loss" or "kl";
            see `Behaviour`. The loss of a causal model is the mean over the whole text, unless a
            target or a position is given.
        target: a word or its number; the clean run's likeliest if not given.
        against: likewise; the corrupted run's likeliest, or the clean run's second, if not given.
        position: as for `predict`: where the model is asked.

    Returns:
        PathEffect: the direct and the total effect and their estimates, in logits, or nats for
        "loss" and "kl".

    Raises:
        ArgumentError: no such head, input, metric, word or position; a receiver that is not later.
        TextError: texts of different length, or that cannot be used.
        AttentionUnavailableError: no prediction head, an encoder-decoder, or a family whose heads
            cannot be changed or whose MLPs are not known.

    Source: Wang et al. 2023 (section 3.1; they let MLPs run on, here they are held) and
    Goldowsky-Dill et al. 2023 (direct paths); the estimate is attribution patching (Nanda 2023;
    Syed et al. 2023) for paths, with the attention computed again as in AtP* (Kramar et al. 2024,
    arXiv:2403.00745, the fix for queries and keys; not its GradDrop).

    >>> import mha_viz as mv
    >>> texts = "A bird saw a cat. A bird saw a", "A bird saw a dog. A bird saw a"
    >>> effect = path_effect(mv.load("tiny-gpt2"), *texts, (0, 3), (2, 1, "key"), target="cat")
    >>> effect.receiver, effect.target, abs(effect.direct - effect.direct_estimate) < 0.01
    ((2, 1, 'key'), 'cat', True)
    >>> effect.table().path.tolist()
    ['direct', 'total']
    """
    experiment = patching_experiment(model, clean, corrupt, metric, **tracked)
    head, reader = check_path(model, sender, receiver)
    differs = experiment.runs.differs(head)
    changes = _effects(experiment, head, reader) if differs else (0.0, 0.0, 0.0, 0.0)
    numbers = model.layer_numbers
    return PathEffect(
        (number_at(numbers, head[0]), head[1]),
        reader if isinstance(reader, str) else (number_at(numbers, reader[0]), *reader[1:]),
        experiment.behaviour.metric,
        float(experiment.clean),
        *changes,
        target=experiment.target,
        against=experiment.against,
        notes=experiment.notes,
    )


def check_path(
    model: AttentionModel, sender: Sequence[int], receiver: Sequence[Any] | str
) -> tuple[Head, Receiver]:
    """Check the two ends of a path and return their positions; else raise ArgumentError."""
    head = _head(model, "sender", sender)
    if isinstance(receiver, str) and receiver == LOGITS:
        return head, LOGITS
    if isinstance(receiver, str) or len(receiver) != 3 or receiver[2] not in INPUTS:
        raise ArgumentError(
            'receiver must be "logits" or (layer, head, "query", "key" or "value"), such as '
            f'(1, 2, "key"); got {receiver!r}.'
        )
    ends: Sequence[Any] = receiver
    layer, number = _head(model, "receiver", ends[:2])
    if layer <= head[0]:
        raise ArgumentError(
            f"{head_name(*ends[:2])} cannot read what {head_name(*sender)} writes: choose a "
            "receiver of a later layer."
        )
    return head, (layer, number, receiver[2])


def receiver_name(receiver: Receiver) -> str:
    """Name a receiver: "L1 H2 key", or "logits"."""
    return receiver if isinstance(receiver, str) else "L{} H{} {}".format(*receiver)


def _effects(
    experiment: PatchingExperiment, sender: Head, receiver: Receiver
) -> tuple[float, float, float, float]:
    """Measure a path's direct and total effect, and estimate both."""
    runs, behaviour, ways = experiment.runs, experiment.behaviour, (True, False)
    if isinstance(receiver, str):
        ends = [runs.receiver_inputs([sender], way)[1] for way in ways]
        direct, total = (float(experiment.effect(logits)) for logits in ends if logits is not None)
    else:
        later, reader, name = receiver
        arriving = [runs.receiver_inputs([sender], way, [later], False)[0][later] for way in ways]
        read = [inputs[name][0, reader] for inputs in arriving]
        patched = runs.patch_receiver(later, [(reader, name)] * 2, read)
        direct, total = experiment.effect(patched).tolist()
    if behaviour.metric == "kl":
        return direct, total, math.nan, math.nan
    if isinstance(receiver, str):
        layer, head = sender
        slopes = [runs.gradients(behaviour, direct=way, first=layer) for way in ways]
        estimates = [runs.estimated_logit_effects(slope, layer)[head] for slope in slopes]
    else:
        slope = runs.gradients(behaviour, direct=False, first=later)
        index = 0, reader, INPUTS.index(name)
        estimates = [runs.estimated_effects(slope, inputs, later)[index] for inputs in arriving]
    return direct, total, float(estimates[0]), float(estimates[1])


def _head(model: AttentionModel, name: str, pair: Sequence[int]) -> Head:
    try:
        layer, head = map(operator.index, pair)
    except (TypeError, ValueError) as error:
        raise ArgumentError(
            f"{name} must begin with a layer and a head, such as (0, 3); got {pair!r}."
        ) from error
    return head_place(model, layer, head)
