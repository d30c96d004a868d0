"""Reductions: metrics of heads as sums over blocks of rows, and the run that adds them up."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from operator import add
from typing import Any, TypeVar

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Int
from torch import Tensor

from mha_viz.core.attention.checks import Array, Given, as_tensor
from mha_viz.core.cancellation import check_cancelled
from mha_viz.core.metrics.blocks import RowBlock, Texts, Visible
from mha_viz.core.metrics.checks import (
    Allowed,
    Pattern,
    allowed_keys,
    check_pattern,
    check_per_key,
    widest,
)
from mha_viz.core.threads import in_threads, part_size
from mha_viz.errors import DTypeError, ShapeError

# Weights at a time on a processor: few enough to stay in its cache while all metrics read them, and
# so many that threads do not wait for the interpreter between the steps.
BLOCK = 2**20

Sums = tuple[Any, ...]  # tensors (batch, head, ...), or lists, that add up over blocks
_Function = TypeVar("_Function", bound=Callable[..., Any])


@dataclass(frozen=True)
class Reduction:
    """A metric of heads that is made of sums over blocks of rows.

    Args:
        of_block: (block) -> sums of its rows, (batch, head, ...) each; they add up over blocks.
        finish: (texts, *sums) -> (batch, head).
        check: (*sums): raises an error where no pattern can have such sums.
        defined: (texts) -> bool (batch,), the texts that the metric has a meaning for; None: all.
        of_idle: whether it has a meaning for heads that attend to nothing.
    """

    of_block: Callable[..., Sums]
    finish: Callable[..., Tensor]
    check: Callable[..., None] | None = None
    defined: Callable[[Texts], Tensor] | None = None
    of_idle: bool = False

    def __call__(self, function: _Function) -> _Function:
        """Tie the reduction to the public function that is made of it: a decorator."""
        function.__dict__["reduction"] = self
        return function


def row_mean(
    of_rows: Callable[..., Tensor],
    n_rows: Callable[[Texts], Tensor] = lambda texts: texts.lengths,
    **more: Any,
) -> Reduction:
    """Average a number of each row.

    Args:
        of_rows: (block) -> (batch, head, some of its rows); 0 in padding.
        n_rows: (texts) -> (batch,), how many rows count.
        more: `defined` and `of_idle` of the `Reduction`.
    """
    return Reduction(
        lambda block, **settings: (total(of_rows(block, **settings)),),
        lambda texts, rows: rows / n_rows(texts)[:, None],
        **more,
    )


def total(rows: Float[Tensor, "batch head query"]) -> Float[Tensor, "batch head"]:
    """Sum over rows, in the `widest` floats."""
    return rows.sum(-1, dtype=widest(rows.device))


class HeadSums:
    """The sums that metrics of the heads of one layer are made of, from block to block.

    Nothing is read from the device before `check`.
    """

    def __init__(self, texts: Texts, reductions: Mapping[str, Reduction], **settings: Any) -> None:
        self._texts, self._reductions, self._settings = texts, reductions, settings
        self._sums: dict[str, Sums] = {}
        self._strongest: Tensor | float = 0.0

    def add(self, block: RowBlock) -> None:
        """Add the next rows."""
        self._strongest = self._strongest + total(block.strongest)
        for key, reduction in self._reductions.items():
            found = reduction.of_block(block, **self._settings)
            before = self._sums.get(key)
            self._sums[key] = found if before is None else tuple(map(add, before, found))

    def merge(self, other: HeadSums) -> None:
        """Add the sums of other rows, which may be over fewer or more keys."""
        self._strongest = self._strongest + other._strongest
        for key, found in other._sums.items():
            before = self._sums.get(key)
            self._sums[key] = found if before is None else tuple(map(_plus, before, found))

    def check(self) -> None:
        """Raise an error where no pattern can have such sums."""
        for key, reduction in self._reductions.items():
            if reduction.check is not None:
                reduction.check(*self._sums[key])

    def raw_values(self) -> dict[str, Float[Tensor, "batch head"]]:
        """Return metric key -> (batch, head), in the `widest` floats."""
        return {key: self.finished(key, sums) for key, sums in self._sums.items()}

    @property
    def sums(self) -> Mapping[str, Sums]:
        """The sums of each metric so far."""
        return self._sums

    def finished(self, key: str, sums: Sums) -> Float[Tensor, "batch head"]:
        """Compute one metric of these sums, such as those of other rows of the same texts."""
        found: Tensor = self._reductions[key].finish(self._texts, *sums)
        return found

    def finish(self) -> dict[str, Float[Tensor, "batch head"]]:
        """Return metric key -> (batch, head); NaN where a metric is not defined."""
        found, idle = self.raw_values(), torch.as_tensor(self._strongest == 0)
        of_others = [key for key, reduction in self._reductions.items() if not reduction.of_idle]
        if of_others:  # all in one step: on a graphics card each takes as long
            values = torch.stack([found[key] for key in of_others]).masked_fill(idle, torch.nan)
            found.update(zip(of_others, values, strict=True))
        for key, reduction in self._reductions.items():
            if reduction.defined is not None:
                found[key] = found[key].masked_fill(
                    ~reduction.defined(self._texts)[:, None], torch.nan
                )
        return found


def _plus(a: Any, b: Any) -> Any:
    """Add two sums; those by key count as 0 for the keys that one of them lacks."""
    if isinstance(a, Tensor) and a.shape != b.shape:
        a, b = sorted((a, b), key=lambda one: one.shape[-1])
        a = F.pad(a, (0, b.shape[-1] - a.shape[-1]))
    return a + b


def reduce_pattern(
    pattern: Float[Tensor, "batch head query key"],
    texts: Texts,
    visible: Visible,
    reductions: Mapping[str, Reduction],
    sinks: Float[Tensor, "batch head query"] | None = None,
    *,
    finish: Callable[[HeadSums], dict[str, Tensor]] = HeadSums.finish,
    **settings: Any,
) -> dict[str, Float[Tensor, "batch head"]]:
    """Reduce a whole pattern, block by block.

    On a processor texts are divided among threads, and a block stays in the cache while all
    metrics read it. A graphics card gets all of it at once.
    """
    dtype = torch.promote_types(pattern.dtype, torch.float32)
    n_texts, n_heads, n_query, n_key = pattern.shape
    in_blocks = pattern.device.type == "cpu" and not pattern.requires_grad
    of_row = n_heads * n_key
    n_rows = max(1, min(n_query, BLOCK // of_row)) if in_blocks else n_query
    n_at_once = part_size(n_texts, BLOCK // (of_row * n_query)) if in_blocks else n_texts

    def reduce(begin: int) -> dict[str, Tensor]:
        batch = slice(begin, begin + n_at_once)
        sums = HeadSums(texts.part(batch), reductions, **settings)
        for first in range(0, n_query, n_rows):
            check_cancelled()
            rows = slice(first, first + n_rows)
            sums.add(
                RowBlock(
                    pattern[batch, :, rows].to(dtype),
                    first,
                    texts.part(batch),
                    visible.part(batch, rows),
                    None if sinks is None else sinks[batch, :, rows],
                )
            )
        return finish(sums)

    begins = range(0, n_texts, n_at_once)
    parts = list(map(reduce, begins) if len(begins) == 1 else in_threads(reduce, begins))
    stacked = [torch.stack([part[key] for key in reductions]) for part in parts if part]
    if not stacked:
        return {}
    values = stacked[0] if len(stacked) == 1 else torch.cat(stacked, 1)
    return dict(zip(reductions, values.to(dtype), strict=True))


def reduced(
    function: Callable[..., Any] | Reduction,
    pattern: Pattern,
    *,
    causal: bool = False,
    allowed: Allowed | None = None,
    ids: Given[Int[Array, "key"]] | None = None,
    is_special: Given[Bool[Array, "key"]] | None = None,
    sink: Given[Float[Array, "layer head query"]] | None = None,
    period: int | None = None,
    start: int = 0,
    **settings: Any,
) -> Float[Tensor, "layer head"]:
    """Compute a metric of a whole pattern by a reduction, or by that of a public function."""
    pattern, _ = check_pattern(pattern)
    about = {"causal": causal, "period": period, "start": start}
    texts = texts_of(pattern, ids=ids, is_special=is_special, **about)
    visible = Visible.of(texts, allowed_keys(pattern, causal, allowed))
    tied = function if isinstance(function, Reduction) else function.__dict__["reduction"]

    def finish(sums: HeadSums) -> dict[str, Tensor]:
        sums.check()
        return sums.raw_values()

    sinks = check_sink(sink, pattern)
    found = reduce_pattern(pattern, texts, visible, {"": tied}, sinks, finish=finish, **settings)
    return found[""]


def texts_of(
    pattern: Tensor,
    *,
    ids: Given[Int[Array, "key"]] | None = None,
    is_special: Given[Bool[Array, "key"]] | None = None,
    **about: Any,
) -> Texts:
    """Check what is said of the text of a record, and return it for all its layers."""
    n_query, n_key = pattern.shape[-2:]
    about["cross"] = about.get("cross", False) or n_query != n_key
    if ids is not None:
        ids = check_per_key("ids", ids, pattern)
        if ids.is_floating_point() or ids.dtype == torch.bool:
            raise DTypeError(f"ids must be integers, got {ids.dtype}")
        about["ids"] = ids[None].to(pattern.device)
    if is_special is not None:
        special = check_per_key("is_special", is_special, pattern)
        if special.dtype != torch.bool:
            raise DTypeError(f"is_special must be bool, got {special.dtype}")
        about["is_special"] = special[None].to(pattern.device)
    return Texts(torch.tensor([n_query], device=pattern.device), **about)


def check_sink(
    sink: Given[Float[Array, "layer head query"]] | None, pattern: Tensor
) -> Float[Tensor, "layer head query"] | None:
    """Check that each row of a pattern has a share of its sink, where there is one."""
    if sink is None:
        return None
    mass = as_tensor("sink", sink)
    if mass.shape != pattern.shape[:3]:
        raise ShapeError(
            f"sink must be (layer, head, query), {tuple(pattern.shape[:3])}; got "
            f"{tuple(mass.shape)}."
        )
    return mass
