"""The experiment of path patching: a clean run, another one, and the behaviour measured."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypedDict

import torch
from jaxtyping import Float
from torch import Tensor

from mha_viz.circuits.effects.behaviour import Behaviour, Word, metric_of
from mha_viz.circuits.effects.path_runs import PathRuns
from mha_viz.engine.head_changes import part_size, reference_means
from mha_viz.engine.intervention import ReferenceMeans
from mha_viz.engine.model import AttentionModel
from mha_viz.engine.probe import Probe
from mha_viz.errors import ArgumentError, TextError
from mha_viz.prediction.logits import check_predicts, replace_mask
from mha_viz.prediction.predict import predicted_positions, spaced_at
from mha_viz.prediction.replay import ReplayingPass
from mha_viz.prediction.targets import PredictionTargets
from mha_viz.text.cleaning import in_a_row
from mha_viz.text.encoding import encode_texts, id_of, label_of, text_notes
from mha_viz.text.tokens import Encoded

Other = str | Sequence[str] | ReferenceMeans  # where the sender's other output comes from


class Tracked(TypedDict, total=False):
    """The tokens whose prediction is followed, and where."""

    target: Word
    against: Word
    position: int | None


@dataclass(frozen=True, eq=False)
class PatchingExperiment:
    """A clean run, another one, and the behaviour that paths between heads are judged by."""

    runs: PathRuns
    behaviour: Behaviour
    target: str = ""
    against: str = ""
    notes: tuple[str, ...] = ()

    @property
    def clean(self) -> Float[Tensor, ""]:
        """The behaviour of the clean run."""
        return self.behaviour(self.runs.logits[None])[0]

    def effect(self, logits: Float[Tensor, "setting target d_vocab"]) -> Float[Tensor, " setting"]:
        """Subtract the clean behaviour; exactly 0 at the clean logits."""
        return self.behaviour(logits) - self.clean


@torch.inference_mode(False)
def patching_experiment(
    model: AttentionModel,
    clean: str,
    corrupt: Other,
    metric: str,
    target: Word = None,
    against: Word = None,
    position: int | None = None,
) -> PatchingExperiment:
    """Make both runs and the behaviour; arguments and errors as for `path_effect`."""
    checked_metric = metric_of(metric, target, against)
    part_size(model, model.parts[0])
    text, position_in_text = as_run(model, clean, position)
    z, after = _other_run(model, text, corrupt, position_in_text)
    kind = check_predicts(model.network)
    is_of_text = metric == "loss" and kind == "causal" and target is None and position is None
    ids = tuple(text.input_ids)  # of a whole text each but the first is predicted
    if is_of_text and len(ids) < 2:
        raise TextError("The loss of a text takes two tokens at least: write a longer one.")
    positions = tuple(range(len(ids) - 1)) if is_of_text else (position_in_text,)
    # Any token will do where another one is followed.
    predicted = ids[1:] if is_of_text else (ids[position_in_text],)
    targets = PredictionTargets((text,), (0,), (positions,), (predicted,), 1)
    runs = PathRuns(model, targets, z, with_graph=metric != "kl")  # which has no slope there
    spaced = spaced_at(kind, text, position_in_text)
    right, wrong = _tokens(model, runs.logits[-1], after, spaced, target, against)
    answers = torch.tensor(predicted if is_of_text else (right,))
    return PatchingExperiment(
        runs,
        Behaviour(checked_metric, answers, torch.full_like(answers, wrong), runs.logits),
        "" if is_of_text or metric == "kl" else label_of(model.tokenizer, right),
        label_of(model.tokenizer, wrong) if metric == "logit_difference" else "",
        text_notes(model.name, text),
    )


def as_run(model: AttentionModel, text: str, position: int | None) -> tuple[Encoded, int]:
    """Encode the text, for a masked model with [MASK] where it predicts; return that place, too."""
    unmasked, _ = encode_texts(model.reader, replace_mask(model, text))
    encoded, positions = predicted_positions(
        model, check_predicts(model.network), unmasked, position
    )
    return encoded, positions[0]


def _other_run(
    model: AttentionModel, text: Encoded, corrupt: Other, position: int
) -> tuple[torch.Tensor, torch.Tensor | None]:
    """Return each head's z in the other run, and the logits (d_vocab,) there; means have none."""
    if not isinstance(corrupt, str):
        means = corrupt if isinstance(corrupt, ReferenceMeans) else reference_means(model, corrupt)
        if tuple(means.means.shape) != (model.n_layers, model.n_heads, model.d_head):
            raise ArgumentError(
                f"The means are of another model: (layer, head, d_head) is "
                f"{tuple(means.means.shape)}, and {model.name} has "
                f"{(model.n_layers, model.n_heads, model.d_head)}."
            )
        return means.means[:, :, None], None
    other = encode_texts(model.reader, replace_mask(model, corrupt))[0]
    if len(other.tokens) != len(text.tokens):
        labels = [in_a_row(token.text for token in encoded.tokens) for encoded in (text, other)]
        raise TextError(
            f"Patching needs texts of as many tokens: the clean one has {len(text.tokens)} "
            f"({labels[0]}), the corrupted one {len(other.tokens)} ({labels[1]}). Change a word in "
            "one of them."
        )
    masked, probe = as_run(model, corrupt, position)[0], Probe(("z",))
    targets = PredictionTargets(
        (masked,), (0,), ((position,),), ((masked.input_ids[position],),), 1
    )
    with torch.inference_mode(False), torch.no_grad():
        after = ReplayingPass(model, targets).logits(1, probe)
    return torch.stack([layer[0] for layer in probe.tensors["z"]]), after[0, 0]


def _tokens(
    model: AttentionModel,
    before: Float[Tensor, " d_vocab"],
    after: Float[Tensor, " d_vocab"] | None,
    spaced: bool,
    target: Word,
    against: Word,
) -> tuple[int, int]:
    """Return the numbers of the tokens that are tracked."""

    def number(word: str | int) -> int:
        token = id_of(model.tokenizer, word, spaced)
        if token >= len(before):
            raise ArgumentError(f"{model.name} gives no probability to token {token}.")
        return token

    likeliest = [
        logits.topk(2).indices.tolist() for logits in (after, before) if logits is not None
    ]
    right = likeliest[-1][0] if target is None else number(target)
    candidates = [i for ids in likeliest for i in ids if i != right]
    wrong = candidates[0] if against is None else number(against)
    return right, wrong
