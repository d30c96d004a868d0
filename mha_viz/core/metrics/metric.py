"""The description of one metric, and the table that refuses unknown keys."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from mha_viz.errors import ArgumentError

Need = Literal[
    "self",
    "neighbours",
    "special",
    "ids",
    "repeats",
    "causal",
    "allowed",
    "period",
    "sink",
    "outputs",
]
Of = Literal["head", "pair", "parameters", "layer", "flow"]

_NAMED = 5  # metrics that a line has room for


@dataclass(frozen=True, kw_only=True)
class Metric:
    """One quantity, and all that a reader has to know about it.

    Args:
        key: its name in code and in files.
        title: its name on screen.
        unit: "nats", "tokens", "keys", "probability", "share", or "" for a plain number.
        limits: lowest and highest value; None where the highest grows with the text.
        direction: what a higher value means.
        meaning: one sentence in plain words.
        formula: LaTeX; A is the pattern, q a query, k a key, n the number of tokens.
        source: where it is from.
        function: what computes it, see `of`.
        of: what has such a number: a "head" (pattern, **needs) -> (layer, head); a "pair" of
            heads, from what they did on a text, -> (layer * head, layer * head); a pair by its
            "parameters" alone; a "layer" -> (layer,); the "flow" through all layers.
        needs: beyond the pattern: "self" self-attention, "neighbours" that of two tokens or more,
            "special" is_special, "ids" token ids with one that repeats, "causal" whether the
            future is hidden, "allowed" that and what else hides keys, "repeats" both and a token
            that may see itself again, "period" a text repeated twice, "sink" a sink that heads
            have learned; "outputs": computed from what heads write, z and W_O (pairs: z; flow:
            values as well).

    >>> from mha_viz.core.metrics import METRICS
    >>> METRICS["distance"].unit
    'tokens'
    """

    key: str
    title: str
    unit: str = ""
    limits: tuple[float, float | None]
    direction: str
    meaning: str
    formula: str
    source: str
    function: Callable[..., Any]
    of: Of = "head"
    needs: frozenset[Need] = frozenset()

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
