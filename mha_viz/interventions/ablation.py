"""The effect of switching heads off, scaling or replacing them: before, after, difference."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import pandas as pd
import torch

from mha_viz.core.attention.checks import Number
from mha_viz.core.layer_numbers import head_name
from mha_viz.core.record.attention_record import AttentionRecord
from mha_viz.core.reprs import table_html
from mha_viz.engine.head_changes import averaged_over, reference_means
from mha_viz.engine.intervention import Intervention, ReferenceMeans
from mha_viz.engine.model import AttentionModel
from mha_viz.errors import ArgumentError
from mha_viz.prediction.distributions import kl_divergence, labels_divergence
from mha_viz.prediction.outcomes import ENDS, continuing, end_and_position, labels_of, number_of
from mha_viz.prediction.predict import Prediction, mean_known, predict

_NAMED = 6  # heads that a line has room for
_ROWS = ["before", "after"]


@dataclass(frozen=True)
class Target:
    """One token of the vocabulary, one class, or one end of an answer, before and after."""

    text: str  # text, id: its label and its number
    id: int
    before: float  # before, after: its log-probability, nats
    after: float
    continues: bool = False  # it continues the word before it

    @property
    def change(self) -> float:
        """after - before, nats: below 0 where the heads had made it likelier."""
        return self.after - self.before


@dataclass(frozen=True, eq=False)
class Ablation:
    """A prediction with all heads as they are, one with some changed, and how they differ."""

    before: Prediction  # before, after: the predictions
    after: Prediction
    intervention: Intervention  # what was done
    averaged: str  # for how="mean", over what: "the 7 positions of this text"; "" otherwise
    # KL(before || after) = sum p ln(p / q) at the predicted place, nats, 0 or more; summed over
    # labels that have a probability each; NaN of a regression.
    kl: float
    target: Target | None  # target, against: the chosen tokens, or None
    against: Target | None
    # after - before for each token of the text, nats; None where there is no loss.
    loss_changes: tuple[float | None, ...]
    # candidates, continues: a label for every number in `ids`, and whether it continues a word.
    candidates: tuple[str, ...]
    # the likeliest tokens before, then those that are among the likeliest only after.
    ids: tuple[int, ...]
    continues: tuple[bool, ...]

    @property
    def loss_change(self) -> float | None:
        """The mean change in loss, nats per token; above 0 where the text became less likely."""
        return mean_known(self.loss_changes)

    @property
    def value_change(self) -> float | None:
        """The change in the number that a regression predicts; None of all others."""
        pair = (self.before.value, self.after.value)
        return None if pair[0] is None or pair[1] is None else pair[1] - pair[0]

    @property
    def logit_difference_before(self) -> float | None:
        """logit(target) - logit(against), with all heads; None without both."""
        pair = (self.target, self.against)
        return pair[0].before - pair[1].before if pair[0] and pair[1] else None

    @property
    def logit_difference_after(self) -> float | None:
        """logit(target) - logit(against), with the heads changed."""
        pair = (self.target, self.against)
        return pair[0].after - pair[1].after if pair[0] and pair[1] else None

    def table(self) -> pd.DataFrame:
        """Return a row per token of `ids`: probability before, after, change, change of its log."""
        logs = torch.stack(
            [prediction.log_probs[list(self.ids)] for prediction in (self.before, self.after)]
        )
        before, after = logs.exp().tolist()
        return pd.DataFrame(
            {
                "token": self.candidates,
                "id": self.ids,
                "before": before,
                "after": after,
                "change": [b - a for a, b in zip(before, after, strict=True)],
                "log_change": (logs[1] - logs[0]).tolist(),
                "continues_word": self.continues,
            }
        )

    def loss_table(self) -> pd.DataFrame:
        """Return a row for each token: its loss before, after, and the change, nats."""
        losses = {"before": self.before.losses, "after": self.after.losses}
        table = pd.DataFrame(losses | {"change": self.loss_changes}, dtype=float)
        table.insert(0, "token", [token.text for token in self.before.tokens])
        return table

    def __repr__(self) -> str:
        heads = [head_name(*head) for head in self.intervention.heads]
        more = f" and {len(heads) - _NAMED} more" if len(heads) > _NAMED else ""
        named = ", ".join(heads[:_NAMED]) + more
        change = f"kl={self.kl:.4g}"
        if self.value_change is not None:
            change = f"value_change={self.value_change:.4g}"
        return f"Ablation({self.intervention.how} {named}, {change})"

    def _repr_html_(self) -> str:
        """Draw what becomes likelier and what less, at the predicted place."""
        shown = self.table().drop(columns=["id", "continues_word"])
        if self.value_change is not None:
            shown = pd.DataFrame({"value": [self.before.value, self.after.value]}, _ROWS)
            return table_html(repr(self), shown, "")
        note = f"KL(before || after) {self.kl:.4g} nats."
        if self.loss_change is not None:
            note += f" Loss of the text {self.loss_change:+.4g} nats per token."
        return table_html(repr(self), shown, f"{note} Each token's loss is in .loss_table().")


def ablate(
    model: AttentionModel,
    text: str,
    heads: Sequence[Sequence[int]],
    how: str = "zero",
    factor: Number = 0.0,
    reference: Sequence[str] | ReferenceMeans | None = None,
    source: AttentionRecord | str | None = None,
    target: str | int | None = None,
    against: str | int | None = None,
    position: int | None = None,
    top_k: int = 10,
    temperature: Number = 1.0,
    text_pair: str | None = None,
    pseudo_loss: bool = False,
) -> Ablation:
    """Predict with all heads, and with some changed.

    Args:
        model: a causal or masked language model, a classifier, or a question answerer.
        text: for a masked model with [MASK] in it, or with `position`; the question.
        heads: (layer, head) pairs, 0-based, none twice; layers by the model's own numbers.
        how: "zero", "scale", "mean", "uniform", "patch_z" or "patch_pattern"; see `Intervention`.
        factor: for "scale" alone; any finite number.
        reference: for "mean": texts, or their `reference_means`; None: this text's positions.
        source: for the patches: a record of the second text, or the text itself.
        target: a word, or a number in the vocabulary (a class's label or number), whose
            log-probability is followed. Of an answer "start" or "end", the likeliest token there,
            or "end:7"; a number is that token as the start. None where a number is predicted.
        against: a second one: logit(target) - logit(against), as in "Mary" against "John".
        position: the token that is predicted (masked, token classifiers) or that the prediction
            follows (causal).
        top_k: how many candidates, 1 or more.
        temperature: above 0; for the displayed probabilities alone.
        text_pair: second segment, for models that take one: the context of a question.
        pseudo_loss: masked models: also each token's loss, masked in turn.

    Returns:
        Ablation; KL, log-probabilities and losses in nats.

    Raises:
        ArgumentError: no such head, way, position or target; a target of several tokens.
        AttentionUnavailableError: no prediction head, or heads that cannot be changed.
        TextError: a masked model and no [MASK]; text that cannot be used.

    Source: the difference of two logits as Wang et al. 2023; KL as Conmy et al. 2023.

    >>> import mha_viz as mv
    >>> ablation = ablate(mv.load("tiny-gpt2"), "Once upon a", [(0, 0), (3, 1)], target="time")
    >>> ablation.kl > 0, ablation.target.text
    (True, 'time')
    >>> ablation.table().columns.tolist()[:4], ablation.loss_table().columns.tolist()
    (['token', 'id', 'before', 'after'], ['token', 'before', 'after', 'change'])
    """
    intervention = Intervention(heads, how, factor, reference, source)
    if reference is not None and not isinstance(reference, ReferenceMeans):
        intervention = replace(intervention, reference=reference_means(model, reference))
    options = (top_k, position, temperature, text_pair, pseudo_loss)
    before = predict(model, text, None, None, *options)
    follow(model, before, target, against)  # what is no target is refused before the second run
    after = predict(model, text, None, intervention, *options)
    return compare(model, before, after, intervention, target=target, against=against)


def compare(
    model: AttentionModel,
    before: Prediction,
    after: Prediction,
    intervention: Intervention,
    *,
    target: str | int | None = None,
    against: str | int | None = None,
) -> Ablation:
    """Compare two predictions at one place of one text: for a page that keeps `before`.

    Raises ArgumentError: predictions of other texts or places; a target that is not one token.
    """
    contexts = {
        (prediction.text, prediction.text_pair, prediction.position)
        for prediction in (before, after)
    }
    if len(contexts) > 1:
        raise ArgumentError("before and after must be predictions at one place of one text.")
    before, (number, other) = follow(model, before, target, against)
    if before.objective in ENDS:
        after = of_end(after, before.objective)
    ids = tuple(dict.fromkeys((*before.ids, *after.ids)))
    return Ablation(
        before=before,
        after=after,
        intervention=intervention,
        averaged=averaged_over(intervention, len(before.tokens)),
        kl=_divergence(before, after),
        target=_target(model, number, before, after),
        against=_target(model, other, before, after),
        loss_changes=tuple(
            None if a is None or b is None else b - a
            for a, b in zip(before.losses, after.losses, strict=True)
        ),
        candidates=labels_of(model, ids, before.tokens),
        ids=ids,
        continues=continuing(model, ids, before.tokens),
    )


def follow(
    model: AttentionModel,
    before: Prediction,
    target: str | int | None,
    against: str | int | None,
) -> tuple[Prediction, list[int | None]]:
    """Return the prediction that a target is of, and the numbers of the target and the other.

    Of an answer's start and end the target says which, and the likeliest token stands for one that
    is not named.

    Raises ArgumentError: no such target; a target where nothing can be followed.
    """
    if target is None and against is not None:
        raise ArgumentError("against needs a target: the token that it is compared with.")
    if against is not None and before.objective == "multi_label":
        raise ArgumentError("Each label has a probability of its own: leave out against.")
    if before.objective not in ENDS:
        typed = (target, against)
        return before, [None if t is None else number_of(model, t, before.spaced) for t in typed]
    if target is None:
        return before, [None, None]
    end, position = end_and_position(target, before.tokens)
    before = of_end(before, end)
    if against is None:
        return before, [before.ids[0] if position is None else position, None]
    other = end_and_position(
        f"{end}:{against}" if isinstance(against, int) else against, before.tokens
    )
    if other[0] != end or other[1] is None:
        raise ArgumentError(f"against must be another token of the {end}, as in {end}:7.")
    return before, [before.ids[0] if position is None else position, other[1]]


def of_end(prediction: Prediction, end: str) -> Prediction:
    """Return the prediction of one end of an answer, with that of the other among its `others`."""
    if prediction.objective == end:
        return prediction
    (other,) = prediction.other_predictions
    return replace(other, other_predictions=(replace(prediction, other_predictions=()),))


def _divergence(before: Prediction, after: Prediction) -> float:
    if before.value is not None:
        return math.nan
    if before.objective == "multi_label":
        return labels_divergence(before.log_probs, after.log_probs)
    return kl_divergence(before.log_probs, after.log_probs)


def _target(
    model: AttentionModel, number: int | None, before: Prediction, after: Prediction
) -> Target | None:
    if number is None:
        return None
    if number >= len(before.log_probs):
        raise ArgumentError(f"{model.name} gives no probability to token {number}.")
    return Target(
        labels_of(model, [number], before.tokens)[0],
        number,
        float(before.log_probs[number]),
        float(after.log_probs[number]),
        continuing(model, [number], before.tokens)[0],
    )
