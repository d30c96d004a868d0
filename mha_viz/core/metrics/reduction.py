"""The metrics of the heads of whole patterns, reduced block by block."""

from collections.abc import Callable, Mapping
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from mha_viz.core.attention.checks import Array, Given, as_tensor
from mha_viz.core.cancellation import check_cancelled
from mha_viz.core.metrics.blocks import RowBlock, Texts, Visible
from mha_viz.core.metrics.checks import (
    NO_FACTS,
    Pattern,
    TokenFacts,
    allowed_keys,
    check_pattern,
    check_per_key,
)
from mha_viz.core.metrics.head_sums import HeadSums, Reduction
from mha_viz.core.threads import in_threads, part_size
from mha_viz.errors import DTypeError, ShapeError

# Weights at a time on a processor: few enough to stay in its cache while all metrics read them, and
# so many that threads do not wait for the interpreter between the steps.
BLOCK = 2**20


def reduce_pattern(
    pattern: Float[Tensor, "batch head query key"],
    texts: Texts,
    visible: Visible,
    reductions: Mapping[str, Reduction],
    sinks: Float[Tensor, "batch head query"] | None = None,
    *,
    checked: bool = False,
    raw: bool = False,
    **settings: Any,
) -> dict[str, Float[Tensor, "batch head"]]:
    """Reduce a whole pattern, block by block; see `HeadSums`.

    On a processor texts are divided among threads, and a block stays in the cache while all
    metrics read it. A graphics card gets all of it at once.
    """
    if not reductions:
        return {}
    dtype = torch.float64 if pattern.dtype == torch.float64 else torch.float32
    n_texts, n_heads, n_query, n_key = pattern.shape
    in_blocks = pattern.device.type == "cpu" and not pattern.requires_grad
    of_row = n_heads * n_key
    n_rows = max(1, min(n_query, BLOCK // of_row)) if in_blocks else n_query
    n_at_once = part_size(n_texts, BLOCK // (of_row * n_query)) if in_blocks else n_texts

    def reduce(begin: int) -> tuple[dict[str, int], Tensor]:
        batch = slice(begin, begin + n_at_once)
        part = texts if n_at_once >= n_texts else texts.part(batch)
        sums = HeadSums(part, reductions, checked, **settings)
        for first in range(0, n_query, n_rows):
            check_cancelled()
            rows = slice(first, first + n_rows)
            sums.add(
                RowBlock(
                    pattern[batch, :, rows].to(dtype),
                    first,
                    part,
                    visible if n_rows == n_query and part is texts else visible.part(batch, rows),
                    None if sinks is None else sinks[batch, :, rows],
                )
            )
        sums.check()
        return sums.row_of, sums.finish(raw)

    begins = range(0, n_texts, n_at_once)
    parts = list(map(reduce, begins) if len(begins) == 1 else in_threads(reduce, begins))
    row_of = parts[0][0]
    values = torch.cat([table for _, table in parts], 1) if len(parts) > 1 else parts[0][1]
    return {key: values[row] for key, row in row_of.items()}


def reduced(
    function: Callable[..., Any] | Reduction,
    pattern: Pattern,
    facts: TokenFacts = NO_FACTS,
    *,
    sink: Given[Float[Array, "layer head query"]] | None = None,
    **settings: Any,
) -> Float[Tensor, "layer head"]:
    """Compute a metric of a whole pattern by a reduction, or by that of a public function."""
    pattern, _ = check_pattern(pattern)
    texts, visible = check_facts(facts, pattern)
    tied = function if isinstance(function, Reduction) else function.__dict__["reduction"]
    sinks = check_sink(sink, pattern)
    options: dict[str, Any] = {"checked": True, "raw": True, **settings}
    return reduce_pattern(pattern, texts, visible, {"": tied}, sinks, **options)[""]


def check_facts(facts: TokenFacts, pattern: Tensor) -> tuple[Texts, Visible]:
    """Check the facts about a pattern's tokens; return its text, and what each query sees."""
    texts = texts_of(facts, pattern)
    return texts, Visible.of(texts, allowed_keys(pattern, facts.causal, facts.allowed))


def texts_of(facts: TokenFacts, pattern: Tensor) -> Texts:
    """Return the text of a pattern (layer, head, query, key), which all its layers have."""
    n_query, n_key = pattern.shape[-2:]
    ids = special = None
    if facts.ids is not None:
        ids = check_per_key("ids", facts.ids, pattern)[None].to(pattern.device)
        if ids.is_floating_point() or ids.dtype == torch.bool:
            raise DTypeError(f"ids must be integers, got {ids.dtype}")
    if facts.is_special is not None:
        special = check_per_key("is_special", facts.is_special, pattern)[None].to(pattern.device)
        if special.dtype != torch.bool:
            raise DTypeError(f"is_special must be bool, got {special.dtype}")
    lengths = torch.tensor([n_query], device=pattern.device)
    more = (facts.causal, n_query != n_key, facts.period, facts.start)
    return Texts(lengths, ids, special, *more)


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
