"""Sums over the rows of one layer that the metrics of its heads are made of."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor

from mha_viz.core.metrics.blocks import RowBlock, Texts
from mha_viz.core.metrics.checks import exact, widest

Sums = tuple[Any, ...]  # tensors (batch, head, ...), or lists, that add up over blocks
# (block) -> sums of its rows, and (*sums): raises an error where no pattern can have such sums
Check = tuple[Callable[..., Sums], Callable[..., None]]
RowCount = Callable[[Texts], Tensor]  # (texts) -> (batch,), how many rows a mean is over
_Function = TypeVar("_Function", bound=Callable[..., Any])


@dataclass(frozen=True, eq=False)
class Total:
    """Numbers of a block's rows that are to be added up, in the `widest` floats.

    All of a block are added up in one step: on a graphics card each step takes as long.
    """

    rows: Float[Tensor, "batch head query"]  # (batch, head, some of the rows or keys); 0 in padding


@dataclass(frozen=True)
class Reduction:
    """A metric of heads that is made of sums over blocks of rows."""

    # (block) -> sums of its rows: first each `Total`, then others, (batch, head, ...); they add up
    # over blocks.
    of_block: Callable[..., Sums]
    # (texts, *sums) -> (batch, head); None: the mean of the one `Total`
    finish: Callable[..., Tensor] | None = None
    n_rows: RowCount | None = None  # of a mean, how many rows count
    check: Check | None = None  # of its input, if there is one; it is not made while a model runs
    # (texts) -> bool (batch,), the texts that the metric has a meaning for; None: all
    defined: Callable[[Texts], Tensor] | None = None
    of_idle: bool = False  # whether it has a meaning for heads that attend to nothing

    def __call__(self, function: _Function) -> _Function:
        """Tie the reduction to the public function that is made of it: a decorator."""
        function.__dict__["reduction"] = self
        return function


def row_mean(
    of_rows: Callable[..., Tensor], n_rows: RowCount = lambda texts: texts.lengths, **more: Any
) -> Reduction:
    """Average a number of each row.

    `of_rows` makes (batch, head, some of its rows) of a block, 0 in padding; `n_rows` tells how
    many rows count, (batch,); `more` are `check`, `defined` and `of_idle` of the `Reduction`.
    """
    return Reduction(
        lambda block, **settings: (Total(of_rows(block, **settings)),), n_rows=n_rows, **more
    )


@dataclass(frozen=True)
class _LayerSums:
    """Sums over some rows of one layer, by metric; they add up."""

    totals: Float[Tensor, "total batch head"]
    arrays: Mapping[str, Sums]  # what is no `Total`
    to_check: Mapping[str, Sums]

    def plus(self, other: "_LayerSums") -> "_LayerSums":
        """Add the sums of other rows, which may be over fewer or more keys."""
        arrays, to_check = (
            {key: tuple(map(_plus, sums, theirs[key])) for key, sums in ours.items()}
            for ours, theirs in ((self.arrays, other.arrays), (self.to_check, other.to_check))
        )
        return _LayerSums(self.totals + other.totals, arrays, to_check)


def _plus(a: Any, b: Any) -> Any:
    """Add two sums; those by key count as 0 for the keys that one of them lacks."""
    if isinstance(a, Tensor) and a.shape != b.shape:
        a, b = sorted((a, b), key=lambda part: part.shape[-1])
        a = F.pad(a, (0, b.shape[-1] - a.shape[-1]))
    return a + b


class HeadSums:
    """The sums that metrics of the heads of one layer are made of, from block to block.

    Nothing is read from the device before `check`. `checked` tells whether that is going to be
    called; `settings` are those of the only metric.
    """

    def __init__(
        self,
        texts: Texts,
        reductions: Mapping[str, Reduction],
        checked: bool = False,
        **settings: Any,
    ) -> None:
        self._texts, self._reductions, self._settings = texts, reductions, settings
        checks = {key: r.check for key, r in reductions.items() if r.check is not None}
        self._checks = checks if checked else {}
        self._sums: _LayerSums | None = None
        self._means: list[Reduction | None] = []  # of each total, the metric whose mean it is
        self._rows: dict[str, list[int]] = {}  # of each metric's totals
        self._dtype = torch.float32

    def add(self, block: RowBlock) -> None:
        """Add the next rows."""
        totals: list[tuple[Tensor, Reduction | None]] = [(block.strongest, None)]
        arrays: dict[str, Sums] = {}
        for key, reduction in self._reductions.items():
            sums = reduction.of_block(block, **self._settings)
            to_total = [part.rows for part in sums if isinstance(part, Total)]
            self._rows[key] = list(range(len(totals), len(totals) + len(to_total)))
            totals += [(rows, reduction if reduction.finish is None else None) for rows in to_total]
            arrays[key] = tuple(part for part in sums if not isinstance(part, Total))
        self._means, self._dtype = [mean for _, mean in totals], block.pattern.dtype
        to_check = {key: of_block(block) for key, (of_block, _) in self._checks.items()}
        self._merge(_LayerSums(self._added_up([rows for rows, _ in totals]), arrays, to_check))

    def _added_up(self, rows: Sequence[Tensor]) -> Float[Tensor, "total batch head"]:
        """Sum each of some numbers of rows; some may have fewer rows than others."""
        longest, like = max(part.shape[-1] for part in rows), rows[0]
        zero = self._texts.once(("zero", like.dtype), lambda: like.new_zeros(()))
        parts = []
        for part in rows:
            lacking = longest - part.shape[-1]
            parts += [part, zero.expand(*like.shape[:2], lacking)] if lacking else [part]
        together = torch.cat(parts, -1).unflatten(-1, (len(rows), longest))
        return together.movedim(-2, 0).sum(-1, dtype=widest(like.device))

    def merge(self, other: "HeadSums") -> None:
        """Add the sums of other rows, which may be over fewer or more keys."""
        self._means, self._rows, self._dtype = other._means, other._rows, other._dtype
        if other._sums is not None:
            self._merge(other._sums)

    def _merge(self, sums: _LayerSums) -> None:
        self._sums = sums if self._sums is None else self._sums.plus(sums)

    def check(self) -> None:
        """Raise an error where no pattern can have such sums."""
        for key, (_, refuse) in self._checks.items():
            assert self._sums is not None
            refuse(*self._sums.to_check[key])

    @property
    def sums(self) -> dict[str, Sums]:
        """The sums of each metric so far, as `finished` takes them."""
        assert self._sums is not None
        totals, arrays = self._sums.totals, self._sums.arrays
        return {
            key: (*(totals[row] for row in rows), *arrays[key]) for key, rows in self._rows.items()
        }

    def finished(self, key: str, sums: Sums) -> Float[Tensor, "batch head"]:
        """Compute one metric of these sums, such as those of other rows of the same texts."""
        reduction, texts = self._reductions[key], self._texts
        if reduction.finish is not None:
            return reduction.finish(texts, *sums)
        assert reduction.n_rows is not None
        return sums[0] / exact(reduction.n_rows(texts))[:, None]

    @property
    def row_of(self) -> dict[str, int]:
        """The row of each metric in what `finish` returns."""
        further = iter(range(len(self._means), len(self._means) + len(self._reductions)))
        return {
            key: self._rows[key][0] if reduction.finish is None else next(further)
            for key, reduction in self._reductions.items()
        }

    def finish(self, raw: bool = False) -> Float[Tensor, "metric batch head"]:
        """Return the values of all metrics at the rows of `row_of`, in the dtype of the weights.

        A metric that is not defined is NaN; not so if `raw`. All metrics take a step together: on a
        graphics card it takes as long as for one.
        """
        assert self._sums is not None
        totals, values = self._sums.totals, self._sums.totals / self._n_rows(raw)
        further = []
        for key, reduction in self._reductions.items():
            if reduction.finish is not None:
                of_metric = (totals[row] for row in self._rows[key])
                arrays = self._sums.arrays[key]
                further.append(reduction.finish(self._texts, *of_metric, *arrays)[None])
        values = torch.cat([values, *further]) if further else values
        if not raw:
            values = values.masked_fill(totals[:1] <= self._idle_at(totals, len(values)), torch.nan)
        return values.to(self._dtype)

    def _n_rows(self, raw: bool) -> Float[Tensor, "total #batch 1"]:
        """Return how many rows each total is divided by; NaN where its mean is not defined."""

        def of_total(mean: Reduction | None) -> Tensor:
            if mean is None or mean.n_rows is None:
                return exact(torch.ones_like(self._texts.lengths))
            n_rows = exact(mean.n_rows(self._texts))
            if raw or mean.defined is None:
                return n_rows
            return n_rows.masked_fill(~mean.defined(self._texts), torch.nan)

        return self._texts.once(
            ("n_rows", raw, *self._means),
            lambda: torch.stack([of_total(mean) for mean in self._means])[..., None],
        )

    def _idle_at(self, totals: Tensor, n_rows: int) -> Float[Tensor, "metric 1 1"]:
        """Return how strong weights a head has at most for which a value means nothing.

        That is 0; no head has the -1 of metrics that mean something for those that attend to
        nothing, too.
        """
        idle = [self.row_of[key] for key, r in self._reductions.items() if r.of_idle]

        def make() -> Tensor:
            most = torch.tensor([-1.0 * (row in idle) for row in range(n_rows)])
            return most[:, None, None].to(totals, non_blocking=True)

        return self._texts.once(("idle", n_rows, *idle), make)
