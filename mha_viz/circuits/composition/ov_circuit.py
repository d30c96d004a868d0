"""The OV circuit of a head: its effect from token to token by its weights alone."""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import pandas as pd
import torch
from jaxtyping import Float
from torch import Tensor

from mha_viz.circuits.composition.factored_matrix import (
    FactoredMatrix,
    folded,
    largest,
    product_blocks,
)
from mha_viz.circuits.composition.norm_placement import NormPlacement
from mha_viz.circuits.composition.token_circuits import ov_ends, vocabulary_ends
from mha_viz.core.arguments import check_index
from mha_viz.core.reprs import head_rows, table_html
from mha_viz.engine.model import AttentionModel
from mha_viz.errors import ArgumentError
from mha_viz.text.encoding import label_of

CELLS = 2**26  # pairs of tokens that are looked at: all of 8,192 x 8,192
TURNS = 16  # random rotations that the spread by chance is taken from
OWN_AMONG = 10  # a token is copied if it is among so many that its head raises most


@dataclass(frozen=True, eq=False)
class Copying:
    """Copying scores: how far each head raises the very token that it reads."""

    # in [-1, 1]: the sum of the eigenvalues of the head's OV circuit over the sum of their absolute
    # values (Elhage et al. 2021). 1: all positive, it copies.
    score: Float[Tensor, "layer head"]
    # the share of eigenvalues whose real part is positive.
    positive_share: Float[Tensor, "layer head"]
    # the score in standard deviations of what the same weights give when what the head writes is
    # turned at random; the mean is 0.
    zscore: Float[Tensor, "layer head"]
    eigenvalues: Tensor  # complex, the largest first

    def table(self) -> pd.DataFrame:
        """Make a row per head, highest first: layer, head, score, positive_share, zscore."""
        table = head_rows(score=self.score, positive_share=self.positive_share, zscore=self.zscore)
        return table.sort_values("score", ascending=False, kind="stable", ignore_index=True)

    def __repr__(self) -> str:
        layer, head = divmod(int(self.score.nan_to_num(-1).argmax()), self.score.shape[1])
        return f"Copying(most: L{layer} H{head}, score {self.score[layer, head]:.3g})"

    def _repr_html_(self) -> str:
        return table_html(repr(self), self.table().head(10), "All heads are in .table().")


@dataclass(frozen=True, eq=False)
class FavouredPairs:
    """The pairs of tokens (looked at, raised) that a head favours."""

    # a row for each of the strongest: source and destination with their ids; strength, in standard
    # deviations of all of this head's pairs; n_as_strong, how many pairs of the whole vocabulary
    # are at least as strong, with its standard error, 0 where exact.
    pairs: pd.DataFrame
    # the share of sources that are themselves among the 10 tokens that they raise most.
    copied: float
    copied_error: float  # its standard error, 0 where all sources were looked at
    copied_by_chance: float  # 10 / d_vocab
    # n_sources, d_vocab: how many tokens were looked at as sources, and how many there are.
    n_sources: int
    d_vocab: int

    @property
    def exact(self) -> bool:
        """True if all pairs were looked at."""
        return self.n_sources == self.d_vocab

    def __repr__(self) -> str:
        looked = "all" if self.exact else f"{self.n_sources:,} of {self.d_vocab:,}"
        return (
            f"FavouredPairs({looked} sources, {self.copied:.1%} ± {self.copied_error:.1%} of them "
            f"copied, {self.copied_by_chance:.1%} by chance)"
        )

    def _repr_html_(self) -> str:
        return table_html(repr(self), self.pairs)


def copying_scores(model: AttentionModel) -> Copying:
    """Compute how far each head raises the token that it looks at, from its OV circuit.

    A head that looks from anywhere at token s adds E_s W_V W_O U_t to the logit of token t, with
    the rows of embedding E and unembedding U. The mean of U over the vocabulary is taken off first:
    a vector added to every row of U changes no probability, and so it must change no score. Of
    this d_vocab x d_vocab matrix at most d_head eigenvalues are not zero: those of W_O U^T E W_V,
    d_head x d_head. Centring and gain of the layer's own norm and of the last one are folded in.
    Their scale, which differs from token to token, positions, biases and the layers between are
    left out.

    Args:
        model: a causal model that norms before its layers.

    Returns:
        Copying, on the CPU.

    Raises:
        AttentionUnavailableError: no head that predicts tokens, or one that is no matrix; norms in
            the stream; embeddings that do not enter it as they are.
        NotKeptError: as `composition`.

    Source: Elhage et al. 2021, "Summarizing OV/QK matrices", whose score is the sum of eigenvalues
    over the sum of absolute values; they do not centre U. The share of positive eigenvalues and the
    comparison with chance are ours: random rotations turn what the head writes and keep its
    singular values.

    >>> import mha_viz as mv
    >>> copying_scores(mv.load("tiny-gpt2")).score.shape
    torch.Size([4, 8])
    >>> copying_scores(mv.load("tiny-gpt2")).table().score.is_monotonic_decreasing
    True
    """
    placement, E, U = vocabulary_ends(model)
    with torch.inference_mode():
        through = U.T @ E  # (d_model, d_model), for all heads: smaller than either of its factors
        turns = _random_bases(model, E)
        by_layer = [
            _copying(model, placement, layer, through, turns) for layer in range(model.n_layers)
        ]
    eigenvalues, by_chance = (
        torch.stack(parts).cpu().clone() for parts in zip(*by_layer, strict=True)
    )
    score = _share(eigenvalues)
    by_chance = _share(by_chance)  # (layer, turn, head); its mean is 0: -rotation is a rotation
    order = eigenvalues.abs().argsort(dim=-1, descending=True)
    return Copying(
        score=score,
        positive_share=(eigenvalues.real > 0).to(score.dtype).mean(-1),
        zscore=score / by_chance.square().mean(1).sqrt(),
        eigenvalues=eigenvalues.gather(-1, order),
    )


def favoured_pairs(
    model: AttentionModel, layer: int, head: int, top: int = 20, seed: int = 0
) -> FavouredPairs:
    """Find the pairs (token looked at, token raised) that a head favours, by its weights alone.

    The strength of (source s, destination t) is E_s W_V W_O U_t as in `copying_scores`, U centred
    over the vocabulary, in units of its root mean square over all pairs of the vocabulary. All
    pairs are looked at up to 8,192 tokens. Sources are drawn at random from a larger vocabulary,
    each with all destinations.

    Args:
        model: as for `copying_scores`.
        layer: from 0.
        head: from 0.
        top: how many pairs.
        seed: of the sources that are drawn.

    Returns:
        FavouredPairs, a row for each pair, the strongest first.

    Raises:
        ArgumentError: no such layer or head, or no pairs asked for.
        AttentionUnavailableError, NotKeptError: as `copying_scores`.

    Source: as of `copying_scores`; the strengths and the share copied are ours.

    >>> import mha_viz as mv
    >>> favoured_pairs(mv.load("tiny-gpt2"), 1, 2, top=3).pairs.shape
    (3, 7)
    """
    check_index("layer", layer, model.n_layers)
    check_index("head", head, model.n_heads)
    if top < 1:
        raise ArgumentError(f"top must be 1 or more, got {top}.")
    with torch.inference_mode():
        circuit = ov_ends(model, layer, head)
        read, written = circuit.read(circuit.matrix)
        d_vocab = len(read)
        n = min(d_vocab, max(1, CELLS // d_vocab))
        drawn = torch.randperm(d_vocab, generator=torch.Generator().manual_seed(seed))[:n]
        sources = drawn.sort().values.to(read.device)
        strongest, positions, n_copied = _strongest(
            read[sources], written, sources, min(top, n * d_vocab)
        )
    source, destination = sources[positions // d_vocab].tolist(), (positions % d_vocab).tolist()
    copied = n_copied / n
    pairs = pd.DataFrame(
        {
            "source": [label_of(model.tokenizer, token) for token in source],
            "destination": [label_of(model.tokenizer, token) for token in destination],
            "strength": strongest.cpu().numpy(),
            "source_id": source,
            "destination_id": destination,
            "n_as_strong": [rank * d_vocab / n for rank in range(1, len(source) + 1)],
            "n_as_strong_error": _errors(source, n, d_vocab),
        }
    )
    unseen = (d_vocab - n) / max(1, d_vocab - 1)  # drawn without putting back
    return FavouredPairs(
        pairs,
        copied=copied,
        copied_error=(copied * (1 - copied) / n * unseen) ** 0.5,
        copied_by_chance=min(OWN_AMONG, d_vocab) / d_vocab,
        n_sources=n,
        d_vocab=d_vocab,
    )


def _copying(
    model: AttentionModel, placement: NormPlacement, layer: int, through: Tensor, turns: Tensor
) -> tuple[Tensor, Tensor]:
    """Compute a layer's eigenvalues (head, d_head), and those by chance (turn, head, d_head)."""
    _, OV = folded(model, placement, layer)
    read = through @ OV.A  # (head, d_model, d_head)
    triangle = torch.linalg.qr(OV.B.mT, mode="r").R
    turned = turns.mT @ read.transpose(0, 1).flatten(1)  # (turn, k, head * d_head)
    turned = triangle.mT @ turned.unflatten(-1, (len(read), -1)).transpose(1, 2)
    return FactoredMatrix(read, OV.B).eigenvalues, torch.linalg.eigvals(turned)


def _random_bases(model: AttentionModel, like: Tensor) -> Float[Tensor, "turn d_model k"]:
    """Draw orthonormal columns in random directions, as many as a head writes to."""
    width = min(model.d_model, model.attention_weights(0).W_O.shape[1])
    drawn = torch.randn(
        TURNS, model.d_model, width, generator=torch.Generator().manual_seed(0), dtype=like.dtype
    )
    return torch.linalg.qr(drawn.to(like.device)).Q


def _share(eigenvalues: Tensor) -> Tensor:
    """Divide the sum of eigenvalues, real as they are conjugate pairs, by that of their sizes."""
    return eigenvalues.real.sum(-1) / eigenvalues.abs().sum(-1)


def _errors(sources: Sequence[int], n: int, d_vocab: int) -> list[float]:
    """Estimate the standard error of how many pairs of all sources are as strong as each found.

    Sources are drawn, not pairs: those of one source come together, so that what varies is how
    many of them each of the n sources has.
    """
    each: Counter[int] = Counter()
    errors, squares = [], 0
    for rank, source in enumerate(sources, 1):
        squares += 2 * each[source] + 1  # (c + 1)^2 - c^2
        each[source] += 1
        variance = (squares - rank**2 / n) / max(1, n - 1)
        errors.append(d_vocab * max(0.0, variance * (1 - n / d_vocab) / n) ** 0.5)
    return errors


def _strongest(
    read: Tensor, written: Tensor, sources: Tensor, top: int
) -> tuple[Tensor, Tensor, int]:
    """Find the strongest pairs, their places in (source, d_vocab), and the copied sources."""
    n_copied = 0

    def counted() -> Iterator[Tensor]:
        nonlocal n_copied
        first = 0
        for block in product_blocks(read, written):
            itself = block.gather(1, sources[first : first + len(block), None])
            n_copied += int(((block > itself).sum(1) < OWN_AMONG).sum())
            first += len(block)
            yield block

    values, positions = largest(counted(), top)
    return values, positions, n_copied
