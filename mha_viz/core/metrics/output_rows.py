"""The rows of the table for what is measured of one head's output."""

from mha_viz.core.metrics import outputs
from mha_viz.core.metrics.metric import Metric

ROWS = (
    Metric(
        key="norm_of_mean_output",
        title="Norm of the mean output",
        limits=(0.0, None),
        direction="higher means more is added to every token alike",
        meaning="How large the head's average contribution to the residual stream is.",
        formula=r"\Big\lVert \frac{1}{n}\sum_q z_q W_O \Big\rVert_2",
        source="after Kobayashi et al. 2020",
        function=outputs.norm_of_mean_output,
        needs=frozenset({"outputs", "compact"}),
    ),
    Metric(
        key="output_norm",
        title="Mean norm of the output",
        limits=(0.0, None),
        direction="higher means more is written per token",
        meaning="How much the head writes into the residual stream, averaged over the text.",
        formula=r"\frac{1}{n}\sum_q \lVert z_q W_O \rVert_2",
        source="Kobayashi et al. 2020",
        function=outputs.output_norm,
        needs=frozenset({"outputs", "compact"}),
    ),
    Metric(
        key="output_share",
        title="Share of the layer's output",
        unit="share",
        limits=(0.0, 1.0),
        direction="higher means more of what the layer's heads write is from this one",
        meaning="The mean norm of the head's output over the sum of those of its layer's heads.",
        formula=r"\frac{N_i}{\sum_j N_j},"
        r"\quad N_i = \frac{1}{n}\sum_q \lVert z_{i,q} W_{O,i} \rVert_2",
        source="after Kobayashi et al. 2020",
        function=outputs.output_share,
        needs=frozenset({"outputs", "compact"}),
    ),
    Metric(
        key="variance",
        title="Variance of the output",
        limits=(0.0, None),
        direction="higher means what is written differs more from token to token",
        meaning="How far the head's outputs lie from their mean, squared and averaged.",
        formula=r"\frac{1}{n}\sum_q \Big\lVert h_q - \frac{1}{n}\sum_{q'} h_{q'} \Big\rVert_2^2,"
        r"\quad h_q = z_q W_O",
        source="trace of the covariance matrix",
        function=outputs.variance,
        needs=frozenset({"outputs", "compact"}),
    ),
)
