"""The folds of lab 10: each statement with its numbers, and what heads share and are worth."""

from collections import Counter
from dataclasses import dataclass
from functools import partial
from typing import Any

import pandas as pd
import streamlit as st
import torch

from mha_viz.core.layer_numbers import layer_names, number_at
from mha_viz.core.metrics.layers import Coverage, coverage, pattern_coverage
from mha_viz.core.metrics.outputs import norm_of_mean_output
from mha_viz.core.stored_runs import read
from mha_viz.learn.frame import charts, layout
from mha_viz.learn.frame.choices import Choices
from mha_viz.learn.labs.statements import numbers as lab
from mha_viz.learn.labs.statements.explanations import TEXTS, sides_in_words, why
from mha_viz.plots.head_scatter import head_scatter
from mha_viz.reports.textbook import FAILS, HOLDS, Sides, Statement, Verdict, judge
from mha_viz.reports.textbook_sides import HARMED_SHARE
from mha_viz.ui.run import reporting
from mha_viz.ui.run.scene import Scene
from mha_viz.ui.widgets import look
from mha_viz.ui.widgets.exports import figures
from mha_viz.ui.widgets.messages import words
from mha_viz.ui.widgets.messages.notices import plain


@dataclass(frozen=True)
class Judged:
    """A statement with its verdict in every layer of a model, and of its random copy.

    Sides are None, and verdicts missing, where nothing was measured.
    """

    statement: Statement
    sides: Sides | None
    random: Sides | None
    verdicts: list[Verdict]

    @classmethod
    def of(cls, statement: Statement, sides: Sides | None, random: Sides | None) -> "Judged":
        """Judge a statement."""
        return cls(statement, sides, random, judge(statement, sides) if sides else [])

    @property
    def overall(self) -> str:
        """The verdict over all layers in words, or the reason why nothing was measured."""
        counts, n = Counter(verdict.word for verdict in self.verdicts), len(self.verdicts)
        if not n:
            return TEXTS(f"verdicts.{self.statement.needs}")
        if 0 < counts[HOLDS] < n:
            return TEXTS("verdicts.part", n=counts[HOLDS], of=n)
        return FAILS if counts[FAILS] else counts.most_common(1)[0][0]

    @property
    def counted(self) -> str:
        """The number of layers in which it holds; those that decide neither way are named."""
        return _count(self.verdicts)

    @property
    def random_counted(self) -> str:
        """The same with random weights."""
        return _count(judge(self.statement, self.random) if self.random else [])


def _count(verdicts: list[Verdict]) -> str:
    counts = Counter(verdict.word for verdict in verdicts)
    text = f"{HOLDS} in {counts.pop(HOLDS, 0)} of {len(verdicts)}" * bool(verdicts)
    counts.pop(FAILS, 0)
    return ", ".join([text, *(f"{n} {word}" for word, n in counts.items())])


def draw(
    choices: Choices, scene: Scene, judged: list[Judged], layer: int, failed: lab.Failures | None
) -> None:
    """Draw a fold for each statement, and those on what the heads of the layer share."""
    for number, each in enumerate(judged, 1):
        draw_one = partial(_statement, choices, scene, each, layer, failed)
        title = f"{number}. {each.statement.title}"
        layout.fold(choices, each.statement.key, title, draw_one)
    if scene.record.z is not None and scene.record.W_O:
        TEXTS.fold(choices, "alike", partial(_alike, choices, scene, layer))
        if failed:
            TEXTS.fold(choices, "importance", partial(_importance, choices, scene, failed))


def _statement(
    choices: Choices, scene: Scene, each: Judged, layer: int, failed: lab.Failures | None
) -> None:
    """Draw a statement's claim, its verdict with the reason, and both sides over the layers."""
    statement, sides, record = each.statement, each.sides, scene.record
    st.markdown(statement.claim)
    st.latex(statement.formula)
    if sides is None:
        st.info(TEXTS(f"undefined.{statement.needs}"))
        return
    verdict = each.verdicts[layer]
    drawn = TEXTS("one.drawn") * (not verdict.certain)
    random = TEXTS("one.random", counted=each.random_counted) * (each.random is not None)
    values = {"layer": words.layer_name(layer), "word": verdict.word + drawn}
    TEXTS.markdown("one.verdict", counted=each.counted + random, **values)
    st.markdown(f"**{sides_in_words(statement, sides, layer)}**")
    TEXTS.caption("one.sides", statement=statement)
    tested = failed.trained if failed and statement.needs == "loss" else None
    st.markdown(why(statement, record, sides, layer, tested))
    lines = {statement.left_name: sides.left_side}
    if not sides.exact:
        ends = zip(("at least", "at most"), sides.sampled or (sides.low, sides.high), strict=True)
        lines = {f"{statement.left_name}, {end}": values for end, values in ends}
    lines[statement.right_name] = sides.right_side
    if each.random is not None:
        lines[f"{statement.left_name}, random weights"] = each.random.left_side
    lines |= {name: values for name, values in sides.more.items() if name != HARMED_SHARE}
    columns = {name: values.detach().cpu().numpy() for name, values in lines.items()}
    names = layer_names(record.n_layers, record.layer_numbers)
    table = pd.DataFrame({"Layer": names, "Verdict": [v.word for v in each.verdicts], **columns})
    words.plain_table(table, key=choices.key(f"{statement.key}-rows"))
    for note in dict.fromkeys(tested.notes if tested else ()):
        st.caption(plain(note))


def _alike(choices: Choices, scene: Scene, layer: int) -> None:
    """Draw what the heads of a layer share: correlation, redundancy, and the union of spans."""
    record = scene.record
    n, names = record.n_heads, [words.head_name(layer, head) for head in range(record.n_heads)]
    of_layer, number = slice(layer * n, (layer + 1) * n), number_at(record.layer_numbers, layer)
    with st.container(horizontal=True):
        for measure in ("correlation", "redundancy"):
            block = reporting.likeness(scene, measure)[of_layer, of_layer]
            title = TEXTS(f"alike.{measure}", layer=number)
            charts.matrix(choices.key(measure), block, title, rows=names, columns=names, cell=44)

    def spans() -> tuple[Coverage, Coverage]:
        return pattern_coverage(record.pattern), coverage(record.require("z"), record.W_O)

    covered = reporting.cached(scene, "spans", make=spans)
    attended, written = ([side[layer] for side in both] for both in covered)
    TEXTS.markdown("alike.text", layer=number, n=n, looks=attended, writes=written)


def _importance(choices: Choices, scene: Scene, failed: lab.Failures) -> None:
    """Draw the norm of each head's mean output beside what the loss rises by without it."""
    record, tested = scene.record, failed.trained
    rise = torch.full((record.n_layers, record.n_heads), torch.nan, dtype=torch.float64)
    rise[tuple(tested.heads.T)] = tested.change.mean(1).double()
    norm = norm_of_mean_output(record.require("z"), record.W_O).numpy()
    titles = TEXTS.labels("importance.axes").values()
    figure_look: dict[str, Any] = {"layer_numbers": record.layer_numbers, "dark": look.dark()}
    figures.show(
        head_scatter(norm, rise.numpy(), *titles, **figure_look),
        key=choices.key("importance"),
        table=words.head_values(scene, dict(zip(titles, (norm, rise.numpy()), strict=True))),
        **TEXTS.figure("importance-figure", about=words.settings(scene, "importance")),
    )


def draw_removed(choices: Choices) -> None:
    """Draw the loss while heads go, on texts that chose the order and on others."""
    lines = {}
    for model, removal in read(lab.REMOVED).items():
        for texts, curve in zip(("same texts", "other texts"), removal, strict=True):
            half = curve.n_off <= len(curve.removed[0]) // 2
            change = (curve.loss - curve.loss[0])[half].numpy()
            lines[f"{model}, {texts}"] = (curve.n_off[half].numpy(), change)
    table = {"heads removed": next(iter(lines.values()))[0]}
    table |= {name: change for name, (_, change) in lines.items()}
    text_column, figure_column = st.columns([2, 3], gap="medium")
    with text_column:
        TEXTS.step("removed", most=-min(change.min() for _, change in lines.values()))
    axes = TEXTS.lines("removed-figure")
    with figure_column:
        charts.lines(choices.key("removed"), lines, table=table, levels={"all heads": 0.0}, **axes)
