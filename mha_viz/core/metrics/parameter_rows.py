"""The rows of the table for what is measured of heads' weights, without any text."""

from mha_viz.core.metrics import parameters
from mha_viz.core.metrics.metric import Metric

ROWS = (
    Metric(
        key="cosine",
        title="Cosine of the weights",
        limits=(-1.0, 1.0),
        direction="higher means more alike, entry by entry; independent weights are near 0",
        meaning="How alike two heads' weight matrices are, compared entry by entry.",
        formula=r"\frac{\langle W_i, W_j \rangle}{\lVert W_i \rVert\,\lVert W_j \rVert}",
        source="Frobenius inner product; Li et al. 2018",
        function=parameters.cosine,
        of="parameters",
    ),
    Metric(
        key="product_cosine",
        title="Cosine of the products",
        limits=(-1.0, 1.0),
        direction="higher means doing more alike with any text",
        meaning="How alike two heads are in what they match (queries with keys) or in what they"
        " move (values to outputs).",
        formula=r"\frac{\langle A_i B_i^\top, A_j B_j^\top \rangle}"
        r"{\lVert A_i B_i^\top \rVert\,\lVert A_j B_j^\top \rVert}",
        source="Elhage et al. 2021 (query-key and output-value circuits)",
        function=parameters.product_cosine,
        of="parameters",
    ),
    Metric(
        key="subspace_overlap",
        title="Overlap of the subspaces",
        unit="share",
        limits=(0.0, 1.0),
        direction="higher means reading or writing more of the same directions; random subspaces"
        " have d_head / d_model",
        meaning="How much of the space that one head reads or writes lies in that of another.",
        formula=r"\frac{1}{\min(r_i, r_j)} \lVert U_i^\top U_j \rVert_F^2,"
        r"\quad U_i \in \mathbb{R}^{d_\mathrm{model} \times r_i}",
        source="Bjorck and Golub 1973",
        function=parameters.subspace_overlap,
        of="parameters",
    ),
    Metric(
        key="product_overlap",
        title="Overlap of the products' subspaces",
        unit="share",
        limits=(0.0, 1.0),
        direction="higher means taking from and giving to more of the same directions; random ones"
        " have (d_head / d_model) squared",
        meaning="How much of the two spaces that a head's product of weights leads between lies in"
        " those of another head.",
        formula=r"\frac{1}{\min(r_i, r_j)^2}"
        r" \lVert U_i^\top U_j \rVert_F^2 \, \lVert V_i^\top V_j \rVert_F^2",
        source="after Bjorck and Golub 1973",
        function=parameters.product_overlap,
        of="parameters",
    ),
    Metric(
        key="diversity",
        title="Diversity",
        unit="share",
        limits=(0.0, 1.0),
        direction="higher means heads that are less alike; random ones are near 1",
        meaning="How different the weights of a layer's heads are from each other.",
        formula=r"\frac{1}{n_h(n_h-1)} \sum_{i \ne j} \big(1 - |\cos \theta_{ij}|\big)",
        source="Li et al. 2018",
        function=parameters.diversity,
        of="layer",
    ),
)
