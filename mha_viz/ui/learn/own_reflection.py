"""Lab 2 on screen: pick, compute, draw."""

from __future__ import annotations

import pandas as pd
import streamlit as st
import torch
from torch import Tensor

from mha_viz.errors import ArgumentError
from mha_viz.labs import own_reflection as lab
from mha_viz.labs.soft_lookup import WORDS
from mha_viz.plots.arrows import arrows
from mha_viz.ui.learn import charts, frame
from mha_viz.ui.learn.choices import Choices
from mha_viz.ui.learn.own_reflection_learning import learning
from mha_viz.ui.widgets import figures, look
from mha_viz.ui.widgets.messages import plain
from mha_viz.web.theme import format_number

SIZES = (3, 4, 5, 6)
LARGEST = 9.9  # of an entry, in size
TEMPERATURES = (0.003, 0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0)


def draw(choices: Choices) -> None:
    """The reflection, the weights that end it, and what is left where it is all there is.

    No fragment as a whole: a button in one does not end the run that it is drawn in.
    """
    _statement(choices)
    _reflection(choices)
    _random(choices)
    training = st.container()
    _pointwise(choices)
    with training:
        learning(choices)
    choices.publish()


# -- Q = K = V = X -------------------------------------------------------------------------------


@frame.part
def _statement(choices: Choices) -> None:
    frame.step(
        "Q = K = V = X: everyone loves a mirror",
        "Leave W_Q and W_K out, and a score is the dot product of two tokens: |x|² of a token with "
        "itself, |x| |y| cos with another one. If all tokens are **equally long**, none scores "
        "higher with another than with itself (Cauchy–Schwarz): attention looks at itself. "
        "Textbooks often say “always”. That is wrong: a token looks at another one where "
        "**|y| cos > |x|**.",
        r"\begin{gathered} \operatorname{softmax}\!\Big(\frac{X X^\top}{\sqrt{d}}\Big)\, X \\ "
        r"x \cdot y = |x|\,|y| \cos\angle(x, y) \end{gathered}",
    )
    st.markdown(
        "Half of it is true, for **any** tokens: a score is at most the mean of the two scores "
        "that both tokens have with themselves, and equal to it only where the tokens are the "
        "same. So of two tokens only the shorter can prefer the other to itself, the longest of "
        "all looks at itself most, and on average the diagonal is never below the rest."
    )
    st.latex(
        r"\begin{gathered} x \cdot y \;\le\; \frac{x \cdot x + y \cdot y}{2} \quad\text{since} \\ "
        r"\frac{x \cdot x + y \cdot y}{2} - x \cdot y = \frac{|x - y|^2}{2} \ge 0 \end{gathered}"
    )
    frame.predict(
        choices,
        "equal",
        "All tokens have the same length. Can one of them give another token "
        "more weight than itself?",
        ["Yes, one with a similar direction", "No, at most as much", "Only in many dimensions"],
        1,
        "cos is 1 at most, so x·y ≤ |x| |y| = |x|². The weights are equal only where both tokens "
        "are the same. Switch “Equal lengths” on and try.",
    )


@frame.part
def _reflection(choices: Choices) -> None:
    """What changes with the tokens."""
    with frame.row():
        n = choices.slide("tokens", "Tokens", SIZES, 4, width=180)
        chosen = choices.menu("token", "Look from", WORDS[: SIZES[-1]], WORDS[1], width=140)
        equal = choices.toggle("equal", "Equal lengths")
    typed = torch.tensor(
        frame.editor(
            choices,
            f"x{n}",
            lab.START[:n],
            WORDS[:n],
            ("first", "second"),
            title="Tokens X",
            most=LARGEST,
        )
    )
    tokens = _made_equal(typed) if equal else typed
    found = lab.reflection(tokens)
    _matrices(found)
    if WORDS.index(chosen) >= n:
        st.caption(f"There is no {chosen} among {n} tokens: the figure looks from {WORDS[n - 1]}.")
    st.markdown(_sentence(found))
    _seen_from(choices, tokens, found, min(WORDS.index(chosen), n - 1), equal)
    choices.publish()


def _made_equal(tokens: Tensor) -> Tensor:
    """With a zero among them they stay as they are, and it is said why."""
    try:
        return lab.equal_norms(tokens)
    except ArgumentError as error:
        st.warning(plain(str(error)))
        return tokens


def _matrices(found: lab.Reflection) -> None:
    words, shape = WORDS[: len(found.pattern)], "query × key"
    best = [(i, int(row.argmax())) for i, row in enumerate(found.pattern)]
    with st.container(horizontal=True):
        charts.matrix(
            "own-reflection-dots", found.dots, "X Xᵀ", rows=words, columns=words, shape=shape
        )
        charts.weights(
            "own-reflection-pattern", found.pattern, "weights", words, words, marked=best
        )
        charts.matrix(
            "own-reflection-gaps",
            found.gaps,
            "(x·x + y·y)/2 − x·y",
            rows=words,
            columns=words,
            shape=shape,
            diverging=False,
            limits=(0.0, max(float(found.gaps.max()), 1e-6)),
        )
    own = found.dots.diagonal()
    others = (found.dots.sum() - own.sum()) / (len(own) * (len(own) - 1))
    st.markdown(
        "The third matrix says how far each score is below the mean of the two diagonal ones: it "
        "is never negative. The mean score of a token with itself is "
        f"**{format_number(own.mean())}**, with another one **{format_number(others)}**."
    )


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
    ]
    return "\n".join([f"The diagonal does not win in {len(found.beaten)} of {n} rows:\n", *lines])


def _seen_from(
    choices: Choices, tokens: Tensor, found: lab.Reflection, chosen: int, equal: bool
) -> None:
    words = WORDS[: len(tokens)]
    figures.show(
        arrows(
            tokens,
            words,
            title=f"Seen from {words[chosen]}",
            chosen=chosen,
            circle=equal,
            dark=look.dark(),
        ),
        key=choices.key("arrows"),
        name="Tokens as arrows",
        table=pd.DataFrame(
            {
                "token": words,
                "first": tokens[:, 0],
                "second": tokens[:, 1],
                "length": tokens.norm(dim=-1),
                f"score from {words[chosen]}": found.dots[chosen],
                f"weight from {words[chosen]}": found.pattern[chosen],
            }
        ),
        caption="Q = K = V = X" + (", lengths made equal" if equal else ""),
        how_to_read=f"A token whose tip lies beyond the dotted line gets more weight from "
        f"{words[chosen]} than {words[chosen]} itself. The framed cells above are the largest of "
        "their rows.",
    )


@frame.part
def _random(choices: Choices) -> None:
    frame.step(
        "How often on random tokens?",
        "16 random tokens, 64 times over: how many rows have their largest weight elsewhere? In a "
        "wide space random directions are nearly at right angles: cos is near 0, and only a very "
        "long token can win. In a narrow space, or where lengths differ much, it happens often.",
        r"\Pr\big[\,|y| \cos\angle(x, y) > |x| \text{ for some } y\,\big]",
    )
    shares = _shares()
    names = {"Gaussian": "normal entries, as drawn", "0": "equal lengths"} | {
        f"{spread:g}": f"lengths spread by {spread:g}" for spread in lab.SPREADS if spread
    }
    lines, widths = {name: shares[key] for key, name in names.items()}, list(lab.WIDTHS)
    charts.lines(
        choices.key("random"),
        {name: (widths, line) for name, line in lines.items()},
        title="Rows that look elsewhere most",
        x_title="width d of the tokens",
        y_title="share of rows",
        x_axis="log",
        table={"d": widths} | lines,
        caption="16 random tokens, 64 texts, seed 0; spread: standard deviation of ln |x|",
        how_to_read="“Spread” is the standard deviation of ln |x|: at 1, one token in three is "
        "more than 2.7 times longer or shorter than usual. Equal lengths stay at 0 in any width.",
    )


@st.cache_data(max_entries=1, show_spinner=False)
def _shares() -> dict[str, list[float]]:
    return lab.share_beaten()


# -- the identity pattern ------------------------------------------------------------------------


@frame.part
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
        choices,
        "mixing",
        "Each token sees itself only. How much can one token learn about another in this layer?",
        ["Nothing", "A little, through W_V", "As much as before"],
        0,
        "W_V acts on each token alone. All exchange between tokens goes through the pattern.",
    )
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
        title="Largest difference",
        x_title="temperature T",
        y_title="largest |difference|",
        x_axis="log",
        name="Attention and 1 × 1 convolution",
        table={"T": lab.TEMPERATURES, "largest difference": by_temperature},
        caption=f"{n} tokens of length 1 and width 4, W_V 4 × 3, seed {draw}",
        how_to_read="The colder, the nearer attention comes to the convolution; tokens with "
        "similar directions take longest. With the mask the difference is "
        f"{format_number(mask)}: rounding at most.",
    )
    choices.publish()


def _side_by_side(found: lab.Pointwise) -> None:
    words = WORDS[: len(found.pattern)]
    largest = max(float(found.convolution.abs().max()), 1e-6)
    with st.container(horizontal=True):
        charts.weights("own-reflection-identity", found.pattern, "weights A", words, words)
        for title, output in (("A X W_V", found.attention), ("conv1d", found.convolution)):
            charts.matrix(
                f"own-reflection-{title}",
                output,
                title,
                rows=words,
                shape="token × d_v",
                limits=(-largest, largest),
            )
    st.markdown(f"The largest difference between the two outputs is **{found.difference:.2g}**.")
