"""Lab 2 on screen, its training: W_Q and W_K that look at the left neighbour."""

from __future__ import annotations

import math
from functools import partial

import streamlit as st

from mha_viz.labs.own_reflection_learning import D_MODEL, TOKEN_SIZE, Learned, learn_left
from mha_viz.ui.learn import charts, frame
from mha_viz.ui.learn.choices import Choices
from mha_viz.ui.learn.long_work import trained

STEPS = (50, 100, 200, 300, 500, 1000, 5000)


def learning(choices: Choices) -> None:
    """The statement, the controls, the training, and what it has learned."""
    frame.step(
        "W_Q and W_K break the mirror",
        "With x W_Q and x W_K a token can ask for something other than itself. Both begin as "
        "the identity, the mirror from above, and gradient steps teach every token to look at its "
        "**left neighbour**. Each step sees new random tokens, so nothing but the place tells who "
        "the neighbour is: X = token + position, with the sines and cosines of Vaswani et al., "
        "where one step to the left is the same rotation everywhere. Tokens are random numbers "
        f"of size {TOKEN_SIZE}, so that they do not drown the positions out.",
        r"\begin{gathered} \min_{W_Q,\,W_K}\; -\frac{1}{n-1}\sum_{q \ge 1} \ln A_{q,\,q-1} \\ "
        r"A = \operatorname{softmax}\!\Big(\frac{X W_Q (X W_K)^\top}{\sqrt{d}}\Big) "
        r"\end{gathered}",
    )
    frame.predict(
        choices,
        "positions",
        "Switch the positions off and train just as long: how much weight will the left neighbour "
        "get, among 8 tokens?",
        ["As much, only later", "About 1/7", "None"],
        1,
        "Tokens are random, so nothing tells one place from another. All that can be learned is "
        "not to look at oneself: 1/7 for each of the others, and a loss near ln 7. Try it.",
    )
    with frame.row():
        n_steps = choices.slide("steps", "Steps", STEPS, 300, width=220)
        seed = choices.seed(width=160)
        positions = choices.toggle("positions", "Positions", default=True)
    choices.publish()  # training may take a while, and the link is true before it
    found = trained(
        choices,
        (n_steps, seed, positions),
        n_steps,
        partial(learn_left, 8, n_steps, seed, positions),
    )
    if found is not None:
        which = "with positions" if positions else "without positions"
        _learned(choices, found, f"{n_steps} steps, seed {seed}, {which}")


def _learned(choices: Choices, found: Learned, settings: str) -> None:
    words = [str(place) for place in range(len(found.before))]
    with st.container(horizontal=True):
        for title, pattern in (("before", found.before), ("after", found.after)):
            shape = "query × key, unseen text"
            charts.weights(f"own-reflection-{title}", pattern, title, words, words, shape=shape)
    first, last, n = found.previous[0], found.previous[-1], len(words)
    st.markdown(
        f"On 64 texts that it never trained on, the left neighbour’s weight (the metric "
        f"“previous token”) went from {first:.1%} to **{last:.1%}**; 1/{n} is {1 / n:.1%}. The "
        f"first token has no neighbour: its row was never trained."
    )
    charts.lines(
        choices.key("learning"),
        {
            "loss (nats)": (found.steps, found.losses),
            "weight of the left neighbour": (found.steps, found.previous),
        },
        title="Learning to look left",
        x_title="gradient steps",
        y_title="nats, or weight",
        levels={f"ln {n - 1}": math.log(n - 1)},
        note=settings,
        table={"step": found.steps, "loss": found.losses, "previous token": found.previous},
        caption=f"d = {D_MODEL}, {n} tokens, one head, {settings}",
        how_to_read=f"The loss begins high, where each token sees itself. ln {n - 1} is the loss "
        "where all other tokens weigh the same; at 0 a head looks at its left neighbour only.",
    )
