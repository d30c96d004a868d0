"""The description of one metric, and the reductions of metrics that need all of a text at once."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

import torch
import torch.nn.functional as F
from torch import Tensor

from mha_viz.core.metrics.blocks import RowBlock, Texts, part_of
from mha_viz.core.metrics.head_sums import Reduction
from mha_viz.core.metrics.outputs import Outputs
from mha_viz.errors import ArgumentError

Need = Literal[
    "self",  # self-attention
    "neighbours",  # that of two tokens or more
    "special",  # is_special
    "ids",  # token ids with one that repeats
    "repeats",  # a token that may see itself again
    "causal",  # whether the future is hidden
    "allowed",  # that and what else hides keys
    "period",  # a text repeated twice
    "sink",  # a sink that heads have learned
    "outputs",  # what heads write, z and W_O (pairs: z; flow: values as well)
]
# A head (pattern, **needs) -> (layer, head); a pair of heads, from what they did on a text, or by
# their parameters alone, -> (layer * head, layer * head); a layer -> (layer,); all layers.
Of = Literal["head", "pair", "parameters", "layer", "flow"]

_NAMED = 5  # metrics that a line has room for


@dataclass(frozen=True, kw_only=True)
class Metric:
    """One quantity, and all that a reader has to know about it.

    >>> from mha_viz.core.metrics import METRICS
    >>> METRICS["distance"].unit
    'tokens'
    """

    key: str  # its name in code and in files
    title: str  # its name on screen
    unit: str = ""  # "nats", "tokens", "keys", "probability", "share", or "" for a plain number
    limits: tuple[float, float | None]  # of its values; None where the highest grows with the text
    direction: str  # what a higher value means
    meaning: str  # one sentence in plain words
    formula: str  # LaTeX; A is the pattern, q a query, k a key, n the number of tokens
    source: str
    function: Callable[..., Any]  # what computes it, see `of`
    of: Of = "head"  # what has such a number
    needs: frozenset[Need] = frozenset()  # what it is computed from beyond the pattern

    @property
    def shown_unit(self) -> str:
        """The unit behind its title in a figure; "" for shares and plain numbers."""
        return self.unit if self.unit in ("nats", "tokens", "keys") else ""

    def arguments(self, about: Mapping[Need, Mapping[str, Any]]) -> dict[str, Any]:
        """Return what `function` is called with by name, of what is known of a text."""
        return {name: value for need in self.needs for name, value in about[need].items()}

    def __repr__(self) -> str:
        unit = f", {self.unit}" if self.unit else ""
        return f"Metric({self.key!r}, of a {self.of}{unit}: {self.title})"


# old key -> key: links of before carry the old ones, and scripts may look them up
RENAMED = {
    "importance": "norm_of_mean_output",
    "information": "mutual_information",
    "sparsity": "keys_for_mass",
}


class MetricTable(dict[str, Metric]):
    """Metrics by key; an unknown key is refused with the known ones.

    >>> MetricTable()
    MetricTable(0 metrics: )
    """

    def __repr__(self) -> str:
        first = ", ".join(list(self)[:_NAMED])
        return f"MetricTable({len(self)} metrics: {first}{', ...' * (len(self) > _NAMED)})"

    def __missing__(self, key: str) -> Metric:
        if key in RENAMED:
            raise ArgumentError(f"The metric {key!r} is called {RENAMED[key]!r} now.")
        raise ArgumentError(f"There is no metric {key!r}; there are: {', '.join(self)}.")


About = dict[Need, dict[str, Any]]  # what is known, and what a metric that needs it is called with


def reduction_of(metric: Metric) -> Reduction:
    """Return the reduction of a metric of patterns; of a whole pattern where it has no other."""
    return getattr(metric.function, "reduction", None) or _of_whole_pattern(metric)


def of_outputs(metric: Metric) -> Callable[[Outputs], Tensor]:
    """Return what computes a metric of the outputs of a batch."""
    tied: Callable[[Outputs], Tensor] | None = getattr(metric.function, "of_outputs", None)

    def compute(outputs: Outputs) -> Tensor:
        def call(batch: slice, n: int, about: About) -> Tensor:
            part = outputs.part(batch)
            return metric.function(part.z[:, :, :n], part.W_O, **metric.arguments(about))

        return _by_text(metric, outputs.texts, outputs.z, {"outputs": {}}, call)

    return tied or compute


def text_facts(texts: Texts) -> About:
    """Return what decides which metrics have a meaning for one text."""
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
        return [block.pattern], [block.visible.keys], [block.sink_mass]

    def finish(texts: Texts, *rows: list[Tensor]) -> Tensor:
        pattern, visible, sinks = (_joined(*part) for part in zip(rows, (2, 1, 2), strict=True))

        def call(batch: slice, n: int, about: About) -> Tensor:
            keys = slice(None) if texts.cross else slice(n)
            allowed = part_of(visible, batch, slice(n), keys)
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
    tables = []
    for begin in range(0, n_texts, step):
        batch = slice(begin, begin + step)
        text = texts.part(batch)
        about = text_facts(text) | more
        if metric.needs <= about.keys():
            tables.append(call(batch, int(text.lengths[0]), about))
        else:
            tables.append(measured.new_full((step, n_heads), torch.nan))
    return torch.cat(tables)
