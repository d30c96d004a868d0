"""The page of lab 10. Sentences about the numbers are in `explanations`."""

from collections import Counter
from functools import partial
from typing import Any

import numpy as np
import pandas as pd
import streamlit as st
import torch

from mha_viz.core.layer_numbers import layer_names, number_at
from mha_viz.core.metrics.layers import Coverage, coverage, pattern_coverage
from mha_viz.core.metrics.outputs import norm_of_mean_output
from mha_viz.core.stored_runs import read
from mha_viz.engine.model import AttentionModel
from mha_viz.errors import AttentionUnavailableError, NotKeptError
from mha_viz.learn.frame import charts, layout
from mha_viz.learn.frame.choices import Choices
from mha_viz.learn.frame.long_work import LabRun, offer_run
from mha_viz.learn.frame.questions import Cover
from mha_viz.learn.labs.statements import measured
from mha_viz.learn.labs.statements import numbers as lab
from mha_viz.learn.labs.statements.explanations import TEXTS, sides_in_words, why
from mha_viz.learn.labs.statements.numbers import STATEMENTS, Sides, Statement, Verdict, judge
from mha_viz.plots.both_sides import Claim, both_sides
from mha_viz.plots.head_scatter import head_scatter
from mha_viz.plots.head_values import layer_lines
from mha_viz.ui.heads import picking
from mha_viz.ui.run import heavy, memory, reporting
from mha_viz.ui.run.scene import Scene
from mha_viz.ui.state import selection
from mha_viz.ui.widgets import look
from mha_viz.ui.widgets.controls import choosing
from mha_viz.ui.widgets.exports import figures
from mha_viz.ui.widgets.messages import words
from mha_viz.ui.widgets.messages.notices import continue_on_error, plain

SPACES = TEXTS.labels("spaces")
JUDGED = (lab.HOLDS, lab.FAILS, lab.OPEN, lab.LITTLE)
MARKS = {lab.HOLDS: "✓", lab.FAILS: "✗"}
MAX_FEW, MAX_HALF = 3, 6  # statements that hold: up to so many are few, beyond so many nearly all
Measured = dict[str, Sides]
Both = tuple[Measured, Measured]  # of the model, and of the same with random weights


def draw(choices: Choices) -> None:
    """Draw all verdicts as one picture, then each statement folded; and what heads are worth.

    No fragment: the layer is everybody's, and a button in one could not end its own run.
    """
    scene = picking.picked()
    with layout.row():
        layers = choosing.layers(scene.record.n_layers)
        choosing.menu("layer", "Layer", layers, width=90)
        space = choices.segments("space_of", "Subspaces and weights of", SPACES, "W_O")
    reporting.offer_random(selection.current())
    layer = selection.current().layer
    both = _measured(scene, space), _measured(scene, space, random=True)
    question_column, figure_column = st.columns([2, 3], gap="medium")
    with figure_column:
        picture = layout.placeholder(choices, "picture")
        failed = _failed(choices, scene)
    for sides_by_key, of_loss in zip(both, failed or (), strict=False):
        if of_loss is not None:
            sides_by_key.update(measured.of_loss(of_loss, scene.record.n_layers))
    with question_column:
        cover = _predict(choices, both[0])
        TEXTS.markdown("opening.text")
    with picture, cover():
        _verdicts(choices, scene, both, layer)
    with st.container(gap="xxsmall"):
        for number, statement in enumerate(STATEMENTS, 1):
            draw_one = partial(_statement, choices, scene, statement, both, layer, failed)
            layout.fold(choices, statement.key, f"{number}. {statement.title}", draw_one)
        if scene.record.z is not None and scene.record.W_O:
            TEXTS.fold(choices, "alike", partial(_alike, choices, scene, layer))
            if failed:
                TEXTS.fold(choices, "importance", partial(_importance, choices, scene, failed))
    _removed(choices)


def _measured(scene: Scene, space: str, *, random: bool = False) -> Measured:
    """Measure all statements but the last; nothing where random weights are not available."""
    view, untrained = selection.current(), _untrained() if random else None
    if random and untrained is None:
        return {}

    def of_text() -> Measured:
        record = scene.record
        if untrained is not None:
            keep = ("pattern", "z") if untrained.backend == "mha_viz" else ("pattern",)
            record = untrained.trace(record.text, record.text_pair, part=record.part, keep=keep)
        of_pattern = measured.of_pattern(record.pattern)
        if record.z is None or not record.W_O:
            return of_pattern
        return measured.of_outputs(record.z, record.W_O) | of_pattern

    name = "random statements" if random else "statements"
    key = (*view.checkpoint, view.part, name, space)
    weights = memory.cache().get(key, lambda: _weights(scene, space, random), lambda _: 10_000)
    return weights | reporting.cached(scene, name, make=of_text)


def _untrained() -> AttentionModel | None:
    """Return the model with random weights, where it is small or was requested."""
    view = selection.current()
    return memory.untrained_copy(*view.checkpoint) if reporting.has_random(view) else None


def _weights(scene: Scene, space: str, random: bool) -> Measured:
    load = memory.untrained_copy if random else memory.model
    model = load(*selection.current().checkpoint)
    assert model is not None
    try:
        layers = model.head_weights(space, scene.record.part)
    except (NotKeptError, AttentionUnavailableError):
        return {}
    with st.spinner("Comparing weights …"):
        return measured.of_weights([layer.mT if space == "W_O" else layer for layer in layers])


def _failed(choices: Choices, scene: Scene) -> lab.Failures | None:
    """Draw the button that switches heads off; return what was found, stored or now."""
    checkpoint, text = selection.current().checkpoint, scene.record.text
    with_random = _untrained() is not None
    settings = (checkpoint, text, with_random)
    models = heavy.model_of(checkpoint), heavy.model_of(checkpoint, True) if with_random else None
    n_draws = min(lab.N_DRAWS, scene.head_count)
    n_tokens = 4 * n_draws * len(scene.record.tokens)
    failed: lab.Failures | None = None
    with continue_on_error():
        stored = next((run for run in lab.FAILED if run.settings == settings), None)
        seconds = heavy.seconds(memory.model(*checkpoint), n_tokens)
        run = LabRun(partial(lab.failures, *models, text), settings, 100, stored, seconds)
        failed = offer_run(choices, run, name="failures", label=TEXTS("failure.label"))
    if failed is None:
        heads = "every head" if n_draws == scene.head_count else f"{n_draws} random heads"
        pair = TEXTS("failure.pair") * bool(scene.record.text_pair)
        st.caption(TEXTS("failure.text", which=heads) + pair)
    return failed


def _verdicts(choices: Choices, scene: Scene, both: Both, layer: int) -> None:
    """Draw each statement as a row: its verdict, and both sides in every layer on one scale."""
    claims, rows = [], []
    for number, statement in enumerate(STATEMENTS, 1):
        sides, other = (sides_by_key.get(statement.key) for sides_by_key in both)
        verdicts = [] if sides is None else judge(statement, sides)
        word = _overall(verdicts) if sides else TEXTS(f"verdicts.{statement.needs}")
        claims.append(
            Claim(
                f"{MARKS.get(word, '–')} {number}. {statement.name}: {word}",
                *_shares(sides),
                [verdict.word for verdict in verdicts],
                [
                    f"{words.layer_name(i)}: {sides_in_words(statement, sides, i)} {verdict.word}"
                    for i, verdict in enumerate(verdicts)
                    if sides
                ],
            )
        )
        sides_text = sides_in_words(statement, sides, layer) if sides else ""
        random_count = "" if other is None else _count(judge(statement, other))
        layer_word = verdicts[layer].word if verdicts else word
        counted = _count(verdicts) if verdicts else ""
        rows.append((layer_word, statement.title, counted, random_count, sides_text))
    columns = [
        f"In {words.layer_name(layer)}",
        "Statement",
        "Layers",
        "Random weights",
        "Both sides here",
    ]
    about, x_title = words.settings(scene, "textbook statements"), TEXTS("verdicts.x_title")
    figures.show(
        both_sides(claims, ("left side", "right side"), JUDGED, x_title, dark=look.dark()),
        key=choices.key("verdicts"),
        table=pd.DataFrame(rows, columns=columns),
        **TEXTS.figure("verdicts-figure", about=about),
    )


def _shares(sides: Sides | None) -> tuple[np.ndarray, np.ndarray]:
    """Return both sides of each layer as shares of the larger one; none where nothing is known."""
    if sides is None:
        return np.zeros(0), np.zeros(0)
    first, second = (
        side.detach().cpu().double().numpy() for side in (sides.left_side, sides.right_side)
    )
    larger = np.maximum(np.maximum(abs(first), abs(second)), 1e-12)
    return first / larger, second / larger


def _overall(verdicts: list[Verdict]) -> str:
    """Say how far a statement holds over all layers."""
    counts = Counter(verdict.word for verdict in verdicts)
    if 0 < counts[lab.HOLDS] < len(verdicts):
        return TEXTS("verdicts.part", n=counts[lab.HOLDS], of=len(verdicts))
    return lab.FAILS if counts[lab.FAILS] else counts.most_common(1)[0][0]


def _predict(choices: Choices, sides_by_key: Measured) -> Cover:
    verdicts = {
        statement.name: _overall(judge(statement, sides_by_key[statement.key]))
        for statement in STATEMENTS
        if statement.key in sides_by_key
    }
    true = [name for name, word in verdicts.items() if word == lab.HOLDS]
    right = 2 if len(true) <= MAX_FEW else 1 if len(true) <= MAX_HALF else 0
    named = "; ".join(true) or "none"
    values = dict(n=len(true), of=len(verdicts), named=named)
    return TEXTS.predict(choices, "held", right=right, **values)


def _statement(
    choices: Choices,
    scene: Scene,
    statement: Statement,
    both: Both,
    layer: int,
    failed: lab.Failures | None,
) -> None:
    """Draw a statement's claim, its verdict with the reason, and both sides over the layers."""
    sides, random = (sides_by_key.get(statement.key) for sides_by_key in both)
    st.markdown(statement.claim)
    st.latex(statement.formula)
    if sides is None:
        st.info(TEXTS(f"undefined.{statement.needs}"))
        return
    _verdict(statement, sides, random, layer)
    tested = failed.trained if failed and statement.needs == "loss" else None
    st.markdown(why(statement, scene.record, both[0], layer, tested))
    _picture(choices, scene, statement, sides, random)
    for note in dict.fromkeys(tested.notes if tested else ()):
        st.caption(plain(note))


def _verdict(statement: Statement, sides: Sides, random: Sides | None, layer: int) -> None:
    verdicts = judge(statement, sides)
    by_draws = "" if verdicts[layer].certain else ", by random draws"
    random_text = "" if random is None else f"; random weights: {_count(judge(statement, random))}"
    name, verdict = words.layer_name(layer), verdicts[layer].word
    st.markdown(f"**{name}: {verdict}{by_draws}** ({_count(verdicts)}{random_text})")
    st.markdown(f"**{sides_in_words(statement, sides, layer)}**")
    names = f"Left: {statement.left_name}. Right: {statement.right_name}."
    st.caption(f"{names} Compared {statement.allowed}.")


def _count(verdicts: list[Verdict]) -> str:
    """Count the layers in which it holds; those that decide neither way are named."""
    counts = Counter(verdict.word for verdict in verdicts)
    text = f"{lab.HOLDS} in {counts.pop(lab.HOLDS, 0)} of {len(verdicts)}"
    counts.pop(lab.FAILS, 0)
    return ", ".join([text, *(f"{n} {word}" for word, n in counts.items())])


def _picture(
    choices: Choices, scene: Scene, statement: Statement, sides: Sides, random: Sides | None
) -> None:
    lines = {}
    if sides.exact:
        lines[statement.left_name] = sides.left_side
    else:
        low, high = sides.sampled or (sides.low, sides.high)
        lines |= {f"{statement.left_name}, at least": low, f"{statement.left_name}, at most": high}
    lines[statement.right_name] = sides.right_side
    if random is not None:
        lines[f"{statement.left_name}, random weights"] = random.left_side
    lines |= {name: values for name, values in sides.more.items() if name != measured.HARMED_SHARE}
    arrays = {name: values.detach().cpu().numpy() for name, values in lines.items()}
    numbers = scene.record.layer_numbers
    table = pd.DataFrame(arrays, index=layer_names(scene.record.n_layers, numbers))
    figure_look: dict[str, Any] = {"layer_numbers": numbers, "dark": look.dark()}
    figures.show(
        layer_lines(arrays, statement.title, statement.unit, **figure_look),
        key=choices.key(f"{statement.key}-figure"),
        name=statement.title,
        table=table.reset_index(names="Layer"),
        caption=words.settings(scene, statement.title),
        how_to_read=TEXTS("picture.how_to_read", statement=statement)
        + TEXTS("picture.random") * (random is not None),
    )


def _alike(choices: Choices, scene: Scene, layer: int) -> None:
    """Draw what the heads of a layer share: correlation, redundancy, and the union of spans."""
    record = scene.record
    n, names = record.n_heads, [words.head_name(layer, head) for head in range(record.n_heads)]
    of_layer = slice(layer * n, (layer + 1) * n)
    with st.container(horizontal=True):
        for measure in ("correlation", "redundancy"):
            block = reporting.likeness(scene, measure)[of_layer, of_layer]
            title = TEXTS(f"alike.{measure}", layer=number_at(record.layer_numbers, layer))
            charts.matrix(choices.key(measure), block, title, rows=names, columns=names, cell=44)

    def spans() -> tuple[Coverage, Coverage]:
        return pattern_coverage(record.pattern), coverage(record.require("z"), record.W_O)

    coverages = reporting.cached(scene, "spans", make=spans)
    ranks = [[side[layer] for side in covered] for covered in coverages]
    number = number_at(record.layer_numbers, layer)
    TEXTS.markdown("alike.text", layer=number, n=n, looks=ranks[0], writes=ranks[1])


def _removed(choices: Choices) -> None:
    """Draw the loss while heads go, on texts that chose the order and on others."""
    lines = {}
    for model, both in read(lab.REMOVED).items():
        for texts, curve in zip(("same texts", "other texts"), both, strict=True):
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


def _importance(choices: Choices, scene: Scene, failed: lab.Failures) -> None:
    """Draw the norm of each head's mean output beside what the loss rises by without it."""
    record, tested = scene.record, failed.trained
    rise = torch.full((record.n_layers, record.n_heads), torch.nan, dtype=torch.float64)
    rise[tuple(tested.heads.T)] = tested.change.mean(1).double()
    norm = norm_of_mean_output(record.require("z"), record.W_O).numpy()
    titles = "I = ‖E[head]‖", "rise of the loss without it (nats per token)"
    figure_look: dict[str, Any] = {"layer_numbers": record.layer_numbers, "dark": look.dark()}
    figures.show(
        head_scatter(norm, rise.numpy(), *titles, **figure_look),
        key=choices.key("importance"),
        table=words.head_values(scene, dict(zip(titles, (norm, rise.numpy()), strict=True))),
        **TEXTS.figure("importance-figure", about=words.settings(scene, "importance")),
    )
