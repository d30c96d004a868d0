"""The QK and OV circuits of a head over the vocabulary: pairs of tokens and singular directions."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any, NamedTuple

import pandas as pd
import torch
from jaxtyping import Float
from torch import Tensor

from mha_viz.circuits.decompose.readout import check_index
from mha_viz.circuits.weights.composition import folded
from mha_viz.circuits.weights.factored_matrix import (
    FactoredMatrix,
    largest,
    n_blocks,
    product_blocks,
)
from mha_viz.circuits.weights.fold import Fold
from mha_viz.circuits.weights.norm_placement import NormPlacement, norm_placement
from mha_viz.circuits.weights.ov_circuit import vocabulary_ends
from mha_viz.core.reprs import table_html
from mha_viz.engine.model import AttentionModel
from mha_viz.errors import ArgumentError, AttentionUnavailableError, NotKeptError
from mha_viz.interventions.importance import t_interval
from mha_viz.prediction.loss import OnProgress, Progress
from mha_viz.text.vocabulary import id_of, label_of

MAX_WORDS = 64
N_RANDOM = 8  # matrices that chance is taken from
N_DIRECTIONS = 8
N_TOKENS = 8  # at each end of a direction
ENDS = {"QK": ("query", "key"), "OV": ("source", "destination")}  # what the tokens of a pair are
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


@dataclass(frozen=True, eq=False)
class VocabularyCircuit:
    """One circuit of a head from token to token, by its weights alone.

    Strengths are in units of the root mean square over all pairs of the vocabulary. Chance is the
    mean over random matrices, and the range in which another one would lie with 95 %.

    Args:
        name: "QK": how much a query token's score of a key token is raised by the tokens. "OV": how
            much the logit of a token is raised where the head looks at one.
        pairs: a row for each of the strongest: query and key (QK) or source and destination (OV),
            with their ids; strength; chance, chance_low, chance_high of the pair of the same rank.
        directions: a row for each of the largest singular values: singular_value; its chance; the
            tokens that lie furthest in the direction at both ends, and those furthest against it.
    """

    name: str
    pairs: pd.DataFrame
    directions: pd.DataFrame


@dataclass(frozen=True, eq=False)
class HeadVocabulary:
    """The circuits of one head, read as tokens.

    Args:
        layer, head: which head.
        circuits: "QK" and "OV", those that the family has.
        notes: what is left out, and why a circuit is missing.
    """

    layer: int
    head: int
    circuits: dict[str, VocabularyCircuit]
    notes: tuple[str, ...]

    def __repr__(self) -> str:
        first = [
            f"{name} {' -> '.join(one.pairs.iloc[0, :2])} "
            f"({one.pairs.strength[0]:.3g}, by chance {one.pairs.chance[0]:.3g})"
            for name, one in self.circuits.items()
        ]
        return f"HeadVocabulary(L{self.layer} H{self.head}, strongest: {'; '.join(first)})"

    def _repr_html_(self) -> str:
        return table_html(repr(self), self.table().head(10), " ".join(self.notes))

    def table(self) -> pd.DataFrame:
        """Make a row for each of the strongest pairs: circuit, first, second, strength, chance."""
        each = [
            one.pairs.set_axis(["first", "second", *one.pairs.columns[2:]], axis=1)
            .drop(columns=[f"{end}_id" for end in ENDS[name]])
            .assign(circuit=name)
            for name, one in self.circuits.items()
        ]
        found = pd.concat(each, ignore_index=True)
        return found[["circuit", *found.columns.drop("circuit")]]


class _Ends(NamedTuple):
    """A circuit before its matrix is known: tokens at both ends, and random matrices like it."""

    left: Float[Tensor, "d_vocab d_model"]
    right: Float[Tensor, "d_vocab d_model"]
    matrix: FactoredMatrix  # of this head alone, and so (1, ...)
    draw: Callable[[torch.Generator], FactoredMatrix]

    def read(self, matrix: FactoredMatrix) -> tuple[Tensor, Tensor]:
        """Return both factors of all pairs' strengths: (d_vocab, d_head) each."""
        left, right = self.left @ matrix.A[0], self.right @ matrix.B[0].mT
        mean_square = ((left.mT @ left) * (right.mT @ right)).sum() / len(left) / len(right)
        return left / mean_square.sqrt(), right


def head_vocabulary(
    model: AttentionModel,
    layer: int,
    head: int,
    *,
    top_k: int = 20,
    n_random: int = N_RANDOM,
    seed: int = 0,
    on_progress: OnProgress | None = None,
) -> HeadVocabulary:
    """Read a head's QK and OV circuits as tokens, by its weights alone.

        QK(query s, key t) = E_s W_Q W_K^T (E_t - mean E)^T      how s attends to t
        OV(source s, destination t) = E_s W_V W_O (U_t - mean U)^T      what looking at s raises

    with the rows of embedding E and unembedding U. Both means over the vocabulary are taken off:
    what all keys' scores or all logits get alike changes no probability. Centring and gain of norms
    are folded in, as in `favoured_pairs`, whose strengths OV has. All pairs are looked at, in
    blocks: it takes d_vocab^2 d_head multiplications, and memory for one block.

    The singular directions are those of W_Q W_K^T and W_V W_O with the norms folded in. Tokens are
    read off by E and U at their two ends; signs are turned so that the token furthest from 0 at the
    first end lies in the direction.

    Chance draws W_Q, W_K, W_V and W_O at random (normal), folds norms as for the head's, and scales
    them to its Frobenius norm. All else, embeddings included, is the model's.

    Args:
        model: any whose embeddings reach the head through norms alone; OV as for `copying_scores`.
        layer: from 0.
        head: from 0.
        top_k: how many pairs.
        n_random: how many random matrices, 2 or more.
        seed: of these.
        on_progress: called with how many blocks of pairs are done, and of how many; may raise.

    Raises:
        ArgumentError: no such layer, head or number.
        AttentionUnavailableError: neither circuit leads from token to token.
        NotKeptError: as `composition`.

    Source: Elhage et al. 2021 ("The QK and OV circuits"; they centre neither end); singular
    directions read as tokens: Millidge and Black 2022. Chance is ours.

    >>> import mha_viz as mv
    >>> found = head_vocabulary(mv.load("tiny-gpt2"), 1, 2, top_k=3, n_random=2)
    >>> list(found.circuits), len(found.circuits["QK"].pairs)
    (['QK', 'OV'], 3)
    """
    check_index("top_k", top_k, model.d_vocab**2, first=1)
    check_index("n_random", n_random, 10_000, first=2)
    with torch.inference_mode():
        circuits, notes = _circuits(model, layer, head)
        blocks = sum(n_blocks(one.left, one.right) for one in circuits.values())
        progress = Progress(on_progress, (1 + n_random) * blocks)
        found = {}
        for name, circuit in circuits.items():
            rng = torch.Generator().manual_seed(seed)
            drawn = [circuit.draw(rng) for _ in range(n_random)]
            found[name] = VocabularyCircuit(
                name,
                _pairs(model, name, circuit, drawn, top_k, progress),
                _directions(model, name, circuit, drawn),
            )
    return HeadVocabulary(layer, head, found, (*notes, _LEFT_OUT))


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

    Raises:
        ArgumentError: no such layer or head, or a word that is not one token.
        AttentionUnavailableError, NotKeptError: as `head_vocabulary`.

    >>> import mha_viz as mv
    >>> list(token_matrices(mv.load("tiny-gpt2"), 1, 2, ["cat", "dog"])["OV"])
    ['cat', 'dog']
    """
    if isinstance(words, str) or len(words) > MAX_WORDS:
        given = repr(words) if isinstance(words, str) else f"{len(words):,}"
        raise ArgumentError(f"words must be a list of at most {MAX_WORDS} tokens, got {given}.")
    ids = list(dict.fromkeys(id_of(model.tokenizer, word) for word in words))
    labels = [label_of(model.tokenizer, number) for number in ids]
    found = {}
    with torch.inference_mode():
        for name, circuit in _circuits(model, layer, head)[0].items():
            for number in ids:
                check_index("the number of a token", number, len(circuit.left))
            left, right = circuit.read(circuit.matrix)
            matrix = (left[ids] @ right[ids].mT).cpu().numpy()
            found[name] = pd.DataFrame(matrix, index=pd.Index(labels), columns=pd.Index(labels))
    return found


def _circuits(model: AttentionModel, layer: int, head: int) -> tuple[dict[str, _Ends], list[str]]:
    """Return the circuits that the family has, and notes on them and on the one it lacks."""
    check_index("layer", layer, model.n_layers)
    check_index("head", head, model.n_heads)
    placement = norm_placement(model, torch.promote_types(model.dtype, torch.float32))
    circuits, notes = {}, []
    for name, ends in (("QK", _qk_ends), ("OV", _ov_ends)):
        try:
            circuits[name] = ends(model, placement, layer, head)
        except (AttentionUnavailableError, NotKeptError) as refusal:
            notes.append(f"There is no {name} circuit from token to token. {refusal}")
    if not circuits:
        raise AttentionUnavailableError(" ".join(notes))
    if "QK" in circuits:
        notes += [_ROTARY] * placement.rotary + [_ENTERING] * bool(placement.entering)
        notes += [_IN_THE_STREAM] * any(placement.passing[:layer])
    return circuits, notes


def _qk_ends(model: AttentionModel, placement: NormPlacement, layer: int, head: int) -> _Ends:
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
    seen = E.detach()[: len(model.tokenizer)].to(QK.A)
    entering = (Fold.of(norm, seen.dtype) for norm in placement.entering)
    for fold in (*entering, *chain(*placement.passing[:layer])):
        seen = fold.carry(seen)
    reading = placement.reading[layer]

    def draw(rng: torch.Generator) -> FactoredMatrix:
        W_Q, W_K = (_normal(matrix.A, rng) for _ in range(2))
        if reading is not None:
            W_Q, W_K = reading.pull_back(W_Q), reading.pull_back(W_K)
        return FactoredMatrix(W_Q, W_K.mT).scaled_to(matrix.norm)

    matrix = QK.only(head)
    return _Ends(seen, seen - seen.mean(0), matrix, draw)


def _ov_ends(model: AttentionModel, placement: NormPlacement, layer: int, head: int) -> _Ends:
    _, E, U = vocabulary_ends(model)
    reading, writing = placement.reading[layer], placement.writing[layer]

    def draw(rng: torch.Generator) -> FactoredMatrix:
        W_V, W_O = _normal(matrix.A, rng), _normal(matrix.B, rng)
        W_V = W_V if reading is None else reading.pull_back(W_V)
        return FactoredMatrix(W_V, W_O if writing is None else writing.carry(W_O)).scaled_to(
            matrix.norm
        )

    matrix = folded(model, placement, layer)[1].only(head)
    return _Ends(E, U, matrix, draw)


def _normal(like: Tensor, rng: torch.Generator) -> Tensor:
    return torch.randn(like.shape, generator=rng, dtype=like.dtype).to(like.device)


def _pairs(
    model: AttentionModel,
    name: str,
    circuit: _Ends,
    drawn: Sequence[FactoredMatrix],
    top_k: int,
    progress: Progress,
) -> pd.DataFrame:
    """Find the strongest pairs of tokens, and how strong those of random matrices are."""

    def strongest(matrix: FactoredMatrix) -> tuple[Tensor, Tensor]:
        return largest(_reported(product_blocks(*circuit.read(matrix)), progress), top_k)

    values, places = strongest(circuit.matrix)
    ids = [(places // len(circuit.right)).tolist(), (places % len(circuit.right)).tolist()]
    by_chance = torch.stack([strongest(matrix)[0] for matrix in drawn])
    columns: dict[str, Any] = {
        end: [label_of(model.tokenizer, number) for number in of_end]
        for end, of_end in zip(ENDS[name], ids, strict=True)
    }
    columns["strength"] = values.cpu().numpy()
    columns |= _chance(by_chance)
    columns |= {f"{end}_id": one for end, one in zip(ENDS[name], ids, strict=True)}
    return pd.DataFrame(columns)


def _directions(
    model: AttentionModel, name: str, circuit: _Ends, drawn: Sequence[FactoredMatrix]
) -> pd.DataFrame:
    """Read the singular directions at both ends as tokens."""
    first, values, second = circuit.matrix.svd
    n = min(N_DIRECTIONS, values.shape[-1])
    by_chance = torch.stack([matrix.svd[1][0, :n] for matrix in drawn])
    columns: dict[str, Any] = {"singular_value": values[0, :n].cpu().numpy(), **_chance(by_chance)}
    ends = circuit.left @ first[0, :, :n], circuit.right @ second[0, :, :n]
    sign = ends[0].gather(0, ends[0].abs().argmax(0, keepdim=True)).sign()
    for end, read in zip(ENDS[name], ends, strict=True):
        for column, towards in ((end, sign), (f"{end}_opposite", -sign)):
            ids = (read * towards).topk(min(N_TOKENS, len(read)), dim=0).indices.T.tolist()
            columns[column] = [" ".join(label_of(model.tokenizer, i) for i in row) for row in ids]
    found = pd.DataFrame(columns)
    return found[[*ENDS[name], *found.columns.drop(list(ENDS[name]))]]


def _chance(draws: Float[Tensor, "draw rank"]) -> dict[str, Any]:
    """Return the mean over draws, and where another draw would lie with 95 %."""
    mean, _, high = t_interval(draws.cpu())
    reach = (high - mean) * (len(draws) + 1) ** 0.5
    ends = {"chance": mean, "chance_low": mean - reach, "chance_high": mean + reach}
    return {name: one.numpy() for name, one in ends.items()}


def _reported(blocks: Iterator[Tensor], progress: Progress) -> Iterator[Tensor]:
    for block in blocks:
        yield block
        progress.add(1)
