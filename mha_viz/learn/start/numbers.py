"""Every number of one sentence in tiny-gpt2, from one run, and its prediction without each head."""

from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from mha_viz.circuits.attribution.residual_stream import ResidualStream
from mha_viz.core.record.fields import Token
from mha_viz.engine.model import AttentionModel
from mha_viz.engine.probe import HeadEdits, Probe
from mha_viz.errors import TextError
from mha_viz.prediction.logits import logits
from mha_viz.text.encoding import count_positions, encode_texts, label_of

MODEL = "tiny-gpt2"
SENTENCE = "In spring Captain Zorval opened the green box. At night Captain Zorval opened the green"
MAX_TOKENS = 24  # more would be too small to read in one picture
N_GUESSES = 6  # that are shown, with all heads and without one
N_LENS = 3
Head = tuple[int, int]


@dataclass(frozen=True, eq=False)
class Projections:
    """The weights that make one head's queries, keys and values; (3, d_model, d_head) and biases.

    `inputs` is what they multiply: the layer's stream after its norm, (token, d_model).
    """

    weights: Float[Tensor, "3 d_model d_head"]
    biases: Float[Tensor, "3 d_head"]
    inputs: Float[Tensor, "token d_model"]


@dataclass(frozen=True, eq=False)
class Guesses:
    """The likeliest next tokens.

    Args:
        ids, labels: of every token that is among the likeliest ones somewhere.
        with_all: their probabilities with all heads on, in [0, 1]; the likeliest first.
        without: their probabilities with one head off, (layer, head, guess).
        patterns: of all heads with one off, (layer and head of that one, then as elsewhere).
        logits: with all heads on.
        log_total: the logarithm of the sum of e^logit over the vocabulary.
    """

    ids: tuple[int, ...]
    labels: tuple[str, ...]
    with_all: Float[Tensor, " guess"]
    without: Float[Tensor, "layer head guess"]
    patterns: Float[Tensor, "off_layer off_head layer head token token"]
    logits: Float[Tensor, " guess"]
    log_total: float

    @property
    def losses(self) -> Float[Tensor, "layer head"]:
        """The share of the first guess's probability that goes with each head; below 0: it rises.

        1 - p without the head / p with all.
        """
        return 1 - self.without[..., 0] / self.with_all[0]


@dataclass(frozen=True, eq=False)
class Followed:
    """One run of one sentence, float32.

    Args:
        text, tokens: of the sentence.
        embedded: token and position vectors, (2, token, d_model), whose sum enters layer 0.
        streams: the residual stream that enters each layer, and at the end what leaves the last.
        attention: the output of each layer's attention, its biases included.
        query, key, value, z, pattern: of each head, as the run had them.
        written: what each head adds to the last token's stream, without biases.
        biases: what each layer's attention adds beyond its heads, to every token.
        final: the last token's vector that is compared with the vocabulary.
        guesses: of the token behind the sentence.
        lens: for each of `streams` the likeliest tokens and probabilities, if the last norm and
            the unembedding read that stream: (label, probability), likeliest first.
        shares: what each head adds to the first guess's logit, the norm's scale frozen.
        author: the head with the largest of `shares`. carrier: that with the largest of
            `guesses.losses`.
        projections: of the author.
    """

    text: str
    tokens: tuple[Token, ...]
    embedded: Float[Tensor, "2 token d_model"]
    streams: Float[Tensor, "place token d_model"]
    attention: Float[Tensor, "layer token d_model"]
    query: Float[Tensor, "layer head token d_head"]
    key: Float[Tensor, "layer head token d_head"]
    value: Float[Tensor, "layer head token d_head"]
    z: Float[Tensor, "layer head token d_head"]
    pattern: Float[Tensor, "layer head token token"]
    written: Float[Tensor, "layer head d_model"]
    biases: Float[Tensor, "layer d_model"]
    final: Float[Tensor, " d_model"]
    guesses: Guesses
    lens: tuple[tuple[tuple[str, float], ...], ...]
    shares: Float[Tensor, "layer head"]
    author: Head
    carrier: Head
    projections: Projections


@torch.no_grad()
def follow(model: AttentionModel, text: str) -> Followed:
    """Run a sentence once, take down every number on the way, and switch each head off in turn.

    Raises:
        TextError: no text, or one of more than 24 tokens.

    Source: shares are direct logit attribution (Elhage et al. 2021); `lens` is the logit lens
    (nostalgebraist 2020).

    >>> import mha_viz as mv
    >>> found = follow(mv.load(MODEL), SENTENCE)
    >>> found.guesses.labels[0], found.author, found.carrier
    ('box', (1, 7), (0, 7))
    """
    if (n := count_positions(model.reader, text)) > MAX_TOKENS:
        raise TextError(
            f"This sentence has {n} tokens, and the picture has room for {MAX_TOKENS}: leave out "
            "some words."
        )
    encoded, _ = encode_texts(model.reader, text)
    unembedding = model.network.get_output_embeddings()
    stream = ResidualStream(model, encoded, None, beyond=[unembedding])
    read, every_logit = stream.run.calls[unembedding][-1]
    by_name = stream.run.probe.tensors.items()
    activations = {name: torch.stack(list(layers))[:, 0] for name, layers in by_name}
    written = stream.values
    layers, heads = range(model.n_layers), range(model.n_heads)
    by_head = torch.stack(
        [torch.stack([written[f"L{layer} H{head}"] for head in heads]) for layer in layers]
    )
    biases = torch.stack([written[f"L{layer} attention bias"] for layer in layers])
    guesses = _guesses(model, encoded, every_logit[-1])
    row_of = {component.name: i for i, component in enumerate(stream.components)}
    direct = stream.final[:, -1] @ unembedding.weight[guesses.ids[0]]
    shares = torch.stack(
        [torch.stack([direct[row_of[f"L{layer} H{head}"]] for head in heads]) for layer in layers]
    )
    author = divmod(int(shares.argmax()), model.n_heads)
    streams = torch.stack([entering[: len(encoded.tokens)] for entering in stream.run.entering])
    return Followed(
        text=encoded.text,
        tokens=encoded.tokens,
        embedded=torch.stack([written[name].expand_as(streams[0]) for name in _EMBEDDINGS]),
        streams=streams,
        attention=by_head.sum(1) + biases,
        written=by_head[:, :, -1],
        biases=biases[:, -1],
        final=read[-1],
        guesses=guesses,
        lens=_lens(model, streams[:, -1]),
        shares=shares,
        author=author,
        carrier=divmod(int(guesses.losses.argmax()), model.n_heads),
        projections=_projections(model, streams[author[0]], author),
        **activations,
    )


_EMBEDDINGS = ("embedding", "position")


def _guesses(model: AttentionModel, encoded: object, plain: Float[Tensor, " d_vocab"]) -> Guesses:
    """Predict with all heads, and in one batch with each head off, as `mv.predict` does."""
    layers, heads = model.n_layers, model.n_heads
    gates = 1 - torch.eye(layers * heads).unflatten(1, (layers, heads))
    probe = Probe(("pattern",), edits=HeadEdits(gates))
    off = logits(model.network, [encoded] * len(gates), probe, last=True)[:, -1]  # type: ignore[list-item]
    p, without = plain.softmax(-1), off.softmax(-1)
    likely = [p.topk(N_GUESSES).indices, *without.topk(N_GUESSES).indices]
    ids = tuple(dict.fromkeys(torch.cat(likely).tolist()))
    return Guesses(
        ids,
        tuple(label_of(model.tokenizer, number) for number in ids),
        p[list(ids)],
        without[:, list(ids)].unflatten(0, (layers, heads)),
        torch.stack(list(probe.tensors["pattern"]), 1).unflatten(0, (layers, heads)),
        plain[list(ids)],
        float(plain.double().logsumexp(-1)),
    )


def _lens(
    model: AttentionModel, streams: Float[Tensor, "place d_model"]
) -> tuple[tuple[tuple[str, float], ...], ...]:
    network = model.network
    probabilities = network.get_output_embeddings()(network.transformer.ln_f(streams)).softmax(-1)
    top = probabilities.topk(N_LENS)
    return tuple(
        tuple((label_of(model.tokenizer, i), p) for i, p in zip(*pair, strict=True))
        for pair in zip(top.indices.tolist(), top.values.tolist(), strict=True)
    )


def _projections(
    model: AttentionModel, stream: Float[Tensor, "token d_model"], head: Head
) -> Projections:
    weights = model.attention_weights(head[0])
    inputs = model.network.transformer.h[head[0]].ln_1(stream)
    W = torch.stack([matrix[head[1]] for matrix in (weights.W_Q, weights.W_K, weights.W_V)])
    b = torch.stack([matrix[head[1]] for matrix in (weights.b_Q, weights.b_K, weights.b_V)])  # type: ignore[index]
    return Projections(W.float().detach(), b.float().detach(), inputs)
