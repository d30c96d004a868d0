"""Lab 8 on screen, its comparisons: two texts, a fused kernel, and a recurrent network."""

from __future__ import annotations

from dataclasses import replace

import pandas as pd
import streamlit as st

from mha_viz.core.amounts import of_bytes, short
from mha_viz.labs import cost_against_rnn
from mha_viz.labs.cost import Sizes, costs
from mha_viz.labs.cost_against_rnn import KERNEL, KINDS, WIDTH, Reached
from mha_viz.plots.curves import ticks
from mha_viz.ui.learn import charts, frame
from mha_viz.ui.learn.choices import Choices

NAMES = {"attention": "attention", "recurrent": "RNN", "convolution": "convolution"}
PADDED = (64, 512)  # two texts of one batch


def two_texts(choices: Choices, sizes: Sizes) -> None:
    """Cross attention, and a batch."""
    frame.step(
        "Two texts, and many at once",
        "In cross attention n tokens ask and r tokens of **another** text are read: n r pairs, no "
        "square. Queries and outputs are projected for n tokens, keys and values for r. A batch of "
        "b texts does all of it b times, with the same matrices: texts never look at each other. "
        "Set “Tokens read” and “Texts at once” above.",
        r"\begin{aligned} C_{\text{layer}} &= b\,\big(2\,(n + r)\, m^2 + 2\, n\, r\, m\big) \\ "
        r"M_{\text{weights}} &= b\, h\, n\, r \end{aligned}",
    )
    frame.predict(
        choices,
        "batch",
        "Eight texts run at once instead of one. What does not become eight times as much?",
        ["The attention weights", "The key-value cache", "The parameters"],
        2,
        "The matrices are the same for all texts; that is why a batch is quicker than its texts "
        "one by one: each matrix is fetched from memory once.",
    )
    cost = costs(sizes)
    lengths = "self-attention" if sizes.n_read == sizes.n else "cross attention"
    few, many = PADDED
    pairs, padded = few**2 + many**2, 2 * many**2
    st.markdown(
        f"Now: {lengths}, {sizes.batch:,} × {sizes.n:,} × {sizes.n_read:,} = "
        f"**{sizes.batch * sizes.n * sizes.n_read:,}** pairs for each head, "
        f"{of_bytes(cost.pattern / sizes.n_layers)} of weights in one layer. Texts of a batch are "
        f"padded to the longest: one of {few} and one of {many} tokens are computed as {padded:,} "
        f"pairs, {padded / pairs:.2f} times the {pairs:,} that mean something."
    )


def fused(choices: Choices, sizes: Sizes) -> None:
    """What FlashAttention saves, and what not."""
    frame.step(
        "What FlashAttention saves, and what not",
        "A fused kernel goes through the keys in tiles and never holds all weights: it keeps one "
        "number for each row, the logarithm of its sum, and with that can make any tile again. The "
        "result is the same up to rounding: it is no approximation.",
    )
    frame.predict(
        choices,
        "flash",
        "A text twice as long, with FlashAttention: how many more products does Q Kᵀ take?",
        ["Twice as many", "Four times as many", "As many as before"],
        1,
        "Every query still meets every key. Only the memory grows in proportion to the text.",
    )
    made = [costs(sizes), costs(replace(sizes, n=2 * sizes.n, n_read=2 * sizes.n_read))]
    twice = f"n = {2 * sizes.n:,}"
    rows = {
        "products, weights kept": [short(c.scores + c.mixing) for c in made],
        "products, fused": [short(c.scores + c.mixing) for c in made],
        "memory, weights kept": [of_bytes(c.pattern / sizes.n_layers) for c in made],
        "memory, fused": [of_bytes(c.row_sums / sizes.n_layers) for c in made],
        "key-value cache": [of_bytes(c.cache / sizes.n_layers) for c in made],
    }
    st.dataframe(
        pd.DataFrame(
            {
                "One layer": list(rows),
                f"n = {sizes.n:,}": [row[0] for row in rows.values()],
                twice: [row[1] for row in rows.values()],
            }
        ),
        hide_index=True,
        width="content",
        key=choices.key("fused"),
    )
    st.markdown(
        "**Saved**: memory for the weights (n r becomes n), and the way of each weight to main "
        "memory and back, which on a GPU takes longer than the products; “weights never kept” "
        "below is its time here. **Not saved**: products (in training even more, since tiles are "
        "made again for the gradients), the key-value cache, and the matrices. And to **see** the "
        "weights, as this app shows them everywhere, one has to keep them."
    )


@frame.part
def against_rnn(choices: Choices) -> None:
    """Path length and operations, as in table 1 of Vaswani et al."""
    frame.step(
        "Against an RNN",
        "Why attention at all? An RNN hands on what it has read from token to token. Attention "
        "reaches any token at once, and all tokens can be computed at the same time; it pays with "
        "n² pairs. Table 1 of Vaswani et al. 2017, for a layer of width d:",
        r"\begin{array}{l|lll} & \text{products} & \text{in turn} & \text{path} \\ \hline "
        r"\text{attention} & O(n^2 d) & O(1) & O(1) \\ \text{RNN} & O(n\,d^2) & O(n) & O(n) \\ "
        r"\text{convolution} & O(k\,n\,d^2) & O(1) & O(\log_k n) \end{array}",
    )
    frame.predict(
        choices,
        "path",
        "64 tokens. Through how many matrix products does the first token reach the last one’s "
        "output, in an RNN and in attention?",
        ["64 and 3", "64 and 64", "6 and 1"],
        0,
        "The RNN multiplies once for every token on the way. Attention: W_V, weights, W_O, "
        "however long the text is.",
    )
    width = choices.slide("rnn_width", "Width d", (4, 16, 64), WIDTH, width=200)
    found, lengths = _reached(width), cost_against_rnn.LENGTHS
    drawn = {NAMES[kind]: (lengths, [r.path for r in found[kind]]) for kind in KINDS}
    charts.lines(
        choices.key("paths"),
        drawn,
        title="From the first token to the last one’s output",
        x_title="tokens n",
        y_title="matrix products on the way",
        x_axis="log",
        y_axis="log",
        height=320,
        more=dict(xaxis=ticks(lengths)),
        table=_table(found, width),
        caption=f"Measured on the graph of gradients · d = {width}, kernel {KERNEL}, dilated",
        how_to_read="Counted by walking back the graph that autograd keeps, from the last output "
        "to the first token. The table lists the products, counted while the layers ran, and how "
        "many of them have to wait for each other. Convolutions are stacked until they see all "
        "tokens.",
    )
    most = found["attention"][-1].products / found["recurrent"][-1].products
    st.markdown(
        f"At n = {lengths[-1]} and d = {width} attention takes **{most:.3g} times** the products "
        f"of the RNN, projections included, but only {found['attention'][-1].in_turn} of its "
        f"steps wait for each other, against {found['recurrent'][-1].in_turn}. A long way is also "
        "why an RNN forgets: the gradient is multiplied by the same matrix at each step."
    )
    choices.publish()


def _table(found: dict[str, list[Reached]], width: int) -> dict[str, list[int]]:
    columns: dict[str, list[int]] = {"n": list(cost_against_rnn.LENGTHS)}
    for kind, rows in found.items():
        columns |= {
            f"path, {NAMES[kind]}": [row.path for row in rows],
            f"in turn, {NAMES[kind]}": [row.in_turn for row in rows],
            f"products, {NAMES[kind]}": [row.products for row in rows],
            f"formula, {NAMES[kind]}": [
                cost_against_rnn.formula(kind, n, width) for n in cost_against_rnn.LENGTHS
            ],
        }
    return columns


@st.cache_data(max_entries=3, show_spinner="Walking through the graphs …")
def _reached(width: int) -> dict[str, list[Reached]]:
    return {
        kind: [cost_against_rnn.reached(kind, n, width) for n in cost_against_rnn.LENGTHS]
        for kind in KINDS
    }
