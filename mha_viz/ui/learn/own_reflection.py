"""Lab 2 on screen: pick, compute, draw."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pandas as pd
import streamlit as st
import torch

from mha_viz.core.checks import Anything
from mha_viz.errors import ArgumentError
from mha_viz.labs import own_reflection as lab
from mha_viz.labs.own_reflection_learning import D_MODEL, TOKEN_SIZE, Learned, learn_left
from mha_viz.labs.soft_lookup import WORDS
from mha_viz.plots.arrows import arrows
from mha_viz.plots.curves import curves
from mha_viz.plots.theme import format_number
from mha_viz.ui import figures, look
from mha_viz.ui.learn import frame
from mha_viz.ui.learn.choices import Choices, among, numbers, switch
from mha_viz.ui.learn.training import trained
from mha_viz.ui.messages import plain

SIZES = (3, 4, 5, 6)
STEPS = (50, 100, 200, 300, 500, 1000)
SEEDS = tuple(range(10))
LARGEST = 9.9  # of an entry, in size
TEMPERATURES = (0.003, 0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0)


def draw(choices: Choices) -> None:
    """The reflection, the weights that end it, and what is left where it is all there is.

    No fragment as a whole: a button in one does not end the run that it is drawn in.
    """
    for name, default, read in _FURTHER_DOWN:  # the link of the first part must not drop them
        choices.get(name, default, read)
    _reflection(choices)
    _random(choices)
    training = st.container()
    _pointwise(choices)
    with training:
        _learning(choices)
    choices.publish()


# -- Q = K = V = X -------------------------------------------------------------------------------


@st.fragment
def _reflection(choices: Choices) -> None:
    frame.step(
        "Q = K = V = X: everyone loves a mirror",
        "Leave W_Q and W_K out, and a score is the dot product of two tokens. With itself a token "
        "has |x|², with another |x| |y| cos. Are all tokens **equally long**, then nobody’s score "
        "is larger than the own one (Cauchy–Schwarz): attention looks at itself. Textbooks often "
        "say “always”. It is not: a token looks at another where **|y| cos > |x|**.",
        r"\begin{gathered} \operatorname{softmax}\!\Big(\frac{X X^\top}{\sqrt{d}}\Big)\, X \\ "
        r"x \cdot y = |x|\,|y| \cos\angle(x, y) \end{gathered}",
    )
    frame.predict(
        choices, "equal", "All tokens have the same length. Can one of them give another token "
        "more weight than itself?",
        ["Yes, one with a similar direction", "No, at most as much", "Only in many dimensions"], 1,
        "cos is 1 at most, so x·y ≤ |x| |y| = |x|². The weights are equal only where both tokens "
        "are the same. Switch “Equal lengths” on and try.",
    )  # fmt: skip
    with st.container(horizontal=True, vertical_alignment="bottom"):
        n = choices.bound(
            "tokens", st.select_slider, "Tokens", SIZES, default=4, read=among(SIZES), width=180
        )
        chosen = choices.bound(
            "token", st.selectbox, "Look from", WORDS[: SIZES[-1]], default=WORDS[1],
            read=among(WORDS[: SIZES[-1]]), width=140,
        )  # fmt: skip
        equal = choices.bound("equal", st.toggle, "Equal lengths", default=False, read=switch)
    typed = _edited(choices, n)
    tokens = _made_equal(typed) if equal else typed
    found = lab.reflection(tokens)
    _matrices(found)
    st.markdown(_sentence(found))
    _seen_from(choices, tokens, found, min(WORDS.index(chosen), n - 1), equal)
    choices.publish()


def _made_equal(tokens: Anything) -> Anything:
    try:
        return lab.equal_norms(tokens)
    except ArgumentError as error:  # an error inside a fragment would reach nobody who words it
        st.warning(plain(str(error)))
        return tokens


def _edited(choices: Choices, n: int) -> Anything:
    """Tokens that can be typed over; the link carries them."""
    name, begin = f"x{n}", lab.START[:n]
    held = choices.get(name, begin, numbers(n, 2, -LARGEST, LARGEST))
    # The editor keeps its own edits: it must be handed the same numbers in every run.
    base = choices.fixed(f"{name}-base", held)
    number = st.column_config.NumberColumn(min_value=-LARGEST, max_value=LARGEST, step=0.1)
    with st.container(width=300):
        edited = st.data_editor(
            pd.DataFrame(base, index=WORDS[:n], columns=["first", "second"]),
            key=choices.editor_key(f"{name}-editor"), num_rows="fixed", width="stretch",
            column_config={
                "_index": st.column_config.TextColumn("Tokens X", disabled=True),
                "first": number, "second": number,
            },
        )  # fmt: skip
    filled = edited.astype(float).fillna(0.0).clip(-LARGEST, LARGEST)
    choices.keep(name, tuple(tuple(row) for row in filled.to_numpy().tolist()))
    return torch.tensor(filled.to_numpy(), dtype=torch.float32)


def _matrices(found: lab.Reflection) -> None:
    words, shape = WORDS[: len(found.pattern)], "query × key"
    best = [(i, int(row.argmax())) for i, row in enumerate(found.pattern)]
    with st.container(horizontal=True):
        frame.matrix("own-reflection-dots", found.dots, "X Xᵀ", rows=words, columns=words,
                     shape=shape)  # fmt: skip
        frame.matrix("own-reflection-pattern", found.pattern, "weights", rows=words, columns=words,
                     shape=shape, diverging=False, limits=(0.0, 1.0), marked=best)  # fmt: skip


def _sentence(found: lab.Reflection) -> str:
    """Who does not look at itself most, from the numbers."""
    n = len(found.pattern)
    if not found.beaten:
        return f"All {n} tokens look at themselves most: the diagonal wins in every row."
    lines = [
        f"- **{WORDS[one.token]}** looks at **{WORDS[one.by]}** more than at itself: "
        f"|{WORDS[one.by]}| cos = {format_number(one.other_length)} × "
        f"{format_number(one.cosine)} = {format_number(one.other_length * one.cosine)}, "
        f"but |{WORDS[one.token]}| = {format_number(one.length)}."
        for one in found.beaten
    ]  # fmt: skip
    return "\n".join([f"The diagonal does not win in {len(found.beaten)} of {n} rows:\n", *lines])


def _seen_from(
    choices: Choices, tokens: Anything, found: lab.Reflection, chosen: int, equal: bool
) -> None:
    words = WORDS[: len(tokens)]
    figures.show(
        arrows(
            tokens, words, title=f"Seen from {words[chosen]}", chosen=chosen, circle=equal,
            dark=look.dark(),
        ),
        key=choices.key("arrows"), name="Tokens as arrows",
        table=pd.DataFrame({
            "token": words, "first": tokens[:, 0], "second": tokens[:, 1],
            "length": tokens.norm(dim=-1),
            f"score from {words[chosen]}": found.dots[chosen],
            f"weight from {words[chosen]}": found.pattern[chosen],
        }),
        caption="Q = K = V = X" + (", lengths made equal" if equal else ""),
        how_to_read=f"A token whose tip lies beyond the dotted line gets more weight from "
        f"{words[chosen]} than {words[chosen]} itself. The framed cells above are the largest of "
        "their rows.",
    )  # fmt: skip


@st.fragment
def _random(choices: Choices) -> None:
    frame.step(
        "How often on random tokens?",
        "16 random tokens, 64 times over: how many rows have their largest weight elsewhere? In a "
        "wide space random directions are nearly at right angles: cos is near 0, and only a very "
        "long token can win. In a narrow space, or where lengths differ much, it happens often.",
        r"\Pr\big[\,|y| \cos\angle(x, y) > |x| \text{ for some } y\,\big]",
    )
    shares = _shares()
    names = {
        "Gaussian": "normal entries, as drawn",
        **{f"{spread:g}": f"lengths spread by {spread:g}" if spread else "equal lengths"
           for spread in lab.SPREADS},
    }  # fmt: skip
    widths = list(lab.WIDTHS)
    figures.show(
        curves(
            {name: (widths, shares[key]) for key, name in names.items()},
            title="Rows that look elsewhere most", x_title="width d of the tokens",
            y_title="share of rows", x_axis="log", dark=look.dark(),
        ),
        key=choices.key("random"), name="Rows that look elsewhere most",
        table=pd.DataFrame({"d": widths} | {n: shares[key] for key, n in names.items()}),
        caption="16 random tokens, 64 texts, seed 0; spread: standard deviation of ln |x|",
        how_to_read="“Spread” is the standard deviation of ln |x|: at 1, one token in three is "
        "more than 2.7 times longer or shorter than usual. Equal lengths stay at 0 in any width.",
    )  # fmt: skip


@st.cache_data(max_entries=1, show_spinner=False)
def _shares() -> dict[str, list[float]]:
    return lab.share_beaten()


# -- W_Q and W_K ---------------------------------------------------------------------------------


def _learning(choices: Choices) -> None:
    frame.step(
        "W_Q and W_K break the mirror",
        "With x W_Q and x W_K a token can ask for something else than itself. Here both begin as "
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
        choices, "positions", "Switch the positions off and train as long: how much weight will "
        "the left of 8 tokens get?",
        ["As much, only later", "About 1/7", "None"], 1,
        "Tokens are random, so nothing tells one place from another. All that can be learned is "
        "not to look at oneself: 1/7 for each of the others, and a loss near ln 7. Try it.",
    )  # fmt: skip
    with st.container(horizontal=True, vertical_alignment="bottom"):
        n_steps = choices.bound("steps", st.select_slider, "Steps", STEPS, default=300,
                                read=among(STEPS), width=220)  # fmt: skip
        seed = choices.bound("seed", st.select_slider, "Seed", SEEDS, default=0,
                             read=among(SEEDS), width=160)  # fmt: skip
        positions = choices.bound("positions", st.toggle, "Positions", default=True, read=switch)
    choices.publish()  # training may take a while, and the link is true before it
    settings = (n_steps, seed, positions)
    found = trained(
        choices, settings, n_steps,
        lambda on_step: learn_left(8, n_steps, seed, positions, on_step),
    )  # fmt: skip
    if found is not None:
        _learned(choices, found, f"{n_steps} steps, seed {seed}, "
                 + ("with positions" if positions else "without positions"))  # fmt: skip


def _learned(choices: Choices, found: Learned, settings: str) -> None:
    words = [str(place) for place in range(len(found.before))]
    with st.container(horizontal=True):
        for title, pattern in (("before", found.before), ("after", found.after)):
            frame.matrix(f"own-reflection-{title}", pattern, title, rows=words, columns=words,
                         shape="query × key, unseen text", diverging=False,
                         limits=(0.0, 1.0))  # fmt: skip
    first, last, n = found.previous[0], found.previous[-1], len(words)
    st.markdown(
        f"On 64 texts that it never trained on, the left neighbour’s weight (the metric "
        f"“previous token”) went from {first:.1%} to **{last:.1%}**; 1/{n} is {1 / n:.1%}. The "
        f"first token has no neighbour: its row was never trained."
    )
    figures.show(
        curves(
            {"loss (nats)": (found.steps, found.losses),
             "weight of the left neighbour": (found.steps, found.previous)},
            title="Learning to look left", x_title="gradient steps", y_title="nats, or weight",
            levels={f"ln {n - 1}": math.log(n - 1)}, note=settings, dark=look.dark(),
        ),
        key=choices.key("learning"), name="Learning to look left",
        table=pd.DataFrame(
            {"step": found.steps, "loss": found.losses, "previous token": found.previous}
        ),
        caption=f"d = {D_MODEL}, {n} tokens, one head, {settings}",
        how_to_read=f"The loss begins high, where each token sees itself. ln {n - 1} is the loss "
        "where all other tokens weigh the same; at 0 a head looks at its left neighbour only.",
    )  # fmt: skip


# -- the identity pattern ------------------------------------------------------------------------


@st.fragment
def _pointwise(choices: Choices) -> None:
    frame.step(
        "When attention is the identity, W_V is a 1 × 1 convolution",
        "Equal lengths and a temperature towards 0, or simply a mask: each token sees itself only, "
        "and softmax adds nothing. What is left is x W_V for each token alone, which is what a "
        "convolution with a kernel of one token does. Here is attention beside "
        "`torch.nn.functional.conv1d` with the same weights.",
        r"A = I \;\Rightarrow\; A\,X W_V = \operatorname{conv}_{1}(X;\, W_V)",
    )
    frame.predict(
        choices, "mixing", "Each token sees itself only. How much can one token learn about "
        "another in this layer?",
        ["Nothing", "A little, through W_V", "As much as before"], 0,
        "W_V acts on each token alone. All exchange between tokens goes through the pattern.",
    )  # fmt: skip
    with st.container(horizontal=True, vertical_alignment="bottom"):
        masked = choices.bound("masked", st.toggle, "Mask all others", default=False, read=switch)
        temperature = choices.bound(
            "temperature", st.select_slider, "Temperature T", TEMPERATURES, default=0.3,
            read=among(TEMPERATURES), width=240, disabled=masked,
        )  # fmt: skip
        n = choices.bound("places", st.select_slider, "Places", SIZES, default=5,
                          read=among(SIZES), width=160)  # fmt: skip
        draw = choices.bound("tokenseed", st.select_slider, "Seed of the tokens", SEEDS, default=0,
                             read=among(SEEDS), width=180)  # fmt: skip
    tokens, W_V = lab.equal_tokens(n, seed=draw), lab.value_weights(seed=draw)
    found = lab.pointwise(tokens, W_V, None if masked else temperature)
    _side_by_side(found)
    by_temperature = lab.differences(tokens, W_V)
    mask = lab.pointwise(tokens, W_V).difference
    figures.show(
        curves(
            {"attention − convolution": (lab.TEMPERATURES, by_temperature)},
            moments={} if masked else {"T": temperature}, title="Largest difference",
            x_title="temperature T", y_title="largest |difference|", x_axis="log", dark=look.dark(),
        ),
        key=choices.key("difference"), name="Attention and 1 × 1 convolution",
        table=pd.DataFrame({"T": lab.TEMPERATURES, "largest difference": by_temperature}),
        caption=f"{n} tokens of length 1 and width 4, W_V 4 × 3, seed {draw}",
        how_to_read="The colder, the nearer attention comes to the convolution; tokens with "
        "similar directions take longest. With the mask the difference is "
        f"{format_number(mask)}: rounding at most.",
    )  # fmt: skip
    choices.publish()


def _side_by_side(found: lab.Pointwise) -> None:
    words = WORDS[: len(found.pattern)]
    largest = max(float(found.convolution.abs().max()), 1e-6)
    with st.container(horizontal=True):
        frame.matrix("own-reflection-identity", found.pattern, "weights A", rows=words,
                     columns=words, shape="query × key", diverging=False,
                     limits=(0.0, 1.0))  # fmt: skip
        for title, output in (("A X W_V", found.attention), ("conv1d", found.convolution)):
            frame.matrix(f"own-reflection-{title}", output, title, rows=words,
                         shape="token × d_v", limits=(-largest, largest))  # fmt: skip
    st.markdown(f"The largest difference between the two outputs is **{found.difference:.2g}**.")


_FURTHER_DOWN: tuple[tuple[str, Any, Callable[[str], Any]], ...] = (
    ("steps", 300, among(STEPS)), ("seed", 0, among(SEEDS)), ("positions", True, switch),
    ("masked", False, switch), ("temperature", 0.3, among(TEMPERATURES)),
    ("places", 5, among(SIZES)), ("tokenseed", 0, among(SEEDS)),
)  # fmt: skip
