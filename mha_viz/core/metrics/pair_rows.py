"""The rows of the table for what is measured of two heads on one text."""

from mha_viz.core.metrics import output_pairs, pairs
from mha_viz.core.metrics.metric import Metric

ROWS = (
    Metric(
        key="hellinger",
        title="Hellinger distance",
        limits=(0.0, 1.0),
        direction="higher means looking at other tokens",
        meaning="How far apart two heads' attention weights are, from the same to none in common.",
        formula=r"\sqrt{1 - \frac{1}{n}\sum_q \sum_k \sqrt{A^i_{qk} A^j_{qk}}}",
        source="Hellinger 1909",
        function=pairs.hellinger,
        of="pair",
    ),
    Metric(
        key="jensen_shannon",
        title="Jensen-Shannon divergence",
        unit="nats",
        limits=(0.0, None),
        direction="higher means looking at other tokens",
        meaning="How well a place looked at tells which of the two heads looked; ln 2 at most.",
        formula=r"\frac{1}{n}\sum_q \Big[ H\Big(\frac{A^i_q + A^j_q}{2}\Big)"
        r" - \frac{H(A^i_q) + H(A^j_q)}{2} \Big]",
        source="Lin 1991; Clark et al. 2019, section 6",
        function=pairs.jensen_shannon,
        of="pair",
    ),
    Metric(
        key="correlation",
        title="Correlation of z",
        limits=(-1.0, 1.0),
        direction="higher means the same numbers, coordinate by coordinate",
        meaning="Whether two heads' results rise and fall together, each in its own coordinates.",
        formula=r"\frac{\mathrm{Cov}(z_i, z_j)}{\sigma_i \sigma_j}",
        source="Pearson's correlation",
        function=output_pairs.correlation,
        of="pair",
        needs=frozenset({"outputs"}),
    ),
    Metric(
        key="redundancy",
        title="Redundancy, normalized",
        limits=(0.0, 1.0),
        direction="higher means results in the same directions, coordinate by coordinate",
        meaning="How far two heads' results lie in the same directions of their own coordinates.",
        formula=r"\frac{R_{ij}}{\sqrt{R_{ii} R_{jj}}},\quad R_{ij} ="
        r" \frac{\lVert z_i z_j^\top \rVert_F}{\lVert z_i \rVert_F \lVert z_j \rVert_F}",
        source="textbooks; the scale so that a head beside itself has 1 is ours",
        function=output_pairs.redundancy,
        of="pair",
        needs=frozenset({"outputs"}),
    ),
    Metric(
        key="redundancy_textbook",
        title="Redundancy, as in textbooks",
        limits=(0.0, 1.0),
        direction="higher means results in the same directions and in few of them",
        meaning="Redundancy before it is divided: a head beside itself has 1 only if it writes in"
        " one direction.",
        formula=r"\frac{\lVert z_i z_j^\top \rVert_F}{\lVert z_i \rVert_F \lVert z_j \rVert_F}",
        source="textbooks",
        function=output_pairs.redundancy_textbook,
        of="pair",
        needs=frozenset({"outputs"}),
    ),
    Metric(
        key="cka",
        title="Centred kernel alignment",
        limits=(-1.0, 1.0),
        direction="higher means treating the same tokens alike",
        meaning="Whether tokens that one head treats alike are alike to the other, less what"
        " chance would give: unrelated heads are near 0. Coordinates do not matter; defined from"
        " four tokens on.",
        formula=r"\frac{\langle U_i, U_j \rangle}{\lVert U_i \rVert_F \lVert U_j \rVert_F},\quad"
        r" U_{q \ne r} = K_{qr} - \frac{s_q + s_r}{n-2} + \frac{\sum_t s_t}{(n-1)(n-2)},"
        r"\ U_{qq} = 0,\quad s_q = \sum_{r \ne q} K_{qr},\ K = z z^\top",
        source="Song et al. 2012; Nguyen et al. 2021; Murphy et al. 2024",
        function=output_pairs.cka,
        of="pair",
        needs=frozenset({"outputs"}),
    ),
    Metric(
        key="cka_biased",
        title="Centred kernel alignment, biased",
        limits=(0.0, 1.0),
        direction="higher means treating the same tokens alike, or few tokens",
        meaning="The alignment as first published: unrelated heads are far above 0 on short texts.",
        formula=r"\frac{\langle K_i, K_j \rangle}{\lVert K_i \rVert_F \lVert K_j \rVert_F},"
        r"\quad K = \bar z \bar z^\top",
        source="Kornblith et al. 2019",
        function=output_pairs.cka_biased,
        of="pair",
        needs=frozenset({"outputs"}),
    ),
)
