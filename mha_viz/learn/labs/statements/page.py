"""The page of lab 10: all verdicts as one picture, and a fold for each statement."""

from functools import partial
from typing import Any

import numpy as np
import streamlit as st

from mha_viz.engine.model import AttentionModel
from mha_viz.learn.frame import layout
from mha_viz.learn.frame.choices import Choices
from mha_viz.learn.frame.long_work import LabRun, offer_run
from mha_viz.learn.frame.questions import Cover
from mha_viz.learn.labs.statements import folds
from mha_viz.learn.labs.statements import numbers as lab
from mha_viz.learn.labs.statements.explanations import TEXTS, sides_in_words
from mha_viz.learn.labs.statements.folds import Judged
from mha_viz.plots.both_sides import Claim, both_sides
from mha_viz.reports import textbook_sides
from mha_viz.reports.textbook import FAILS, HOLDS, LITTLE, OPEN, STATEMENTS, Sides
from mha_viz.ui.heads import picking
from mha_viz.ui.run import heavy, memory, reporting
from mha_viz.ui.run.scene import Scene
from mha_viz.ui.state import selection
from mha_viz.ui.widgets import look
from mha_viz.ui.widgets.controls import choosing
from mha_viz.ui.widgets.exports import figures
from mha_viz.ui.widgets.messages import words
from mha_viz.ui.widgets.messages.notices import continue_on_error

JUDGED = (HOLDS, FAILS, OPEN, LITTLE)
MARKS = {HOLDS: "✓", FAILS: "✗"}
MAX_FEW, MAX_HALF = 3, 6  # statements that hold: up to so many are few, beyond so many nearly all
Measured = dict[str, Sides]


def draw(choices: Choices) -> None:
    """Draw all verdicts as one picture, then each statement folded; and what heads are worth.

    No fragment: the layer is everybody's, and a button in one could not end its own run.
    """
    scene = picking.picked()
    with layout.row():
        layers = choosing.layers(scene.record.n_layers)
        choosing.menu("layer", "Layer", layers, width=90)
        space = TEXTS.choose(choices, "space_of")
    view = selection.current()
    reporting.offer_random(view)
    # The model with random weights, where it is small or was requested.
    random = memory.untrained_copy(*view.checkpoint) if reporting.has_random(view) else None
    sides = _measured(scene, space, memory.model(*view.checkpoint))
    random_sides = {} if random is None else _measured(scene, space, random, "random ")
    question_column, figure_column = st.columns([2, 3], gap="medium")
    with figure_column:
        picture = layout.placeholder(choices, "picture")
        failed = _failed(choices, scene, random is not None)
    for sides_by_key, of_loss in zip((sides, random_sides), failed or (), strict=False):
        if of_loss is not None:
            sides_by_key |= textbook_sides.of_loss(of_loss, scene.record.n_layers)
    judged = [Judged.of(s, sides.get(s.key), random_sides.get(s.key)) for s in STATEMENTS]
    with question_column:
        cover = _predict(choices, judged)
        TEXTS.markdown("opening.text")
    with picture, cover():
        _verdicts(choices, scene, judged, view.layer)
    with st.container(gap="xxsmall"):
        folds.draw(choices, scene, judged, view.layer, failed)
    folds.draw_removed(choices)


def _measured(scene: Scene, space: str, model: AttentionModel, kind: str = "") -> Measured:
    """Measure all statements but the last; `kind` is "random " for random weights."""
    view, record = selection.current(), scene.record

    def of_weights() -> Measured:
        with st.spinner("Comparing weights …"):
            return textbook_sides.of_model(model, space, record.part)

    def of_text() -> Measured:
        if not kind:
            return textbook_sides.of_record(record)
        keep = ("pattern", "z") if model.backend == "mha_viz" else ("pattern",)
        options: dict[str, Any] = {"part": record.part, "keep": keep}
        return textbook_sides.of_record(model.trace(record.text, record.text_pair, **options))

    key = (*view.checkpoint, view.part, f"{kind}statements", space)
    weights = memory.cache().get(key, of_weights, lambda _: 10_000)
    return weights | reporting.cached(scene, f"{kind}statements", make=of_text)


def _failed(choices: Choices, scene: Scene, with_random: bool) -> lab.Failures | None:
    """Draw the button that switches heads off; return what was found, stored or now."""
    checkpoint, text = selection.current().checkpoint, scene.record.text
    settings = (checkpoint, text, with_random)
    models = heavy.model_of(checkpoint), heavy.model_of(checkpoint, True) if with_random else None
    n_draws = min(lab.N_DRAWS, scene.head_count)
    failed: lab.Failures | None = None
    with continue_on_error():
        stored = next((run for run in lab.FAILED if run.settings == settings), None)
        n_tokens = 4 * n_draws * len(scene.record.tokens)
        seconds = heavy.seconds(memory.model(*checkpoint), n_tokens)
        run = LabRun(partial(lab.failures, *models, text), settings, 100, stored, seconds)
        failed = offer_run(choices, run, name="failures", label=TEXTS("failure.label"))
    if failed is None:
        heads = "every head" if n_draws == scene.head_count else f"{n_draws} random heads"
        pair = TEXTS("failure.pair") * bool(scene.record.text_pair)
        st.caption(TEXTS("failure.text", which=heads) + pair)
    return failed


def _predict(choices: Choices, judged: list[Judged]) -> Cover:
    words_by_name = {each.statement.name: each.overall for each in judged if each.verdicts}
    true = [name for name, word in words_by_name.items() if word == HOLDS]
    right = 2 if len(true) <= MAX_FEW else 1 if len(true) <= MAX_HALF else 0
    values = {"n": len(true), "of": len(words_by_name), "named": "; ".join(true) or "none"}
    return TEXTS.predict(choices, "held", right=right, **values)


def _verdicts(choices: Choices, scene: Scene, judged: list[Judged], layer: int) -> None:
    """Draw each statement as a row: its verdict, and both sides in every layer on one scale."""
    claims, rows = [], []
    for number, each in enumerate(judged, 1):
        word, verdicts = each.overall, [verdict.word for verdict in each.verdicts]
        sides = each.sides
        both = [sides_in_words(each.statement, sides, i) for i in range(len(verdicts)) if sides]
        hovers = [f"{words.layer_name(i)}: {b} {verdicts[i]}" for i, b in enumerate(both)]
        label = f"{MARKS.get(word, '–')} {number}. {each.statement.name}: {word}"
        first, second = sides.shares.numpy() if sides else np.zeros((2, 0))
        claims.append(Claim(label, first, second, verdicts, hovers))
        shown = (verdicts[layer], both[layer]) if verdicts else (word, "")
        rows.append((shown[0], each.statement.title, each.counted, each.random_counted, shown[1]))
    about, x_title = words.settings(scene, "textbook statements"), TEXTS("verdicts.x_title")
    table = TEXTS.table("verdicts.columns", rows, layer=words.layer_name(layer))
    figures.show(
        both_sides(claims, ("left side", "right side"), JUDGED, x_title, dark=look.dark()),
        key=choices.key("verdicts"),
        table=table,
        **TEXTS.figure("verdicts-figure", about=about),
    )
