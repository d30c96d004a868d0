"""Lab 2 on screen: pick, compute, draw."""

import math
from functools import partial

import pandas as pd
import streamlit as st
import torch
from torch import Tensor

from mha_viz.learn.frame import charts, layout
from mha_viz.learn.frame.choices import Choices
from mha_viz.learn.frame.long_work import LabRun, offer_run
from mha_viz.learn.frame.texts import read_texts
from mha_viz.learn.labs.own_reflection import numbers as lab
from mha_viz.learn.labs.own_reflection.learning import D_MODEL, TOKEN_SIZE, Learned, learn_left
from mha_viz.learn.labs.soft_lookup.numbers import WORDS
from mha_viz.plots.vectors import arrows
from mha_viz.ui.widgets import look
from mha_viz.ui.widgets.exports import figures
from mha_viz.web.theme import format_number

TEXTS = read_texts(__package__)
MAX_ENTRY = 9.9  # of an entry, in size
_SHARES = st.cache_data(max_entries=1, show_spinner=False)(lab.share_beaten)


def draw(choices: Choices) -> None:
    """Draw the reflection and the weights that end it; what else holds for it is folded.

    No fragment as a whole: a button in one does not end the run that it is drawn in.
    """
    _reflection(choices)
    _learning(choices)
    _further(choices)


@layout.part
def _reflection(choices: Choices) -> None:
    cover, question, picture = TEXTS.opening(choices, "mirror", (2, 3))
    with question:
        with layout.row():
            n, chosen = TEXTS.choose(choices, "tokens"), TEXTS.choose(choices, "token")
        equal = TEXTS.choose(choices, "equal")
    TEXTS.step("statement")
    with st.container(horizontal=True):
        grid = layout.Grid("Tokens X", lab.START[:n], WORDS[:n], ("first", "second"))
        typed = torch.tensor(layout.editor(choices, f"x{n}", grid, most=MAX_ENTRY))
        tokens = lab.equal_norms(typed) if equal else typed
        reflection = lab.reflection(tokens)
        _matrices(("X Xᵀ", reflection.dots))
        best = [(i, int(row.argmax())) for i, row in enumerate(reflection.pattern)]
        key, words = "own-reflection-pattern", WORDS[:n]
        with cover():
            charts.weights(key, reflection.pattern, "weights", words, words, marked=best)
    with picture, cover():
        if WORDS.index(chosen) >= n:
            TEXTS.caption("rows.missing", token=chosen, n=n, last=WORDS[n - 1])
        _seen_from(choices, tokens, reflection, min(WORDS.index(chosen), n - 1), equal)
    with cover():
        st.markdown(_sentence(reflection))
    TEXTS.fold(choices, "half-true", partial(_claims, reflection, tokens))


def _claims(reflection: lab.Reflection, tokens: Tensor) -> None:
    """Draw the claim about half the sum of the diagonal, for scores and for distances."""
    distances = lab.distances(tokens)
    with st.container(horizontal=True):
        _matrices(("(x·x + y·y)/2 − x·y", reflection.gaps), ("distance d(x, y)", distances))
    n_pairs = len(tokens) * (len(tokens) - 1) // 2
    holds = {"scores": lab.below_half_sum(reflection.dots), "apart": lab.below_half_sum(distances)}
    TEXTS.markdown("half-true.counted", n_pairs=n_pairs, **holds)


def _matrices(*titled: tuple[str, Tensor]) -> None:
    words = WORDS[: len(titled[0][1])]
    for title, numbers in titled:
        key, shape = f"own-reflection-{title}", "token × token"
        charts.matrix(key, numbers, title, rows=words, columns=words, shape=shape)


def _sentence(reflection: lab.Reflection) -> str:
    """List the tokens that do not look at themselves most, with their numbers."""
    n = len(reflection.pattern)
    if not reflection.beaten:
        return TEXTS("rows.none", n=n)
    lines = []
    for beaten in reflection.beaten:
        values = {"words": [WORDS[beaten.token], WORDS[beaten.by]], "beaten": beaten}
        projected = beaten.other_length * beaten.cosine
        lines.append(TEXTS("rows.beaten", projected=projected, **values))
    heading = TEXTS("rows.some", n=n, n_beaten=len(reflection.beaten))
    return "\n- ".join([f"{heading}\n", *lines])


def _seen_from(
    choices: Choices, tokens: Tensor, reflection: lab.Reflection, chosen: int, equal: bool
) -> None:
    words = WORDS[: len(tokens)]
    token = words[chosen]
    figures.show(
        arrows(
            tokens, words, title=f"Seen from {token}", chosen=chosen, circle=equal, dark=look.dark()
        ),
        key=choices.key("arrows"),
        table=pd.DataFrame(
            {
                "token": words,
                "first": tokens[:, 0],
                "second": tokens[:, 1],
                "length": tokens.norm(dim=-1),
                f"score from {token}": reflection.dots[chosen],
                f"weight from {token}": reflection.pattern[chosen],
            }
        ),
        **TEXTS.figure("arrows", token=token, equal=", lengths made equal" if equal else ""),
    )


def _learning(choices: Choices) -> None:
    TEXTS.step("learning", token_size=TOKEN_SIZE)
    with layout.row():
        names = ("steps", "seed", "positions")
        n_steps, seed, positions = settings = tuple(TEXTS.choose(choices, name) for name in names)
    run = LabRun(partial(learn_left, 8, *settings), settings, n_steps, lab.STORED[0])
    learned = offer_run(choices, run)
    if learned is not None:
        positions_text = "with positions" if positions else "without positions"
        _learned(choices, learned, f"{n_steps} steps, seed {seed}, {positions_text}")


def _learned(choices: Choices, learned: Learned, settings: str) -> None:
    words = [str(position) for position in range(len(learned.before))]
    with st.container(horizontal=True):
        for title, pattern in (("before", learned.before), ("after", learned.after)):
            shape = "query × key, unseen text"
            charts.weights(f"own-reflection-{title}", pattern, title, words, words, shape=shape)
    first, last = learned.previous[0], learned.previous[-1]
    TEXTS.markdown("learned.weights", first=first, last=last, equal=1 / len(words))
    TEXTS.fold(choices, "curve", partial(_curve, choices, learned, settings))


def _curve(choices: Choices, learned: Learned, settings: str) -> None:
    n = len(learned.before)
    charts.lines(
        choices.key("learning"),
        {
            "loss (nats)": (learned.steps, learned.losses),
            "weight of the left neighbour": (learned.steps, learned.previous),
        },
        levels={f"ln {n - 1}": math.log(n - 1)},
        **TEXTS.lines("curve", settings=settings, d_model=D_MODEL, n=n, n_others=n - 1),
    )


@layout.part
def _further(choices: Choices) -> None:
    TEXTS.fold(choices, "random", partial(_random, choices))
    TEXTS.fold(choices, "pointwise", partial(_pointwise, choices))


def _random(choices: Choices) -> None:
    shares = _SHARES()
    names = {"Gaussian": "normal entries, as drawn", "0": "equal lengths"} | {
        f"{spread:g}": f"lengths spread by {spread:g}" for spread in lab.SPREADS if spread
    }
    charts.lines(
        choices.key("random"),
        {name: (lab.WIDTHS, shares[key]) for key, name in names.items()},
        **TEXTS.lines("random.shares"),
    )


def _pointwise(choices: Choices) -> None:
    cover = TEXTS.predict(choices, "mixing")
    with layout.row():
        masked = TEXTS.choose(choices, "masked")
        temperature = TEXTS.choose(choices, "temperature", disabled=masked)
        n, draw = TEXTS.choose(choices, "places"), TEXTS.choose(choices, "tokenseed")
    tokens, W_V = lab.pointwise_example(n, draw)
    pointwise = lab.pointwise(tokens, W_V, None if masked else temperature)
    with cover():
        _side_by_side(pointwise)
    by_temperature = lab.differences(tokens, W_V)
    mask = lab.pointwise(tokens, W_V).difference
    charts.lines(
        choices.key("difference"),
        {"attention − convolution": (lab.TEMPERATURES, by_temperature)},
        moments={} if masked else {"T": temperature},
        **TEXTS.lines("pointwise.differences", n=n, draw=draw, mask=mask),
    )


def _side_by_side(pointwise: lab.Pointwise) -> None:
    words = WORDS[: len(pointwise.pattern)]
    largest = max(float(pointwise.convolution.abs().max()), 1e-6)
    shape, limits = "token × d_v", (-largest, largest)
    with st.container(horizontal=True):
        charts.weights("own-reflection-identity", pointwise.pattern, "weights A", words, words)
        for title, output in (("A X W_V", pointwise.attention), ("conv1d", pointwise.convolution)):
            key = f"own-reflection-{title}"
            charts.matrix(key, output, title, rows=words, shape=shape, limits=limits)
    gap = format_number(pointwise.difference, digits=2)
    st.markdown(f"The largest difference between the two outputs is **{gap}**.")
