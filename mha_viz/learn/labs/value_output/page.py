"""Lab 5 on screen: the price of two matrices and one, and heads' parts of the whole."""

from functools import partial

import pandas as pd
import streamlit as st
from torch import Tensor

from mha_viz.core.attention.multi_head import AttentionWeights
from mha_viz.core.layer_numbers import number_at
from mha_viz.core.record.attention_record import AttentionRecord
from mha_viz.learn.activations import LayerActivations, record_activations, spread
from mha_viz.learn.frame import charts, layout
from mha_viz.learn.frame.choices import Choices
from mha_viz.learn.frame.texts import read_texts
from mha_viz.learn.labs.value_output import numbers as lab
from mha_viz.plots.bars import token_bars
from mha_viz.ui.heads import picking
from mha_viz.ui.run import memory, reporting
from mha_viz.ui.run.scene import Scene
from mha_viz.ui.state import selection
from mha_viz.ui.widgets import look
from mha_viz.ui.widgets.controls import choosing
from mha_viz.ui.widgets.exports import figures
from mha_viz.ui.widgets.messages import words

TEXTS = read_texts(__package__)
LENGTHS = tuple(2**i for i in range(13))  # 1 to 4,096 tokens


def draw(choices: Choices) -> None:
    """Draw the text run, the price of two matrices and of one, then all heads of the layer."""
    _lab(choices, picking.picked())


@layout.part
def _lab(choices: Choices, scene: Scene) -> None:
    record = scene.record
    model = memory.model(*selection.current().checkpoint)
    _price(choices, model.name, *model.attention_weights(0, record.part).W_O.shape[1:])
    TEXTS.step("merged")
    with layout.row():
        choosing.head_menus(record.n_layers, record.n_heads)
    view = selection.current()
    weights = model.attention_weights(view.layer, record.part)
    layer = words.layer_name(view.layer)
    read = partial(record_activations, model, record, view.layer)
    n_bytes = 12 * len(record.tokens) * model.d_model
    activations = reporting.cached(scene, "activations", view.layer, make=read, size=n_bytes)
    _merged(choices, record, weights, activations.Y)
    sizes = {"width": weights.W_O.shape[1], "d_model": model.d_model}
    TEXTS.fold(choices, "rank", partial(_rank, choices, scene, weights), **sizes)
    expanded = spread(weights)
    parts = lab.parts(record.require("z")[view.layer], expanded.W_O, expanded.b_O)
    settings, has_bias = words.settings(scene, layer), expanded.b_O is not None
    _parts(choices, settings, record, parts, activations, has_bias)
    TEXTS.fold(choices, "why-output", partial(_slices, choices, record, parts))


@layout.part
def _price(choices: Choices, model: str, width: int, d_model: int) -> None:
    """Draw the cost. A part inside the part: its control changes nothing but this."""
    apart, merged = lab.bill(1, d_model, width).parameters
    right = 0 if merged < apart else 1 if merged == apart else 2
    values = dict(right=right, d_model=d_model, width=width, one=merged, two=apart)
    cover, question, figure = TEXTS.opening(choices, "bill", (2, 3), **values)
    with question:
        n = choices.slide("n", "Tokens n", LENGTHS, 128, width=320)
    now = lab.bill(n, d_model, width)
    widths = sorted({*(max(1, round(d_model * i / 24)) for i in range(1, 37)), width})
    bills = [lab.bill(n, d_model, d_value) for d_value in widths]
    two_cost, one_cost = ([b.operations[i] for b in bills] for i in range(2))
    with figure, cover():
        charts.lines(
            choices.key("operations"),
            {"W_V and W_O": (widths, two_cost), "W_VO": (widths, one_cost)},
            moments={f"this head: {width}": float(width)},
            table={
                "d_v": widths,
                "parameters, two": [b.parameters[0] for b in bills],
                "parameters, one": [b.parameters[1] for b in bills],
                "operations, two": two_cost,
                "operations, one": one_cost,
            },
            **TEXTS.lines("operations", n=n, d_model=d_model, model=model, width=width),
        )
    ratio = now.operations[1] / now.operations[0]
    with cover():
        TEXTS.markdown("price.measured", n=n, bill=now, ratio=ratio, d_model=d_model, width=width)


def _merged(
    choices: Choices, record: AttentionRecord, weights: AttentionWeights, tokens: Tensor
) -> None:
    view = selection.current()
    pattern = record.pattern[view.layer, view.head]
    both_ways = lab.two_ways(weights, view.head, pattern, tokens)
    with st.container(horizontal=True):
        for key, title, values in (
            ("apart", "A (X W_V) W_O", both_ways.apart),
            ("merged", "A X W_VO", both_ways.merged),
        ):
            charts.corner(choices.key(key), values, title, list(record.labels))
    head = words.head_name(*view.chosen)
    TEXTS.markdown("merged.measured", head=head, found=both_ways, W_V=weights.W_V, W_O=weights.W_O)


def _rank(choices: Choices, scene: Scene, weights: AttentionWeights) -> None:
    view = selection.current()
    width = weights.W_O.shape[1]
    spectrum: lab.Spectrum = memory.cache().get(
        (*view.checkpoint, view.part, view.layer, view.head, "spectrum"),
        lambda: lab.spectrum(weights, view.head),
        lambda spectrum: spectrum.values.nbytes,
    )
    values, head = spectrum.values.numpy(), words.head_name(*view.chosen)
    last = min(width, len(values))
    least = values[last - 1]
    TEXTS.markdown("rank.measured", head=head, found=spectrum, n_values=last, smallest=least)
    if not spectrum.all_of_them:
        TEXTS.markdown("rank.part", n_values=len(values))
    positions = list(range(1, len(values) + 1))
    charts.lines(
        choices.key("spectrum"),
        {"singular value": (positions, values)},
        moments={f"d_v = {width}": float(width)},
        **TEXTS.lines("rank.spectrum", settings=words.settings(scene, head)),
    )


def _parts(
    choices: Choices,
    settings: str,
    record: AttentionRecord,
    parts: lab.Parts,
    activations: LayerActivations,
    has_bias: bool,
) -> None:
    plus = " + b^O" if has_bias else ""
    TEXTS.step("parts", formula=f"\\text{{output}} = \\sum_i z_i\\, W^O_i{plus}")
    gap = (parts.total - activations.output).abs().amax(-1)
    ratio = float(parts.norm_of_sum.sum() / parts.sum_of_norms.sum())
    TEXTS.markdown(
        "parts.measured",
        layer=number_at(words.layer_numbers(), selection.current().layer),
        n_heads=record.n_heads,
        bias=" and b_O" if has_bias else "",
        gap=float(gap.max()),
        largest=activations.output.abs().max(),
        ratio=ratio,
    )
    series = {
        "length of the sum": parts.norm_of_sum.numpy(),
        "sum of the lengths": parts.sum_of_norms.numpy(),
    }
    labels = list(record.labels)
    figures.show(
        token_bars(series, labels, "length", dark=look.dark()),
        key=choices.key("lengths"),
        table=pd.DataFrame(
            {
                "token": labels,
                **{f"H{i}": norms.numpy() for i, norms in enumerate(parts.norms)},
                "sum of the lengths": series["sum of the lengths"],
                "length of the sum": series["length of the sum"],
                "difference from the model": gap.numpy(),
            }
        ),
        **TEXTS.figure("parts.lengths", settings=settings),
    )


def _slices(choices: Choices, record: AttentionRecord, parts: lab.Parts) -> None:
    n_heads, layer = record.n_heads, selection.current().layer
    shares = lab.slice_shares(parts.outputs)
    diagonal = shares.diagonal()
    mean, equal = float(diagonal.mean()), 1 / n_heads
    right = 0 if mean > 0.9 else 1
    values = dict(n_heads=n_heads, mean=mean, equal=equal)
    cover = TEXTS.predict(choices, "slices", right=right, **values)
    heads, slices = [f"H{i}" for i in range(n_heads)], [f"{i}" for i in range(n_heads)]
    marked = [(i, i) for i in range(n_heads)] if n_heads <= 20 else []
    cell = 46 if n_heads <= 12 else 30 if n_heads <= 20 else 12
    key, title, shape = choices.key("slices"), "Share of each head’s output", "head × slice"
    with cover():
        charts.weights(key, shares, title, heads, slices, shape=shape, marked=marked, cell=cell)
        ends = {"least": diagonal.min(), "most": diagonal.max()}
        TEXTS.markdown("own-slices.measured", layer=layer, mean=mean, equal=equal, **ends)
