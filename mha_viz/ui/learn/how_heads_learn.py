"""Lab 9 on screen: pick, train, and scrub through the film."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import streamlit as st

from mha_viz.labs import how_heads_learn as lab
from mha_viz.plots.tiles import head_tiles
from mha_viz.ui.learn import charts, frame
from mha_viz.ui.learn.choices import Choices, among
from mha_viz.ui.learn.long_work import trained
from mha_viz.ui.session import views
from mha_viz.ui.widgets import figures, look
from mha_viz.web.labels import head_name
from mha_viz.web.theme import format_number

STEPS = (100, 200, 400, 800, 1600)
RATES = (0.001, 0.003, 0.01, 0.03)
FULL = 1.0  # where the film is opened: at its end
# What is drawn over the steps: title, unit, and where it is found in a film.
CURVES: dict[str, tuple[str, str, Callable[[lab.Film], Any]]] = {
    "induction": ("Induction score", "mean weight", lambda film: film.scores["induction"]),
    "previous": ("Previous token", "mean weight", lambda film: film.scores["previous_token"]),
    "entropy": ("Entropy", "nats", lambda film: film.scores["entropy"]),
    "gradient": ("Gradient of W_Q", "‖dL/dW_Q‖", lambda film: film.head_gradient),
    "update": ("Update of W_Q", "‖ΔW_Q‖ / ‖W_Q‖", lambda film: film.update),
    "loss": ("Loss", "nats", lambda film: film.loss),
}


def draw(choices: Choices) -> None:
    """The task, the training, its film, and the rate at which gradients shrink.

    No fragment as a whole: a button in one does not end the run that it is drawn in.
    """
    choices.get("aspect", "induction", among(tuple(CURVES)))  # further down; the link keeps them
    choices.get("moment", FULL, views.real(0.0, 1.0))
    n_heads, n_steps, lr, seed = _task(choices)
    choices.publish()  # training may take a while, and the link is true before it
    found = trained(
        choices,
        (n_heads, n_steps, lr, seed),
        n_steps,
        lambda on_step: lab.film(n_heads, n_steps, lr, seed, on_step),
    )
    if found is None:
        return
    settings = f"{n_heads} heads in each layer, rate {lr:g}, {n_steps} steps, seed {seed}"
    st.markdown(_summary(found))
    _film(choices, found, settings)
    _rate(choices, found, settings)


def _task(choices: Choices) -> tuple[int, int, float, int]:
    frame.step(
        "Continue what was said before",
        f"Random tokens, said again and again: after the first time, each next token can be known "
        f"by **induction**: find the same token before, and copy what followed it. The period "
        f"varies from {lab.PERIODS[0]} to {lab.PERIODS[1]} tokens, so counting back does not help. "
        f"A model of two attention layers (d_model {lab.D_MODEL}, no MLP) learns it here, from "
        "nothing, in seconds.",
        r"\begin{gathered} \text{induction score} = \frac{1}{p-1} \sum_{q} A_{q,\;q-p+1} \\ "
        r"\text{over the second copy, period } p \end{gathered}",
    )
    frame.predict(
        choices,
        "layer",
        "In which layer will the head form that finds the same token before and "
        "looks at what came after it?",
        ["In the first", "In the second", "In either, by chance"],
        1,
        "A key must say which token came **before** it, and in the first layer each key knows "
        "itself only. The first layer passes that on, the second makes use of it.",
    )
    frame.predict(
        choices,
        "sudden",
        "How will its induction score rise?",
        ["Evenly, from the first step to the last", "Hardly at all for a while, then fast"],
        1,
        "Neither layer’s part is of use without the other’s, so gradients stay smaller until both "
        "are there. With the lab’s first settings, the score is below 0.15 after a quarter of "
        "the steps, and above 0.5 after half of them.",
    )
    with frame.row():
        n_heads = choices.slide("heads", "Heads in each layer", lab.HEADS, 4, width=170)
        lr = choices.slide("rate", "Learning rate", RATES, 0.003, width=170)
        n_steps = choices.slide("steps", "Steps", STEPS, 400, width=170)
        seed = choices.seed(width=150)
    return n_heads, n_steps, lr, seed


def _summary(found: lab.Film) -> str:
    """What came of it, from the numbers."""
    layer, head = found.best_head
    end = (
        f"At the end {found.accuracy[-1]:.0%} of the next tokens are right, at a loss of "
        f"{format_number(found.loss[-1])} nats (at the start {format_number(found.loss[0])})."
    )
    if found.formed is None:
        return (
            f"**No induction head here**: no score reached {lab.FORMED}. {end} Try more steps, or "
            "another rate."
        )
    before = found.scores["previous_token"]
    first, last = float(before[0][0].max()), float(before[-1][0].max())
    return (
        f"**An induction head formed at step {found.formed}**: the first at which a head’s score "
        f"is {lab.FORMED} or more. The best at the end is {head_name(layer, head)} with "
        f"{float(found.scores['induction'][-1].max()):.2f}. In layer 0 the largest weight on the "
        f"previous token went from {first:.2f} to {last:.2f}. {end}"
    )


# -- the film ------------------------------------------------------------------------------------


@frame.part
def _film(choices: Choices, found: lab.Film, settings: str) -> None:
    st.subheader("The film", anchor=False)
    question = "Scrub through it: 0 is the start, 1 the end"
    moment = choices.amount("moment", question, 0.0, 1.0, FULL, step=0.025)
    number = round(moment * (len(found.snapshots) - 1))
    _heads(choices, found, number, settings)
    called = {key: title for key, (title, *_) in CURVES.items()}
    aspect = choices.segments("aspect", "Over the steps", called, "induction")
    _curves(choices, found, aspect, found.snapshots[number], settings)
    choices.publish()


def _heads(choices: Choices, found: lab.Film, number: int, settings: str) -> None:
    patterns, step = found.patterns[number], found.snapshots[number]
    layers, heads, n, _ = patterns.shape
    figures.show(
        head_tiles(
            patterns,
            title=f"All heads at step {step}",
            marked=[found.best_head],
            note="one unseen text, period 16; framed: best induction head at the end",
            dark=look.dark(),
            visible=np.tri(n, dtype=bool),
        ),
        key=choices.key("heads-film"),
        name=f"Patterns at step {step}",
        table=pd.DataFrame(
            [
                (head_name(i, j), q, k, float(patterns[i, j, q, k]))
                for i in range(layers)
                for j in range(heads)
                for q in range(n)
                for k in [int(patterns[i, j, q].argmax())]
            ],
            columns=["head", "query", "key with the largest weight", "weight"],
        ),
        caption=f"Step {step}; {settings}",
        how_to_read="Rows are queries, columns keys; the more colour, the more weight. An "
        f"induction head draws a line {lab.PERIODS[1] - 1} places beside the diagonal, in the "
        "lower half; a previous-token head one just below the diagonal.",
    )


def _curves(choices: Choices, found: lab.Film, aspect: str, step: int, settings: str) -> None:
    title, unit, values = CURVES[aspect]
    series = _series(values(found))
    moments, end = {}, found.steps[-1]
    if found.formed is not None:
        moments["formed"] = float(found.formed)
    near = found.formed is not None and abs(step - found.formed) < 0.2 * end
    moments["" if near else "now"] = float(step)  # two names would overlap
    charts.lines(
        choices.key("curves"),
        {name: (found.steps, line) for name, line in series.items()},
        title=title,
        x_title="training step",
        y_title=unit,
        moments=moments,
        note=settings,
        levels={f"{lab.FORMED:g}": lab.FORMED} if aspect == "induction" else {},
        y_axis="log" if aspect in ("gradient", "update") else "linear",
        height=300 + 12 * len(series),
        more=dict(
            xaxis=dict(range=[0, 1.08 * end]),  # room for a name beside the last step
            margin=dict(b=56 + 24 * -(-len(series) // 3)),  # names are short: three in a row
        ),
        table={"step": found.steps, **series},
        caption=settings,
        how_to_read="The other dotted line, “now”, is the step shown above. “Formed”: the first "
        f"measured step at which a head’s induction score is {lab.FORMED} or more, on 8 texts "
        "never trained on.",
    )


def _series(values: Any) -> dict[str, list[float]]:
    """A line for each head, or the one that there is."""
    if isinstance(values[0], float):
        return {"loss": list(values)}
    layers, heads = values[0].shape
    return {
        head_name(i, j): [float(now[i, j]) for now in values]
        for i in range(layers)
        for j in range(heads)
    }


# -- the rate of gradients -----------------------------------------------------------------------


def _rate(choices: Choices, found: lab.Film, settings: str) -> None:
    frame.step(
        "Do gradients shrink like 1/√t?",
        "A rule that textbooks give: the gradient’s norm falls with the square root of the number "
        "of steps. Here is the norm of the whole gradient, the power of t that fits it best, and "
        "the best 1/√t. Bounds of that kind are about averages and slowly falling rates; nothing "
        "forbids a single run to do otherwise.",
        r"\lVert \nabla L_t \rVert \approx c\, t^{-\alpha}, \qquad \alpha \overset{?}{=} "
        r"\tfrac{1}{2}",
    )
    whole = lab.rate(found.steps, found.gradient)
    if whole is None:
        st.markdown("There are too few steps to fit a rate: not defined.")
        return
    parts = [("Over the whole run", whole)]
    after = lab.rate(found.steps, found.gradient, found.formed) if found.formed else None
    if after is not None:
        parts.append((f"From step {found.formed} on, when the head has formed", after))
    st.markdown(
        "\n".join(
            f"- {name}: α = **{fit.exponent:.2f}**, R² = {fit.straight:.2f}. 1/√t "
            f"**{'holds' if fit.holds else 'does not hold'} here**."
            for name, fit in parts
        )
    )
    fitted = [
        (t, y) for t, y in zip(found.steps, found.gradient, strict=True) if t >= lab.FIRST_FITTED
    ]
    t = [float(step) for step, _ in fitted]
    lines = {
        "gradient norm": [y for _, y in fitted],
        "best power": [whole.factor * x**-whole.exponent for x in t],
        "best 1/√t": [whole.factor_root * x**-0.5 for x in t],
    }
    charts.lines(
        choices.key("rate-figure"),
        {name: (t, line) for name, line in lines.items()},
        title="Norm of the gradient",
        x_title="training step",
        y_title="‖∇L‖",
        x_axis="log",
        y_axis="log",
        note=settings,
        moments={"formed": float(found.formed)} if found.formed else {},
        table={"step": t, **lines},
        caption=settings,
        how_to_read="Both axes are logarithmic: a power of t is a straight line. It “holds” where "
        f"α is within {lab.NEAR} of 0.5 and R² is {lab.STRAIGHT} at least. The gradient is of one "
        "batch of 32 texts, and noisy.",
    )
