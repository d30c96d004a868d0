"""Lab 9 on screen: pick, train, and scrub through the film."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pandas as pd
import streamlit as st

from mha_viz.core.metrics import METRICS
from mha_viz.labs import how_heads_learn as lab
from mha_viz.plots.tiles import head_tiles
from mha_viz.ui.learn import charts, frame, gradient_descent, loss_landscape
from mha_viz.ui.learn.choices import Choices, among
from mha_viz.ui.learn.long_work import trained
from mha_viz.ui.learn.motion import play
from mha_viz.ui.session import views
from mha_viz.ui.widgets import figures, look
from mha_viz.web.labels import head_name
from mha_viz.web.theme import format_number

STEPS = (100, 200, 400, 800, 1600)
# For each optimiser its name, its learning rates, and the one to begin with.
OPTIMIZERS = {
    "adam": ("Adam, with warm-up", (0.001, 0.003, 0.01, 0.03), 0.003),
    "sgd": ("Plain SGD", (0.01, 0.03, 0.1, 0.3, 1.0), 1.0),
}
FRAMES = tuple(round(0.025 * i, 3) for i in range(41))  # of the film when it is played
KEPT = 2  # films that a session remembers: with the weights of each picture, one is 6 MB
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
    """The task, the training, its film, and what its gradients do.

    No fragment as a whole: a button in one does not end the run that it is drawn in.
    """
    choices.get("aspect", "induction", among(tuple(CURVES)))  # further down; the link keeps them
    choices.get("moment", FULL, views.real(0.0, 1.0))
    choices.get("at", gradient_descent.START, views.real(0.0, 1.0))
    n_heads, n_steps, lr, seed, optimizer = settings = _task(choices)
    choices.publish()  # training may take a while, and the link is true before it
    found = trained(
        choices,
        settings,
        n_steps,
        partial(lab.film, n_heads, n_steps, lr, seed, optimizer=optimizer),
        keep=KEPT,
    )
    if found is None:
        return
    about = (
        f"{n_heads} heads in each layer, {OPTIMIZERS[optimizer][0]}, rate {lr:g}, {n_steps} steps, "
        f"seed {seed}"
    )
    st.markdown(_summary(found))
    _film(choices, found, about)
    gradient_descent.one_step(choices, found, optimizer)
    gradient_descent.rate(choices, found, optimizer, about)
    loss_landscape.draw(choices, found, settings, about)


def _task(choices: Choices) -> tuple[int, int, float, int, str]:
    frame.step(
        "Continue what was said before",
        f"Random tokens, said again and again: after the first time, each next token can be known "
        f"by **induction**: find the same token before, and copy what followed it. The period "
        f"varies from {lab.PERIODS[0]} to {lab.PERIODS[1]} tokens, so counting back does not help. "
        f"A model of two attention layers (d_model {lab.D_MODEL}, no MLP) learns it here, from "
        "nothing, in seconds.",
        rf"\begin{{gathered}} \text{{induction score}} = {METRICS['induction'].formula} \\ "
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
        called = {key: name for key, (name, *_) in OPTIMIZERS.items()}
        optimizer = choices.segments("optimizer", "Optimiser", called, "adam")
        _, rates, begin = OPTIMIZERS[optimizer]
        # What is a small step for one of them is a large one for the other.
        name = "rate" if optimizer == "adam" else f"{optimizer}-rate"
        lr = choices.slide(name, "Learning rate", rates, begin, width=170)
    with frame.row():
        n_heads = choices.slide("heads", "Heads in each layer", lab.HEADS, 4, width=170)
        n_steps = choices.slide("steps", "Steps", STEPS, 400, width=170)
        seed = choices.seed(width=150)
    return n_heads, n_steps, lr, seed, optimizer


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
    st.header("The film", anchor=False)
    question = "Scrub through it: 0 is the start, 1 the end"
    with frame.row():
        moment = choices.amount("moment", question, 0.0, 1.0, FULL, step=0.025)
        play(choices, "moment", moment, FRAMES, "the film, from its start to its end")
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
