"""Metrics that need all of a text at once: functions of a whole pattern, or of all outputs."""

from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from mha_viz.core.metrics.blocks import RowBlock, Texts, part_of
from mha_viz.core.metrics.head_sums import Reduction
from mha_viz.core.metrics.metric import Metric, Need
from mha_viz.core.metrics.outputs import Outputs

About = dict[Need, dict[str, Any]]  # what is known, and what a metric that needs it is called with


def reduction_of(metric: Metric) -> Reduction:
    """Return the reduction of a metric of patterns; of a whole pattern where it has no other."""
    tied: Reduction | None = getattr(metric.function, "reduction", None)
    return tied or _of_whole_pattern(metric)


def of_outputs(metric: Metric) -> Callable[[Outputs], Tensor]:
    """Return what computes a metric of the outputs of a batch."""
    tied: Callable[[Outputs], Tensor] | None = getattr(metric.function, "of_outputs", None)

    def compute(outputs: Outputs) -> Tensor:
        def call(batch: slice, n: int, about: About) -> Tensor:
            part = outputs.part(batch)
            return metric.function(part.z[:, :, :n], part.W_O, **metric.arguments(about))

        return _by_text(metric, outputs.texts, outputs.z, {"outputs": {}}, call)

    return tied or compute


def known(texts: Texts) -> About:
    """Return what is known of one text, and so what metrics have a meaning for it."""
    n = int(texts.lengths[0])
    about: About = {"causal": {"causal": texts.causal}}
    if not texts.cross:
        about |= {"self": {}, "neighbours": {}} if n > 1 else {"self": {}}
    keys = slice(None) if texts.cross else slice(n)
    if texts.is_special is not None and (special := texts.is_special[0, keys]).any():
        about["special"] = {"is_special": special}
    if texts.ids is not None and len((ids := texts.ids[0, keys]).unique()) < len(ids):
        about["ids"] = {"ids": ids}
    if texts.period is not None:
        about["period"] = {"period": texts.period}
    return about


def _of_whole_pattern(metric: Metric) -> Reduction:
    """Return a reduction that keeps all rows, and calls the metric's function in the end."""

    def of_block(block: RowBlock) -> tuple[list[Tensor], ...]:
        return [block.pattern], [block.visible.seen], [block.sink_mass]

    def finish(texts: Texts, *rows: list[Tensor]) -> Tensor:
        pattern, seen, sinks = (_joined(*part) for part in zip(rows, (2, 1, 2), strict=True))

        def call(batch: slice, n: int, about: About) -> Tensor:
            keys = slice(None) if texts.cross else slice(n)
            allowed = part_of(seen, batch, slice(n), keys)
            about["allowed"] = {"causal": texts.causal, "allowed": allowed}
            about["sink"] = {"sink": sinks[batch, :, :n]}
            return metric.function(pattern[batch, :, :n, keys], **metric.arguments(about))

        return _by_text(metric, texts, pattern, {"allowed": {}, "sink": {}}, call)

    return Reduction(of_block, finish)


def _joined(blocks: list[Tensor], axis: int) -> Tensor:
    """Join rows; those that are over fewer keys than others have none of the rest."""
    most = max(block.shape[-1] for block in blocks) if axis < blocks[0].ndim - 1 else None
    if most is not None:
        blocks = [F.pad(block, (0, most - block.shape[-1])) for block in blocks]
    return torch.cat(blocks, axis)


def _by_text(
    metric: Metric,
    texts: Texts,
    measured: Tensor,
    more: About,
    call: Callable[[slice, int, About], Tensor],
) -> Tensor:
    """Call a metric's function on each text without its padding; if texts are alike, on all.

    Returns (batch, head); NaN for texts that lack what the metric needs.
    """
    n_texts, n_heads = measured.shape[:2]
    step = n_texts if len(texts.lengths) == 1 else 1
    found = []
    for begin in range(0, n_texts, step):
        batch = slice(begin, begin + step)
        text = texts.part(batch)
        about = known(text) | more
        if metric.needs <= about.keys():
            found.append(call(batch, int(text.lengths[0]), about))
        else:
            found.append(measured.new_full((step, n_heads), torch.nan))
    return torch.cat(found)
