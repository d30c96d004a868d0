"""Composition: how much later heads read of what earlier heads wrote, by the weights alone."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, get_args

import pandas as pd
import torch
from jaxtyping import Float
from torch import Tensor

from mha_viz.circuits.composition.factored_matrix import FactoredMatrix, folded
from mha_viz.circuits.composition.norm_placement import NormPlacement, norm_placement
from mha_viz.circuits.composition.pair_products import StreamFrame, squared_products
from mha_viz.core.amounts import of_bytes
from mha_viz.core.reprs import table_html
from mha_viz.engine.model import AttentionModel
from mha_viz.errors import ArgumentError, NotKeptError

Kind = Literal["Q", "K", "V"]
KINDS: tuple[Kind, ...] = get_args(Kind)
MAX_BYTES = 8 * 10**9  # of what all heads read and write
_MOST = 10  # pairs that a notebook shows

_ROTARY = (
    "Queries and keys are turned by their positions between W_Q and W_K: this is composition for "
    "a query and a key at the same position (relative distance 0)."
)
_IN_THE_STREAM = (
    "Norms stand in the stream: the centring and gain of all norms between two layers are folded "
    "into what the later head reads; the scale that each token has there is not in the weights."
)


@dataclass(frozen=True, eq=False)
class Composition:
    """Composition scores of every head with each earlier one, heads in order of layer."""

    kind: Kind  # through the later head's "Q", "K" or "V"
    n_layers: int  # n_layers, n_heads: head h of layer l is number l * n_heads + h
    n_heads: int
    # in [0, 1]; NaN where the first is not in an earlier layer, or where a head's weights are zero.
    score: Float[Tensor, "sender receiver"]
    # how many standard deviations score^2 lies above its mean for random matrices of the same shape
    # and spectra.
    zscore: Float[Tensor, "sender receiver"]
    expected: float  # the root of that mean: what heads that know nothing of each other score
    notes: tuple[str, ...] = ()  # what was computed of this family

    def table(self) -> pd.DataFrame:
        """Make a row for each pair, the highest z-score first.

        Columns: sender_layer, sender_head, receiver_layer, receiver_head, score, expected, zscore.
        """
        layer = torch.arange(len(self.score)) // self.n_heads
        sender, receiver = (layer[:, None] < layer).nonzero().T
        columns: dict[str, Any] = {}
        for name, end in (("sender", sender), ("receiver", receiver)):
            columns[f"{name}_layer"] = (end // self.n_heads).numpy()
            columns[f"{name}_head"] = (end % self.n_heads).numpy()
        columns |= {"score": self.score[sender, receiver].numpy(), "expected": self.expected}
        table = pd.DataFrame(columns).assign(zscore=self.zscore[sender, receiver].numpy())
        return table.sort_values("zscore", ascending=False, kind="stable", ignore_index=True)

    def __repr__(self) -> str:
        line = f"Composition({self.kind}, {self.n_layers} layers × {self.n_heads} heads"
        table = self.table().dropna()
        if table.empty:
            return f"{line}, no pair)"
        most = table.iloc[0]
        return (
            f"{line}, most above chance: L{most.sender_layer:.0f} H{most.sender_head:.0f} -> "
            f"L{most.receiver_layer:.0f} H{most.receiver_head:.0f}, {most.score:.3g} where chance "
            f"is {self.expected:.3g}, z = {most.zscore:.3g})"
        )

    def _repr_html_(self) -> str:
        """Show the ten pairs that lie furthest above chance; `table` has them all."""
        note = " ".join(("All pairs are in .table().", *self.notes))
        return table_html(repr(self), self.table().head(_MOST), note)


def composition(model: AttentionModel, kind: Kind | str = "K") -> Composition:
    """Compute how much of what earlier heads write each later head reads, by their weights.

    With W_QK = W_Q W_K^T and W_OV = W_V W_O (tokens are rows), of an earlier head 1 and a later 2:

        Q: ||W_OV1 W_QK2||_F / (||W_OV1||_F ||W_QK2||_F)     its queries
        K: ||W_OV1 W_QK2^T||_F / (||W_OV1||_F ||W_QK2||_F)   its keys
        V: ||W_OV1 W_OV2||_F / (||W_OV1||_F ||W_OV2||_F)     its values

    Only factors of d_head columns are multiplied. The centring and the gain of norms are folded in:
    of the norm before a layer into W_Q, W_K and W_V; of norms in the stream (BERT) into what
    arrives at the later layer; where all readers centre, W_O is centred too, as nobody sees its
    mean. A norm's scale differs from token to token and turns nothing: it is left out. Biases are
    no part of it, as they are the same whatever the earlier head attends to. Query heads that share
    a key head share its W_K and W_V. Rotary positions are taken at distance 0.

    `zscore` compares score^2 = tr(A U B U^T), A = W_OV1^T W_OV1 and B = M M^T for what head 2 reads
    by, each of trace 1, with its distribution for U drawn evenly from all rotations of the n
    dimensions in which both live. Its mean is 1 / n, its variance, exactly,
    2 (tr A^2 - 1/n) (tr B^2 - 1/n) / ((n - 1)(n + 2)).

    Args:
        model: any whose projections are known; of an encoder-decoder, its encoder.
        kind: "Q", "K" or "V".

    Returns:
        Composition; its matrices are (layer * head, layer * head) on the CPU, float32, or float64
        for a model of that precision.

    Raises:
        ArgumentError: an unknown kind, or a model whose heads would take too much memory.
        NotKeptError: norms or projections that are not known; queries and keys that are normed.
        AttentionUnavailableError: the family computes its attention by itself.

    Source: Elhage et al. 2021, "A Mathematical Framework for Transformer Circuits". They compare
    with random matrices of the same shape; here the spectra are the heads' own. The variance is the
    second moment of a function on the rotations (Schur's orthogonality; A and B less their means
    lie in an irreducible representation of dimension (n - 1)(n + 2) / 2).

    >>> import mha_viz as mv
    >>> pairs = mv.composition(mv.load("tiny-gpt2"), "K")
    >>> pairs.score.shape, bool(pairs.score[8:, :8].isnan().all())
    (torch.Size([32, 32]), True)
    >>> pairs.table().zscore.dropna().is_monotonic_decreasing
    True
    """
    if kind not in KINDS:
        raise ArgumentError(f'kind must be "Q", "K" or "V", got {kind!r}.')
    dtype = torch.promote_types(model.dtype, torch.float32)
    _check_memory(model, dtype)
    placement = norm_placement(model, dtype)
    if placement.normed_heads and kind != "V":
        raise NotKeptError(
            f"{model.name} ({model.family}) norms its queries and keys once more, so that "
            'W_Q W_K^T is not what makes its scores: only kind "V" can be told by weights.'
        )
    with torch.inference_mode():
        score, zscore, n = _compare(*_writes_and_reads(model, placement, kind), placement)
    notes = [_ROTARY] * (placement.rotary and kind != "V") + [_IN_THE_STREAM] * any(
        placement.passing
    )
    return Composition(
        kind,
        model.n_layers,
        model.n_heads,
        score=score.cpu().clone(),
        zscore=zscore.cpu().clone(),
        expected=n**-0.5,
        notes=tuple(notes),
    )


def _writes_and_reads(
    model: AttentionModel, placement: NormPlacement, kind: Kind | str
) -> tuple[list[Tensor], list[Tensor]]:
    """Return for each layer its heads' outputs (head, k, d_model) and inputs (head, d_model, k)."""
    writes, reads = [], []
    for layer in range(len(placement.reading)):
        QK, OV = folded(model, placement, layer)
        written = FactoredMatrix(
            OV.A, OV.B - OV.B.mean(-1, keepdim=True) if placement.centred else OV.B
        )
        writes.append(written.T.column_factor.mT)
        reads.append({"Q": QK, "K": QK.T, "V": written}[kind].column_factor)
    return writes, reads


def _compare(
    writes: list[Tensor], reads: list[Tensor], placement: NormPlacement
) -> tuple[Tensor, Tensor, int]:
    """Return score, zscore, and the number of dimensions in which heads may be rotated."""
    n_heads, _, d_model = writes[0].shape
    n = d_model - 1 if placement.centred else d_model
    frame = StreamFrame.of(placement.passing, writes[0])
    size, purity = (
        at_layer.repeat_interleave(n_heads, dim=1) for at_layer in _as_they_arrive(writes, frame)
    )
    squares = squared_products(writes, reads, frame) / size**2
    read_purity = torch.cat([_purity(read) for read in reads])
    variance = 2 * (purity - 1 / n) * (read_purity - 1 / n) / max(1, (n - 1) * (n + 2))
    deviation = variance.where(variance > 0, torch.nan).sqrt()  # a sphere is the same, turned
    return squares.sqrt(), (squares - 1 / n) / deviation, n


def _as_they_arrive(
    writes: Sequence[Tensor], frame: StreamFrame
) -> tuple[Float[Tensor, "sender layer"], Float[Tensor, "sender layer"]]:
    """Compute norm and purity of what heads write, at each later layer; NaN for the others."""
    n_layers, n_heads = len(writes), len(writes[0])
    size = writes[0].new_full((n_layers, n_heads, n_layers), torch.nan)
    purity = size.clone()
    for layer, written in enumerate(writes[:-1]):
        for later, arriving in frame.arrivals(written, layer):
            gram = arriving @ arriving.mT
            norm = gram.diagonal(dim1=-2, dim2=-1).sum(-1).sqrt()
            size[layer, :, later:] = norm[:, None]
            purity[layer, :, later:] = (torch.linalg.matrix_norm(gram) ** 2 / norm**4)[:, None]
    return size.flatten(0, 1), purity.flatten(0, 1)


def _purity(factor: Float[Tensor, "head d_model k"]) -> Float[Tensor, " head"]:
    """Compute tr B^2 of B = M M^T with tr B = 1: 1 for one singular value, 1 / n for n equal."""
    return torch.linalg.matrix_norm(factor.mT @ factor) ** 2


def _check_memory(model: AttentionModel, dtype: torch.dtype) -> None:
    """Refuse a model whose heads' factors, twice while they are carried, do not fit."""
    cells = 4 * model.n_layers * model.n_heads * model.d_head * model.d_model
    needed = cells * torch.finfo(dtype).bits // 8
    if needed > MAX_BYTES:
        raise ArgumentError(
            f"The heads of {model.name} would take {of_bytes(needed)} to compare, more than "
            f"{of_bytes(MAX_BYTES)}: choose a smaller model."
        )
