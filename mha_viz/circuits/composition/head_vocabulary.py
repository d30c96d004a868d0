"""The QK and OV circuits of a head over the vocabulary: pairs of tokens and singular directions."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, TypedDict, Unpack

import pandas as pd
import torch
from jaxtyping import Float
from torch import Tensor

from mha_viz.circuits.composition.factored_matrix import (
    FactoredMatrix,
    largest,
    n_blocks,
    product_blocks,
)
from mha_viz.circuits.composition.token_circuits import TokenCircuit, token_circuits
from mha_viz.core.arguments import check_index
from mha_viz.core.reprs import table_html
from mha_viz.engine.model import AttentionModel
from mha_viz.interventions.importance import t_interval
from mha_viz.prediction.replay import OnProgress, Progress
from mha_viz.text.encoding import label_of

N_RANDOM = 8  # matrices that chance is taken from
N_DIRECTIONS = 8
N_TOKENS = 8  # at each end of a direction
ENDS = {"QK": ("query", "key"), "OV": ("source", "destination")}  # what the tokens of a pair are


class Chance(TypedDict, total=False):
    """The random matrices that a head is compared with."""

    n_random: int
    seed: int


@dataclass(frozen=True, eq=False)
class VocabularyCircuit:
    """One circuit of a head from token to token, by its weights alone.

    Strengths are in units of the root mean square over all pairs of the vocabulary. Chance is the
    mean over random matrices, and the range in which another one would lie with 95 %.
    """

    # "QK": how much a query token's score of a key token is raised by the tokens. "OV": how much
    # the logit of a token is raised where the head looks at one.
    name: str
    # a row for each of the strongest: query and key (QK) or source and destination (OV), with their
    # ids; strength; chance, chance_low, chance_high of the pair of the same rank.
    pairs: pd.DataFrame
    # a row for each of the largest singular values: singular_value; its chance; the tokens that lie
    # furthest in the direction at both ends, and those furthest against it.
    directions: pd.DataFrame


@dataclass(frozen=True, eq=False)
class HeadVocabulary:
    """The circuits of one head, read as tokens."""

    layer: int  # layer, head: which head
    head: int
    circuits: dict[str, VocabularyCircuit]  # "QK" and "OV", those that the family has
    notes: tuple[str, ...]  # what is left out, and why a circuit is missing

    def __repr__(self) -> str:
        first = [
            f"{name} {' -> '.join(circuit.pairs.iloc[0, :2])} "
            f"({circuit.pairs.strength[0]:.3g}, by chance {circuit.pairs.chance[0]:.3g})"
            for name, circuit in self.circuits.items()
        ]
        return f"HeadVocabulary(L{self.layer} H{self.head}, strongest: {'; '.join(first)})"

    def _repr_html_(self) -> str:
        pairs = next(iter(self.circuits.values())).pairs
        return table_html(repr(self), pairs.head(10), " ".join(self.notes))


def head_vocabulary(
    model: AttentionModel,
    layer: int,
    head: int,
    *,
    top_k: int = 20,
    tokens: Sequence[int] | None = None,
    on_progress: OnProgress | None = None,
    **chance: Unpack[Chance],
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
        n_random: how many random matrices chance is taken from, 2 or more, 8 if not given.
        seed: of these, 0 if not given.
        tokens: numbers of the tokens that are read, two or more, which a large vocabulary takes
            less time with; None reads all. Means stay those of the vocabulary; pairs, their unit
            and the ends of directions are of these.
        on_progress: called with how many blocks of pairs are done, and of how many; may raise.

    Returns:
        HeadVocabulary: of each circuit that the family has the strongest pairs, in units of the
        root mean square over all pairs, the singular directions, and chance.

    Raises:
        ArgumentError: no such layer, head or number.
        AttentionUnavailableError: neither circuit leads from token to token.
        NotKeptError: as `composition`.

    Source: Elhage et al. 2021 ("The QK and OV circuits"; they centre neither end); singular
    directions read as tokens: Millidge and Black 2022. Chance is ours.

    >>> import mha_viz as mv
    >>> vocabulary = head_vocabulary(mv.load("tiny-gpt2"), 1, 2, top_k=3, n_random=2)
    >>> list(vocabulary.circuits), len(vocabulary.circuits["QK"].pairs)
    (['QK', 'OV'], 3)
    """
    check_index("top_k", top_k, model.d_vocab**2, first=1)
    n_random, seed = chance.get("n_random", N_RANDOM), chance.get("seed", 0)
    check_index("n_random", n_random, 10_000, first=2)
    with torch.inference_mode():
        circuits, notes = token_circuits(model, layer, head)
        if tokens is not None:
            circuits = {name: circuit.among(tokens) for name, circuit in circuits.items()}
        blocks = sum(n_blocks(ends.rows, ends.columns) for ends in circuits.values())
        progress = Progress(on_progress, (1 + n_random) * blocks)
        read = {}
        for name, circuit in circuits.items():
            rng = torch.Generator().manual_seed(seed)
            drawn = [circuit.draw(rng) for _ in range(n_random)]
            read[name] = VocabularyCircuit(
                name,
                _pairs(model, name, circuit, drawn, top_k, progress),
                _directions(model, name, circuit, drawn),
            )
    return HeadVocabulary(layer, head, read, notes)


def _pairs(
    model: AttentionModel,
    name: str,
    circuit: TokenCircuit,
    drawn: Sequence[FactoredMatrix],
    top_k: int,
    progress: Progress,
) -> pd.DataFrame:
    """Find the strongest pairs of tokens, and how strong those of random matrices are."""

    def strongest(matrix: FactoredMatrix) -> tuple[Tensor, Tensor]:
        return largest(_reported(product_blocks(*circuit.read(matrix)), progress), top_k)

    values, positions = strongest(circuit.matrix)
    rows = (positions // len(circuit.columns)).tolist(), (positions % len(circuit.columns)).tolist()
    ids = [[circuit.tokens[row] for row in of_end] for of_end in rows]
    by_chance = torch.stack([strongest(matrix)[0] for matrix in drawn])
    columns: dict[str, Any] = {
        end: [label_of(model.tokenizer, number) for number in of_end]
        for end, of_end in zip(ENDS[name], ids, strict=True)
    }
    columns["strength"] = values.cpu().numpy()
    columns |= _chance(by_chance)
    columns |= {f"{end}_id": numbers for end, numbers in zip(ENDS[name], ids, strict=True)}
    return pd.DataFrame(columns)


def _directions(
    model: AttentionModel, name: str, circuit: TokenCircuit, drawn: Sequence[FactoredMatrix]
) -> pd.DataFrame:
    """Read the singular directions at both ends as tokens."""
    first, values, second = circuit.matrix.svd
    n = min(N_DIRECTIONS, values.shape[-1])
    by_chance = torch.stack([matrix.svd[1][0, :n] for matrix in drawn])
    columns: dict[str, Any] = {"singular_value": values[0, :n].cpu().numpy(), **_chance(by_chance)}
    ends = circuit.rows @ first[0, :, :n], circuit.columns @ second[0, :, :n]
    sign = ends[0].gather(0, ends[0].abs().argmax(0, keepdim=True)).sign()
    for end, read in zip(ENDS[name], ends, strict=True):
        for column, towards in ((end, sign), (f"{end}_opposite", -sign)):
            furthest = (read * towards).topk(min(N_TOKENS, len(read)), dim=0).indices.T.tolist()
            columns[column] = [
                " ".join(label_of(model.tokenizer, circuit.tokens[row]) for row in rows)
                for rows in furthest
            ]
    table = pd.DataFrame(columns)
    return table[[*ENDS[name], *table.columns.drop(list(ENDS[name]))]]


def _chance(draws: Float[Tensor, "draw rank"]) -> dict[str, Any]:
    """Return the mean over draws, and where another draw would lie with 95 %."""
    mean, _, high = t_interval(draws.cpu())
    reach = (high - mean) * (len(draws) + 1) ** 0.5
    ends = {"chance": mean, "chance_low": mean - reach, "chance_high": mean + reach}
    return {name: values.numpy() for name, values in ends.items()}


def _reported(blocks: Iterator[Tensor], progress: Progress) -> Iterator[Tensor]:
    for block in blocks:
        yield block
        progress.add(1)
