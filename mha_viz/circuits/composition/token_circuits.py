"""The QK and OV circuits of a head between tokens, by its weights, and random ones like them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import chain
from typing import NamedTuple

import pandas as pd
import torch
from jaxtyping import Float
from torch import Tensor

from mha_viz.circuits.composition.factored_matrix import FactoredMatrix, folded
from mha_viz.circuits.composition.norm_placement import NormPlacement, norm_placement
from mha_viz.core.arguments import check_index
from mha_viz.engine.model import AttentionModel
from mha_viz.errors import ArgumentError, AttentionUnavailableError, NotKeptError
from mha_viz.prediction.logits import check_predicts
from mha_viz.text.encoding import id_of, label_of

MAX_WORDS = 64
_LEFT_OUT = (
    "Positions, biases, the layers between and the scale of norms, which differs from token to "
    "token, are no part of it."
)
_ROTARY = (
    "Rotary positions turn queries and keys between W_Q and W_K: QK is that of a query and a key "
    "at the same position (relative distance 0)."
)
_ENTERING = (
    "A norm stands between the embeddings and the first layer: QK has its centring and gain. The "
    "positions and token types that it sees with the tokens are left out."
)
_IN_THE_STREAM = (
    "Norms stand in the stream: QK has the centring and gain of all that stand before the layer."
)


class TokenCircuit(NamedTuple):
    """A circuit of one head between the tokens at its ends, and random matrices like its own."""

    rows: Float[Tensor, "token d_model"]
    columns: Float[Tensor, "token d_model"]
    tokens: Sequence[int]  # their numbers
    matrix: FactoredMatrix  # of this head alone, and so (1, ...)
    draw: Callable[[torch.Generator], FactoredMatrix]

    def among(self, tokens: Sequence[int]) -> TokenCircuit:
        """Return the circuit between some tokens; the means that are taken off stay."""
        ids = list(dict.fromkeys(tokens))
        for number in ids:
            check_index("the number of a token", number, len(self.rows))
        return self._replace(rows=self.rows[ids], columns=self.columns[ids], tokens=ids)

    def read(self, matrix: FactoredMatrix) -> tuple[Tensor, Tensor]:
        """Return both factors of all pairs' strengths: (token, d_head) each."""
        first, second = self.rows @ matrix.A[0], self.columns @ matrix.B[0].mT
        mean_square = ((first.mT @ first) * (second.mT @ second)).sum() / len(first) / len(second)
        return first / mean_square.sqrt(), second


def token_matrices(
    model: AttentionModel, layer: int, head: int, words: Sequence[str | int]
) -> dict[str, pd.DataFrame]:
    """Compute a head's QK and OV circuits between some tokens, as tables of word by word.

    Rows are queries or tokens looked at, columns keys or tokens raised; strengths are those of
    `head_vocabulary`, in units of the root mean square over all pairs of the vocabulary.

    Args:
        model: as for `head_vocabulary`.
        layer: from 0.
        head: from 0.
        words: at most 64, each one token or its number; doubles count once.

    Returns:
        "QK" and "OV", those that the family has, each a table (word, word).

    Raises:
        ArgumentError: no such layer or head, or a word that is not one token.
        AttentionUnavailableError, NotKeptError: as `head_vocabulary`.

    Source: as of `head_vocabulary`.

    >>> import mha_viz as mv
    >>> list(token_matrices(mv.load("tiny-gpt2"), 1, 2, ["cat", "dog"])["OV"])
    ['cat', 'dog']
    """
    if isinstance(words, str) or len(words) > MAX_WORDS:
        shown = repr(words) if isinstance(words, str) else f"{len(words):,}"
        raise ArgumentError(f"words must be a list of at most {MAX_WORDS} tokens, got {shown}.")
    ids = list(dict.fromkeys(id_of(model.tokenizer, word) for word in words))
    labels = [label_of(model.tokenizer, number) for number in ids]
    tables = {}
    with torch.inference_mode():
        for name, circuit in token_circuits(model, layer, head)[0].items():
            for number in ids:
                check_index("the number of a token", number, len(circuit.rows))
            rows, columns = circuit.read(circuit.matrix)
            matrix = (rows[ids] @ columns[ids].mT).cpu().numpy()
            tables[name] = pd.DataFrame(matrix, index=pd.Index(labels), columns=pd.Index(labels))
    return tables


def token_circuits(
    model: AttentionModel, layer: int, head: int
) -> tuple[dict[str, TokenCircuit], tuple[str, ...]]:
    """Return the circuits that the family has, and notes on them and on the one it lacks."""
    check_index("layer", layer, model.n_layers)
    check_index("head", head, model.n_heads)
    placement = norm_placement(model, torch.promote_types(model.dtype, torch.float32))
    circuits, notes = {}, []
    for name, ends in (("QK", _qk_ends), ("OV", ov_ends)):
        try:
            circuits[name] = ends(model, layer, head)
        except (AttentionUnavailableError, NotKeptError) as refusal:
            notes.append(f"There is no {name} circuit from token to token. {refusal}")
    if not circuits:
        raise AttentionUnavailableError(" ".join(notes))
    if "QK" in circuits:
        notes += [_ROTARY] * placement.rotary + [_ENTERING] * bool(placement.entering)
        notes += [_IN_THE_STREAM] * any(placement.passing[:layer])
    return circuits, (*notes, _LEFT_OUT)


def _qk_ends(model: AttentionModel, layer: int, head: int) -> TokenCircuit:
    placement = norm_placement(model, torch.promote_types(model.dtype, torch.float32))
    if placement.normed_heads:
        raise NotKeptError(
            f"{model.name} ({model.family}) norms its queries and keys once more, so that "
            "W_Q W_K^T is not what makes its scores."
        )
    E = model.network.get_input_embeddings().weight
    if placement.entering is None or E.shape[1] != model.d_model:
        raise AttentionUnavailableError(
            f"Between the embeddings of {model.name} ({model.family}) and its stream stands more "
            "than a norm: choose a BERT, GPT-2, Llama or a close relative."
        )
    QK, _ = folded(model, placement, layer)
    embedded = E.detach()[: len(model.tokenizer)].to(QK.A)
    for norm in (*placement.entering, *chain(*placement.passing[:layer])):
        embedded = norm.carry(embedded)
    reading = placement.reading[layer]

    def draw(rng: torch.Generator) -> FactoredMatrix:
        W_Q, W_K = (_normal(matrix.A, rng) for _ in range(2))
        if reading is not None:
            W_Q, W_K = reading.pull_back(W_Q.mT).mT, reading.pull_back(W_K.mT).mT
        return FactoredMatrix(W_Q, W_K.mT).scaled_to(matrix.norm)

    matrix = QK.only(head)
    return TokenCircuit(embedded, embedded - embedded.mean(0), range(len(embedded)), matrix, draw)


def ov_ends(model: AttentionModel, layer: int, head: int) -> TokenCircuit:
    """Return a head's OV circuit; AttentionUnavailableError where the family has none."""
    placement, E, U = vocabulary_ends(model)
    reading, writing = placement.reading[layer], placement.writing[layer]

    def draw(rng: torch.Generator) -> FactoredMatrix:
        W_V, W_O = _normal(matrix.A, rng), _normal(matrix.B, rng)
        W_V = W_V if reading is None else reading.pull_back(W_V.mT).mT
        return FactoredMatrix(W_V, W_O if writing is None else writing.carry(W_O)).scaled_to(
            matrix.norm
        )

    matrix = folded(model, placement, layer)[1].only(head)
    return TokenCircuit(E, U, range(len(E)), matrix, draw)


def vocabulary_ends(model: AttentionModel) -> tuple[NormPlacement, Tensor, Tensor]:
    """Return the placement, the embedding and the centred unembedding, (d_vocab, d_model) each.

    Rows that no token has are left out. The mean over the vocabulary is taken off the unembedding:
    one vector added to all its rows raises all logits alike, and changes no probability.
    """
    dtype = torch.promote_types(model.dtype, torch.float32)
    if check_predicts(model.network) == "masked":
        raise AttentionUnavailableError(
            f"{model.name} ({model.family}) predicts tokens through a transform that is not "
            "linear, so that its heads have no weights from token to token: choose a causal model."
        )
    placement = norm_placement(model, dtype)
    E, U = model.network.get_input_embeddings(), model.network.get_output_embeddings()
    bare = (
        placement.final
        and placement.entering == ()
        and U is not None
        and not any(placement.passing)
    )
    if not bare or not E.weight.shape == U.weight.shape == (len(E.weight), model.d_model):
        raise AttentionUnavailableError(
            f"{model.name} ({model.family}) has more than a last norm between its stream and its "
            "tokens, so that its heads have no weights from token to token: choose a GPT-2, a "
            "Llama or a close relative."
        )
    n = min(len(E.weight), len(model.tokenizer))
    embedding, unembedding = (end.weight.detach()[:n].to(dtype) for end in (E, U))
    (final,) = placement.final
    if final is not None:
        unembedding = final.pull_back(unembedding)
    return placement, embedding, unembedding - unembedding.mean(0)


def _normal(like: Tensor, rng: torch.Generator) -> Tensor:
    return torch.randn(like.shape, generator=rng, dtype=like.dtype).to(like.device)
