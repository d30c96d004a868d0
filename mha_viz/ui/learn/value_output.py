"""Lab 5 on screen: merged matrices, their bill and rank, and heads' parts of the whole."""

from __future__ import annotations

import pandas as pd
import streamlit as st
import torch

from mha_viz.core.multi_head import AttentionWeights
from mha_viz.core.record import AttentionRecord
from mha_viz.engine.model import AttentionModel
from mha_viz.errors import MhaVizError
from mha_viz.labs.activations import LayerActivations, spread
from mha_viz.labs.value_output import (
    Parts,
    Spectrum,
    bill,
    parts,
    slice_shares,
    spectrum,
    two_ways,
)
from mha_viz.plots.bars import token_bars
from mha_viz.ui.learn import charts, frame
from mha_viz.ui.learn.choices import Choices
from mha_viz.ui.learn.step_by_step import activations_of
from mha_viz.ui.session import memory, state
from mha_viz.ui.session.scene import Scene
from mha_viz.ui.widgets import figures, look, picking, words
from mha_viz.ui.widgets.messages import plain
from mha_viz.web.labels import head_name
from mha_viz.web.theme import format_number

LENGTHS = tuple(2**i for i in range(13))  # 1 to 4,096 tokens
_CELLS = 4_000  # of the matrix of norms


def draw(choices: Choices) -> None:
    """The text run, then one head's two matrices, then all heads of its layer."""
    scene = picking.picked()
    _lab(choices, scene)


@frame.part
def _lab(choices: Choices, scene: Scene) -> None:
    record = scene.record
    frame.layer_and_head(record.n_layers, record.n_heads)
    view = state.current()
    model = memory.model(view.model, view.device, view.dtype)
    weights = model.attention_weights(view.layer, record.part)
    seen = activations_of(scene, model, view.layer)
    _merged(choices, record, weights, seen)
    _bill(choices, model, weights)
    _rank(choices, scene, weights)
    own = spread(weights)
    found = parts(record.kept("z")[view.layer], own.W_O, own.b_O)
    _parts(choices, scene, found, seen, own.b_O is not None)
    _slices(choices, record, found)
    choices.publish()


# -- one head: two matrices or one -----------------------------------------------------------------


def _merged(
    choices: Choices, record: AttentionRecord, weights: AttentionWeights, seen: LayerActivations
) -> None:
    d_model, width = weights.W_O.shape[2], weights.W_O.shape[1]
    frame.step(
        "Two matrices that could be one",
        "A token is a row of d_model numbers that runs from the embedding through all layers to "
        "the prediction: the **residual stream**. No layer replaces it. Attention and MLP read it "
        "and *write* into it, which means that their output is added. Only W_V and W_O stand "
        "between a token and what a head writes about it, and nothing "
        "nonlinear lies between them: attention weights only mix tokens. So the two matrices can "
        "be multiplied once and for all.",
        r"\begin{gathered} \text{head}_i(X) = A_i\, (X W^V_i)\, W^O_i = A_i\, X\, W^{VO}_i \\ "
        r"W^{VO}_i = W^V_i W^O_i \end{gathered}",
    )
    view = state.current()
    found = two_ways(weights, view.head, record.pattern[view.layer, view.head], seen.Y)
    window = charts.window()
    rows, columns = list(record.labels)[: window.size], min(window.size, d_model)
    with st.container(horizontal=True):
        for key, title, values in (
            ("apart", "A (X W_V) W_O", found.apart),
            ("merged", "A X W_VO", found.merged),
        ):
            charts.matrix(
                choices.key(key),
                values[: window.size, : window.size],
                title,
                rows=rows,
                columns=[str(i) for i in range(columns)],
                shape=f"{values.shape[0]} × {d_model}",
                cell=window.cell,
                letters=window.letters,
            )
    if max(values.shape[0], d_model) > window.size:
        st.caption(f"The first {len(rows)} tokens and {columns} columns.")
    st.markdown(
        f"What {head_name(view.layer, view.head)} writes, computed both ways: the largest "
        f"difference of any two numbers is **{found.difference:.2g}**, where the largest number is "
        f"{format_number(found.size)}. W_V is {weights.W_V.shape[1]} × {width}, W_O {width} × "
        f"{d_model}, and W_VO {weights.W_V.shape[1]} × {d_model}."
    )


@frame.part
def _bill(choices: Choices, model: AttentionModel, weights: AttentionWeights) -> None:
    """A part of its own inside the part: its control changes nothing but this."""
    d_model, width = weights.W_O.shape[2], weights.W_O.shape[1]
    frame.step(
        "What it costs",
        "Per head, on n tokens, without biases. We count multiplications whose results are added "
        "up.",
        r"\begin{aligned} \text{two:} \quad & 2\, n\, d\, d_v + n^2 d_v \\ "
        r"\text{one:} \quad & n\, d^2 + n^2 d \end{aligned}",
    )
    two, one = bill(1, d_model, width).parameters
    answers = ["Fewer: one matrix instead of two", "As many", "More"]
    frame.predict(
        choices,
        "bill",
        f"d = {d_model}, d_v = {width}: how many parameters does the one matrix have, compared "
        "with the two?",
        answers,
        0 if one < two else 1 if one == two else 2,
        f"{d_model} × {d_model} = {one:,} against 2 × {d_model} × {width} = {two:,}. With d_v = "
        "d / h it is h / 2 times as many: two heads make no difference, with more heads merging "
        "costs more.",
    )
    n = choices.slide("n", "Tokens n", LENGTHS, 128, width=320)
    now = bill(n, d_model, width)
    edge = now.break_even
    st.markdown(
        f"At n = {n:,} the two matrices take **{now.operations[0]:,}** operations, the one "
        f"**{now.operations[1]:,}**: {now.operations[1] / now.operations[0]:.3g} times as many. "
        f"Merging would pay for heads wider than d_v = {format_number(edge)}, which is more than "
        "half of d."
    )
    widths = sorted({*(max(1, round(d_model * i / 24)) for i in range(1, 37)), width})
    bills = [bill(n, d_model, d_value) for d_value in widths]
    two_cost, one_cost = ([b.operations[i] for b in bills] for i in range(2))
    charts.lines(
        choices.key("operations"),
        {"W_V and W_O": (widths, two_cost), "W_VO": (widths, one_cost)},
        title="Operations of one head",
        x_title="width d_v of the head",
        y_title="operations",
        moments={f"this head: {width}": float(width)},
        note=f"n = {n:,}, d = {d_model}",
        table={
            "d_v": widths,
            "parameters, two": [b.parameters[0] for b in bills],
            "parameters, one": [b.parameters[1] for b in bills],
            "operations, two": two_cost,
            "operations, one": one_cost,
        },
        caption=f"{model.name} · n = {n}, d_model = {d_model}, d_v = {width}",
        how_to_read="The one matrix costs the same for every d_v. Where the lines cross, it is as "
        "expensive as the two: at d / 2 for short texts, near d for long ones. Heads of a usual "
        "model lie far to the left.",
    )
    choices.publish()


def _rank(choices: Choices, scene: Scene, weights: AttentionWeights) -> None:
    view = state.current()
    d_model, width = weights.W_O.shape[2], weights.W_O.shape[1]
    frame.step(
        "What two matrices forbid",
        f"A product through d_v = {width} numbers has at most rank {width}. Whatever the text is, "
        f"this head can write into {width} of {d_model} directions only.",
        r"\operatorname{rank}(W^V_i W^O_i) \le d_v",
    )
    found: Spectrum = memory.cache().get(
        (view.model, view.device, view.dtype, view.part, view.layer, view.head, "spectrum"),
        lambda: spectrum(weights, view.head),
        lambda held: held.values.nbytes,
    )
    values = found.values.numpy()
    measured = (
        ""
        if found.all_of_them
        else (
            f" For a matrix this large only the {len(values)} that may differ from 0 are computed."
        )
    )
    last = min(width, len(values))
    st.markdown(
        f"Measured on {head_name(view.layer, view.head)}: rank **{found.rank}**. The largest "
        f"singular value is {format_number(values[0])}, the last of {last} is "
        f"{format_number(values[last - 1])}.{measured}"
    )
    places = list(range(1, len(values) + 1))
    charts.lines(
        choices.key("spectrum"),
        {"singular value": (places, values)},
        title="Singular values of W_V W_O",
        x_title="number",
        y_title="singular value",
        y_axis="log",
        height=300,
        moments={f"d_v = {width}": float(width)},
        table={"number": places, "singular value": values},
        caption=words.settings(scene, head_name(view.layer, view.head)),
        how_to_read="The cliff is at d_v. What lies behind it is the rounding of float64, "
        "sixteen digits below the largest.",
    )


# -- all heads of a layer --------------------------------------------------------------------------


def _parts(
    choices: Choices, scene: Scene, found: Parts, seen: LayerActivations, has_bias: bool
) -> None:
    view, record = state.current(), scene.record
    plus = " + b^O" if has_bias else ""
    frame.step(
        "The parts make up the whole",
        "Putting heads side by side and multiplying with W_O is the same as letting each head "
        "multiply with its own slice of W_O and adding up.",
        rf"\text{{output}} = \sum_i z_i\, W^O_i{plus}",
    )
    frame.predict(
        choices,
        "cancel",
        "The heads’ parts are added. Is the sum’s length the sum of their lengths?",
        ["Yes", "No, it can be less", "No, it can be more"],
        1,
        "Parts that point different ways cancel in part. Below: this layer, token by token.",
    )
    gap = (found.total - seen.output).abs().amax(-1)
    ratio = float(found.norm_of_sum.sum() / found.sum_of_norms.sum())
    st.markdown(
        f"Layer {view.layer}: the {record.n_heads} parts{' and b_O' if has_bias else ''} differ "
        f"from the model’s own attention output by at most **{float(gap.max()):.2g}** (largest "
        f"number {format_number(seen.output.abs().max())}). The sum is {ratio:.0%} as long as its "
        "parts together: the rest cancels."
    )
    series = {
        "length of the sum": found.norm_of_sum.numpy(),
        "sum of the lengths": found.sum_of_norms.numpy(),
    }
    labels = list(record.labels)
    figures.show(
        token_bars(series, labels, "length", dark=look.dark()),
        key=choices.key("lengths"),
        name="Length of the sum and sum of the lengths",
        table=_by_token(record, found, gap),
        caption=words.settings(scene, f"L{view.layer}"),
        how_to_read="Two bars for each token, without b_O. Where the first is much shorter, the "
        "heads of this layer work against each other there. The table has every head’s part.",
    )
    n = min(len(labels), _CELLS // record.n_heads)
    charts.matrix(
        choices.key("norms"),
        found.norms[:, :n],
        "Length of each head’s part",
        rows=[f"H{i}" for i in range(record.n_heads)],
        columns=labels[:n] if n <= 24 else (),
        shape=f"{record.n_heads} heads × {n} tokens",
        diverging=False,
        limits=(0.0, float(found.norms.max()) or 1.0),
        cell=46 if n <= 18 else max(4, 700 // n),
    )
    if n < len(labels):
        st.caption(f"The first {n} of {len(labels)} tokens.")


def _by_token(record: AttentionRecord, found: Parts, gap: torch.Tensor) -> pd.DataFrame:
    columns = {f"H{i}": norms.numpy() for i, norms in enumerate(found.norms)}
    return pd.DataFrame(
        {
            "token": list(record.labels),
            **columns,
            "sum of the lengths": found.sum_of_norms.numpy(),
            "length of the sum": found.norm_of_sum.numpy(),
            "difference from the model": gap.numpy(),
        }
    )


def _slices(choices: Choices, record: AttentionRecord, found: Parts) -> None:
    n_heads, layer = record.n_heads, state.current().layer
    frame.step(
        "Why W_O?",
        "Without W_O heads would only stand side by side: head 0 could write into the first "
        "d_model / h numbers of a token and nowhere else, head 1 into the next ones. Whatever "
        "reads the token later would find each head in its own drawer. W_O lets every head write "
        "anywhere.",
        r"\text{share}_{ij} = \frac{\lVert \text{head}_i[\text{slice } j] \rVert^2}"
        r"{\lVert \text{head}_i \rVert^2}",
    )
    try:
        shares = slice_shares(found.outputs)
    except MhaVizError as error:
        st.info(plain(str(error)), icon=":material/info:")
        return
    names, own = [f"H{i}" for i in range(n_heads)], shares.diagonal()
    frame.predict(
        choices,
        "slices",
        f"How much of what a head of this model writes lies in its own slice, one of {n_heads}?",
        ["More than 90 %", "Less: W_O spreads it", "Nothing"],
        0 if float(own.mean()) > 0.9 else 1,
        f"In this layer {float(own.mean()):.1%} on average, where {1 / n_heads:.1%} would be no "
        "preference at all.",
    )
    charts.weights(
        choices.key("slices"),
        shares,
        "Share of each head’s output",
        names,
        [f"{i}" for i in range(n_heads)],
        shape="head × slice",
        marked=[(i, i) for i in range(n_heads)] if n_heads <= 20 else [],
        cell=46 if n_heads <= 12 else 30 if n_heads <= 20 else 12,
    )
    st.markdown(
        f"Layer {layer}: a head’s own slice holds {float(own.mean()):.1%} of its output on average "
        f"(from {float(own.min()):.1%} to {float(own.max()):.1%}). Side by side, without W_O, it "
        f"would be 100 %; without any preference {1 / n_heads:.1%}."
    )
