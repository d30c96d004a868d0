"""Direct logit attribution: a token's logit as a sum over what each component wrote."""

from dataclasses import astuple, dataclass
from typing import Literal, get_args

import pandas as pd
import torch
from jaxtyping import Float
from torch import Tensor

from mha_viz.circuits.attribution.layout import Component
from mha_viz.circuits.attribution.readout import Readout, read_at, token_pair
from mha_viz.circuits.attribution.residual_stream import on_cpu
from mha_viz.core.arguments import check_index
from mha_viz.core.record.attention_record import Token
from mha_viz.engine.model import AttentionModel
from mha_viz.errors import ArgumentError
from mha_viz.prediction.logits import objective
from mha_viz.prediction.outcomes import ENDS, labels_of
from mha_viz.text.encoding import text_notes

Of = Literal["logit", "log_probability"]
_COLUMNS = ["component", "kind", "layer", "head"]  # the fields of a `Component`


@dataclass(frozen=True, eq=False)
class LogitAttribution:
    """A logit, a difference of two or a log-probability, as a sum over components."""

    # what the number is a sum of, in order; see `ResidualStream`. After those of the stream come
    # "prediction head bias" (BERT's transform), "unembedding bias", "soft cap" and "entropy", as
    # far as there are such.
    components: tuple[Component, ...]
    shares: Float[Tensor, " component"]  # of each component; logits, or nats
    # each head's share split by the token that it comes from; over the keys they sum to the head's
    # share.
    sources: Float[Tensor, "layer head key"]
    value: float  # the number that the model itself gave
    of: Of  # "logit" or "log_probability"
    token: str  # token, token_id: the label and number of the token; "start" or "end" is 0 or 1
    token_id: int
    versus: str | None  # versus, versus_id: of the one whose logit is taken off; None without one
    versus_id: int | None
    position: int  # which token the prediction is read at
    tokens: tuple[Token, ...]  # of the text; a masked one is "[MASK]"
    model: str = ""  # model, text, notes: as in a record
    text: str = ""
    notes: tuple[str, ...] = ()

    def sum(self) -> float:
        """Sum all shares: the value but for rounding."""
        return float(self.shares.double().sum())

    @property
    def remainder(self) -> float:
        """The value minus the sum of shares, which is rounding."""
        return self.value - self.sum()

    @property
    def heads(self) -> Float[Tensor, "layer head"]:
        """The shares of the heads."""
        return self.sources.sum(-1)

    def table(self) -> pd.DataFrame:
        """Make a row for each component: component, kind, layer, head, share."""
        return component_table(self.components).assign(share=self.shares.numpy())

    def sources_table(self, layer: int, head: int) -> pd.DataFrame:
        """Make a row for each token that a head reads: position, token, share.

        ArgumentError: no such head.
        """
        n_layers, n_heads, _ = self.sources.shape
        check_index("layer", layer, n_layers)
        check_index("head", head, n_heads)
        labels, shares = [token.text for token in self.tokens], self.sources[layer, head].numpy()
        return pd.DataFrame({"position": range(len(labels)), "token": labels, "share": shares})

    def __repr__(self) -> str:
        against = "" if self.versus is None else f" less that of {self.versus!r}"
        return (
            f"LogitAttribution({self.of.replace('_', '-')} of {self.token!r}{against} at position "
            f"{self.position}: {self.value:.4g} = the sum of {len(self.components)} shares)"
        )


def logit_attribution(
    model: AttentionModel,
    text: str,
    token: str | int | None = None,
    versus: str | int | None = None,
    position: int | None = None,
    *,
    of: Of | str = "logit",
    text_pair: str | None = None,
) -> LogitAttribution:
    """Compute what each component of the residual stream adds to the logit of a token.

    logit(t) = sum over components c of W_U[t] . N(c) + biases, where N is all that lies between the
    component and the unembedding: the norms, linear with the scale of this run, and BERT's
    transform, linear with the gates of its activation as they were in this run (gelu(x) is x times
    a gate). The log-probability's first-order part is the same sum for W_U[t] - sum_v p(v) W_U[v];
    what is left of it is minus the entropy of the prediction, a share of its own. A soft cap on the
    logits is one, too.

    It is the direct effect: what later layers make of what a head writes counts as theirs, and a
    component that shrinks the norm's scale is not charged for it.

    Args:
        model: a causal or masked language model, or a classifier that scores its last token
            behind the final norm (GPT-2, Llama and their relatives), or one that scores each
            token: classes of tokens, starts and ends of answers.
        text: for a masked model with [MASK] in it, or with `position`; the question.
        token: a word or a number in the vocabulary (a class's label or number); the model's own
            first choice if not given. Of an answer as `ablate`'s target; the start if not given.
        versus: another token, whose logit is taken off; none of an answer.
        position: as for `predict`: the last token of a causal model, the first [MASK] of a masked
            one if not given; a masked model's other tokens are masked first.
        of: "logit" or "log_probability" (where classes exclude each other, or tokens).
        text_pair: second segment, for models that take one: the context of a question.

    Returns:
        LogitAttribution; `.sum()` is the logit (the difference, the log-probability) but for
        rounding, and `.remainder` says by how much it is not.

    Raises:
        AttentionUnavailableError: no head that predicts tokens, or a family that cannot be taken
            apart.
        ArgumentError: no such position; no such token, or several; `versus` is the token.
        TextError: a masked model and no [MASK]; text that cannot be used.

    Source: Elhage et al. 2021; direct logit attribution as in Wang et al. 2022 (with the scale of
    the norm frozen), sections 3 and 4.

    >>> import mha_viz as mv
    >>> attribution = mv.logit_attribution(mv.load("tiny-gpt2"), "Once upon a", token="time")
    >>> round(attribution.sum() - attribution.value, 3)
    0.0
    >>> attribution.table().columns.tolist()
    ['component', 'kind', 'layer', 'head', 'share']
    >>> attribution.sources_table(3, 1).columns.tolist()
    ['position', 'token', 'share']
    """
    if of not in get_args(Of):
        raise ArgumentError(f'of must be "logit" or "log_probability", got {of!r}.')
    if versus is not None and of == "log_probability":
        raise ArgumentError(
            "The difference of two log-probabilities is that of the logits: leave out of=, or "
            "versus=."
        )
    kind = objective(model.network)
    if kind in ("answer", "multi_label", "regression") and of == "log_probability":
        raise ArgumentError(
            "The probability of an answer's end, or of a label alone, is no sum at one place, and "
            "a number has none: leave out of=."
        )
    if kind == "answer" and versus is not None:
        raise ArgumentError("The ends of an answer are read at a token each: leave out versus=.")
    if kind == "regression" and token is not None:
        raise ArgumentError(f"{model.name} predicts one number: leave out token.")
    end = {"end": token} if kind == "answer" else {}
    run, at = read_at(model, text, position, classes=True, text_pair=text_pair, **end)
    encoded = run.stream.encoded
    chosen, against = token_pair(run, at, token, versus)
    weights = logit_weights(run.logits, chosen, against, of)
    direction = run.W_U @ weights
    components, shares = component_shares(run, weights, direction, of)
    value = run.logits if of == "logit" else run.logits.log_softmax(-1)
    return LogitAttribution(
        components=components,
        shares=shares,
        sources=_sources(run, direction),
        value=float(value[chosen]) - (0.0 if against is None else float(value[against])),
        of="logit" if of == "logit" else "log_probability",
        token=ENDS[chosen] if kind == "answer" else labels_of(model, [chosen])[0],
        token_id=chosen,
        versus=None if against is None else labels_of(model, [against])[0],
        versus_id=against,
        position=at,
        tokens=encoded.tokens,
        model=model.name,
        text=encoded.text,
        notes=model.notes + text_notes(model.name, encoded),
    )


def component_table(components: tuple[Component, ...]) -> pd.DataFrame:
    """Make a row for each component: component, kind, layer, head."""
    table = pd.DataFrame(map(astuple, components), columns=_COLUMNS)
    return table.astype({"layer": "Int64", "head": "Int64"})


def logit_weights(
    logits: Float[Tensor, " d_vocab"], token: int, versus: int | None, of: str
) -> Float[Tensor, " d_vocab"]:
    """Return the weight of each logit in the number's first-order part."""
    weights = torch.zeros_like(logits)
    weights[token] = 1
    if versus is not None:
        weights[versus] = -1
    return weights if of == "logit" else weights - logits.softmax(-1)


@torch.no_grad()
def component_shares(
    run: Readout,
    weights: Float[Tensor, " d_vocab"],
    direction: Float[Tensor, " d"],
    of: str,
) -> tuple[tuple[Component, ...], Tensor]:
    """Compute every component's share, those behind the stream included."""
    shares = [run.linear(run.stream.final[:, 0]) @ direction]
    beyond: dict[str, Tensor] = {}
    if run.bias is not None:
        beyond["prediction head bias"] = run.bias @ direction
    if run.b_U is not None:
        beyond["unembedding bias"] = run.b_U @ weights
    if getattr(run.stream.model.config, "final_logit_softcapping", None) is not None:
        beyond["soft cap"] = run.bend @ weights
    if of == "log_probability":
        beyond["entropy"] = -torch.special.entr(run.logits.softmax(-1)).sum()
    components = run.stream.components + tuple(Component(name, name) for name in beyond)
    return components, on_cpu(torch.cat([*shares, *(share[None] for share in beyond.values())]))


def _sources(run: Readout, direction: Float[Tensor, " d"]) -> Float[Tensor, "layer head key"]:
    """Compute each head's share by the token that it comes from."""
    stream = run.stream
    *by_layer, _ = stream.gradients(lambda output: run.linear(output)[0] @ direction)
    with torch.no_grad():
        layers = [stream.source_shares(i, gradient)[:, 0] for i, gradient in enumerate(by_layer)]
    return on_cpu(torch.stack(layers))
