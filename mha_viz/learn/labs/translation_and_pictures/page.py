"""The page of the lab: a sentence and its translation, then a digit, each with its test."""

import re
from collections.abc import Sequence
from functools import partial
from itertools import product
from typing import Any

import pandas as pd
import streamlit as st

from mha_viz.learn.frame import charts, layout
from mha_viz.learn.frame.choices import Choices
from mha_viz.learn.frame.long_work import LabRun, offer_run
from mha_viz.learn.frame.texts import read_texts
from mha_viz.learn.labs.translation_and_pictures import numbers
from mha_viz.learn.networks import digits, translation
from mha_viz.learn.networks.digits import Reading
from mha_viz.learn.networks.translation import Translating
from mha_viz.plots.heatmap import head_tiles
from mha_viz.plots.pictures import MatrixLook, number_matrix, overlay_cells
from mha_viz.ui.widgets.look import dark
from mha_viz.ui.widgets.messages.notices import plain

TEXTS = read_texts(__package__)


def draw(choices: Choices) -> None:
    """Draw the translation, then the digits. No fragments where they train: Stop must end it."""
    story, trainings = st.container(key=choices.key("shown")), st.container()
    with story:  # page.css keeps its height from the beginning
        TEXTS.markdown("translation.statement")
        cover = TEXTS.predict(choices, "where")
    with trainings:
        sentence_column, digit_column = st.columns(2)
    with sentence_column:
        translating: Translating | None = _trained(choices, "seed", Translating, translation)
    with digit_column:
        reading: Reading | None = _trained(choices, "digit-seed", Reading, digits)
    with story:
        if translating is None:
            TEXTS.caption("untrained.translator")
        else:
            with cover():
                _sentence(choices, translating)
            TEXTS.step("tested", hidden=translating.hidden)
        TEXTS.step("digits")
        if reading is None:
            TEXTS.caption("untrained.reader")
        else:
            _digit(choices, reading)
            _hidden(choices, reading)


def _trained(choices: Choices, name: str, kind: type, task: Any) -> Any:
    """Draw a seed and the button of the training with it, and return its result if there is one."""
    with layout.row():
        settings = (TEXTS.choose(choices, name),)
        stored = {(run.kind, run.settings): run for run in numbers.STORED}.get((kind, settings))
        run = LabRun(partial(task.learn, seed=settings[0]), settings, task.STEPS, stored)
        return offer_run(choices, run, name=f"train-{name}")


@layout.part
def _sentence(choices: Choices, learned: Translating) -> None:
    """Draw the sentence, its translation, and each head's weights with the alignment framed."""
    input_column, verdict_column = st.columns((1, 2), vertical_alignment="bottom")
    with input_column:
        typed = TEXTS.choose(choices, "sentence")
    words = re.findall(r"\w+", typed.lower())
    unknown = [word for word in words if word not in translation.KINDS]
    form = TEXTS("sentence.form", words=", ".join(translation.KINDS))
    if unknown or not 1 <= len(words) <= translation.MAX_WORDS:
        problem = "unknown" if unknown else "length"
        st.info(TEXTS(f"sentence.{problem}", word=plain("".join(unknown[:1])), form=form))
        return
    record = numbers.translate(learned.weights, words)
    pattern = record.pattern[0]
    with verdict_column:
        framed = _framed(record.labels, words, pattern.mean(0).argmax(-1).tolist())
    look: MatrixLook = {"rows": record.labels, "columns": words, "marked": framed, "cell": 21}
    look |= {"diverging": False, "limits": (0.0, 1.0)}
    cells = pd.DataFrame(product(record.labels, words), columns=["written", "English"])
    charts.cells(
        choices.key("heads-figure"),
        [
            number_matrix(weights, TEXTS("heads.title", head=i, share=learned.aligned[i]), look)
            for i, weights in enumerate(pattern)
        ],
        figure=lambda: head_tiles(pattern[None], title=TEXTS("heads-figure.name"), dark=dark()),
        table=cells.assign(**{f"head {i}": w.flatten().numpy() for i, w in enumerate(pattern)}),
        **TEXTS.figure("heads-figure", sentence=" ".join(words)),
    )
    TEXTS.caption("heads.alignment", learned=learned, form=form)


def _framed(
    written: Sequence[str], words: Sequence[str], largest: Sequence[int]
) -> list[tuple[int, int]]:
    """Say whether a translation is right; return the cells of the words that are translated."""
    text, correct = " ".join(written), translation.translate_by_rules(words)
    if correct is None or tuple(written) != correct.target:
        verdict, rules = ("free", ()) if correct is None else ("wrong", correct.target)
        TEXTS.markdown(f"verdict.{verdict}", said=text, rules=" ".join(rules))
        return []
    off = [f"{written[i]} → {words[k]}" for i, k in enumerate(largest) if k != correct.positions[i]]
    where = TEXTS("verdict.off" if off else "verdict.all", off=", ".join(off))
    total = len(words)
    TEXTS.markdown("verdict.right", said=text, hits=total - len(off), total=total, where=where)
    return list(enumerate(correct.positions))


@layout.part
def _digit(choices: Choices, learned: Reading) -> None:
    """Draw a digit under the weights of each head, their mean and the rollout."""
    tested = digits.read_digits(True)
    with layout.row():
        digit = TEXTS.choose(choices, "digit")
        matching = (tested.labels == digit).nonzero().flatten()
        number = TEXTS.choose(choices, "which", positions=range(len(matching)))
        layers = {i: f"Layer {i}" for i in range(digits.N_LAYERS)}
        layer = TEXTS.choose(choices, "layer", options=layers)
    picture = tested.pictures[matching[number]]
    read = numbers.read(learned.weights, picture)
    table = numbers.class_weights(read.record, layer)
    weights = table.drop(columns="patch").T
    patches = (-1, *(digits.SIDE // digits.PATCH,) * 2)
    charts.cells(
        choices.key("overlays"),
        overlay_cells(picture, weights.to_numpy().reshape(patches), list(weights.index), side=136),
        table=table,
        **TEXTS.figure("overlays-figure", digit=digit, which=number, layer=layer),
    )
    answer, without, _ = read.probabilities.argmax(-1).tolist()
    verdict = TEXTS("read.right" if answer == digit else "read.wrong", digit=digit)
    values = {"likely": read.probabilities[:, answer], "without": without}
    TEXTS.markdown("read.text", answer=answer, verdict=verdict, lab=numbers, **values)


@layout.part
def _hidden(choices: Choices, learned: Reading) -> None:
    """Draw the share of digits read right against the number of hidden patches."""
    table = pd.DataFrame({"hidden": digits.HIDDEN, **learned.hidden})
    text, figure = st.columns((2, 3), gap="medium")
    with text:
        six = table.set_index("hidden").loc[6]
        TEXTS.step("hide", learned=learned, lab=digits, six=six)
    with figure:
        axes = {"levels": {"guessing": 1 / digits.CLASSES}}
        TEXTS.curves(choices, "hidden", table, axes, lab=digits)
