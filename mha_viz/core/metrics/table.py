"""The one table that names every per-head metric, and one call that computes those which apply.

Knows the metric functions; must not know models, records or how a table is shown.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from jaxtyping import Float
from torch import Tensor

from mha_viz.core.checks import Anything
from mha_viz.core.metrics.checks import check_pattern, check_per_key
from mha_viz.core.metrics.content import duplicate_token, special_token
from mha_viz.core.metrics.focus import confidence, sparsity
from mha_viz.core.metrics.position import (
    distance,
    first_token,
    induction,
    next_token,
    previous_token,
    self_token,
)
from mha_viz.core.metrics.spread import entropy, information, normalized_entropy, row_entropy

Need = Literal["self", "neighbours", "special", "ids", "causal", "period", "rows"]


@dataclass(frozen=True)
class Metric:
    """One number per head, and all that a reader has to know about it.

    Args:
        key: its name in code and in files.
        title: its name on screen.
        unit: "nats", "tokens", "keys", "probability" or "share".
        range: lowest and highest value; None where the highest grows with the text.
        direction: what a higher value means.
        meaning: one sentence in plain words.
        formula: LaTeX; A is the pattern, q a query, k a key, n the number of tokens.
        source: where it is from.
        function: (pattern, **what it needs) -> (layer, head).
        needs: beyond the pattern: "self" self-attention, "neighbours" that of two tokens or more,
            "special" is_special, "ids" token ids with one that repeats, "causal" whether the
            future is hidden, "period" a text said twice; "rows": can be handed its row entropies.

    >>> METRICS["distance"].unit
    'tokens'
    """

    key: str
    title: str
    unit: str
    range: tuple[float, float | None]
    direction: str
    meaning: str
    formula: str
    source: str
    function: Callable[..., Tensor]
    needs: frozenset[Need] = frozenset()


_ALL = (
    Metric(
        key="entropy",
        title="Entropy",
        unit="nats",
        range=(0.0, None),
        direction="higher means spread over more tokens",
        meaning="How undecided the head is about where to look, averaged over the text.",
        formula=r"\frac{1}{n}\sum_q \Big(-\sum_k A_{qk} \ln A_{qk}\Big)",
        source="Clark et al. 2019, section 3.3",
        function=entropy,
        needs=frozenset({"rows"}),
    ),
    Metric(
        key="normalized_entropy",
        title="Normalized entropy",
        unit="share",
        range=(0.0, 1.0),
        direction="higher means closer to looking at everything alike",
        meaning="Entropy as a share of the most it could be with the tokens each row may see.",
        formula=r"\frac{1}{n}\sum_q \frac{-\sum_k A_{qk} \ln A_{qk}}{\ln m_q}",
        source="Shannon 1948, section 7",
        function=normalized_entropy,
        needs=frozenset({"causal", "rows"}),
    ),
    Metric(
        key="information",
        title="Information",
        unit="nats",
        range=(0.0, None),
        direction="higher means each token looks somewhere of its own",
        meaning="How much the place looked at tells about which token is looking.",
        formula=r"H\Big(\frac{1}{n}\sum_q A_q\Big) - \frac{1}{n}\sum_q H(A_q)",
        source="Shannon 1948; Lin 1991",
        function=information,
        needs=frozenset({"rows"}),
    ),
    Metric(
        key="confidence",
        title="Confidence",
        unit="probability",
        range=(0.0, 1.0),
        direction="higher means one token takes most of the weight",
        meaning="The largest attention weight of a row, averaged over the text.",
        formula=r"\frac{1}{n}\sum_q \max_k A_{qk}",
        source="Voita et al. 2019",
        function=confidence,
    ),
    Metric(
        key="sparsity",
        title="Keys for 90 % of the weight",
        unit="keys",
        range=(0.0, None),
        direction="higher means more tokens share the weight",
        meaning="How many tokens it takes, heaviest first, to hold 90 % of a row's weight.",
        formula=r"\frac{1}{n}\sum_q \min\Big\{|S| : \sum_{k \in S} A_{qk} \ge 0.9\Big\}",
        source="Holtzman et al. 2020 (nucleus)",
        function=sparsity,
    ),
    Metric(
        key="distance",
        title="Distance",
        unit="tokens",
        range=(0.0, None),
        direction="higher means looking further away",
        meaning="How many tokens away the head looks, forwards or backwards, on average.",
        formula=r"\frac{1}{n}\sum_q \sum_k A_{qk}\,|q-k|",
        source="Vig and Belinkov 2019",
        function=distance,
        needs=frozenset({"self"}),
    ),
    Metric(
        key="previous_token",
        title="Previous token",
        unit="probability",
        range=(0.0, 1.0),
        direction="higher means more weight on the token before",
        meaning="The weight a token gives to the one just before it.",
        formula=r"\frac{1}{n-1}\sum_{q \ge 1} A_{q,q-1}",
        source="Clark et al. 2019, section 3.1",
        function=previous_token,
        needs=frozenset({"neighbours"}),
    ),
    Metric(
        key="next_token",
        title="Next token",
        unit="probability",
        range=(0.0, 1.0),
        direction="higher means more weight on the token after",
        meaning="The weight a token gives to the one just after it; 0 where the future is hidden.",
        formula=r"\frac{1}{n-1}\sum_{q \le n-2} A_{q,q+1}",
        source="Clark et al. 2019, section 3.1",
        function=next_token,
        needs=frozenset({"neighbours"}),
    ),
    Metric(
        key="self_token",
        title="Same position",
        unit="probability",
        range=(0.0, 1.0),
        direction="higher means more weight on the token itself",
        meaning="The weight a token gives to itself.",
        formula=r"\frac{1}{n}\sum_q A_{qq}",
        source="Clark et al. 2019, section 3.1",
        function=self_token,
        needs=frozenset({"self"}),
    ),
    Metric(
        key="first_token",
        title="First token",
        unit="probability",
        range=(0.0, 1.0),
        direction="higher means more weight on the start of the text",
        meaning="The weight given to the first token, where many heads rest when idle.",
        formula=r"\frac{1}{n}\sum_q A_{q0}",
        source="Vig and Belinkov 2019; Xiao et al. 2024",
        function=first_token,
    ),
    Metric(
        key="special_token",
        title="Special tokens",
        unit="probability",
        range=(0.0, 1.0),
        direction="higher means more weight on tokens that are not part of the text",
        meaning="The weight given to markers such as [CLS] and [SEP].",
        formula=r"\frac{1}{n}\sum_q \sum_{k\ \mathrm{special}} A_{qk}",
        source="Clark et al. 2019, section 3.2",
        function=special_token,
        needs=frozenset({"special"}),
    ),
    Metric(
        key="duplicate_token",
        title="Same token elsewhere",
        unit="probability",
        range=(0.0, 1.0),
        direction="higher means more weight on repetitions of the token",
        meaning="The weight a repeated token gives to its other occurrences.",
        formula=r"\frac{1}{|R|}\sum_{q \in R}\ \sum_{k \ne q,\ t_k = t_q} A_{qk}",
        source="Wang et al. 2022",
        function=duplicate_token,
        needs=frozenset({"self", "ids"}),
    ),
    Metric(
        key="induction",
        title="Induction",
        unit="probability",
        range=(0.0, 1.0),
        direction="higher means looking at what came next last time",
        meaning="On a random text said twice: the weight a token gives to what followed it before.",
        formula=r"\frac{1}{p}\sum_{q=p}^{2p-1} A_{q,\,q-p+1}",
        source="Olsson et al. 2022",
        function=induction,
        needs=frozenset({"self", "period"}),
    ),
)

METRICS: dict[str, Metric] = {metric.key: metric for metric in _ALL}


def head_table(
    pattern: Anything,
    *,
    ids: Anything | None = None,
    is_special: Anything | None = None,
    causal: bool = False,
    period: int | None = None,
) -> dict[str, Float[Tensor, "layer head"]]:
    """Every metric that applies to this pattern, in the order of `METRICS`.

    A metric is left out where it has no meaning or nothing to go on: positions in
    cross-attention, neighbours of a single token, repetitions where no token repeats.

    Args:
        pattern: (layer, head, query, key).
        ids: integers (key,), token ids.
        is_special: bool (key,).
        causal: whether the future was hidden.
        period: tokens in one copy, if the text is one said twice from its first token on.

    Returns:
        metric key -> (layer, head).

    Raises:
        ShapeError, DTypeError, ArgumentError: as the metrics do.

    >>> import torch
    >>> table = head_table(torch.eye(2).reshape(1, 1, 2, 2))
    >>> table["self_token"], "special_token" in table
    (tensor([[1.]]), False)
    """
    check_pattern(pattern)
    for name, per_key in (("ids", ids), ("is_special", is_special)):
        if per_key is not None:
            check_per_key(name, per_key, pattern)
    n_query, n_key = pattern.shape[-2:]
    met: set[Need] = {"causal", "rows"}
    met |= {"self"} if n_query == n_key else set()
    met |= {"neighbours"} if n_query == n_key > 1 else set()
    met |= {"special"} if is_special is not None else set()
    met |= {"ids"} if ids is not None and len(set(ids.tolist())) < len(ids) else set()
    met |= {"period"} if period is not None else set()
    given: dict[Need, dict[str, object]] = {
        "special": {"is_special": is_special},
        "ids": {"ids": ids},
        "causal": {"causal": causal},
        "period": {"period": period},
        "rows": {"rows": row_entropy(pattern)},  # three metrics are made of these
    }
    table: dict[str, Tensor] = {}
    for metric in METRICS.values():
        if metric.needs <= met:
            extra = {k: v for need in metric.needs for k, v in given.get(need, {}).items()}
            table[metric.key] = metric.function(pattern, **extra)
    return table
