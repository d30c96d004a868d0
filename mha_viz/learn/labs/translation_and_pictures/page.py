"""The page of the lab: a sentence and its translation, then a digit, each with its test."""

import re
from collections.abc import Sequence
from functools import partial
from itertools import product
from typing import Any

import pandas as pd
import streamlit as st

from mha_viz.core.metrics.flow import last_rollout
from mha_viz.learn.frame import charts, layout
from mha_viz.learn.frame.choices import Choices
from mha_viz.learn.frame.long_work import LabRun, offer_run
from mha_viz.learn.frame.texts import read_texts
from mha_viz.learn.labs.translation_and_pictures import digits, numbers, translation
from mha_viz.learn.labs.translation_and_pictures.digits import Reading
from mha_viz.learn.labs.translation_and_pictures.translation import Translating
from mha_viz.plots.heatmap import head_tiles
from mha_viz.plots.pictures import MatrixLook, number_matrix, overlay_cells
from mha_viz.ui.widgets.components.number_table import number_tables
from mha_viz.ui.widgets.exports import figures
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
    written, pattern = record.labels, record.pattern[0]
    with verdict_column:
        framed = _framed(written, words, pattern.mean(0).argmax(-1).tolist())
    look: MatrixLook = {"rows": written, "columns": words, "marked": framed, "cell": 21}
    look |= {"diverging": False, "limits": (0.0, 1.0)}
    heads = [
        number_matrix(weights, TEXTS("heads.title", head=i, share=learned.aligned[i]), look)
        for i, weights in enumerate(pattern)
    ]
    number_tables(heads, dark=dark(), key=choices.key("heads"))
    TEXTS.caption("heads.alignment", learned=learned, form=form)
    cells = pd.DataFrame(product(written, words), columns=["written", "English"])
    figures.explain(
        lambda: head_tiles(pattern[None], title=TEXTS("heads-figure.name"), dark=dark()),
        key=choices.key("heads-figure"),
        table=cells.assign(**{f"head {i}": w.flatten().numpy() for i, w in enumerate(pattern)}),
        **TEXTS.figure("heads-figure", sentence=" ".join(words)),
    )


def _framed(
    written: Sequence[str], words: Sequence[str], largest: Sequence[int]
) -> list[tuple[int, int]]:
    """Say whether a translation is right; return the cells of the words that are translated."""
    text, correct = " ".join(written), translation.translate_by_rules(words)
    if correct is None:
        TEXTS.markdown("verdict.free", said=text)
        return []
    if tuple(written) != correct.target:
        TEXTS.markdown("verdict.wrong", said=text, rules=" ".join(correct.target))
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
    patterns = read.record.pattern
    heads = patterns[layer, :, 0, 1:]
    weights = [*heads, heads.mean(0), last_rollout(patterns[: layer + 1])[0, 1:]]
    names = [*(f"head {i}" for i in range(digits.N_HEADS)), *TEXTS.labels("overlays").values()]
    side, high = digits.SIDE // digits.PATCH, max(float(part.max()) for part in weights)
    unhidden, without, _ = read.probabilities
    answer = int(unhidden.argmax())
    columns = {name: part.numpy() for name, part in zip(names, weights, strict=True)}
    charts.cells(
        choices.key("overlays"),
        [
            overlay_cells(picture, part.view(side, side), name, high=high, side=136)
            for part, name in zip(weights, names, strict=True)
        ],
        table=pd.DataFrame({"patch": range(digits.N_PATCHES), **columns}),
        **TEXTS.figure("overlays-figure", digit=digit, which=number, layer=layer),
    )
    verdict = TEXTS("read.right" if answer == digit else "read.wrong", digit=digit)
    values = {"likely": read.probabilities[:, answer], "without": int(without.argmax())}
    TEXTS.markdown("read.text", answer=answer, verdict=verdict, lab=numbers, **values)


@layout.part
def _hidden(choices: Choices, learned: Reading) -> None:
    """Draw the share of digits read right against the number of hidden patches."""
    six = {name: right[digits.HIDDEN.index(6)] for name, right in learned.hidden.items()}
    orders = TEXTS.labels("orders")
    lines = {orders[name]: right for name, right in learned.hidden.items()}
    text, figure = st.columns((2, 3), gap="medium")
    with text:
        TEXTS.step("hidden", learned=learned, lab=digits, six=six)
    with figure:
        charts.lines(
            choices.key("hidden"),
            lines,
            x=digits.HIDDEN,
            levels={"guessing": 1 / digits.CLASSES},
            table={"hidden": digits.HIDDEN, **lines},
            **TEXTS.lines("hidden-figure", lab=digits),
        )
