"""The rows of the table for attention through all layers, and for weights with what they carry."""

from mha_viz.core.metrics import flow
from mha_viz.core.metrics.metric import Metric

ROWS = (
    Metric(
        key="attention_rollout",
        title="Attention rollout",
        unit="share",
        limits=(0.0, 1.0),
        direction="higher means more of the input token is mixed in, after this layer",
        meaning="How much of each input token is in each token, if all that layers do is to mix by"
        " their heads' mean attention and half of the residual.",
        formula=r"R_\ell = M_\ell R_{\ell-1},\quad M_\ell = \tfrac12 I + \tfrac12 \bar A_\ell",
        source="Abnar and Zuidema 2020",
        function=flow.attention_rollout,
        of="flow",
        needs=frozenset({"self"}),
    ),
    Metric(
        key="attention_flow",
        title="Attention flow",
        unit="share",
        limits=(0.0, 1.0),
        direction="higher means more could reach the token from this input token",
        meaning="The most that could flow between a token of the last layer and an input token, if"
        " attention weights were the widths of pipes.",
        formula=r"\max\text{-flow}\big((L, q) \to (0, k)\big)\ \text{with capacities } M_\ell",
        source="Abnar and Zuidema 2020",
        function=flow.attention_flow,
        of="flow",
        needs=frozenset({"self"}),
    ),
    Metric(
        key="value_weighted",
        title="Weight times value",
        limits=(0.0, None),
        direction="higher means more is carried from the token, whatever its weight",
        meaning="The attention weight times the length of the vector that it carries over.",
        formula=r"A_{qk}\,\lVert v_k W_O \rVert",
        source="Kobayashi et al. 2020",
        function=flow.value_weighted,
        of="flow",
        needs=frozenset({"outputs"}),
    ),
)
