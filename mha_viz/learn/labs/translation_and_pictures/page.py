"""The page of the lab: a sentence and its translation, then a digit, each with its test."""

import re
from collections.abc import Sequence
from functools import partial
from itertools import product
from typing import Any

import pandas as pd
import streamlit as st

from mha_viz.core.metrics.flow import last_rollout
from mha_viz.learn.frame import charts, frame
from mha_viz.learn.frame.choices import Choices
from mha_viz.learn.frame.long_work import trained
from mha_viz.learn.frame.texts import read_texts
from mha_viz.learn.labs.translation_and_pictures import digits, numbers, translation
from mha_viz.learn.labs.translation_and_pictures.digits import Reading
from mha_viz.learn.labs.translation_and_pictures.translation import Translating
from mha_viz.plots.heatmap import head_tiles
from mha_viz.plots.pictures import MatrixLook, cells_figure, number_matrix, overlay_cells
from mha_viz.ui.widgets import look
from mha_viz.ui.widgets.components.number_table import number_tables
from mha_viz.ui.widgets.exports import figures
from mha_viz.ui.widgets.messages.messages import plain

TEXTS = read_texts(__package__)
SENTENCE = "the small cat sees a red bird"
LONGEST = 80  # letters
ORDERS = TEXTS.labels("orders")


def draw(choices: Choices) -> None:
    """Draw the translation, then the digits. No fragments where they train: Stop must end it."""
    shown, others = st.container(key=choices.key("shown")), st.container()
    with shown:  # page.css keeps its height from the beginning
        TEXTS.markdown("translation.statement")
        cover = TEXTS.predict(choices, "where")
    with others:
        translating, reading = st.columns(2)
    with translating:
        found: Translating | None = _trained(choices, "seed", Translating, translation)
    with reading:
        read: Reading | None = _trained(choices, "digit-seed", Reading, digits)
    with shown:
        if found is None:
            TEXTS.caption("untrained.translator")
        else:
            with cover():
                _sentence(choices, found)
            TEXTS.step("tested", hidden=found.hidden)
        TEXTS.step("digits")
        if read is None:
            TEXTS.caption("untrained.reader")
        else:
            _digit(choices, read)
            _hidden(choices, read)


def _trained(choices: Choices, name: str, kind: type, task: Any) -> Any:
    """Draw a seed and the button of the training with it, and return its result if there is one."""
    with frame.row():
        label = TEXTS(f"seeds.{name}")
        settings = (choices.seed(name, label, width=150),)
        run = (one for one in numbers.STORED if one.kind is kind and one.settings == settings)
        train, stored = partial(task.learn, seed=settings[0]), next(run, None)
        return trained(choices, settings, task.STEPS, train, name=f"train-{name}", stored=stored)


@frame.part
def _sentence(choices: Choices, found: Translating) -> None:
    """Draw the sentence, its translation, and each head's weights with the alignment framed."""
    left, right = st.columns((1, 2), vertical_alignment="bottom")
    with left:
        label = TEXTS("sentence.label")
        typed = choices.text("sentence", label, SENTENCE, most=LONGEST, width=300)
    words = re.findall(r"\w+", typed.lower())
    unknown = [word for word in words if word not in translation.KINDS]
    form = TEXTS("sentence.form", words=", ".join(translation.KINDS))
    if unknown or not 1 <= len(words) <= translation.MOST:
        problem = "unknown" if unknown else "length"
        st.info(TEXTS(f"sentence.{problem}", word=plain("".join(unknown[:1])), form=form))
        return
    made = numbers.translate(found.weights, words)
    written, pattern = made.labels, made.pattern[0]
    with right:
        framed = _framed(written, words, pattern.mean(0).argmax(-1).tolist())
    shares: MatrixLook = {"rows": written, "columns": words, "marked": framed, "cell": 21}
    shares |= {"diverging": False, "limits": (0.0, 1.0)}
    titles = [
        TEXTS("heads.title", head=i, share=share)
        for i, share in enumerate(found.aligned[: translation.N_HEADS])
    ]
    drawn = [number_matrix(*one, shares) for one in zip(pattern, titles, strict=True)]
    number_tables(drawn, dark=look.dark(), key=choices.key("heads"))
    TEXTS.caption("heads.alignment", found=found, form=form)
    figures.explain(
        lambda: head_tiles(pattern[None], title=TEXTS("heads-figure.name"), dark=look.dark()),
        key=choices.key("heads-figure"),
        table=pd.DataFrame(list(product(written, words)), columns=["written", "English"]).assign(
            **{f"head {i}": weights.flatten().numpy() for i, weights in enumerate(pattern)}
        ),
        **TEXTS.figure("heads-figure", sentence=" ".join(words)),
    )


def _framed(
    written: Sequence[str], words: Sequence[str], largest: Sequence[int]
) -> list[tuple[int, int]]:
    """Say whether a translation is right; return the cells of the words that are translated."""
    said, correct = " ".join(written), translation.translation(words)
    if correct is None:
        TEXTS.markdown("verdict.free", said=said)
        return []
    if tuple(written) != correct.target:
        TEXTS.markdown("verdict.wrong", said=said, rules=" ".join(correct.target))
        return []
    off = [f"{written[i]} → {words[k]}" for i, k in enumerate(largest) if k != correct.places[i]]
    where = TEXTS("verdict.off" if off else "verdict.all", off=", ".join(off))
    total = len(words)
    TEXTS.markdown("verdict.right", said=said, hits=total - len(off), total=total, where=where)
    return list(enumerate(correct.places))


@frame.part
def _digit(choices: Choices, found: Reading) -> None:
    """Draw a digit under the weights of each head, their mean and the rollout."""
    tested = digits.digits(True)
    with frame.row():
        digit = choices.slide("digit", "Digit", range(digits.CLASSES), 3, width=200)
        there = (tested.labels == digit).nonzero().flatten()
        which = choices.place("which", "Picture", 0, len(there) - 1, 0, most=59, width=200)
        layers = {i: f"Layer {i}" for i in range(digits.N_LAYERS)}
        layer = choices.segments("layer", "Layer", layers, digits.N_LAYERS - 1)
    picture = tested.pictures[there[which]]
    made = numbers.read(found.weights, picture)
    patterns = made.record.pattern
    weights = [*patterns[layer, :, 0, 1:], patterns[layer, :, 0, 1:].mean(0)]
    weights.append(last_rollout(patterns[: layer + 1])[0, 1:])
    names = [*(f"head {i}" for i in range(digits.N_HEADS)), *TEXTS.labels("overlays").values()]
    side = digits.SIDE // digits.PATCH
    high = max(float(one.max()) for one in weights)
    drawn = [
        overlay_cells(picture, one.view(side, side), name, high=high, side=136)
        for one, name in zip(weights, names, strict=True)
    ]
    number_tables(drawn, dark=look.dark(), key=choices.key("overlays-drawn"))
    whole, without, _ = made.probabilities
    answer = int(whole.argmax())
    verdict = TEXTS("read.right" if answer == digit else "read.wrong", digit=digit)
    values = {"likely": made.probabilities[:, answer], "without": int(without.argmax())}
    TEXTS.markdown("read.text", answer=answer, verdict=verdict, lab=numbers, **values)
    table = {"patch": list(range(digits.N_PATCHES))}
    figures.explain(
        lambda: cells_figure(drawn, across=3, dark=look.dark()),
        key=choices.key("overlays"),
        table=pd.DataFrame(table | {n: w.numpy() for n, w in zip(names, weights, strict=True)}),
        **TEXTS.figure("overlays-figure", digit=digit, which=which, layer=layer),
    )


@frame.part
def _hidden(choices: Choices, found: Reading) -> None:
    """Draw the share of digits read right against the number of hidden patches."""
    six = {name: right[digits.HIDDEN.index(6)] for name, right in found.hidden.items()}
    lines = {ORDERS[name]: right for name, right in found.hidden.items()}
    told, drawn = st.columns((2, 3), gap="medium")
    with told:
        TEXTS.step("hidden", found=found, lab=digits, six=six)
    with drawn:
        charts.lines(
            choices.key("hidden"),
            {name: (digits.HIDDEN, right) for name, right in lines.items()},
            levels={"guessing": 1 / digits.CLASSES},
            table={"hidden": digits.HIDDEN, **lines},
            **TEXTS.lines("hidden-figure", lab=digits),
        )
