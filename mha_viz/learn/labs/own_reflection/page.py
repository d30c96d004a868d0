"""Lab 2 on screen: pick, compute, draw."""

import math
from functools import partial

import pandas as pd
import streamlit as st
import torch
from torch import Tensor

from mha_viz.errors import ArgumentError
from mha_viz.learn.frame import charts, frame
from mha_viz.learn.frame.choices import Choices
from mha_viz.learn.frame.long_work import trained
from mha_viz.learn.frame.texts import read_texts
from mha_viz.learn.labs.own_reflection import numbers as lab
from mha_viz.learn.labs.own_reflection.learning import D_MODEL, TOKEN_SIZE, Learned, learn_left
from mha_viz.learn.labs.soft_lookup.numbers import WORDS
from mha_viz.plots.vectors import arrows
from mha_viz.ui.widgets import look
from mha_viz.ui.widgets.exports import figures
from mha_viz.ui.widgets.messages.messages import plain

TEXTS = read_texts(__package__)
SIZES = (3, 4, 5, 6)
LARGEST = 9.9  # of an entry, in size
TEMPERATURES = (0.003, 0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0)
STEPS = (50, 100, 200, 300, 500, 1000, 5000)
_SHARES = st.cache_data(max_entries=1, show_spinner=False)(lab.share_beaten)


def draw(choices: Choices) -> None:
    """Draw the reflection, the weights that end it, and its special case, the identity.

    No fragment as a whole: a button in one does not end the run that it is drawn in.
    """
    _statement(choices)
    _reflection(choices)
    _random(choices)
    training = st.container()
    _pointwise(choices)
    with training:
        _learning(choices)


# -- Q = K = V = X -------------------------------------------------------------------------------


@frame.part
def _statement(choices: Choices) -> None:
    TEXTS.step("statement")
    TEXTS.markdown("half-true.statement")
    st.latex(TEXTS("half-true.formula"))
    TEXTS.predict(choices, "equal")


@frame.part
def _reflection(choices: Choices) -> None:
    with frame.row():
        n = choices.slide("tokens", "Tokens", SIZES, 4, width=180)
        chosen = choices.menu("token", "Look from", WORDS[: SIZES[-1]], WORDS[1], width=140)
        equal = choices.toggle("equal", "Equal lengths")
    grid = frame.Grid("Tokens X", lab.START[:n], WORDS[:n], ("first", "second"))
    typed = torch.tensor(frame.editor(choices, f"x{n}", grid, most=LARGEST))
    tokens = _made_equal(typed) if equal else typed
    found = lab.reflection(tokens)
    _matrices(found)
    if WORDS.index(chosen) >= n:
        st.caption(f"There is no {chosen} among {n} tokens: the figure looks from {WORDS[n - 1]}.")
    st.markdown(_sentence(found))
    _seen_from(choices, tokens, found, min(WORDS.index(chosen), n - 1), equal)


def _made_equal(tokens: Tensor) -> Tensor:
    """Scale tokens to one length; with a zero among them, keep them and warn."""
    try:
        return lab.equal_norms(tokens)
    except ArgumentError as error:
        st.warning(plain(str(error)))
        return tokens


def _matrices(found: lab.Reflection) -> None:
    words = WORDS[: len(found.pattern)]
    best = [(i, int(row.argmax())) for i, row in enumerate(found.pattern)]
    largest = max(float(found.gaps.max()), 1e-6)
    draw = partial(charts.matrix, rows=words, columns=words, shape="query × key")
    with st.container(horizontal=True):
        draw("own-reflection-dots", found.dots, "X Xᵀ")
        charts.weights(
            "own-reflection-pattern", found.pattern, "weights", words, words, marked=best
        )
        title, limits = "(x·x + y·y)/2 − x·y", (0.0, largest)
        draw("own-reflection-gaps", found.gaps, title, diverging=False, limits=limits)
    own = found.dots.diagonal()
    others = (found.dots.sum() - own.sum()) / (len(own) * (len(own) - 1))
    TEXTS.markdown("matrices.gaps", own=own.mean(), others=others)


def _sentence(found: lab.Reflection) -> str:
    """List the tokens that do not look at themselves most, with their numbers."""
    n = len(found.pattern)
    if not found.beaten:
        return TEXTS("rows.none", n=n)
    lines = [
        TEXTS("rows.beaten", token=WORDS[one.token], by=WORDS[one.by], one=one, projected=projected)
        for one in found.beaten
        for projected in [one.other_length * one.cosine]
    ]
    heading = TEXTS("rows.some", n=n, n_beaten=len(found.beaten))
    return "\n- ".join([f"{heading}\n", *lines])


def _seen_from(
    choices: Choices, tokens: Tensor, found: lab.Reflection, chosen: int, equal: bool
) -> None:
    words = WORDS[: len(tokens)]
    token = words[chosen]
    title = f"Seen from {token}"
    figures.show(
        arrows(tokens, words, title=title, chosen=chosen, circle=equal, dark=look.dark()),
        key=choices.key("arrows"),
        table=pd.DataFrame(
            {
                "token": words,
                "first": tokens[:, 0],
                "second": tokens[:, 1],
                "length": tokens.norm(dim=-1),
                f"score from {token}": found.dots[chosen],
                f"weight from {token}": found.pattern[chosen],
            }
        ),
        **TEXTS.figure("arrows", token=token, equal=", lengths made equal" if equal else ""),
    )


@frame.part
def _random(choices: Choices) -> None:
    TEXTS.step("random")
    shares = _SHARES()
    names = {"Gaussian": "normal entries, as drawn", "0": "equal lengths"} | {
        f"{spread:g}": f"lengths spread by {spread:g}" for spread in lab.SPREADS if spread
    }
    lines, widths = {name: shares[key] for key, name in names.items()}, list(lab.WIDTHS)
    charts.lines(
        choices.key("random"),
        {name: (widths, line) for name, line in lines.items()},
        table={"d": widths} | lines,
        **TEXTS.lines("random.shares"),
    )


# -- training ------------------------------------------------------------------------------------


def _learning(choices: Choices) -> None:
    TEXTS.step("learning", token_size=TOKEN_SIZE)
    TEXTS.predict(choices, "positions")
    with frame.row():
        n_steps = choices.slide("steps", "Steps", STEPS, 300, width=220)
        seed = choices.seed(width=160)
        positions = choices.toggle("positions", "Positions", default=True)
    settings = n_steps, seed, positions
    found = trained(choices, settings, n_steps, partial(learn_left, 8, *settings))
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
    TEXTS.markdown("learned.weights", first=first, last=last, n=n, equal=1 / n)
    charts.lines(
        choices.key("learning"),
        {
            "loss (nats)": (found.steps, found.losses),
            "weight of the left neighbour": (found.steps, found.previous),
        },
        levels={f"ln {n - 1}": math.log(n - 1)},
        table={"step": found.steps, "loss": found.losses, "previous token": found.previous},
        **TEXTS.lines("learned.curves", settings=settings, d_model=D_MODEL, n=n, n_others=n - 1),
    )


# -- the identity pattern ------------------------------------------------------------------------


@frame.part
def _pointwise(choices: Choices) -> None:
    TEXTS.step("pointwise")
    TEXTS.predict(choices, "mixing")
    with frame.row():
        masked = choices.toggle("masked", "Mask all others")
        temperature = choices.slide(
            "temperature", "Temperature T", TEMPERATURES, 0.3, width=240, disabled=masked
        )
        n = choices.slide("places", "Places", SIZES, 5, width=160)
        draw = choices.seed("tokenseed", "Seed of the tokens", width=180)
    tokens, W_V = lab.equal_tokens(n, seed=draw), lab.value_weights(seed=draw)
    found = lab.pointwise(tokens, W_V, None if masked else temperature)
    _side_by_side(found)
    by_temperature = lab.differences(tokens, W_V)
    mask = lab.pointwise(tokens, W_V).difference
    charts.lines(
        choices.key("difference"),
        {"attention − convolution": (lab.TEMPERATURES, by_temperature)},
        moments={} if masked else {"T": temperature},
        table={"T": lab.TEMPERATURES, "largest difference": by_temperature},
        **TEXTS.lines("pointwise.differences", n=n, draw=draw, mask=mask),
    )


def _side_by_side(found: lab.Pointwise) -> None:
    words = WORDS[: len(found.pattern)]
    largest = max(float(found.convolution.abs().max()), 1e-6)
    shape, limits = "token × d_v", (-largest, largest)
    with st.container(horizontal=True):
        charts.weights("own-reflection-identity", found.pattern, "weights A", words, words)
        for title, output in (("A X W_V", found.attention), ("conv1d", found.convolution)):
            key = f"own-reflection-{title}"
            charts.matrix(key, output, title, rows=words, shape=shape, limits=limits)
    st.markdown(f"The largest difference between the two outputs is **{found.difference:.2g}**.")
