"""Diversity: how different the heads of a layer are, and what textbooks say about it, measured."""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Unpack

import numpy as np
import pandas as pd
import streamlit as st
import torch

from mha_viz.core.compare.chance import diversity_band
from mha_viz.core.layer_numbers import layer_names
from mha_viz.core.metrics import layers as measures
from mha_viz.core.metrics.outputs import effective_rank
from mha_viz.core.names import MATRICES
from mha_viz.core.record.attention_record import AttentionRecord
from mha_viz.engine.model import AttentionModel
from mha_viz.plots.head_values import by_layer, layer_lines
from mha_viz.reports.parameters import diversity
from mha_viz.ui.compare import TEXTS
from mha_viz.ui.run import memory, reporting
from mha_viz.ui.run.scene import Scene
from mha_viz.ui.state.views import Compare
from mha_viz.ui.widgets import look
from mha_viz.ui.widgets.exports import downloads, figures
from mha_viz.ui.widgets.messages import words
from mha_viz.ui.widgets.messages.notices import number_columns
from mha_viz.ui.widgets.messages.texts import KeyedTexts

Row = tuple[str, str, str, str, str]  # statement, verdict, layer, both sides
CLOSE = 0.1  # relative; sides of a statement of equality that are nearer than this count as equal


def draw(scene: Scene, view: Compare) -> None:
    """Draw diversity of parameters, coverage of outputs, capacity of patterns, statements."""
    written = scene.record.z is not None and scene.record.W_O
    rows = _rows(scene.record) if written else []
    if rows:
        st.markdown(_verdicts(rows))
    _parameters(scene, view)
    if not written:
        _capacity(scene)
        st.info("This family does not show what its heads write: the rest needs that.")
        return
    look.beside(2, lambda: _capacity(scene), lambda: _coverage(scene))
    _head_ranks(scene, view)
    _statements(scene, rows)


def _parameters(scene: Scene, view: Compare) -> None:
    lines = _diversities(scene, view)
    if lines is None:
        st.info("Where this family keeps W_Q, W_K, W_V and W_O is not known: no diversity of them.")
        return
    if all(not np.isfinite(values).any() for values in lines.values()):
        st.info("One head a layer has no other to differ from: diversity is not defined.")
        return
    model = memory.model(*view.checkpoint)
    shape = (scene.record.n_heads, model.d_model, model.d_head)
    chance = partial(diversity_band, *shape)  # of random matrices
    mean, band = memory.cache().get(("diversity_band", *shape), chance, lambda band: 100)
    within = sum(int((values >= band.low).sum()) for values in lines.values())
    counts = {"within": within, "all": sum(map(len, lines.values()))}
    st.markdown(TEXTS("diversity.parameters", **counts, mean=mean, spread=band.high - mean))
    above = {matrix: values - mean for matrix, values in lines.items()}
    ends = band.low - mean, band.high - mean
    table = lines | {"independent random matrices": np.full(scene.record.n_layers, mean)}
    _show(scene, above, band=ends, table=table, **TEXTS.figure("figures.diversity"))


def _diversities(scene: Scene, view: Compare) -> dict[str, np.ndarray] | None:
    layers = range(scene.record.n_layers)

    def make(model: AttentionModel) -> dict[str, np.ndarray]:
        each = {name: [diversity(model, i, name, view.part) for i in layers] for name in MATRICES}
        return {name: np.array(values) for name, values in each.items()}

    return reporting.of_parameters(view, "diversity", make=make)


def _capacity(scene: Scene) -> None:
    capacity = measures.Capacity(*_of_patterns(scene, measures.capacity))
    lines = {
        "all heads, each for itself (Σ C)": capacity.total,
        "at most, taken together": capacity.bound,
        "at least: the best single head": capacity.best,
        "the heads’ mean pattern": capacity.pooled,
    }
    _show(scene, lines, "nats", **TEXTS.figure("figures.capacity"))


def _of_patterns(
    scene: Scene, measure: Callable[[torch.Tensor], tuple[torch.Tensor, ...]]
) -> tuple[Any, ...]:
    """Measure the patterns of a layer at a time, which are never held all together."""
    patterns, n_layers = scene.record.patterns, scene.record.n_layers

    def make() -> tuple[torch.Tensor, ...]:
        layers = (measure(patterns.layer(i)[None]) for i in range(n_layers))
        return tuple(map(torch.cat, zip(*layers, strict=True)))

    return reporting.cached(scene, measure.__name__, make=make)


def _coverage(scene: Scene) -> None:
    record = scene.record
    coverage = measures.coverage(record.require("z"), record.W_O)
    spans, apart, _ = _of_patterns(scene, measures.pattern_coverage)
    lines = {"heads together": coverage.together, "sum of single heads": coverage.apart}
    lines |= {"patterns together": spans, "sum of single patterns": apart}
    _show(scene, lines, **TEXTS.figure("figures.coverage"))


def _head_ranks(scene: Scene, view: Compare) -> None:
    z = scene.record.require("z")
    most = words.count(min(z.shape[-2:]), "direction")
    texts = TEXTS.figure("figures.head_ranks", count=most)
    ranks, title = effective_rank(z, scene.record.W_O).numpy(), texts["name"]
    options: dict[str, Any] = {"layer_numbers": words.layer_numbers(), "dark": look.dark()}
    drawn = by_layer(ranks, title, "", selected=view.chosen, **options)
    table, caption = words.head_values(scene, {title: ranks}), words.settings(scene, title)
    figures.show(drawn, on_click=words.choose, table=table, caption=caption, **texts)


def _show(
    scene: Scene,
    lines: Mapping[str, np.ndarray | torch.Tensor],
    unit: str = "",
    band: tuple[float, float] | None = None,
    table: Mapping[str, np.ndarray] | None = None,
    **texts: Unpack[KeyedTexts],
) -> None:
    drawn, title = {name: np.asarray(values) for name, values in lines.items()}, texts["name"]
    layers = layer_names(scene.record.n_layers, scene.record.layer_numbers)
    numbers = pd.DataFrame(table or drawn, index=layers).reset_index(names="Layer")
    options: dict[str, Any] = {"layer_numbers": words.layer_numbers(), "dark": look.dark()}
    figure = layer_lines(drawn, title, unit, band=band, **options)
    figures.show(figure, table=numbers, caption=words.settings(scene, title), **texts)


def _verdicts(rows: list[Row]) -> str:
    """Write in how many layers each statement holds."""
    counts: dict[str, list[bool]] = {}
    for statement, verdict, *_ in rows:
        counts.setdefault(statement, []).append(verdict == "holds")
    return "**Textbook statements, measured.** " + " ".join(
        f"{statement} holds in {sum(verdicts)} of {words.count(len(verdicts), 'layer')}."
        for statement, verdicts in counts.items()
    )


def _statements(scene: Scene, rows: list[Row]) -> None:
    name = "Textbook statements, measured"
    st.header(name, anchor=False)
    # the verdict stands where a phone shows it
    table = pd.DataFrame(rows, columns=["Statement", "Here", "Layer", "Left", "Right"])
    st.dataframe(table, hide_index=True, column_config=number_columns(table))
    st.caption(TEXTS("diversity.statements", close=CLOSE))
    source = words.settings(scene, "outputs without the bias b_O")
    downloads.table_file(table, key="statements", name=name, caption=source)


def _rows(record: AttentionRecord) -> list[Row]:
    z = record.require("z")
    variance, norm = (
        zip(*(side.tolist() for side in statement(z, record.W_O)), strict=True)
        for statement in (measures.variance_statement, measures.norm_statement)
    )
    rows = []
    for layer, (of_sum, sum_of) in enumerate(variance):
        # One head's variance may exceed itself by its last bit. One token does not vary.
        bound = sum_of * (1 + measures.ROUNDING)
        holds = of_sum <= bound if z.shape[-2] > 1 else None
        rows.append(_row("Var(Σ heads) ≤ Σ Var(head)", layer, of_sum, sum_of, holds))
    for layer, (of_sum, sum_of) in enumerate(norm):
        holds = abs(of_sum - sum_of) <= CLOSE * sum_of
        rows.append(_row("E‖Σ heads‖² = d_model", layer, of_sum, sum_of, holds))
    return rows


def _row(text: str, layer: int, value: float, bound: float, holds: bool | None) -> Row:
    verdict = words.UNDEFINED if holds is None else "holds" if holds else "fails"
    return (
        text,
        verdict,
        words.layer_name(layer),
        words.format_number(value),
        words.format_number(bound),
    )
