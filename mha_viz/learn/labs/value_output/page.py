"""Lab 5 on screen: merged matrices, their bill and rank, and heads' parts of the whole."""

import pandas as pd
import streamlit as st

from mha_viz.core.attention.multi_head import AttentionWeights
from mha_viz.core.record.record import AttentionRecord
from mha_viz.engine.model import AttentionModel
from mha_viz.errors import MhaVizError
from mha_viz.learn.activations import LayerActivations, spread
from mha_viz.learn.frame import charts, frame
from mha_viz.learn.frame.choices import Choices
from mha_viz.learn.frame.texts import read_texts
from mha_viz.learn.labs.step_by_step.page import activations_of
from mha_viz.learn.labs.value_output import numbers as lab
from mha_viz.plots.bars import token_bars
from mha_viz.ui.run import memory
from mha_viz.ui.run.scene import Scene
from mha_viz.ui.state import state
from mha_viz.ui.widgets import look
from mha_viz.ui.widgets.controls import controls, picking
from mha_viz.ui.widgets.exports import figures
from mha_viz.ui.widgets.messages import words
from mha_viz.ui.widgets.messages.messages import plain
from mha_viz.web.labels import head_name

TEXTS = read_texts(__package__)
LENGTHS = tuple(2**i for i in range(13))  # 1 to 4,096 tokens
_CELLS = 4_000  # of the matrix of norms


def draw(choices: Choices) -> None:
    """Draw the text run, then one head's two matrices, then all heads of its layer."""
    scene = picking.picked()
    _lab(choices, scene)


@frame.part
def _lab(choices: Choices, scene: Scene) -> None:
    record = scene.record
    with frame.row():
        controls.head_menus(record.n_layers, record.n_heads)
    view = state.current()
    model = memory.model(*view.checkpoint)
    weights = model.attention_weights(view.layer, record.part)
    seen = activations_of(scene, model, view.layer)
    _merged(choices, record, weights, seen)
    _bill(choices, model, weights)
    _rank(choices, scene, weights)
    own = spread(weights)
    found = lab.parts(record.kept("z")[view.layer], own.W_O, own.b_O)
    _parts(choices, scene, found, seen, own.b_O is not None)
    _slices(choices, record, found)


# -- one head: two matrices or one -----------------------------------------------------------------


def _merged(
    choices: Choices, record: AttentionRecord, weights: AttentionWeights, seen: LayerActivations
) -> None:
    TEXTS.step("merged")
    view, d_model = state.current(), weights.W_O.shape[2]
    found = lab.two_ways(weights, view.head, record.pattern[view.layer, view.head], seen.Y)
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
        TEXTS.caption("merged.part", n_tokens=len(rows), n_columns=columns)
    head = head_name(view.layer, view.head)
    TEXTS.markdown("merged.measured", head=head, found=found, W_V=weights.W_V, W_O=weights.W_O)


@frame.part
def _bill(choices: Choices, model: AttentionModel, weights: AttentionWeights) -> None:
    """Draw the cost. A part inside the part: its control changes nothing but this."""
    d_model, width = weights.W_O.shape[2], weights.W_O.shape[1]
    TEXTS.step("price")
    two, one = lab.bill(1, d_model, width).parameters
    right = 0 if one < two else 1 if one == two else 2
    TEXTS.predict(choices, "bill", right=right, d_model=d_model, width=width, one=one, two=two)
    n = choices.slide("n", "Tokens n", LENGTHS, 128, width=320)
    now = lab.bill(n, d_model, width)
    TEXTS.markdown("price.measured", n=n, bill=now, ratio=now.operations[1] / now.operations[0])
    widths = sorted({*(max(1, round(d_model * i / 24)) for i in range(1, 37)), width})
    bills = [lab.bill(n, d_model, d_value) for d_value in widths]
    two_cost, one_cost = ([b.operations[i] for b in bills] for i in range(2))
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
        **TEXTS.lines("price.operations", n=n, d_model=d_model, model=model.name, width=width),
    )


def _rank(choices: Choices, scene: Scene, weights: AttentionWeights) -> None:
    view = state.current()
    d_model, width = weights.W_O.shape[2], weights.W_O.shape[1]
    TEXTS.step("rank", width=width, d_model=d_model)
    found: lab.Spectrum = memory.cache().get(
        (*view.checkpoint, view.part, view.layer, view.head, "spectrum"),
        lambda: lab.spectrum(weights, view.head),
        lambda kept: kept.values.nbytes,
    )
    values, head = found.values.numpy(), head_name(view.layer, view.head)
    last = min(width, len(values))
    least = values[last - 1]
    TEXTS.markdown("rank.measured", head=head, found=found, n_values=last, smallest=least)
    if not found.all_of_them:
        TEXTS.markdown("rank.part", n_values=len(values))
    places = list(range(1, len(values) + 1))
    charts.lines(
        choices.key("spectrum"),
        {"singular value": (places, values)},
        moments={f"d_v = {width}": float(width)},
        table={"number": places, "singular value": values},
        **TEXTS.lines("rank.spectrum", settings=words.settings(scene, head)),
    )


# -- all heads of a layer --------------------------------------------------------------------------


def _parts(
    choices: Choices, scene: Scene, found: lab.Parts, seen: LayerActivations, has_bias: bool
) -> None:
    view, record = state.current(), scene.record
    plus = " + b^O" if has_bias else ""
    TEXTS.step("parts", formula=f"\\text{{output}} = \\sum_i z_i\\, W^O_i{plus}")
    gap = (found.total - seen.output).abs().amax(-1)
    ratio = float(found.norm_of_sum.sum() / found.sum_of_norms.sum())
    TEXTS.markdown(
        "parts.measured",
        layer=view.layer,
        n_heads=record.n_heads,
        bias=" and b_O" if has_bias else "",
        gap=float(gap.max()),
        largest=seen.output.abs().max(),
        ratio=ratio,
    )
    series = {
        "length of the sum": found.norm_of_sum.numpy(),
        "sum of the lengths": found.sum_of_norms.numpy(),
    }
    labels = list(record.labels)
    figures.show(
        token_bars(series, labels, "length", dark=look.dark()),
        key=choices.key("lengths"),
        table=pd.DataFrame(
            {
                "token": labels,
                **{f"H{i}": norms.numpy() for i, norms in enumerate(found.norms)},
                "sum of the lengths": series["sum of the lengths"],
                "length of the sum": series["length of the sum"],
                "difference from the model": gap.numpy(),
            }
        ),
        **TEXTS.figure("parts.lengths", settings=words.settings(scene, f"L{view.layer}")),
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
        TEXTS.caption("parts.norms.part", n_tokens=n, n=len(labels))


def _slices(choices: Choices, record: AttentionRecord, found: lab.Parts) -> None:
    n_heads, layer = record.n_heads, state.current().layer
    TEXTS.step("why-output")
    try:
        shares = lab.slice_shares(found.outputs)
    except MhaVizError as error:
        st.info(plain(str(error)), icon=":material/info:")
        return
    own = shares.diagonal()
    mean, equal = float(own.mean()), 1 / n_heads
    right = 0 if mean > 0.9 else 1
    TEXTS.predict(choices, "slices", right=right, n_heads=n_heads, mean=mean, equal=equal)
    heads, slices = [f"H{i}" for i in range(n_heads)], [f"{i}" for i in range(n_heads)]
    marked = [(i, i) for i in range(n_heads)] if n_heads <= 20 else []
    cell = 46 if n_heads <= 12 else 30 if n_heads <= 20 else 12
    key, title, shape = choices.key("slices"), "Share of each head’s output", "head × slice"
    charts.weights(key, shares, title, heads, slices, shape=shape, marked=marked, cell=cell)
    ends = {"least": own.min(), "most": own.max()}
    TEXTS.markdown("own-slices.measured", layer=layer, mean=mean, equal=equal, **ends)
