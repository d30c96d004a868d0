"""The residual stream and a head's part of it, read as tokens: logit lens, tokens of a head."""

from dataclasses import dataclass
from itertools import repeat

import pandas as pd
import torch
from jaxtyping import Float, Int
from torch import Tensor

from mha_viz.circuits.attribution.readout import read_at, token_number
from mha_viz.core.arguments import check_index
from mha_viz.core.record.attention_record import Token
from mha_viz.engine.layer_activations import OutputProxy, with_replaced
from mha_viz.engine.model import AttentionModel
from mha_viz.text.encoding import label_of


@dataclass(frozen=True, eq=False)
class HeadTokens:
    """The tokens whose logits a head raises and lowers most at one place."""

    layer: int  # layer, head, position: which head, and at which token the prediction is read
    head: int
    position: int
    promoted: tuple[str, ...]  # promoted, suppressed: labels, the largest effect first
    suppressed: tuple[str, ...]
    promoted_ids: tuple[int, ...]  # promoted_ids, suppressed_ids: their numbers in the vocabulary
    suppressed_ids: tuple[int, ...]
    # raised, lowered: what the head adds to their logits, less its mean over the vocabulary.
    raised: Float[Tensor, " token"]
    lowered: Float[Tensor, " token"]

    def table(self) -> pd.DataFrame:
        """Make a row for each rank: promoted, raised, suppressed, lowered."""
        raised = {"promoted": self.promoted, "raised": self.raised.numpy()}
        lowered = {"suppressed": self.suppressed, "lowered": self.lowered.numpy()}
        return pd.DataFrame(raised | lowered)


@dataclass(frozen=True, eq=False)
class LogitLens:
    """The predictions of a model that ends after each layer."""

    # after the embeddings and after each layer, the likeliest tokens.
    ids: Int[Tensor, "depth token"]
    labels: tuple[tuple[str, ...], ...]  # of these tokens
    probabilities: Float[Tensor, "depth token"]  # of these tokens, in [0, 1]
    token: str  # token, token_id: the label and number of the chosen token
    token_id: int
    chosen: Float[Tensor, " depth"]  # its probability after the embeddings and after each layer
    position: int  # where the prediction is read
    tokens: tuple[Token, ...]  # of the text

    def table(self) -> pd.DataFrame:
        """Make a row for each depth: after, the token's probability, first guess, its own."""
        after = ["embedding", *(f"L{i}" for i in range(len(self.labels) - 1))]
        guess, probability = [row[0] for row in self.labels], self.probabilities[:, 0].numpy()
        table = {"after": after, self.token: self.chosen.numpy()}
        return pd.DataFrame(table | {"guess": guess, "probability": probability})


@torch.no_grad()
def head_tokens(
    model: AttentionModel,
    text: str,
    layer: int,
    head: int,
    position: int | None = None,
    *,
    top_k: int = 10,
) -> HeadTokens:
    """Find the tokens that a head promotes and suppresses where the model predicts.

    Its share in every logit, as `logit_attribution` has it, less the mean over the vocabulary: what
    is added to all logits alike changes no probability.

    Args:
        model: a causal or masked language model.
        text: for a masked model with [MASK] in it, or with `position`.
        layer: from 0.
        head: from 0.
        position: as for `logit_attribution`.
        top_k: how many of each, 1 or more.

    Returns:
        HeadTokens; what is added to the tokens' logits, the largest first.

    Raises:
        ArgumentError: no such head or position, or no such number of tokens.
        AttentionUnavailableError, TextError: as `logit_attribution`.

    Source: Elhage et al. 2021 (the OV circuit read through the unembedding), here on one text.

    >>> import mha_viz as mv
    >>> tokens = head_tokens(mv.load("tiny-gpt2"), "Once upon a time", 3, 0, top_k=3)
    >>> len(tokens.promoted), bool(tokens.raised[0] > 0 > tokens.lowered[0])
    (3, True)
    >>> tokens.table().columns.tolist()
    ['promoted', 'raised', 'suppressed', 'lowered']
    """
    check_index("layer", layer, model.n_layers)
    check_index("head", head, model.n_heads)
    run, at = read_at(model, text, position)
    check_index("top_k", top_k, len(run.logits), first=1)
    names = [component.name for component in run.stream.components]
    row = run.stream.final[names.index(f"L{layer} H{head}"), :1]
    effect = (run.linear(row)[0] @ run.W_U).float().cpu()
    effect = effect - effect.mean()
    most, least = effect.topk(top_k), (-effect).topk(top_k)
    return HeadTokens(
        layer=layer,
        head=head,
        position=at,
        promoted=_labels(model, most.indices),
        suppressed=_labels(model, least.indices),
        promoted_ids=tuple(most.indices.tolist()),
        suppressed_ids=tuple(least.indices.tolist()),
        raised=most.values,
        lowered=-least.values,
    )


@torch.no_grad()
def logit_lens(
    model: AttentionModel,
    text: str,
    token: str | int | None = None,
    position: int | None = None,
    *,
    top_k: int = 5,
) -> LogitLens:
    """Read the stream after each layer through the final norm and the unembedding.

    The last row is the model's own prediction. The others are what it would say if it ended there,
    which nobody has trained it for: middle layers may write in directions that only later layers
    turn into tokens, and a guess that appears late need not have been computed late. Masked models
    fare worse than causal ones, for their last layers turn the stream most.

    Args:
        model: a causal or masked language model.
        text: for a masked model with [MASK] in it, or with `position`.
        token: whose probability to follow; the model's own first choice if not given.
        position: as for `logit_attribution`.
        top_k: how many guesses after each layer, 1 or more.

    Returns:
        LogitLens: tokens and probabilities in [0, 1] after the embeddings and each layer,
        (layer + 1, top_k), and the chosen token's (layer + 1).

    Raises:
        ArgumentError: no such position or token, or no such number of tokens.
        AttentionUnavailableError, TextError: as `logit_attribution`.

    Source: nostalgebraist 2020; Belrose et al. 2023 show where it misleads.

    >>> import mha_viz as mv
    >>> logit_lens(mv.load("tiny-gpt2"), "Once upon a", "time").chosen.shape
    torch.Size([5])
    >>> logit_lens(mv.load("tiny-gpt2"), "Once upon a", "time").table().after.tolist()
    ['embedding', 'L0', 'L1', 'L2', 'L3']
    """
    readouts, at = read_at(model, text, position)
    check_index("top_k", top_k, len(readouts.logits), first=1)
    chosen = token_number(model, readouts, at, token)
    run = readouts.stream.run
    depths = torch.stack(run.entering)
    last = model.network.get_submodule(run.layout.layers[-1])
    constant = repeat((depths, None) if run.last_gives_more else depths)
    ended = with_replaced(model.network, {last: OutputProxy(last, outputs=constant)})
    ids = torch.zeros(len(depths), 1, dtype=torch.long, device=model.device)
    output = ended(input_ids=ids)
    scores = getattr(output, "prediction_logits", None)
    p = (output.logits if scores is None else scores)[:, 0].float().softmax(-1).cpu()
    best = p.topk(top_k)
    return LogitLens(
        ids=best.indices,
        labels=tuple(_labels(model, row) for row in best.indices),
        probabilities=best.values,
        token=label_of(model.tokenizer, chosen),
        token_id=chosen,
        chosen=p[:, chosen],
        position=at,
        tokens=readouts.stream.encoded.tokens,
    )


def _labels(model: AttentionModel, ids: Int[Tensor, " token"]) -> tuple[str, ...]:
    return tuple(label_of(model.tokenizer, number) for number in ids.tolist())
