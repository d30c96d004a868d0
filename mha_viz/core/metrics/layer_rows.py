"""The rows of the table for what the heads of one layer do together.

Both sides of each statement are in `layers`: `coverage`, `capacity`,
`variance_statement`, `norm_statement`; each head's rank is `effective_rank`.
"""

import functools
from collections.abc import Callable
from typing import Any

from mha_viz.core.metrics import layers
from mha_viz.core.metrics.metric import Metric


def _part(function: Callable[..., Any], name: str) -> Callable[..., Any]:
    """What computes one of the numbers that a function returns together."""

    @functools.wraps(function)
    def part(*given: Any) -> Any:
        return getattr(function(*given), name)

    return part


ROWS = (
    Metric(
        key="head_rank",
        title="Effective rank of a head",
        limits=(0.0, None),
        direction="higher means heads that write in more directions",
        meaning="In how many directions a head writes on average, weak ones counting less.",
        formula=r"\frac{1}{n_h}\sum_i \mathrm{erank}(z_i W_{O,i}),\quad \mathrm{erank}(M) ="
        r" \exp\Big(-\sum_r p_r \ln p_r\Big),\ p_r = \frac{\sigma_r(M)}{\sum_s \sigma_s(M)}",
        source="Roy and Vetterli 2007",
        function=layers.head_rank,
        of="layer",
        needs=frozenset({"outputs"}),
    ),
    Metric(
        key="coverage_ratio",
        title="Coverage",
        unit="share",
        limits=(0.0, None),
        direction="higher means the heads write in different directions",
        meaning="The directions all heads of the layer write in, over the sum of each head's own.",
        formula=r"\frac{\mathrm{erank}([z_1 W_{O,1}; \dots; z_{n_h} W_{O,n_h}])}"
        r"{\sum_i \mathrm{erank}(z_i W_{O,i})}",
        source="after Roy and Vetterli 2007",
        function=_part(layers.coverage, "ratio"),
        of="layer",
        needs=frozenset({"outputs"}),
    ),
    Metric(
        key="capacity_total",
        title="Capacity, heads one by one",
        unit="nats",
        limits=(0.0, None),
        direction="higher means the keys say more about which token is looking",
        meaning="The sum of the heads' information, what several of them tell counted each time.",
        formula=r"\sum_i C_i,\quad C_i = H\Big(\frac{1}{n}\sum_q A^i_q\Big)"
        r" - \frac{1}{n}\sum_q H(A^i_q)",
        source="Shannon 1948",
        function=_part(layers.capacity, "total"),
        of="layer",
    ),
    Metric(
        key="capacity_best",
        title="Capacity of the best head",
        unit="nats",
        limits=(0.0, None),
        direction="higher means one head alone tells more about which token is looking",
        meaning="The largest information of one head: all heads together tell at least that.",
        formula=r"\max_i C_i",
        source="Shannon 1948",
        function=_part(layers.capacity, "best"),
        of="layer",
    ),
    Metric(
        key="capacity_pooled",
        title="Capacity of the mean pattern",
        unit="nats",
        limits=(0.0, None),
        direction="higher means the heads agree on a place of its own for each token",
        meaning="What a place looked at tells about the token looking, if the head is not named.",
        formula=r"C\Big(\frac{1}{n_h}\sum_i A^i\Big)",
        source="Shannon 1948",
        function=_part(layers.capacity, "pooled"),
        of="layer",
    ),
    Metric(
        key="capacity_bound",
        title="Capacity, at most",
        unit="nats",
        limits=(0.0, None),
        direction="higher means the heads together may tell more about which token is looking",
        meaning="What all heads together can tell at most about which token is looking.",
        formula=r"\min\Big(\sum_i C_i,\ \ln n\Big)",
        source="Cover and Thomas 2006, chapter 2",
        function=_part(layers.capacity, "bound"),
        of="layer",
    ),
    Metric(
        key="variance_ratio",
        title="Variance of the sum over the sum of variances",
        limits=(0.0, None),
        direction="higher means the heads' outputs change together; above 1 the statement fails",
        meaning="The statement Var(sum of heads) <= sum of Var(head), as a ratio on this text.",
        formula=r"\frac{\mathrm{Var}\big(\sum_i h_i\big)}{\sum_i \mathrm{Var}(h_i)}",
        source="a statement of textbooks, measured",
        function=_part(layers.variance_statement, "ratio"),
        of="layer",
        needs=frozenset({"outputs"}),
    ),
    Metric(
        key="norm_ratio",
        title="Squared norm of the sum over d_model",
        limits=(0.0, None),
        direction="higher means a larger output; 1 is what the statement says",
        meaning="The statement E||sum of heads||^2 = d_model, as a ratio on this text, without the"
        " bias.",
        formula=r"\frac{1}{d_{\mathrm{model}}}\,\frac{1}{n}\sum_q"
        r" \Big\lVert \sum_i h_i(q) \Big\rVert_2^2",
        source="a statement of textbooks, measured",
        function=_part(layers.norm_statement, "ratio"),
        of="layer",
        needs=frozenset({"outputs"}),
    ),
)
