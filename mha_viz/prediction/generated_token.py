"""A token that may come next: how likely it is, how it is drawn, and what else might have come."""

from dataclasses import dataclass
from random import Random

import torch
from jaxtyping import Float
from torch import Tensor
from transformers import PreTrainedTokenizerBase

from mha_viz.core.attention.checks import Number
from mha_viz.engine.model import AttentionModel
from mha_viz.prediction.logits import logits
from mha_viz.text.encoding import continuing, encode_texts, label_of

N_CANDIDATES = 10


@dataclass(frozen=True)
class Candidate:
    """A token that may come next.

    Args:
        text: its label, as in a record.
        id: number in the vocabulary.
        probability: the model's own, softmax(logits), in [0, 1].
        drawn_with: the probability with which a step draws it, in [0, 1]: at the temperature, among
            the `top_k` likeliest. At temperature 0 it is 1 for the likeliest and 0 for the others.
        continues: it continues the word before it.
    """

    text: str
    id: int
    probability: float
    drawn_with: float
    continues: bool = False


@dataclass(frozen=True)
class GeneratedToken(Candidate):
    """A token that a step wrote, among those that it might have written.

    Args:
        position: its index in the text's tokens.
        rank: 1 for the likeliest token of the vocabulary.
        candidates: the 10 likeliest, likeliest first; the token itself may be one of them.
        branched: it was chosen by `branch`.
    """

    position: int = 0
    rank: int = 1
    candidates: tuple[Candidate, ...] = ()
    branched: bool = False

    @property
    def runners_up(self) -> tuple[Candidate, ...]:
        """The likeliest tokens that were not written."""
        return tuple(one for one in self.candidates if one.id != self.id)

    def __repr__(self) -> str:
        return f"GeneratedToken({self.text!r}, probability={self.probability:.3f})"


def sampling_probabilities(
    log_probs: Float[Tensor, " d_vocab"], temperature: Number, top_k: int | None
) -> Float[Tensor, " d_vocab"]:
    """Return the probabilities that a step draws with, float64.

    Args:
        log_probs: of each token, natural logarithms.
        temperature: 0 (the likeliest token alone) or more.
        top_k: so many likeliest tokens; None: all.

    >>> sampling_probabilities(torch.tensor([0.5, 0.3, 0.2]).log(), 1, 2)
    tensor([0.6250, 0.3750, 0.0000], dtype=torch.float64)
    """
    scores = log_probs.double() - log_probs.max().double()
    if temperature == 0:
        top_k, temperature = 1, 1.0
    if top_k is not None and top_k < len(scores):
        kept = scores.topk(top_k).indices
        scores = torch.full_like(scores, -torch.inf).index_copy(0, kept, scores[kept])
    return (scores / temperature).softmax(-1)


def draw(chances: Float[Tensor, " d_vocab"], seed: int, position: int) -> int:
    """Draw the token at a position; for one seed it is always the same one."""
    summed = chances.cumsum(-1)
    point = Random(f"{seed} {position}").random() * float(summed[-1])
    last = int(chances.nonzero()[-1])  # rounding must not lead beyond it
    return min(int(torch.searchsorted(summed, point, right=True)), last)


def describe_token(
    tokenizer: PreTrainedTokenizerBase,
    number: int,
    log_probs: Float[Tensor, " d_vocab"],
    chances: Float[Tensor, " d_vocab"],
    position: int,
    branched: bool = False,
) -> GeneratedToken:
    """Describe a token among the likeliest ones."""
    n = min(N_CANDIDATES, len(log_probs))
    ids = [number, *log_probs.topk(n).indices.tolist()]
    own, drawn_with = (values[ids].tolist() for values in (log_probs.exp(), chances))
    labels = [label_of(tokenizer, i) for i in ids]
    joined = continuing(tokenizer, ids)
    every = list(zip(labels, ids, own, drawn_with, joined, strict=True))
    rank = 1 + int((log_probs > log_probs[number]).sum())
    likeliest = tuple(Candidate(*values) for values in every[1:])
    return GeneratedToken(*every[0], position, rank, likeliest, branched)


@torch.no_grad()
def upcoming(model: AttentionModel, text: str, text_pair: str | None = None) -> GeneratedToken:
    """Return the likeliest token behind a text, and its runners-up: one pass that keeps nothing.

    >>> import mha_viz as mv
    >>> upcoming(mv.load("tiny-gpt2"), "Once upon a")
    GeneratedToken('time', probability=0.305)
    """
    encoded, _ = encode_texts(model.reader, text, text_pair)
    found = logits(model.network, [encoded], last=True)[0, -1].float().log_softmax(-1).cpu()
    chances = sampling_probabilities(found, 0, None)
    return describe_token(
        model.tokenizer, int(chances.argmax()), found, chances, len(encoded.input_ids)
    )
